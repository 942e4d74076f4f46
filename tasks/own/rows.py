"""Rows of a user's own table as lm-eval documents: one kind of question a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import datasets

from medfaith.loaders.errors import InputError
from medfaith.tasks import rows
from medfaith.tasks.controls import TARGET, Facts
from medfaith.tasks.row_iteration import iterate_rows
from medfaith.tasks.row_tables import build_dataset
from medfaith.tasks.unlogged_fields import UnloggedMask

YES_NO, CHOICE, OPEN = "yes_no", "choice", "open"
NONE = "none"
N_CANDIDATES = 20  # answers of an open question among which reference models choose
_TEXT, _INDEX = datasets.Value("string"), datasets.Value("int32")
DOCUMENT = {
    "id": _TEXT,
    "image_id": _TEXT,
    "patient_id": _TEXT,  # the unit of resampling
    "answer_kind": _TEXT,
    "question": _TEXT,
    "topic": _TEXT,  # the question without its wording, if the table has it
    "location": _TEXT,  # the anatomy, if the table has it
    "options": datasets.List(_TEXT),  # open: answers among which reference models choose; the prompt has none
    "answer": _INDEX,
    "negated": _INDEX,  # the option that denies, -1 without one
    "gold": datasets.List(_TEXT),
    "reply_in_words": datasets.Value("bool"),
}


def load(repository: str, config: str, ask: str, **options: Any) -> dict[str, datasets.Dataset]:
    """Load the questions of one kind with `rows.load`.

    Args:
        repository: As in `rows.load`.
        config: The config of the questions.
        ask: "yes_no", "choice" or "open".
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.

    Raises:
        InputError: The split has no question of this kind, or as `rows.load`.
    """

    def build_documents(questions: datasets.Dataset) -> datasets.Dataset:
        chosen = [row for row in iterate_rows(questions) if row["kind"] == ask]
        if not chosen:
            where = f"{repository}, config {config!r}"
            action = "choose a task of another kind: medfaith_own_yes_no, medfaith_own_choice or medfaith_own_open"
            raise InputError(where, f"split {options['split']!r} has no {ask} question", action=action)
        answers = sorted({row["gold"][0] for row in chosen} - {NONE}) if ask == OPEN else []
        docs = [_build_document(row, answers) for row in chosen]
        features = DOCUMENT | {
            "images": questions.features["images"],
            TARGET: questions.features["region"],
            "region": questions.features["region"],
        }
        return build_dataset(docs, features)

    adapter = rows.Adapter(extend=build_documents, attach=_attach_region, facts=build_facts)
    return rows.load(repository, adapter, config=config, **options)


def _attach_region(batch: dict[str, list]) -> dict[str, list]:
    """Keep masks out of sample logs; no closure, see `row_images.ImageOpening`."""
    return batch | {"region": [UnloggedMask(mask) if mask else None for mask in batch["region"]]}


def _build_document(row: Mapping[str, Any], answers: Sequence[str]) -> dict[str, Any]:
    kind, options, answer = row["kind"], row["options"], row["answer"]
    if kind == OPEN:
        options = _list_candidates(row, answers)
        answer = options.index(row["gold"][0])
    return {
        "id": row["id"],
        "images": row["images"],
        "image_id": " ".join(reference["key"] for reference in row["images"]),
        "patient_id": row["patient_id"],
        "answer_kind": kind,
        "question": row["question"],
        "topic": row["topic"] or row["question"],
        "location": row["anatomy"],
        "options": options,
        "answer": answer,
        "negated": {YES_NO: 1, CHOICE: -1, OPEN: 0}[kind],
        "gold": row["gold"],
        "reply_in_words": kind != CHOICE,
        "region": row["region"],
        TARGET: row["region"],
    }


def _list_candidates(row: Mapping[str, Any], answers: Sequence[str]) -> list[str]:
    """List the candidate answers to an open question: none, the gold answer, and others chosen by the row's id."""
    gold = row["gold"][0]
    if len(answers) < N_CANDIDATES:
        return [NONE, *answers]
    others = [answer for answer in answers if answer != gold]
    ranked = sorted(others, key=lambda answer: blake2b(f"{row['id']}:{answer}".encode(), digest_size=8).digest())
    return [NONE, *sorted({gold, *ranked[: N_CANDIDATES - 2]} - {NONE})]


def build_facts(doc: Mapping[str, Any]) -> Facts:
    """Return the facts about a row that a control may use.

    Args:
        doc: The document.

    Returns:
        The facts: rows with the same topic, or else the same text, ask the same question. A yes/no question that names
        a side has a mirrored partner.
    """
    asked, is_yes_no = _fold_question(doc), doc["answer_kind"] == YES_NO
    mirrored = (
        _swap_side(asked) if is_yes_no else ""
    )  # of yes and no it is known which of them a mirrored image changes
    present = not is_yes_no or doc["answer"] == 0
    gold = doc["gold"][0].casefold()
    return Facts(doc["patient_id"], asked, gold, mirrored=mirrored if mirrored != asked else "", present=present)


def _fold_question(doc: Mapping[str, Any]) -> str:
    """Fold the question of a row: topic, place and options, without case, spaces and the mark at the end."""
    parts = [doc["topic"], doc["location"], *(doc["options"] if doc["answer_kind"] == CHOICE else ())]
    return "/".join(" ".join(part.casefold().rstrip("?. ").split()) for part in parts)


def _swap_side(text: str) -> str:
    swapped = {"left": "right", "right": "left"}
    return " ".join(swapped.get(word, word) for word in text.split(" "))
