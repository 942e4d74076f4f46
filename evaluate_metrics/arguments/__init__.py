"""Checks of the arguments of public functions (no metric; metrics import it)."""
