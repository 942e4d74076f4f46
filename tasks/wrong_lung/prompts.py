"""The prompt of That's the Wrong Lung! for models that answer in words. The paper's models take the sentence alone."""

from __future__ import annotations

from typing import Any

QUESTION = 'Does this chest X-ray show what this sentence says? "{sentence}" Answer yes or no.'


def prompt(doc: dict[str, Any]) -> str:
    """Format the image and the question.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return f"{'<image>' * len(doc['images'])}{doc['question']}"


def target(doc: dict[str, Any]) -> str:
    """Return the answer that the sentence is true. No metric uses it: the truth of a changed sentence is unknown.

    Args:
        doc: The document.

    Returns:
        The text of that option.
    """
    return doc["options"][doc["answer"]]
