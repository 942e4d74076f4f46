"""Rows of CXR-ContraBench as lm-eval documents, with what controls may know of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from medfaith.tasks import rows, wordings
from medfaith.tasks.controls import Facts


def load(repository: str, **options: Any) -> dict[str, datasets.Dataset]:
    """`rows.load`, with `facts` and `reword`."""
    return rows.load(repository, facts=facts, reword=reword, **options)


def facts(doc: Mapping[str, Any]) -> Facts:
    """What is right for a study are the findings that rows of the task ask it for; the other positive options compete.

    Of a question that a source words itself (ReXVQA), nothing is known about other images.
    """
    options = [option.casefold() for option in doc["options"]]
    others = [text for place, text in enumerate(options) if place not in (doc["answer"], doc["negated"])]
    asked = "" if doc["negation_form"] == "source" else doc["polarity"]
    present = doc["answer"] != doc["negated"]
    return Facts(doc["study_id"].split("/")[0], asked, options[doc["answer"]], others, present=present)


def reword(doc: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    """The question in a wording, and the options in another order, so that the row is in no layout but a shuffled one.

    Exemplars before the question stay as they are. ReXVQA words its questions itself.
    """
    if doc["negation_form"] == "source":
        return None
    question = wordings.question("cxr-contrabench", doc["polarity"], number)
    return {"question": question, "question_form": "", "layout": "shuffled", **wordings.reorder(doc, number)}
