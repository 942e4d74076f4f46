"""How long the texts of a row can be, by the words that rows are made of: what is published is held against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import chexpert, chexstruct, openi
from .exports import INSTRUCTION
from .variants import VARIANTS
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS, negated_option, positive_option, slug

FINDINGS = dict.fromkeys((*chexpert.FINDINGS, *openi.MESH, *openi.TARGETS, *chexstruct.FINDINGS))
PROTOCOLS = (*chexpert.PROTOCOLS, openi.PROTOCOL, *chexstruct.PROTOCOLS)
# What names a study or an image is the source's: CXR and at most eight digits, patient64540/study1, and file names
# like CXR1000_IM-0003-1001-0002.png.
STUDY, IMAGE, KEY = "patient00000000/study0000", "CXR00000000_IM-0000-0000-0000-000000000000", 64
LONGEST_CUE = "without any radiographic suggestion to suggest"  # the longest of negation.CUES with one adjective
N_OPTIONS, N_IMAGES = 4, 20


def longest() -> Mapping[str, int]:
    """Characters that a text may have, by column, and by dotted path inside structs and the chat-format export.

    It holds for the repositories of chexpert, openi and chexstruct. The questions of rexvqa are the source's own and
    have no bound here.
    """
    options = [
        *map(positive_option, FINDINGS),
        *(negated_option(finding, form) for finding in FINDINGS for form in NEGATION_FORMS),
    ]
    question = _longest(text for forms in QUESTION_FORMS.values() for text in forms.values())
    option = _longest(options)
    names = {
        "id": _longest((STUDY, IMAGE)) + len("chexpert/validation///") + _longest((*PROTOCOLS, *VARIANTS))
        + _longest(map(slug, FINDINGS)),
        "images": KEY,
        "messages.role": len("assistant"),
        "messages.content": N_IMAGES * len("<image>") + question + N_OPTIONS * (option + len("\nA. ")) + 2
        + len(INSTRUCTION),
    }  # fmt: skip
    return names | {
        "protocol": _longest(PROTOCOLS),
        "polarity": _longest(QUESTION_FORMS),
        "study_id": len(STUDY),
        "images.source": _longest(("chexpert", "openi")),
        "images.key": KEY,
        "images.view": len("frontal (unknown)"),
        "question": question,
        "options": option,
        "finding": _longest(FINDINGS),
        "negation_form": _longest(NEGATION_FORMS),
        "question_form": _longest(QUESTION_FORMS["presence"]),
        "layout": _longest(LAYOUTS),
        "cue": len(LONGEST_CUE),
    }


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts))
