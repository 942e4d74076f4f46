"""Rows of CXR-ContraBench as lm-eval documents, and the facts about them that controls may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from medfaith.tasks import rows, wordings
from medfaith.tasks.controls import Facts


def load(repository: str, **options: Any) -> dict[str, datasets.Dataset]:
    """Load rows with `rows.load`.

    Args:
        repository: As in `rows.load`.
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.
    """
    return rows.load(repository, rows.Adapter(facts=facts, reword=reword), **options)


def facts(doc: Mapping[str, Any]) -> Facts:
    """Return the facts about a row that a control may use.

    The right answers for a study are the findings that rows of the task ask about; the other positive options compete.
    If a source words its questions itself (ReXVQA), nothing is known about other images.

    Args:
        doc: The document.

    Returns:
        The facts: the patient, the polarity as the question asked, and the options as answers.
    """
    options = [option.casefold() for option in doc["options"]]
    alternatives = [text for place, text in enumerate(options) if place not in (doc["answer"], doc["negated"])]
    question = "" if doc["negation_form"] == "source" else doc["polarity"]
    present = doc["answer"] != doc["negated"]
    return Facts(doc["study_id"].split("/")[0], question, options[doc["answer"]], alternatives, present=present)


def reword(doc: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    """Return the question in a wording, and the options in another order. The layout is therefore always shuffled.

    Exemplars before the question stay unchanged. ReXVQA words its questions itself.

    Args:
        doc: The document.
        number: The number of the wording.

    Returns:
        The changed columns, or None for ReXVQA.
    """
    if doc["negation_form"] == "source":
        return None
    question = wordings.question("cxr-contrabench", doc["polarity"], number)
    return {"question": question, "question_form": "", "layout": "shuffled", **wordings.shuffle_options(doc, number)}
