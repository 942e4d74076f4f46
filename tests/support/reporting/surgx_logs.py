"""Sample logs of SurgXBench tasks in lm-eval's format, with rows whose scores a test chooses."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from tests.support.reporting.report_logs import write_samples

NAN = float("nan")
FIRST = {"instruments": "f1", "triplets": "coverage", "occlusion": "lost"}
TASKS = {"cholec80_boxes": "instruments", "cholect45": "triplets", "cholect50": "triplets_t50"}
Sample = tuple[dict[str, Any], dict[str, Any]]  # document, row


def look(label: str, outcome: str, aa: float = NAN, ac: float = NAN, *, video: int = 41, state: str = "") -> dict:
    """Build a record of attention_alignment; without numbers the model gave no heatmap."""
    state = state or ("without_map" if math.isnan(ac) else "scored")
    return {"video": str(video), "label": label, "outcome": outcome, "state": state, "aa": aa, "ac": ac,
            "cut_at_zero": aa == 0.25}  # fmt: skip


def seen(triplet: str, level: str, ras: float = NAN, *, video: int = 42, state: str = "", **changes: Any) -> dict:
    """Build a record of ras; without a number the frame's motion is unknown."""
    record = {
        "video": str(video), "triplet": triplet, "null": "null_verb" in triplet, "has_box": True, "level": level,
        "rank": None if level == "missed" else 0, "state": state or ("without_motion" if math.isnan(ras) else "scored"),
        "ras": ras, "n_left_out": 0, "cut_at_zero": ras == 0.75,
    }  # fmt: skip
    return record | changes


def instruments(
    number: int, gold: Sequence[str], looks: Sequence[dict] | None, *, video: int = 41, **columns: Any
) -> Sample:
    """Build a frame whose predicted labels are the labels of `looks`; None is an unread answer."""
    looks = None if looks is None else [look | {"video": str(video)} for look in looks]
    row = {
        "video": video, "gold": list(gold), "outcome": "given" if looks is not None else "unparsed",
        "predicted": None if looks is None else [look["label"] for look in looks], "looks": looks or [],
    }  # fmt: skip
    return document("instruments", "cholec80_boxes", number, video, **columns), row


def triplets(
    number: int,
    predicted: Sequence[str] | None,
    records: Sequence[dict],
    *,
    video: int = 42,
    source: str = "cholect45",
    scores: Sequence[float] | None = None,
    **row: Any,
) -> Sample:
    """Build a frame whose true triplets come from its records."""
    records = [record | {"video": str(video)} for record in records]
    row = {
        "video": video, "gold": [record["triplet"] for record in records], "predicted": predicted, "outcome": "given",
        "scores": scores, "seen": records, **row,
    }  # fmt: skip
    return document("triplets", source, number, video), row


def add_boxes(sample: Sample, *boxes: tuple[str, float]) -> Sample:
    """Add boxes to the sample's frame, each with its label and the share that was visible to the model."""
    doc, row = sample
    doc_boxes = [{"label": label, "xywh": [1.0, 2.0, 3.0, 4.0]} for label, _ in boxes]
    return doc | {"boxes": doc_boxes}, row | {"visible": [share for _, share in boxes]}


def format_mean(
    values: Sequence[float], videos: Sequence[int], scale: float = 100, digits: int = 2, bounds: Any = (0, 1)
) -> str:
    """Format a mean with its interval as a table cell."""
    interval = bootstrap_mean(values, groups=videos, bounds=bounds)
    ends = ["–" if math.isnan(end) else f"{scale * end:.{digits}f}" for end in interval[:3]]
    return f"{ends[0]} [{ends[1]}, {ends[2]}]"


def document(ask: str, source: str, number: int, video: int, **columns: Any) -> dict[str, Any]:
    doc = {
        "id": f"{ask}/{video}/{number:06d}", "images": f"{source}:VID{video}/{number:06d}.png", "video": video,
        "ask": ask, "gold": [], "boxes": [], "top_k": 0, "prompt": "b0", "n_rows_skipped": 0,
    }  # fmt: skip
    return doc | columns


def write_surgx(
    folder: Path,
    samples: Sequence[Sample],
    *,
    heatmaps: str = "",
    row_field: str = "",
    task: str = "",
    scores: Sequence[float] | None = None,
    **options: Any,
) -> Path:
    """Write the sample log of one task, with the results file in the same folder.

    `heatmaps` and `scores` are added to each answer. `row_field` names the sample's field that holds the row; the
    default is the task's own field.
    """
    reply_fields = {"heatmaps": heatmaps} if heatmaps else {}
    reply_fields |= {"scores": list(scores)} if scores else {}
    reply = json.dumps({**reply_fields, "text": "?"}) if reply_fields else "?"
    logged = [
        {"doc": doc, "filtered_resps": [reply], "filter": "none", row_field or FIRST[doc["ask"]]: row}
        for doc, row in samples
    ]
    task = task or f"medfaith_surgx_{TASKS[samples[0][0]['images'].split(':')[0]]}"
    return write_samples(folder, task, logged, **options)


GRASP, PACK, RETRACT = "grasper,grasp,gallbladder", "grasper,pack,gallbladder", "grasper,retract,liver"
CUT, CLIP, NULL = "scissors,cut,cystic_duct", "clipper,clip,cystic_duct", "hook,null_verb,null_target"
FRAMES = [  # grasper: 2 TP, 1 FP, 1 missed; hook: 1 TP, 1 missed in an unread answer; scissors: 1 FP
    instruments(0, ["grasper"], [look("grasper", "tp", 0.5, 0.75)]),
    instruments(1, ["grasper", "hook"], [look("grasper", "tp", 0.25, 0.25), look("hook", "tp", state="degenerate")]),
    instruments(2, ["hook"], [look("grasper", "fp", 0.0, 0.5), look("scissors", "fp")], video=42),
    instruments(3, ["grasper"], None, video=42),
]
ACTIONS = [  # 6 true triplets: 2 IVT, 1 IV, 1 I, 2 missed, one of these without a prediction
    triplets(0, [GRASP, CLIP], [seen(GRASP, "ivt", 0.5), seen(CUT, "missed", 0.25, n_left_out=1)],
             occluded={"triplet": GRASP, "before": 30.0, "after": 28.0, "predicted": [CLIP, GRASP]}),
    triplets(1, [NULL], [seen(NULL, "ivt"), seen(PACK, "missed", 0.75)],
             occluded={"triplet": NULL, "before": 30.0, "after": 10.0, "predicted": [CLIP]}),
    triplets(0, [PACK], [seen(GRASP, "i", 1.0, has_box=False), seen(CUT, "iv", state="degenerate", rank=0)], video=43),
    triplets(1, [], [], video=43),
]  # fmt: skip
