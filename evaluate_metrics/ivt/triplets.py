"""Average precision of action triplets and of their parts (SurgXBench, appendix D.2), by the rules of ivtmetrics."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..reading.surgical_names import COMPONENTS, NULL_VERB, TARGETS, TRIPLET_INSTRUMENTS, TRIPLETS, VERBS

PARTS = ("i", "v", "t", "iv", "it", "ivt")


class PartAP(NamedTuple):
    """Average precision of the C classes of one part of the triplets in V videos; NaN where a class does not occur.

    class_ids: (C,) ids as the data sets number them: iv 10 I + V, it 15 I + T.
    per_video: (V, C). per_class: (C,), mean over the videos where the class occurs. mean: over the classes that occur.
    video_means: (V,), each video's mean over its classes.
    pooled_per_class (C,), pooled_mean: all videos' frames taken as one.
    """

    class_ids: np.ndarray
    per_video: np.ndarray
    per_class: np.ndarray
    mean: float
    video_means: np.ndarray
    pooled_per_class: np.ndarray
    pooled_mean: float


def triplet_ap(
    scores: np.ndarray | Sequence[Sequence[float]],
    gold: np.ndarray | Sequence[Sequence[int]],
    videos: Sequence[Hashable],
    *,
    components: np.ndarray = COMPONENTS,
    ignore_null: bool = False,
) -> dict[str, PartAP]:
    """Average precision of triplets and of their parts, by the rules of ivtmetrics (Nwoye and Padoy, 2022).

    The score of a part's class is the highest of the triplets that hold it, and it is there if one of them is. Classes
    that a video does not have are NaN and left out of means; AP is averaged over videos first, then over classes.

    Args:
        scores: (n, k) finite numbers, one row a frame, one column a triplet.
        gold: (n, k) 0 or 1.
        videos: n labels.
        components: (k, 3) ids of instrument, verb and target of each triplet; default: CholecT45's and CholecT50's 100.
        ignore_null: leave the triplets with null_verb out of "ivt" (of nothing else: so ivtmetrics does it).

    Returns:
        a `PartAP` for each of "i", "v", "t", "iv", "it" and "ivt"; its videos in order of first appearance.

    Raises:
        ValueError: another shape, a score that is not finite, a gold label that is neither 0 nor 1; it names the row.
    """
    components = np.asarray(components)
    scores, gold = checked_table(scores, "scores", len(components)), checked_table(gold, "gold", len(components))
    if not np.isin(gold, (0, 1)).all():
        row, column = np.argwhere(~np.isin(gold, (0, 1)))[0]
        raise ValueError(f"gold, row {row + 1}, triplet {column}: {gold[row, column]}; expected 0 or 1")
    for name, column in (("gold", gold), ("videos", videos)):
        if len(column) != len(scores):
            raise ValueError(f"{len(column)} {name} for {len(scores)} frames: give one for each")
    order = {video: number for number, video in enumerate(dict.fromkeys(videos))}
    video = np.array([order[one] for one in videos], dtype=int)
    result = {}
    for part, ids in _part_ids(components).items():
        kept = (components[:, 1] != NULL_VERB) if ignore_null and part == "ivt" else np.full(len(components), True)
        class_ids = np.unique(ids[kept])
        members = [np.flatnonzero(kept & (ids == one)) for one in class_ids]
        ours, true = (np.stack([table[:, m].max(axis=1) for m in members], axis=1) for table in (scores, gold))
        result[part] = _part_ap(class_ids, ours, true, [video == number for number in range(len(order))])
    return result


def _part_ap(class_ids: np.ndarray, scores: np.ndarray, gold: np.ndarray, videos: list[np.ndarray]) -> PartAP:
    """scores, gold: (n, C). videos: V masks of shape (n,)."""
    aps = [_column_aps(scores[frames], gold[frames]) for frames in videos]
    per_video = np.array(aps).reshape(len(videos), len(class_ids))
    per_class, pooled = _known_mean(per_video, 0), _column_aps(scores, gold)
    return PartAP(
        class_ids=class_ids,
        per_video=per_video,
        per_class=per_class,
        mean=float(_known_mean(per_class, 0)),
        video_means=_known_mean(per_video, 1),
        pooled_per_class=pooled,
        pooled_mean=float(_known_mean(pooled, 0)),
    )


def average_precision(scores: np.ndarray, gold: np.ndarray) -> float:
    """Average precision of n scores, as scikit-learn defines it: the sum of (R_j - R_{j-1}) P_j over the thresholds j.

    Equal scores share one threshold. NaN without a positive.

    >>> average_precision(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1, 1, 0, 0]))
    0.8333333333333333
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(gold[order])
    if not len(hits) or not hits[-1]:
        return float("nan")
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # of each run of equal scores
    return float(np.sum(np.diff(hits[last], prepend=0) * hits[last] / (last + 1)) / hits[-1])


def top_k(scores: np.ndarray | Sequence[Sequence[float]], k: int = 5) -> np.ndarray:
    """(n, k) ids of the k highest of each row's scores, best first; of equal scores the lower id comes first.

    5 for triplets (appendix C.1).

    >>> top_k([[0.1, 0.7, 0.7]], k=2).tolist()
    [[1, 2]]
    """
    table = checked_table(scores, "scores")
    if not 1 <= k <= table.shape[1]:
        raise ValueError(f"k {k}: expected 1 to {table.shape[1]}, the number of classes")
    return np.argsort(-table, axis=1, kind="stable")[:, :k]


def class_name(part: str, number: int) -> str:
    """The text of a class: class_name("iv", 12) is "bipolar,dissect"."""
    if part == "ivt":
        return TRIPLETS[number]
    second = VERBS if part == "iv" else TARGETS
    if part in {"iv", "it"}:
        return f"{TRIPLET_INSTRUMENTS[number // len(second)]},{second[number % len(second)]}"
    return {"i": TRIPLET_INSTRUMENTS, "v": VERBS, "t": TARGETS}[part][number]


def checked_table(values: Any, name: str, width: int | None = None) -> np.ndarray:
    """Finite numbers of shape (n, width); ValueError names the row that is none."""
    for row, one in enumerate(values):
        if width is not None and len(one) != width:
            raise ValueError(f"{name}, row {row + 1}: {len(one)} numbers; expected {width}, one a triplet")
    table = np.asarray(values, dtype=float)
    table = table if width is None else table.reshape(len(values), width)
    if table.ndim != 2:
        raise ValueError(f"{name}: shape {table.shape}; expected one row a frame, one column a class")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"{name}, row {row + 1}, triplet {column}: {table[row, column]}; expected a finite number")
    return table


def _part_ids(components: np.ndarray) -> dict[str, np.ndarray]:
    """(k,) class ids of each part of k triplets."""
    i, v, t = components.T
    parts = (i, v, t, len(VERBS) * i + v, len(TARGETS) * i + t, np.arange(len(components)))
    return dict(zip(PARTS, parts, strict=True))


def _column_aps(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    return np.array([average_precision(ours, true) for ours, true in zip(scores.T, gold.T, strict=True)])


def _known_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean without NaN; NaN where there is nothing else."""
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    return np.where(count, np.where(known, values, 0).sum(axis=axis) / np.maximum(count, 1), np.nan)
