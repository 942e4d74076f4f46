"""Rows of CXR-ContraBench as lm-eval documents, and the facts about them that controls may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from medfaith.tasks import rows, wordings
from medfaith.tasks.controls import TARGET, Facts
from medfaith.tasks.unlogged_fields import UnloggedMask


def load(repository: str, **options: Any) -> dict[str, datasets.Dataset]:
    """Load rows with `rows.load`.

    Args:
        repository: As in `rows.load`.
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.
    """
    adapter = rows.Adapter(extend=_add_target, attach=_attach_region, facts=facts, reword=reword)
    return rows.load(repository, adapter, **options)


def _add_target(questions: datasets.Dataset) -> datasets.Dataset:
    """Add the target of controls to rows that have the region of their finding."""
    if "region" not in questions.column_names:
        return questions
    return questions.add_column(TARGET, questions["region"], feature=questions.features["region"])  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)


def _attach_region(batch: dict[str, list]) -> dict[str, list]:
    """Keep masks out of sample logs."""
    if "region" not in batch:
        return batch
    return batch | {"region": [UnloggedMask(mask) for mask in batch["region"]]}


def facts(doc: Mapping[str, Any]) -> Facts:
    """Return the facts about a row that a control may use.

    The right answers for a study are the findings that rows of the task ask about; the other positive options compete.
    If a source words its questions itself (ReXVQA), nothing is known about other images. Tissue for a region comes from
    an image whose study does not have the finding.

    Args:
        doc: The document.

    Returns:
        The facts: the patient; the question asked, which is its polarity, or "" for ReXVQA; the right option; the
        other options but the negated one as alternatives; and the row's finding.
    """
    options = [option.casefold() for option in doc["options"]]
    alternatives = [text for place, text in enumerate(options) if place not in (doc["answer"], doc["negated"])]
    question = "" if doc["negation_form"] == "source" else doc["polarity"]
    present = doc["answer"] != doc["negated"]
    return Facts(
        doc["study_id"].split("/")[0], question, options[doc["answer"]], alternatives, present=present,
        findings=[doc["finding"]], shown=doc.get("present", ()),
    )  # fmt: skip


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
