"""The prompt of HEAL-MedVQA: image, question and instruction. The paper prints no prompt of its evaluation."""

from __future__ import annotations

from typing import Any

INSTRUCTIONS = {
    "closed": "Answer yes or no.",
    "open": "Name each abnormality, or say that there is none.",
}


def prompt(doc: dict[str, Any]) -> str:
    """Format the image and the question (section 3.2), with one sentence on the form of the answer.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return f"{'<image>' * len(doc['images'])}{doc['question']} {INSTRUCTIONS[doc['question_type']]}"


def target(doc: dict[str, Any]) -> str:
    """Return the right answer in words.

    Args:
        doc: The document.

    Returns:
        The text of the right option.
    """
    return doc["options"][doc["answer"]]
