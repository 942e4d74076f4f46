"""A tiny model of each family (tasks/models/families), in a file of the same name.

`save` saves it. PLACEHOLDER is what its processor expands. IN_DETAIL makes an image tokens enough to tell places apart.
"""
