"""One question of a user's own table: its images, the gold answer, and the region that it is about."""

from datasets import Features, List, Value

from .structs import BOX, IMAGE_REF, MASK

_TEXT = Value("string")
QUESTION = Features(
    {
        "id": _TEXT,
        "kind": _TEXT,  # yes_no, choice, open
        "patient_id": _TEXT,  # the unit of resampling; the first image if the table names no patient
        "images": List(IMAGE_REF),
        "width": Value("int32"),  # of the first image, in pixels
        "height": Value("int32"),
        "question": _TEXT,
        "options": List(_TEXT),  # choice: the options; yes_no: Yes, No; open: none
        "answer": Value("int32"),  # index into options; -1 for an open question
        "gold": List(_TEXT),  # the accepted answers in words
        "topic": _TEXT,
        "anatomy": _TEXT,
        "region": MASK,  # the mask, or the union of the boxes; null without either
        "boxes": List(BOX),
    }
)
