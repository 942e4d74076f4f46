"""Sentences of Chest ImaGenome with the boxes they speak of (That's the Wrong Lung!, section 2.3), as they are and
perturbed (section 3.1, appendices A.3, A.5, B.1).
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
        "boxes": List(BOX),  # what attention is scored against; label: the anatomy
        "labels": List({"name": _TEXT, "context": _TEXT}),  # what the sentence says; context: yes, or no where denied
        "subsets": {
            "abnormal": _FLAG,
            "one_lung": _FLAG,
            "mdrb": _FLAG,
        },  # section 3.2; of a perturbed row, its original's
    }
)
PERTURBED = Features(
    {
        **SENTENCE,
        "original_id": _TEXT,
        "perturbation": _TEXT,
        "described": List(BOX),  # where in this image lies what this row's sentence names
    }
)
