"""Sample logs of That's the Wrong Lung! in lm-eval's format, with rows whose values a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.reporting.report_logs import write_samples

RANKED = ("auroc", "average_precision", "iou_5", "iou_10", "iou_30", "precision_5", "precision_10", "precision_30")
NAMES = (*RANKED, "entropy", "no_attn", "local", "global")
TASK = "medfaith_wrong_lung_"
Row = dict[str, Any]


def original(
    number: int,
    cluster: str = "p1",
    subsets: str = "",
    *,
    state: str = "scored",
    overall: float | None = None,
    **values: Any,
) -> Row:
    """Build a gold sentence; values without an argument are undefined.

    `subsets` is a subset of the words "abnormal one_lung mdrb"; `overall` is the value "global".
    """
    return {
        "id": f"gold/{number:03d}", "original_id": None, "perturbation": None, "cluster": cluster,
        "subsets": {name: name in subsets.split() for name in ("abnormal", "one_lung", "mdrb")},
        "state": state, "values": dict.fromkeys(NAMES) | {"global": overall} | values,
    }  # fmt: skip


def changed(row: Row, perturbation: str, *, state: str = "scored", **values: Any) -> Row:
    """Build the perturbed partner of a row; values without an argument are undefined."""
    return row | {
        "id": f"{row['id']}:{perturbation}", "original_id": row["id"], "perturbation": perturbation, "state": state,
        "values": dict.fromkeys(NAMES) | values,
    }  # fmt: skip


PAIR = [
    original(0, "p1", "abnormal", auroc=0.5),
    changed(original(0, "p1", "abnormal"), "random_sentences", auroc=0.25),
]


def document(row: Row, **columns: Any) -> dict[str, Any]:
    """Build the row's document as lm-eval logs it: values without a JSON form become text."""
    box = {"label": "left lung", "xywh": [10.0, 10.0, 100.0, 100.0]}
    return {
        **{name: row[name] for name in ("id", "original_id", "perturbation", "subsets")},
        "patient_id": row["cluster"], "study_id": "s1", "image_id": "p1/s1/a.jpg", "width": 256, "height": 256,
        "sentence": "Left effusion.", "question": "Does this chest X-ray show it?", "options": ["Yes", "No"],
        "answer": 0, "negated": 1, "reply_in_words": True, "topic": "sentence", "images": "mimic_cxr:p1/s1/a.jpg",
        "boxes": [box], "described": [box], "heatmaps": "Heatmaps", "n_rows_skipped": 0,
        "upsampling": "bilinear", "precision_ties": "included", **columns,
    }  # fmt: skip


def write_wrong_lung(
    folder: Path, config: str, rows: Sequence[Row], *, task: str = "", reply: str = "{}", **options: Any
) -> Path:
    """Write the sample log of one task, with the results file in the same folder.

    `reply` answers every question; `{id}` in it is replaced by the row's id. `options` may hold `n_rows_skipped`,
    `n_rows_left_out`, `upsampling`, `precision_ties` and the arguments of `write_samples`.
    """
    columns = {name: options.pop(name, 0) for name in ("n_rows_skipped", "n_rows_left_out")}
    columns |= {name: options.pop(name) for name in ("upsampling", "precision_ties") if name in options}
    row_field = "auroc" if config == "gold" else "delta_auroc"  # of the task's metrics: there a sample keeps its row
    samples = [
        {
            "doc": document(row, **columns),
            "filtered_resps": [reply.replace("{id}", row["id"])],
            "filter": "none",
            row_field: row,
        }
        for row in rows
    ]  # fmt: skip
    return write_samples(folder, task or TASK + config, samples, **options)
