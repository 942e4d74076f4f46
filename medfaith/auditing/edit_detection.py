"""Detection of edited images: how well a small classifier tells them from plain ones, on the rows of an audit.

An answer may follow the traces of an edit and not the loss of the region. The artefact floor says what that costs. The
area under the ROC curve (AUROC) of the classifier says how plain the traces are: 0.5 means that it sees none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage
from scipy.special import expit, logit

from medfaith.evaluate_metrics.confidence.proportion import (
    compute_bounded_interval,
    compute_few_groups_interval,
    compute_mean,
    quantise,
)
from medfaith.loaders import json_text
from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.progress import Progress
from medfaith.tasks.controls import EDITS, ELSEWHERE, UnsupportedControlError
from medfaith.tasks.run import load_tasks

from .plan import Task

N_ROWS = 500  # rows of a benchmark that are opened; more would hardly narrow the interval
FEWEST_ROWS = 50  # with fewer rows the classifier finds nothing, whatever there is
FOLDS, COMPONENTS = 5, 60
CONFIDENCE = 0.95
_INTERVAL = "logit"  # saved with each result: one with other bounds is measured again
_SIDE, _CELLS, _SIZE = 32, 16, 224  # pixels of the thumbnail, cells along a side, pixels of the image they measure


class Detection(NamedTuple):
    """How well edited images are told from plain ones.

    Attributes:
        n: Number of rows, each with its plain and its edited image.
        auroc: Area under the ROC curve, of images that the classifier was not trained on; NaN with too few rows.
        low: Lower bound of its 95% interval (`compute_auroc_interval`).
        high: Upper bound.
    """

    n: int
    auroc: float
    low: float
    high: float


def compute_features(image: Image.Image) -> np.ndarray:
    """Compute a thumbnail, and the mean strength of edges and of fine grain in each cell of a grid.

    Args:
        image: The image, of any size and mode.

    Returns:
        Shape (1536,): 32 x 32 grey levels, then 16 x 16 edges and 16 x 16 grains.
    """
    grey = image.convert("L")
    pixels = np.asarray(grey.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR), float)
    edges = np.hypot(ndimage.sobel(pixels, 0), ndimage.sobel(pixels, 1))
    grain = np.abs(pixels - ndimage.gaussian_filter(pixels, 1))
    shape = (_CELLS, _SIZE // _CELLS, _CELLS, _SIZE // _CELLS)
    cells = [channel.reshape(shape).mean((1, 3)).ravel() for channel in (edges, grain)]
    return np.concatenate([np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.BOX), float).ravel(), *cells])


def compute_auroc_interval(plain: np.ndarray, edited: np.ndarray, images: np.ndarray) -> tuple[float, float, float]:
    """Compute the AUROC of scores of plain and edited images, and its 95% interval.

    The variance is Obuchowski's (Biometrics 53, 1997), which extends DeLong's to clusters: the plain and the edited
    image of all rows of an image are one cluster. The interval is Student's on the scale of the logit. In simulations
    with 5 to 60 images (`benchmarks/auroc_coverage.py`) it holds the truth in 92 to 100%, percentiles of resampled
    images in 32 to 96%. Scores without any overlap get Wilson's interval.

    It takes the trained classifiers as given. But each image also trains those of the other folds, so that real scores
    depend on each other: with simulated features of up to 60 images the interval holds the AUROC that the same
    classifiers reach on new images in 86 to 98%.

    Args:
        plain: Scores of the plain images, shape (n,).
        edited: Scores of the edited images of the same rows, shape (n,).
        images: Image of each row, shape (n,).

    Returns:
        AUROC, low and high.
    """
    # Each row's share of the rows of the other kind that it is on the right side of. A tie counts as half.
    is_right_side = (np.sign(edited[:, None] - plain) + 1) / 2
    auroc = compute_mean(is_right_side.ravel())
    influences = quantise(is_right_side.mean(1) + is_right_side.mean(0) - auroc)  # their mean is the AUROC
    if influences.min() == influences.max():
        low, high = compute_bounded_interval(influences, images, (0, 1), CONFIDENCE)
    else:
        low, high = compute_few_groups_interval(influences, images, None, CONFIDENCE)
        half_width = (high - low) / 2 / (auroc * (1 - auroc))  # by the derivative of the logit
        low, high = (float(expit(logit(auroc) + sign * half_width)) for sign in (-1, 1))
    return auroc, low, high


def measure_detection(plain: np.ndarray, edited: np.ndarray, images: Sequence[str]) -> Detection:
    """Measure how well a logistic regression tells edited images from plain ones.

    Args:
        plain: Features of the plain images, shape (n, features).
        edited: Features of the edited images of the same rows, shape (n, features).
        images: Image of each row. Folds take all rows of an image together. They number the images in the order of
            their names, so other names give another result.

    Returns:
        The cross-validated AUROC, with its interval.
    """
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    n, labels = len(plain), np.unique(np.asarray(images), return_inverse=True)[1]
    n_images = labels.max(initial=-1) + 1
    if n < FEWEST_ROWS or n_images < FOLDS:
        return Detection(n, np.nan, np.nan, np.nan)
    values, is_edited, groups = np.concatenate([plain, edited]), np.repeat([0, 1], n), np.tile(labels, 2)
    scores = np.zeros(2 * n)
    classifier = LogisticRegression(C=0.1, max_iter=2000)
    model = make_pipeline(StandardScaler(), PCA(COMPONENTS, random_state=0), classifier)
    with threadpool_limits(1):  # matrices are small: several threads take six times the CPU time
        for train, test in GroupKFold(FOLDS).split(values, is_edited, groups):
            scores[test] = model.fit(values[train], is_edited[train]).decision_function(values[test])
    return Detection(n, *compute_auroc_interval(scores[:n], scores[n:], labels))


def detect_edits(
    tasks: Sequence[Task], controls: Sequence[str], task_metadata: Mapping[str, Any], out: Path
) -> dict[str, dict[str, Detection]]:
    """Measure the detection of each kind of edit on the rows of each benchmark; opens their images.

    Args:
        tasks: Tasks and rows of the audit.
        controls: Controls of the audit. Edits of the full region are measured.
        task_metadata: Metadata of the tasks, with the file of rows (`run.begin`).
        out: Folder of the audit. Each result is saved in it and is read again when the audit is resumed.

    Returns:
        Benchmark -> control -> detection; a benchmark without such controls is missing.

    Raises:
        InputError: See `tasks.rows.load`.
    """
    edits = [name for kind in EDITS for name in (kind, kind + ELSEWHERE) if name in controls]
    by_benchmark: dict[str, dict[str, Detection]] = {}
    for benchmark in dict.fromkeys(task.benchmark for task in tasks):
        of_benchmark = [task for task in tasks if task.benchmark == benchmark]
        path = _name_file(out, benchmark)
        key = {"interval": _INTERVAL, "rows": [task.digest for task in of_benchmark], "controls": edits}
        if (saved := _read_saved(path, key)) is None:
            saved = _measure_benchmark(of_benchmark, edits, task_metadata)
            content = key | {"detection": {control: detection._asdict() for control, detection in saved.items()}}
            with atomic_file(path) as partial:
                partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        if saved:
            by_benchmark[benchmark] = saved
    return by_benchmark


def read_detections(tasks: Sequence[Task], out: Path) -> dict[str, dict[str, Detection]]:
    """Read the results of `detect_edits` that an earlier run saved.

    Args:
        tasks: Tasks and rows of the earlier run.
        out: Folder of the audit.

    Returns:
        Benchmark -> control -> detection, of the benchmarks that have a result for these rows.
    """
    by_benchmark = {}
    for benchmark in dict.fromkeys(task.benchmark for task in tasks):
        key = {"interval": _INTERVAL, "rows": [task.digest for task in tasks if task.benchmark == benchmark]}
        if saved := _read_saved(_name_file(out, benchmark), key):
            by_benchmark[benchmark] = saved
    return by_benchmark


def _name_file(out: Path, benchmark: str) -> Path:
    return out / f"audit_{benchmark.replace('-', '_')}_detection.json"


def _read_saved(path: Path, key: Mapping[str, Any]) -> dict[str, Detection] | None:
    """Read the detection of each control from a file that `detect_edits` saved for one benchmark.

    Args:
        path: The file.
        key: Values that the file must have, such as the digests of the rows and the controls.

    Returns:
        Control -> detection; None if the file is missing or damaged, or has other values than `key`.
    """
    try:
        content = json_text.parse(path.read_text(encoding="utf-8"))
        if {name: content[name] for name in key} != key:
            return None
        return {control: Detection(**detection) for control, detection in content["detection"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _measure_benchmark(
    tasks: Sequence[Task], edits: Sequence[str], task_metadata: Mapping[str, Any]
) -> dict[str, Detection]:
    ids = sorted(
        ((task.name, row_id) for task in tasks for row_id in task.ids),
        key=lambda row: hashlib.blake2b("\n".join(row).encode()).digest(),
    )
    chosen = {task.name: {row_id for name, row_id in ids[:N_ROWS] if name == task.name} for task in tasks}
    plain: dict[tuple[str, str], tuple[str, np.ndarray]] = {}
    result: dict[str, Detection] = {}
    for control in [None, *edits]:
        opened = {
            (task.name, row_id): (image_id, features)
            for task in tasks
            for row_id, image_id, features in _iterate_features(task, chosen[task.name], control, task_metadata)
        }
        if control is None:
            plain = opened
        elif opened:
            rows = sorted({*opened} & {*plain})
            before, after = (np.stack([images[row][1] for row in rows]) for images in (plain, opened))
            result[control] = measure_detection(before, after, [plain[row][0] for row in rows])
    return result


def _iterate_features(
    task: Task, chosen: set[str], control: str | None, task_metadata: Mapping[str, Any]
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Iterate over id, image and features of the chosen rows; no row if the task does not support the control."""
    metadata = dict(task_metadata) | ({"control": control} if control else {})
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the run has said which rows are left out
            rows = load_tasks(task.name, metadata)["tasks"][task.name].dataset["test"]
    except UnsupportedControlError:
        return
    positions = [position for position, row_id in enumerate(rows.with_format(None)["id"]) if row_id in chosen]
    for position in Progress(positions, title=f"looking for traces of edits: {control or 'the image'}", unit="images"):
        doc = rows[position]
        yield doc["id"], str(doc.get("image_id") or doc["images"]), compute_features(doc["images"][0])
