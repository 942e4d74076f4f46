"""Readers of the licensed sources, one module each, and `images`, which opens the image of an ImageRef.

This room knows nothing of any benchmark: a reader returns the content of the official release in a table.
"""
