"""Reads what models answer. No metric of its own: the metrics and the tasks import it."""
