"""Sample logs of option scores, and state files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.support.reporting.report_logs import question, write_samples

TASK = "medfaith_contrabench_option_scores::chexpert_presence"
# Scores of "Edema", "No edema", "Fracture", "A.", "B. No", "A. Edema", "B. No edema": by row, in nats.
SCORES = [
    [-5.0, -1.0, -9.0, -1.0, -2.0, -3.0, -4.5],  # safe, gap 4, difference -0.5
    [-5.0, -4.0, -9.0, -1.0, -2.0, -3.0, -3.0],  # safe, gap 1, difference 1
    [-2.0, -4.0, -9.0, -1.0, -2.0, -3.0, -4.0],  # control, gap -2, difference 0
    [-2.0, -4.0, -1.0, -1.0, -2.0, -3.0, -4.0],  # a distractor wins: neither
]


def write_scores(folder: Path, scores: list[list[float]], *, task: str = TASK, **log_options: Any) -> Path:
    """Write the log of one option-score task with two questions per study."""
    columns = log_options.pop("columns", {})
    docs = [question("chexpert_presence", i, study_id=f"s{i // 2}", **columns) for i in range(len(scores))]
    samples = [
        {"doc": doc, "filter": "none", "filtered_resps": [[str(score), "False"] for score in row_scores]}
        for doc, row_scores in zip(docs, scores, strict=True)
    ]
    return write_samples(folder, task, samples, **log_options)


def write_states(path: Path, scores: list[list[float]], *, task: str = TASK, **changes: Any) -> np.ndarray:
    """Write random states for every continuation, as medfaith-hf-vlm does; return them, shape (n, 7, 4)."""
    state = np.random.default_rng(0).normal(size=(len(scores), 7, 4)).astype(np.float32)
    ids = [question("chexpert_presence", i)["id"] for i in range(len(scores))]
    arrays = {
        "task": np.array([task] * 7 * len(ids)),
        "id": np.repeat(ids, 7),
        "option": np.tile(np.arange(7), len(ids)),
        "state": state.reshape(-1, 4),
    }
    order = np.random.default_rng(1).permutation(len(arrays["id"]))
    arrays = {name: array[order] for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: array for name, array in (arrays | changes).items() if array is not None})
    return state
