"""Finished runs of That's the Wrong Lung!: samples, tables and figures."""
