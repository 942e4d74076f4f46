"""Rows of SurgXBench as lm-eval documents: the content of the frame, and a reader for the heatmaps of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import datasets

from medfaith.loaders import cholec80_boxes
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.tasks import rows, stated_boxes, wordings
from medfaith.tasks.controls import TARGET, Facts, needs_region
from medfaith.tasks.controls.rows import MASK, merge_boxes
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.row_iteration import iterate_rows
from medfaith.tasks.row_tables import build_dataset
from medfaith.tasks.surgx.prompts import (
    CLASS_PROMPTS,
    LISTS,
    QUESTIONS,
    format_choice,
    format_class_prompt,
    format_question,
)
from medfaith.tasks.unlogged_fields import Unlogged, UnloggedMask

_TEXT, _INDEX = datasets.Value("string"), datasets.Value("int32")
DOCUMENT = {
    "id": _TEXT,
    "image_id": _TEXT,
    "video": _INDEX,  # the unit of resampling
    "frame": _INDEX,
    "width": _INDEX,
    "height": _INDEX,
    "ask": _TEXT,
    "question": _TEXT,
    "gold": datasets.List(_TEXT),  # true `classes`
    "top_k": _INDEX,  # number of predictions of a model that scores classes; 0: the percentile rule
    "occlude": datasets.Value("bool"),
    # Indices into `options`, the replies of reference models in words: the right reply and the denial.
    "answer": _INDEX,
    "negated": _INDEX,
    "reply_in_words": datasets.Value("bool"),
    "topic": _TEXT,
}
LOCATION = stated_boxes.COLUMNS | {"original_id": _TEXT}
CLASSES = {"instruments": cholec80_boxes.INSTRUMENTS, "triplets": tuple(map(str, TRIPLETS))}
NONE = {"instruments": "No surgical tool is visible.", "triplets": "No action is visible."}
TOP_K = {"instruments": 0, "triplets": 5}  # appendix C.1


class FrameQuestion(NamedTuple):
    """The question to each frame.

    Attributes:
        ask: "instruments" or "triplets".
        text: The question in words.
        classes: The classes that it offers.
        prompts: A sentence for each class.
        lists: The lists in its paraphrases.
    """

    ask: str
    text: str
    classes: Sequence[str]
    prompts: Sequence[str]
    lists: Mapping[str, str]

    @classmethod
    def build(cls, ask: str, instruments: Sequence[str] | None = None) -> FrameQuestion:
        """Build the question for all classes, or for some instruments.

        Args:
            ask: "instruments" or "triplets".
            instruments: The instruments that a question for instruments offers; None for all.

        Returns:
            The question.
        """
        if instruments is None:
            return cls(ask, QUESTIONS[ask], CLASSES[ask], CLASS_PROMPTS[ask], LISTS)
        prompts = [*map(format_class_prompt, instruments)]
        lists = LISTS | {"instruments": format_choice(instruments)}
        return cls(ask, format_question(instruments), tuple(instruments), prompts, lists)


def load(
    repository: str,
    config: str,
    ask: str,
    heatmaps: str | None = None,
    occlude: bool = False,
    box_format: str = stated_boxes.DEFAULT_FORMAT,
    instruments: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, datasets.Dataset]:
    """Load rows of one config with `rows.load`.

    Args:
        repository: As in `rows.load`.
        config: The config of the frames.
        ask: "instruments" or "triplets"; "stated_boxes" for one question for each instrument in a frame.
        heatmaps: The folder in which the model keeps its heatmaps (its `store=`). Without it, heatmaps are not scored.
        occlude: Request the scores of the frame without the model's own region, from a model that supports it (4.3.2).
        box_format: The form of the boxes of "stated_boxes" (`tasks.stated_boxes`).
        instruments: The instruments that the question for instruments offers; None for all.
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.
    """
    question = None if ask == stated_boxes.ASK else FrameQuestion.build(ask, instruments)

    def build_documents(frames: datasets.Dataset) -> datasets.Dataset:
        features = DOCUMENT | {"images": datasets.List(frames.features["image"]), "boxes": frames.features["boxes"]}
        if ask == "triplets":
            features["motion"] = frames.features["motion"]
        frame_rows = iterate_rows(frames)
        if question is None:
            features |= LOCATION
            docs = [doc for row in frame_rows for doc in _build_location_docs(row, box_format, options)]
        else:
            docs = [_build_document(row, question, occlude) for row in frame_rows]
        if needs_region(options.get("control")):
            features[TARGET] = MASK
            docs = [doc | {TARGET: merge_boxes(doc["boxes"], (doc["height"], doc["width"]))} for doc in docs]
        return build_dataset(docs, features)

    if question is None:
        adapter = rows.Adapter(extend=build_documents, attach=stated_boxes.attach_options, facts=facts)
        return rows.load(repository, adapter, config=config, **options | {"prompt": box_format})
    shared = {
        "classes": Unlogged(question.classes),
        "prompts": Unlogged(question.prompts),
        "heatmaps": HeatmapReader(heatmaps),
    }

    attach = partial(_attach_columns, question, shared)
    adapter = rows.Adapter(
        extend=build_documents, attach=attach, facts=facts, reword=partial(reword, lists=question.lists)
    )
    return rows.load(repository, adapter, config=config, **options)


def _attach_columns(question: FrameQuestion, shared: Mapping[str, Any], batch: dict[str, list]) -> dict[str, list]:
    """Add the columns that all rows share, masks and options; no closure, see `row_images.ImageOpening`."""
    columns = {name: [value] * len(batch["id"]) for name, value in shared.items()}
    if "motion" in batch:
        columns["motion"] = [UnloggedMask(mask) if mask is not None else None for mask in batch["motion"]]
    return batch | columns | {"options": [Unlogged(_list_options(question, gold)) for gold in batch["gold"]]}


def _build_document(row: Mapping[str, Any], question: FrameQuestion, occlude: bool) -> dict[str, Any]:
    ask = question.ask
    gold = (
        row["instruments"]
        if ask == "instruments"
        else [",".join(triplet[field] for field in ("instrument", "verb", "target")) for triplet in row["triplets"]]
    )
    doc = {
        **{name: row[name] for name in ("id", "video", "frame", "width", "height", "boxes")},
        "images": [row["image"]],
        "image_id": row["id"],
        "ask": ask,
        "question": question.text,
        "gold": gold,
        "top_k": TOP_K[ask],
        "occlude": occlude,
        "answer": _list_options(question, gold).index(_format_answer(ask, gold)),
        "negated": 0,
        "reply_in_words": True,
        "topic": ask,
    }
    return doc | {"motion": row["motion"]} if ask == "triplets" else doc


def _build_location_docs(
    row: Mapping[str, Any], box_format: str, options: Mapping[str, Any]
) -> Iterable[dict[str, Any]]:
    """Build one document for each instrument with boxes in a frame."""
    for name in dict.fromkeys(box["label"] for box in row["boxes"]):
        boxes = [box for box in row["boxes"] if box["label"] == name]
        located = stated_boxes.find_located({**row, "boxes": boxes})
        yield {
            **{column: row[column] for column in ("video", "frame", "width", "height")},
            **stated_boxes.build_columns(name.replace("_", " "), located, box_format, options),
            "id": f"{row['id']}/{name}",
            "original_id": row["id"],
            "images": [row["image"]],
            "image_id": row["id"],
            "boxes": boxes,
            "ask": stated_boxes.ASK,
            "gold": [name],
            "top_k": 0,
            "occlude": False,
            "topic": name,
        }


def facts(doc: Mapping[str, Any]) -> Facts:
    """Return the facts about a row that a control may use. Each video is a patient.

    Args:
        doc: The document.

    Returns:
        The facts: the video, the question asked, and the set of true classes as the right answer.
    """
    if doc["ask"] == stated_boxes.ASK:
        return Facts(str(doc["video"]), f"{doc['ask']}/{doc['topic']}", doc["id"])
    return Facts(str(doc["video"]), doc["ask"], "\n".join(sorted(doc["gold"])), present=bool(doc["gold"]))


def reword(doc: Mapping[str, Any], number: int, lists: Mapping[str, str] = LISTS) -> dict[str, Any]:
    """Return the question in a wording, with the lists of the original question.

    Args:
        doc: The document.
        number: The number of the wording.
        lists: The lists.

    Returns:
        The changed column: {"question": text}.
    """
    return {"question": wordings.question("surgxbench", doc["ask"], number, **lists)}


def _format_answer(ask: str, gold: Sequence[str]) -> str:
    """Format the right answer in words."""
    return "\n".join(gold) if gold else NONE[ask]


def _list_options(question: FrameQuestion, gold: Sequence[str]) -> list[str]:
    """List the options: the denial, each class, and the gold classes together if there are several."""
    return [*dict.fromkeys((NONE[question.ask], *question.classes, _format_answer(question.ask, gold)))]
