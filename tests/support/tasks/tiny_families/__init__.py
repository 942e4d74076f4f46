"""Tiny models of each family (tasks/models/vlm/families), in a file of the same name.

Attributes:
    TINY: Functions that save a tiny model, by model_type.
    PLACEHOLDER: Image placeholder that the processors expand.
    IN_DETAIL: Arguments that give an image enough tokens for tests of positions.
"""
