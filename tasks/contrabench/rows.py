"""Rows of CXR-ContraBench as lm-eval documents, with what controls may know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from medfaith.tasks import rows
from medfaith.tasks.controls import Facts


def load(repository: str, **options: Any) -> dict[str, datasets.Dataset]:
    """`rows.load`, with `facts`."""
    return rows.load(repository, facts=facts, **options)


def facts(doc: Mapping[str, Any]) -> Facts:
    """What is right for a study are the findings that rows of the task ask it for; the other positive options compete.

    Of a question that a source words itself (ReXVQA), nothing is known about other images.
    """
    options = [option.casefold() for option in doc["options"]]
    others = [text for place, text in enumerate(options) if place not in (doc["answer"], doc["negated"])]
    asked = "" if doc["negation_form"] == "source" else doc["polarity"]
    return Facts(doc["study_id"].split("/")[0], asked, options[doc["answer"]], others)
