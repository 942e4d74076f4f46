"""Decoders that contrast a model's predictions with those for less information: pure functions and one driver."""
