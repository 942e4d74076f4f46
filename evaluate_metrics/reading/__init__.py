"""Readers of models' answers, which the metrics and the tasks import."""
