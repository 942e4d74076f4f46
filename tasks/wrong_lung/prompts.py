"""What models that answer in words are asked. The paper asks none: its models take a sentence as it is."""

from __future__ import annotations

from typing import Any

QUESTION = 'Does this chest X-ray show what this sentence says? "{sentence}" Answer yes or no.'


def prompt(doc: dict[str, Any]) -> str:
    """The image and the question."""
    return f"{'<image>' * len(doc['images'])}{doc['question']}"


def target(doc: dict[str, Any]) -> str:
    """That the sentence is true. No metric compares it: of a changed sentence nobody knows."""
    return doc["options"][doc["answer"]]
