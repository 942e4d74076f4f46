"""Readers of the licensed sources, one module each, and `images`, which opens what an ImageRef points to.

This room knows nothing of any benchmark: a reader returns what the official release says, in a table.
"""
