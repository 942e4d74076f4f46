"""Sentences of Chest ImaGenome as lm-eval documents, alone or each in front of its perturbed partner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

import datasets

from medfaith.loaders.errors import InputError
from medfaith.tasks import row_store, rows
from medfaith.tasks.controls import TARGET, Facts, needs_region
from medfaith.tasks.controls.rows import MASK, target_of_boxes
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.wrong_lung.adapter import SCORING
from medfaith.tasks.wrong_lung.held_out_patients import of_patients
from medfaith.tasks.wrong_lung.prompts import QUESTION

GOLD = "gold"
ORIGINALS = {"synthetic_swapped_conditions": "synthetic"}  # of the others they are in GOLD
SUBSETS = ("abnormal", "one_lung", "mdrb")
_TEXT, _INDEX, _FLAG = datasets.Value("string"), datasets.Value("int32"), datasets.Value("bool")
DOCUMENT = {
    "id": _TEXT,
    "original_id": _TEXT,  # of an original: null
    "perturbation": _TEXT,
    "patient_id": _TEXT,  # what intervals draw
    "study_id": _TEXT,
    "image_id": _TEXT,
    "width": _INDEX,
    "height": _INDEX,
    "sentence": _TEXT,
    "subsets": dict.fromkeys(SUBSETS, _FLAG),
    "question": _TEXT,
    # Of `options`, the replies that a reference model may give as words.
    "options": datasets.List(_TEXT),
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": _FLAG,
    "topic": _TEXT,
    **dict.fromkeys(SCORING, _TEXT),
    "n_rows_left_out": _INDEX,  # of the task, for the sake of `patients`; every row repeats it
}
SHARED = ("id", "patient_id", "study_id", "width", "height", "sentence", "subsets", "boxes", "labels")


def load(
    repository: str,
    config: str,
    heatmaps: str | None = None,
    upsampling: str = SCORING["upsampling"][0],
    precision_ties: str = SCORING["precision_ties"][0],
    patients: str | None = None,
    **options: Any,
) -> dict[str, datasets.Dataset]:
    """`rows.load` of one config: its sentences, or, of a perturbed config, each perturbed row behind its original.

    Args:
        heatmaps: the folder in which the model keeps its attention (its `store=`).
        upsampling: of the attention on the view: "bilinear", as the paper says, or "nearest", as its code does.
        precision_ties: whether precision counts pixels that are tied with its threshold: "included", as the paper's
            code does, or "excluded".
        patients: the record that training writes beside a checkpoint: ask about those only that it has not seen.

    Raises:
        InputError: a perturbed row whose original is not there, a word that is not in SCORING, or as `of_patients`; for
            gold, a record none of whose patients is in the data.
    """
    scoring = {"upsampling": upsampling, "precision_ties": precision_ties}
    for name, value in scoring.items():
        if value not in SCORING[name]:
            raise InputError(f"option {name}", f"is {value!r}", expected=" or ".join(SCORING[name]))
    originals = None if config == GOLD else row_store.read(
        repository, ORIGINALS.get(config, GOLD), options["split"], options.get("data")
    )  # fmt: skip

    def documents(asked: datasets.Dataset) -> datasets.Dataset:
        features = DOCUMENT | {"images": datasets.List(asked.features["image"])}
        features |= dict.fromkeys(("boxes", "described"), asked.features["boxes"])
        features["labels"] = asked.features["labels"]
        wanted = cast(Iterable[dict[str, Any]], asked)
        if originals is None:
            docs = [_original(row) for row in wanted]
        else:
            of_id = {row["id"]: row for row in cast(Iterable[dict[str, Any]], originals)}
            docs = [doc for row in wanted for doc in _pair(row, of_id, f"{repository}, config {config!r}")]
        asked_of = docs if patients is None else of_patients(docs, patients, whole=config == GOLD)
        of_run = {**scoring, "n_rows_left_out": len(docs) - len(asked_of)}
        docs = [doc | of_run for doc in asked_of]
        if needs_region(options.get("control")):
            features[TARGET] = MASK
            docs = [doc | {TARGET: target_of_boxes(doc["boxes"], (doc["height"], doc["width"]))} for doc in docs]
        return datasets.Dataset.from_list(docs, features=datasets.Features(features))

    attach = partial(_attach, HeatmapReader(heatmaps))
    return rows.load(repository, config=config, extend=documents, attach=attach, facts=facts, **options)


def _attach(shared: HeatmapReader, batch: dict[str, list]) -> dict[str, list]:
    return batch | {"heatmaps": [shared] * len(batch["id"])}


def _pair(row: Mapping[str, Any], originals: Mapping[str, Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    original = originals.get(row["original_id"])
    if original is None:
        found = f"is a perturbation of {row['original_id']!r}, which is not there"
        raise InputError(where, found, row=row["id"], action="build both configs in one run")
    changed = {name: row[name] for name in ("original_id", "perturbation", "described")}
    return [_original(original), _document(row) | changed]


def _original(row: Mapping[str, Any]) -> dict[str, Any]:
    return _document(row) | {"original_id": None, "perturbation": None, "described": row["boxes"]}


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in SHARED},
        "images": [row["image"]],
        "image_id": row["image"]["key"],
        "question": QUESTION.format(sentence=row["sentence"]),
        "options": ["Yes", "No"],
        "answer": 0,
        "negated": 1,
        "reply_in_words": True,
        "topic": "sentence",
    }


def facts(doc: Mapping[str, Any]) -> Facts:
    """An image of another patient has the same right answer where the sentence speaks of the same anatomies."""
    anatomies = sorted({box["label"] for box in doc["boxes"]})
    findings, shown = (
        [f"{label['name']} at {anatomy}" for label in labels for anatomy in anatomies]
        for labels in (doc["labels"], [label for label in doc["labels"] if label["context"] == "yes"])
    )
    how = {"present": bool(shown), "findings": findings, "shown": shown}
    return Facts(doc["patient_id"], "sentence", "\n".join(anatomies), **how)
