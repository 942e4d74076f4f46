"""Sentences of Chest ImaGenome with the boxes that they describe (That's the Wrong Lung!, section 2.3).

Perturbed rows follow section 3.1 and appendices A.3, A.5 and B.1.
"""

from datasets import Features, List, Value

from .structs import BOX, IMAGE_REF

_TEXT, _INTEGER, _FLAG = Value("string"), Value("int32"), Value("bool")
SENTENCE = Features(
    {
        "id": _TEXT,
        "image": IMAGE_REF,
        "width": _INTEGER,
        "height": _INTEGER,
        "patient_id": _TEXT,
        "study_id": _TEXT,
        "sentence": _TEXT,
        "boxes": List(BOX),  # the targets for attention; label: the anatomy
        "labels": List({"name": _TEXT, "context": _TEXT}),  # conditions in the sentence; context: yes, or no if denied
        "subsets": {
            "abnormal": _FLAG,
            "one_lung": _FLAG,
            "mdrb": _FLAG,
        },  # section 3.2; a perturbed row has the subsets of its original
    }
)
PERTURBED = Features(
    {
        **SENTENCE,
        "original_id": _TEXT,
        "perturbation": _TEXT,
        "described": List(BOX),  # boxes in this image of the anatomies that this row's sentence names
    }
)
