"""Rows of HEAL-MedVQA: questions (section 3.2) and the perturbed partners of some, TPT and VPT (section 3.1)."""

from datasets import Features, List, Value

from .structs import BOX, IMAGE_REF, MASK

_TEXT = Value("string")
QUESTION = Features(
    {
        "id": _TEXT,
        "image": IMAGE_REF,
        "width": Value("int32"),
        "height": Value("int32"),
        "anatomy": _TEXT,
        "question": _TEXT,
        "answer": _TEXT,
        "kind": _TEXT,  # positive, hallucinated, abnormal, normal
        "question_type": _TEXT,  # closed, open
        "diseases": List(_TEXT),  # closed: the one that is asked for; open: those at the anatomy
        "region": MASK,  # of the anatomy
        "boxes": List(BOX),  # of `diseases`, where they touch the anatomy
        "template": _TEXT,
    }
)
TPT = Features(dict.fromkeys(("id", "original_id", "kind", "question", "anatomy", "disease", "template"), _TEXT))
# A region of the image, and the region of another image that takes its place.
VPT = Features(
    {
        "id": _TEXT,
        "original_id": _TEXT,
        "region": MASK,
        "donor": IMAGE_REF,
        "donor_region": MASK,
        "donor_diseases": List(_TEXT),  # all that the donor image may show, wherever
    }
)
