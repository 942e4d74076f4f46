"""Builders: read (loaders) -> transform (pure functions over tables) -> write (Parquet that references images)."""
