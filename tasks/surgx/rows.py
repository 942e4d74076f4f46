"""Rows of SurgXBench as lm-eval documents: what is in the frame, and a handle to the heatmaps of a model's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import datasets

from medfaith.loaders import cholec80_boxes
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.tasks import rows, wordings
from medfaith.tasks.controls import TARGET, Facts, needs_region
from medfaith.tasks.controls.rows import MASK, target_of_boxes
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.surgx.prompts import CLASS_PROMPTS, LISTS, QUESTIONS
from medfaith.tasks.unlogged_fields import Unlogged, UnloggedMask

_TEXT, _INDEX = datasets.Value("string"), datasets.Value("int32")
DOCUMENT = {
    "id": _TEXT,
    "image_id": _TEXT,
    "video": _INDEX,  # what intervals draw
    "frame": _INDEX,
    "width": _INDEX,
    "height": _INDEX,
    "ask": _TEXT,
    "question": _TEXT,
    "gold": datasets.List(_TEXT),  # of `classes`
    "top_k": _INDEX,  # how many classes a model that scores them predicts; 0: by the percentile rule
    "occlude": datasets.Value("bool"),
    # Of `options`, the replies that a reference model may give as words: the right one and the denial.
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": datasets.Value("bool"),
    "topic": _TEXT,
}
CLASSES = {"instruments": cholec80_boxes.INSTRUMENTS, "triplets": tuple(map(str, TRIPLETS))}
NONE = {"instruments": "No surgical tool is visible.", "triplets": "No action is visible."}
TOP_K = {"instruments": 0, "triplets": 5}  # appendix C.1


def load(
    repository: str, config: str, ask: str, heatmaps: str | None = None, occlude: bool = False, **options: Any
) -> dict[str, datasets.Dataset]:
    """`rows.load` of one config.

    Args:
        ask: "instruments" or "triplets".
        heatmaps: the folder in which the model keeps its heatmaps (its `store=`); without one, nothing is said about
            where it looks.
        occlude: ask a model that can for its scores of the frame without the region that it looked at (4.3.2).
    """

    def documents(frames: datasets.Dataset) -> datasets.Dataset:
        features = DOCUMENT | {"images": datasets.List(frames.features["image"]), "boxes": frames.features["boxes"]}
        if ask == "triplets":
            features["motion"] = frames.features["motion"]
        docs = [_document(row, ask, occlude) for row in cast(Iterable[dict[str, Any]], frames)]
        if needs_region(options.get("control")):
            features[TARGET] = MASK
            docs = [doc | {TARGET: target_of_boxes(doc["boxes"], (doc["height"], doc["width"]))} for doc in docs]
        return datasets.Dataset.from_list(docs, features=datasets.Features(features))

    shared = {
        "classes": Unlogged(CLASSES[ask]),
        "prompts": Unlogged(CLASS_PROMPTS[ask]),
        "heatmaps": HeatmapReader(heatmaps),
    }

    how = {"extend": documents, "attach": partial(_attach, ask, shared), "facts": facts, "reword": reword}
    return rows.load(repository, config=config, **how, **options)


def _attach(ask: str, shared: Mapping[str, Any], batch: dict[str, list]) -> dict[str, list]:
    same = {name: [value] * len(batch["id"]) for name, value in shared.items()}
    if "motion" in batch:
        same["motion"] = [UnloggedMask(mask) if mask is not None else None for mask in batch["motion"]]
    return batch | same | {"options": [Unlogged(_options(ask, gold)) for gold in batch["gold"]]}


def _document(row: Mapping[str, Any], ask: str, occlude: bool) -> dict[str, Any]:
    gold = (
        row["instruments"]
        if ask == "instruments"
        else [",".join(triplet[part] for part in ("instrument", "verb", "target")) for triplet in row["triplets"]]
    )
    doc = {
        **{name: row[name] for name in ("id", "video", "frame", "width", "height", "boxes")},
        "images": [row["image"]],
        "image_id": row["id"],
        "ask": ask,
        "question": QUESTIONS[ask],
        "gold": gold,
        "top_k": TOP_K[ask],
        "occlude": occlude,
        "answer": _options(ask, gold).index(_said(ask, gold)),
        "negated": 0,
        "reply_in_words": True,
        "topic": ask,
    }
    return doc | {"motion": row["motion"]} if ask == "triplets" else doc


def facts(doc: Mapping[str, Any]) -> Facts:
    """Each video is a patient."""
    return Facts(str(doc["video"]), doc["ask"], "\n".join(sorted(doc["gold"])), present=bool(doc["gold"]))


def reword(doc: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The question in a wording, with the lists of the original one."""
    return {"question": wordings.question("surgxbench", doc["ask"], number, **LISTS)}


def _said(ask: str, gold: Sequence[str]) -> str:
    """The right answer in words."""
    return "\n".join(gold) if gold else NONE[ask]


def _options(ask: str, gold: Sequence[str]) -> list[str]:
    """That nothing is there, each class, and the gold classes together where they are several."""
    return [*dict.fromkeys((NONE[ask], *CLASSES[ask], _said(ask, gold)))]
