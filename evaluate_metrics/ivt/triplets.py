"""Average precision of action triplets and of their parts (SurgXBench, appendix D.2), by the rules of ivtmetrics."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments.arrays import is_list, read_numbers
from ..arguments.kinds import COUNT, FLAG, LABELS, TEXT, numbers, one, one_of, optional, read_later, sequence, whole
from ..arguments.schema import check_arguments
from ..reading.surgical_names import COMPONENTS, NULL_VERB, TARGETS, TRIPLET_INSTRUMENTS, TRIPLETS, VERBS

PARTS = ("i", "v", "t", "iv", "it", "ivt")

_TABLE = sequence(read_later("scores"), is_column=True)
_COMPONENTS = one(
    "components",
    "an array of shape (k, 3) of whole numbers",
    lambda ids: type(ids) is np.ndarray and ids.ndim == 2 and ids.shape[1] == 3 and ids.dtype.kind in "iu",
)


class PartAP(NamedTuple):
    """Average precision of the C classes of one part of the triplets in V videos; NaN if a class does not occur.

    Attributes:
        class_ids: Shape (C,), ids in the numbering of the data sets: iv 10 I + V, it 15 I + T.
        per_video: Shape (V, C).
        per_class: Shape (C,), the mean over the videos with the class.
        mean: The mean over the classes that occur.
        video_means: Shape (V,), each video's mean over its classes.
        pooled_per_class: Shape (C,), over the frames of all videos.
        pooled_mean: The mean of pooled_per_class.
    """

    class_ids: np.ndarray
    per_video: np.ndarray
    per_class: np.ndarray
    mean: float
    video_means: np.ndarray
    pooled_per_class: np.ndarray
    pooled_mean: float


@check_arguments(
    like="scores",
    noun="frames",
    scores=_TABLE,
    gold=_TABLE,
    videos=LABELS,
    components=_COMPONENTS,
    ignore_null=FLAG,
)
def triplet_ap(
    scores: np.ndarray | Sequence[Sequence[float]],
    gold: np.ndarray | Sequence[Sequence[int]],
    videos: Sequence[Hashable],
    *,
    components: np.ndarray = COMPONENTS,
    ignore_null: bool = False,
) -> dict[str, PartAP]:
    """Compute the average precision of triplets and of their parts, by the rules of ivtmetrics (Nwoye and Padoy, 2022).

    The score of a part's class is the highest score of its triplets, and the class is present if one of its triplets
    is. Classes that a video does not have are NaN and left out of means; AP is averaged over videos first, then over
    classes.

    Args:
        scores: Shape (n, k), finite numbers, one row per frame, one column per triplet.
        gold: Shape (n, k), 0 or 1.
        videos: n labels.
        components: Shape (k, 3), ids of instrument, verb and target of each triplet; by default the 100 of CholecT45
            and CholecT50.
        ignore_null: Whether to leave the triplets with null_verb out of "ivt" (only there, like ivtmetrics).

    Returns:
        A `PartAP` for each of "i", "v", "t", "iv", "it" and "ivt"; its videos are in order of first appearance.

    Raises:
        ValueError: Another shape, a non-finite score, or a gold label other than 0 and 1. The message names the row.
    """
    scores, gold = require_table(scores, "scores", len(components)), require_table(gold, "gold", len(components))
    if not np.isin(gold, (0, 1)).all():
        row, column = np.argwhere(~np.isin(gold, (0, 1)))[0]
        raise ValueError(f"gold, row {row + 1}, triplet {column}: {gold[row, column]}; expected 0 or 1")
    video_numbers = {frame_videos: number for number, frame_videos in enumerate(dict.fromkeys(videos))}
    frame_videos = np.array([video_numbers[label] for label in videos], dtype=int)
    result = {}
    for component, part_ids in _build_part_ids(components).items():
        is_used = (
            (components[:, 1] != NULL_VERB) if ignore_null and component == "ivt" else np.full(len(components), True)
        )
        class_ids = np.unique(part_ids[is_used])
        members = [np.flatnonzero(is_used & (part_ids == label)) for label in class_ids]
        part_scores, part_gold = (
            np.stack([table[:, member_ids].max(axis=1) for member_ids in members], axis=1) for table in (scores, gold)
        )
        result[component] = _compute_part_ap(
            class_ids, part_scores, part_gold, [frame_videos == number for number in range(len(video_numbers))]
        )
    return result


def _compute_part_ap(class_ids: np.ndarray, scores: np.ndarray, gold: np.ndarray, videos: list[np.ndarray]) -> PartAP:
    """Compute the average precision of a part; scores, gold: (n, C); videos: V masks of shape (n,)."""
    aps = [_compute_column_aps(scores[frames], gold[frames]) for frames in videos]
    per_video = np.array(aps).reshape(len(videos), len(class_ids))
    per_class, pooled = _compute_known_mean(per_video, 0), _compute_column_aps(scores, gold)
    return PartAP(
        class_ids=class_ids,
        per_video=per_video,
        per_class=per_class,
        mean=float(_compute_known_mean(per_class, 0)),
        video_means=_compute_known_mean(per_video, 1),
        pooled_per_class=pooled,
        pooled_mean=float(_compute_known_mean(pooled, 0)),
    )


@check_arguments(
    scores=numbers("a finite number", np.isfinite),
    gold=numbers("1 or 0", lambda array: (array == 0) | (array == 1)),
)
def average_precision(scores: np.ndarray, gold: np.ndarray) -> float:
    """Compute the average precision of n scores like scikit-learn: the sum of (R_j - R_{j-1}) P_j over thresholds j.

    Equal scores share one threshold.

    Args:
        scores: Shape (n,).
        gold: Shape (n,), 0 or 1.

    Returns:
        The average precision; NaN without a positive.

    >>> average_precision(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1, 1, 0, 0]))
    0.8333333333333333
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(gold[order])
    if not len(hits) or not hits[-1]:
        return float("nan")
    last_ranks = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # last rank of each run of equal scores
    return float(np.sum(np.diff(hits[last_ranks], prepend=0) * hits[last_ranks] / (last_ranks + 1)) / hits[-1])


@check_arguments(scores=_TABLE, k=whole(0))
def top_k(scores: np.ndarray | Sequence[Sequence[float]], k: int = 5) -> np.ndarray:
    """Find the ids of the k highest scores of each row, best first; of equal scores the lower id comes first.

    Args:
        scores: Shape (n, C).
        k: Number of ids; 5 for triplets (appendix C.1).

    Returns:
        Shape (n, k).

    Raises:
        ValueError: k is out of range, or an invalid table.

    >>> top_k([[0.1, 0.7, 0.7]], k=2).tolist()
    [[1, 2]]
    """
    table = require_table(scores, "scores")
    if not 1 <= k <= table.shape[1]:
        raise ValueError(f"k {k}: expected 1 to {table.shape[1]}, the number of classes")
    return np.argsort(-table, axis=1, kind="stable")[:, :k]


@check_arguments(component=one_of(PARTS), number=whole(0))
def class_name(component: str, number: int) -> str:
    """Build the text of a class; for example, class 12 of "iv" is "bipolar,dissect".

    Args:
        component: One of PARTS.
        number: The class id.

    Returns:
        The text.
    """
    if component == "ivt":
        return TRIPLETS[number]
    second_names = VERBS if component == "iv" else TARGETS
    if component in {"iv", "it"}:
        return f"{TRIPLET_INSTRUMENTS[number // len(second_names)]},{second_names[number % len(second_names)]}"
    return {"i": TRIPLET_INSTRUMENTS, "v": VERBS, "t": TARGETS}[component][number]


@check_arguments(values=_TABLE, name=TEXT, width=optional(COUNT))
def require_table(values: Any, name: str, width: int | None = None) -> np.ndarray:
    """Require finite numbers of shape (n, width).

    Args:
        values: n rows of numbers.
        name: Name of the table, for errors.
        width: Required number of columns; None for any.

    Returns:
        The table.

    Raises:
        ValueError: A row of another width or a non-finite number. The message names the row.
    """
    for row, entries in enumerate(values):
        if width is not None and (not is_list(entries) or len(entries) != width):
            count = len(entries) if is_list(entries) else 0
            raise ValueError(f"{name}, row {row + 1}: {count} numbers; expected {width}, one a triplet")
    table = read_numbers(values, name).astype(np.float64)
    table = table if width is None else table.reshape(len(values), width)
    if table.ndim != 2:
        raise ValueError(f"{name}: shape {table.shape}; expected one row a frame, one column a class")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"{name}, row {row + 1}, triplet {column}: {table[row, column]}; expected a finite number")
    return table


def _build_part_ids(components: np.ndarray) -> dict[str, np.ndarray]:
    """Build the class ids, shape (k,), of each part of k triplets."""
    i, v, t = components.T
    compute_component_ids = (i, v, t, len(VERBS) * i + v, len(TARGETS) * i + t, np.arange(len(components)))
    return dict(zip(PARTS, compute_component_ids, strict=True))


def _compute_column_aps(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return np.array(
        [average_precision(class_scores, class_gold) for class_scores, class_gold in zip(scores.T, gold.T, strict=True)]
    )


def _compute_known_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Compute the mean without NaN; NaN if all numbers are NaN."""
    is_known = ~np.isnan(values)
    count = is_known.sum(axis=axis)
    return np.where(count, np.where(is_known, values, 0).sum(axis=axis) / np.maximum(count, 1), np.nan)
