"""What a model is asked: the image, the question, and how to answer. The paper prints no prompt of its evaluation."""

from __future__ import annotations

from typing import Any

INSTRUCTIONS = {
    "closed": "Answer yes or no.",
    "open": "Name each abnormality, or say that there is none.",
}


def prompt(doc: dict[str, Any]) -> str:
    """The image and the question (section 3.2), with one sentence on the form of the answer."""
    return f"{'<image>' * len(doc['images'])}{doc['question']} {INSTRUCTIONS[doc['question_type']]}"


def target(doc: dict[str, Any]) -> str:
    """The right answer in words."""
    return doc["options"][doc["answer"]]
