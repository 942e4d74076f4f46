"""Prompts of CXR-ContraBench: all images of the study, the question, the options with letters, and an instruction.

The paper prints the steps of its chain-of-thought scaffolds (Figure 7) and describes the others. The sentences around
the steps are ours.
"""

from __future__ import annotations

import string
from typing import Any

INSTRUCTION = "Answer with the letter of the correct option."
POLARITY_INSTRUCTION = (
    "Mind the polarity of the question. An option that names a finding stands for the finding itself; an option that "
    "negates it says that the finding is not there. If the question asks which finding is present, do not choose a "
    "negated option. If it asks which finding is absent, choose the name of the absent finding."
)
PACKET_INSTRUCTION = (
    "Answer with one JSON object and nothing else. Its first two fields are your direct answer and how likely it is to "
    'be right, from 0 to 1. Then fill in its "packet": what the question asks for, the finding and the location that '
    "it is about, the answer that follows from these and the image, and how likely that answer is to be right."
)
STEPS = {
    # absence_step assumes that the question asks for an absent finding. polarity_step asks about it.
    "absence": (
        "Does the question ask for an ABSENT / NOT PRESENT finding?",
        "Which option names the finding concept itself?",
        'Which option is the negated surface form ("No X")?',
    ),
    "presence": (
        "Does the question ask about absence or presence?",
        "Which option names the finding concept itself?",
        'Which option is the negated surface form ("No X")?',
    ),
}
DECISIONS = {
    "absence": ("If the question asks for absence, choose the finding name, not the negated form.",),
    "presence": (
        "If the question asks for absence, choose the finding name rather than the negated form.",
        "If the question asks for presence, choose the present finding and avoid the negated form.",
    ),
}


def b0(doc: dict[str, Any]) -> str:
    """Format B0: full-context multiple choice (section 5.1).

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return "\n".join([_format_images(doc), *_format_question(doc), INSTRUCTION])


def instruct(doc: dict[str, Any]) -> str:
    """Format B0-Instruct: a polarity instruction in front of B0 (Appendix F).

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return "\n".join([_format_images(doc), POLARITY_INSTRUCTION, "", *_format_question(doc), INSTRUCTION])


def cot(doc: dict[str, Any]) -> str:
    """Format CoT-B0: `absence_step` for absence questions, `polarity_step` for others (Appendix B.4, Figure 7).

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    side = "absence" if doc["polarity"] == "absence" else "presence"
    steps = [f"{number}. {step}" for number, step in enumerate(STEPS[side], start=1)]
    letters = "/".join(_get_letters(doc))
    return "\n".join(
        [
            _format_images(doc),
            *_format_question(doc),
            "",
            "Reason step by step before you answer:",
            *steps,
            *DECISIONS[side],
            f"End with one line: Final answer: [{letters}]",
        ]
    )


def three_shot(doc: dict[str, Any]) -> str:
    """Format three answered questions as text, then B0 with its images (Appendix G).

    Args:
        doc: The document, with `exemplars`.

    Returns:
        The prompt.
    """
    return "\n\n".join([*doc["exemplars"], b0(doc)])


def three_shot_images(doc: dict[str, Any]) -> str:
    """Format three answered questions, each after its own images, then B0.

    Args:
        doc: The document. Its `images` hold the exemplars' images before the row's own.

    Returns:
        The prompt.
    """
    n_exemplar_images = sum(exemplar.count("<image>") for exemplar in doc["exemplars"])
    placeholders = "<image>" * (len(doc["images"]) - n_exemplar_images)
    return "\n\n".join([*doc["exemplars"], "\n".join([placeholders, *_format_question(doc), INSTRUCTION])])


def packet(doc: dict[str, Any]) -> str:
    """Format Packet-B0: a direct answer, a structured packet with another answer, and the confidence of both (for Y0).

    The paper prints neither the packet's fields nor its prompt (section 4, Appendix B.2): both are ours.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    letter, confidence = f"<{'/'.join(_get_letters(doc))}>", "<0 to 1>"
    shape = (
        f'{{"answer": "{letter}", "confidence": {confidence}, "packet": {{"question_asks_for": "<presence, absence or '
        f'other>", "finding": "<text>", "location": "<text or empty>", "answer": "{letter}", '
        f'"confidence": {confidence}}}}}'
    )
    return "\n".join([_format_images(doc), *_format_question(doc), "", PACKET_INSTRUCTION, shape])


def target(doc: dict[str, Any]) -> str:
    """Return the letter of the gold option.

    Args:
        doc: The document.

    Returns:
        The letter, "A" for the first option.
    """
    return string.ascii_uppercase[doc["answer"]]


def _format_images(doc: dict[str, Any]) -> str:
    return "<image>" * len(doc["images"])


def _format_question(doc: dict[str, Any]) -> list[str]:
    options = [f"{letter}. {option}" for letter, option in zip(_get_letters(doc), doc["options"], strict=True)]
    return [doc["question"], *options]


def _get_letters(doc: dict[str, Any]) -> str:
    return string.ascii_uppercase[: len(doc["options"])]
