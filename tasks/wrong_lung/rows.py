"""Sentences of Chest ImaGenome as lm-eval documents, alone or followed by their perturbed partners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import datasets

from medfaith.loaders.errors import InputError
from medfaith.tasks import row_store, rows
from medfaith.tasks.controls import TARGET, Facts, needs_region
from medfaith.tasks.controls.rows import MASK, merge_boxes
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.row_iteration import iterate_rows
from medfaith.tasks.row_tables import build_dataset
from medfaith.tasks.wrong_lung.adapter import SCORING
from medfaith.tasks.wrong_lung.held_out_patients import select_held_out
from medfaith.tasks.wrong_lung.prompts import QUESTION

GOLD = "gold"
ORIGINALS = {"synthetic_swapped_conditions": "synthetic"}  # perturbed config -> config of its originals; default GOLD
SUBSETS = ("abnormal", "one_lung", "mdrb")
_TEXT, _INDEX, _FLAG = datasets.Value("string"), datasets.Value("int32"), datasets.Value("bool")
DOCUMENT = {
    "id": _TEXT,
    "original_id": _TEXT,  # null for an original
    "perturbation": _TEXT,
    "patient_id": _TEXT,  # the unit of resampling
    "study_id": _TEXT,
    "image_id": _TEXT,
    "width": _INDEX,
    "height": _INDEX,
    "sentence": _TEXT,
    "subsets": dict.fromkeys(SUBSETS, _FLAG),
    "question": _TEXT,
    # The replies of reference models in words, and the indices of the right reply and the denial.
    "options": datasets.List(_TEXT),
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": _FLAG,
    "topic": _TEXT,
    **dict.fromkeys(SCORING, _TEXT),
    "n_rows_left_out": _INDEX,  # number of rows that `patients` excludes from the task; every row repeats it
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
    """Load rows of one config with `rows.load`: sentences, or, for a perturbed config, each original with its partner.

    Args:
        repository: As in `rows.load`.
        config: The config of the sentences.
        heatmaps: The folder in which the model keeps its attention (its `store=`).
        upsampling: The upsampling of the attention to the view: "bilinear", as in the paper, or "nearest", as in its
            code.
        precision_ties: Whether precision counts pixels that are tied with its threshold: "included", as in the paper's
            code, or "excluded".
        patients: The record that training writes next to a checkpoint. Only patients that the model has not seen are
            used.
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.

    Raises:
        InputError: The original of a perturbed row is missing, a value is not in SCORING, or as in `select_held_out`.
            For gold: no patient of the record is in the data.
    """
    scoring = {"upsampling": upsampling, "precision_ties": precision_ties}
    for name, value in scoring.items():
        if value not in SCORING[name]:
            raise InputError(f"option {name}", f"is {value!r}", expected=" or ".join(SCORING[name]))
    originals = None if config == GOLD else row_store.read(
        repository, ORIGINALS.get(config, GOLD), options["split"], options.get("data")
    )  # fmt: skip

    def build_documents(stored: datasets.Dataset) -> datasets.Dataset:
        features: dict[str, Any] = DOCUMENT | {"images": datasets.List(stored.features["image"])}
        features |= dict.fromkeys(("boxes", "described"), stored.features["boxes"])
        features["labels"] = stored.features["labels"]
        sentences = iterate_rows(stored)
        if originals is None:
            docs = [_build_original(row) for row in sentences]
        else:
            by_id = {row["id"]: row for row in iterate_rows(originals)}
            docs = [doc for row in sentences for doc in _build_pair(row, by_id, f"{repository}, config {config!r}")]
        selected = docs if patients is None else select_held_out(docs, patients, complete=config == GOLD)
        run_columns: dict[str, Any] = {**scoring, "n_rows_left_out": len(docs) - len(selected)}
        docs = [doc | run_columns for doc in selected]
        if needs_region(options.get("control")):
            features[TARGET] = MASK
            docs = [doc | {TARGET: merge_boxes(doc["boxes"], (doc["height"], doc["width"]))} for doc in docs]
        return build_dataset(docs, features)

    attach = partial(_attach_heatmaps, HeatmapReader(heatmaps))
    adapter = rows.Adapter(extend=build_documents, attach=attach, facts=facts)
    return rows.load(repository, adapter, config=config, **options)


def _attach_heatmaps(reader: HeatmapReader, batch: dict[str, list]) -> dict[str, list]:
    """Add the reader of heatmaps to each row; no closure, see `row_images.ImageOpening`."""
    return batch | {"heatmaps": [reader] * len(batch["id"])}


def _build_pair(row: Mapping[str, Any], originals: Mapping[str, Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    original = originals.get(row["original_id"])
    if original is None:
        problem = f"is a perturbation of {row['original_id']!r}, which is not there"
        raise InputError(where, problem, row=row["id"], action="build both configs in one run")
    changed = {name: row[name] for name in ("original_id", "perturbation", "described")}
    return [_build_original(original), _build_document(row) | changed]


def _build_original(row: Mapping[str, Any]) -> dict[str, Any]:
    return _build_document(row) | {"original_id": None, "perturbation": None, "described": row["boxes"]}


def _build_document(row: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return the facts about a row that a control may use. Sentences about the same anatomies have the same answer.

    Args:
        doc: The document.

    Returns:
        The facts: the patient, the anatomies as the right answer, and the findings that the sentence names and affirms
        there.
    """
    anatomies = sorted({box["label"] for box in doc["boxes"]})
    findings, present_findings = (
        [f"{label['name']} at {anatomy}" for label in labels for anatomy in anatomies]
        for labels in (doc["labels"], [label for label in doc["labels"] if label["context"] == "yes"])
    )
    options = {"present": bool(present_findings), "findings": findings, "shown": present_findings}
    return Facts(doc["patient_id"], "sentence", "\n".join(anatomies), **options)
