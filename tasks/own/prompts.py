"""Prompts of a user's own questions: the images, the question, the options with letters, and an instruction."""

from __future__ import annotations

import string
from typing import Any

from .rows import CHOICE, OPEN, YES_NO

INSTRUCTIONS = {
    YES_NO: "Answer yes or no.",
    CHOICE: "Answer with the letter of the correct option.",
    OPEN: "Answer with a word or a short phrase.",
}


def prompt(doc: dict[str, Any]) -> str:
    """Format the images and the question, with one sentence on the form of the answer.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    instruction = INSTRUCTIONS[doc["answer_kind"]]
    question = f"{'<image>' * len(doc['images'])}{doc['question']}"
    if doc["answer_kind"] != CHOICE:
        return f"{question} {instruction}"
    options = [f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, doc["options"], strict=False)]
    return "\n".join([question, *options, instruction])


def target(doc: dict[str, Any]) -> str:
    """Return the right answer in words.

    Args:
        doc: The document.

    Returns:
        The text of the right option, or the first accepted answer.
    """
    return doc["gold"][0]
