"""Rows of HEAL-MedVQA: questions (section 3.2) and their perturbed partners, TPT and VPT (section 3.1)."""

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
        "diseases": List(_TEXT),  # closed: the disease in the question; open: the diseases at the anatomy
        "region": MASK,  # mask of the anatomy
        "boxes": List(BOX),  # boxes of `diseases` that touch the anatomy
        "template": _TEXT,
    }
)
TPT = Features(dict.fromkeys(("id", "original_id", "kind", "question", "anatomy", "disease", "template"), _TEXT))
# A region of the image, and the region of another image that replaces it.
VPT = Features(
    {
        "id": _TEXT,
        "original_id": _TEXT,
        "region": MASK,
        "donor": IMAGE_REF,
        "donor_region": MASK,
        "donor_diseases": List(_TEXT),  # all diseases that the donor image may show, at any anatomy
    }
)
