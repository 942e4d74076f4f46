"""Tiny models of each family (tasks/models/families), in a file of the same name.

TINY: model_type -> what saves a model of it, for each model_type of the family. PLACEHOLDER: what their processor
expands. IN_DETAIL: arguments that give an image enough tokens to tell places apart.
"""
