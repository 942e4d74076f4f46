"""Standard metrics of SurgXBench (appendix D): instruments and triplets. AP itself is in `triplets`."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..confidence.score import bootstrap_mean
from ..reading.outcome import ANSWERED, DECLINED, UNREAD
from ..reading.surgery import read_instruments, read_reply
from ..reading.surgical_names import INSTRUMENTS, TRIPLETS
from .triplets import average_precision, checked_table, class_name, top_k, triplet_ap

__all__ = [
    "average_precision",
    "instrument_scores",
    "score_instruments",
    "score_triplets",
    "top_k",
    "triplet_ap",
    "triplet_coverage",
]


def instrument_scores(
    predicted: Sequence[Collection[str] | None],
    gold: Sequence[Collection[str]],
    classes: Sequence[str] = INSTRUMENTS,
    *,
    outcomes: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, Any]:
    """Precision TP / (TP + FP), recall TP / (TP + FN) and their F1, pooled over frames and classes (appendix D.1).

    Args:
        predicted: n sets of classes, one a frame; None for an answer that is unread or declined and predicts nothing.
        gold: n sets of the classes that are there.
        classes: the classes that may occur.
        outcomes: n outcomes of reading, which tell the declined answers from the unread ones; default: None is unread.
        groups: n labels, the videos that the intervals draw; default: every frame by itself.
        bootstrap: further arguments of `confidence.bootstrap_mean`.

    Returns:
        precision, recall and f1, each with _ci_low and _ci_high; macro_precision, macro_recall and macro_f1, means over
        the n_classes_... classes where they are defined; per_class, the first three with their counts for each class;
        and the counts n_.... Undefined scores are NaN.

    Raises:
        ValueError: lengths differ, or a class that is none of the classes; it names the frame's row.

    >>> scores = instrument_scores([{"hook"}, {"hook", "grasper"}, None], [{"hook"}, {"hook"}, {"grasper"}])
    >>> round(scores["precision"], 3), round(scores["recall"], 3), scores["n_unparsed"]
    (0.667, 0.667, 1)
    """
    _check_lengths(len(gold), predicted=predicted, outcomes=outcomes, groups=groups)
    n_declined = sum(outcome == DECLINED for outcome in outcomes or ())
    said = _indicators("predicted", [names or () for names in predicted], classes)
    true = _indicators("gold", gold, classes)
    labels = np.arange(len(gold)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    per_class = {
        name: _rates(said[:, [column]], true[:, [column]], labels, bootstrap) for column, name in enumerate(classes)
    }
    scores: dict[str, Any] = _rates(said, true, labels, bootstrap)
    for rate in ("precision", "recall", "f1"):
        known = [one[rate] for one in per_class.values() if not np.isnan(one[rate])]
        scores[f"macro_{rate}"] = float(np.mean(known)) if known else float("nan")
        scores[f"n_classes_{rate}"] = len(known)
    return {
        **scores,
        "n": len(gold),
        "n_unparsed": sum(names is None for names in predicted) - n_declined,
        "n_declined": n_declined,
        "n_empty_predictions": int(np.sum(~said.any(axis=1))),
        "n_empty_references": int(np.sum(~true.any(axis=1))),
        "per_class": per_class,
    }


def triplet_coverage(
    predicted: Sequence[Collection] | np.ndarray,
    gold: Sequence[Collection],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Share of the gold triplets that their frame's predictions hold.

    Args:
        predicted: n collections of triplets, as `top_k` gives, or as `surgery.read_triplets` does.
        gold: n collections, of ids or texts as in predicted.
        groups, bootstrap: as for `instrument_scores`.

    Returns:
        coverage, in [0, 1], NaN without a gold triplet, with _ci_low and _ci_high, n_gold_triplets and n_covered.

    >>> triplet_coverage([[17, 60], [19]], [[17], [19, 94]])["n_covered"]
    2
    """
    _check_lengths(len(gold), predicted=predicted, groups=groups)
    wanted = np.array([len(set(names)) for names in gold], dtype=int)
    covered = np.array([len(set(ours) & set(names)) for ours, names in zip(predicted, gold, strict=True)], dtype=int)
    labels = np.arange(len(gold)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    return {
        **_share("coverage", covered, wanted - covered, labels, bootstrap),
        "n_gold_triplets": int(wanted.sum()),
        "n_covered": int(covered.sum()),
    }


def score_instruments(
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    classes: Sequence[str] = INSTRUMENTS,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Read the answers to "What surgical tools do you see?" and score them.

    Args:
        predictions: n answers: text, or the JSON object of `surgery.read_reply`, whose predicted classes count.
        references: n dicts of classes (those that the frame has) and video.
        classes: the classes that may occur; instruments that a text names besides are left out and counted.
        n_resamples, seed, confidence_level: of the bootstrap intervals, which draw whole videos.
        per_sample: whether to return each answer's reading as well.

    Returns:
        the keys of `instrument_scores`, n_answered_none (texts that say that there is no tool, or only deny) and
        n_outside_classes; on request per_sample: n dicts of predicted (sorted; None: unread or declined) and outcome
        ("answered", "declined", "unread", or "given" where the model gave classes).

    Raises:
        ValueError: as `instrument_scores`.
    """
    _check_lengths(len(references), predictions=predictions)
    read = [_read(text) for text in predictions]
    outside = [() if outcome == "given" else set(names) - set(classes) for names, outcome in read]
    predicted = [
        None if outcome in (UNREAD, DECLINED) else sorted(set(names) - set(out))
        for (names, outcome), out in zip(read, outside, strict=True)
    ]
    scores = instrument_scores(
        predicted,
        [reference["classes"] for reference in references],
        classes,
        outcomes=[outcome for _, outcome in read],
        groups=[reference["video"] for reference in references],
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )
    scores["n_answered_none"] = sum(outcome == ANSWERED and not names for names, outcome in read)
    scores["n_outside_classes"] = sum(map(len, outside))
    if per_sample:
        scores["per_sample"] = [
            {"predicted": names, "outcome": outcome} for names, (_, outcome) in zip(predicted, read, strict=True)
        ]
    return scores


def score_triplets(
    predictions: Sequence[Sequence[float]],
    references: Sequence[Mapping[str, Any]],
    *,
    k: int = 5,
    ignore_null: bool = False,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Score 100 numbers a frame against its triplets.

    Args:
        predictions: n lists of 100 scores, in the order of the ids.
        references: n dicts of triplets (texts as "grasper,retract,gallbladder", none for a frame without) and video.
        k: how many of the highest scores the coverage takes.
        ignore_null: as for `triplet_ap`.
        n_resamples, seed, confidence_level: of the interval of the coverage, which draws whole videos.
        per_sample: whether to return each frame's k best triplets as well.

    Returns:
        for each part ap_<part> (the mean over classes of the means over videos), ap_<part>_pooled and
        n_classes_<part>, the classes that occur; the keys of `triplet_coverage`; per_video, {video: {ap_<part>}};
        per_class, {part: {class: AP}}, NaN for those that do not occur; n and n_videos. On request per_sample: n dicts
        of top_k (texts, best first) and covered (the gold triplets among them, sorted).

    Raises:
        ValueError: as `triplet_ap`, or a triplet that is none of the 100; it names the row.
    """
    table = checked_table(predictions, "predictions", len(TRIPLETS))
    _check_lengths(len(references), predictions=predictions)
    gold = _indicators("references", [reference["triplets"] for reference in references], TRIPLETS)
    videos = [reference["video"] for reference in references]
    best = top_k(table, k)
    result: dict[str, Any] = {"n": len(table), "n_videos": len(set(videos))}
    per_video: dict[Any, dict[str, float]] = {video: {} for video in dict.fromkeys(videos)}
    per_class: dict[str, dict[str, float]] = {}
    for part, ap in triplet_ap(table, gold, videos, ignore_null=ignore_null).items():
        result[f"ap_{part}"], result[f"ap_{part}_pooled"] = ap.mean, ap.pooled_mean
        result[f"n_classes_{part}"] = int(np.sum(~np.isnan(ap.per_class)))
        for video, mean in zip(per_video, ap.video_means, strict=True):
            per_video[video][f"ap_{part}"] = float(mean)
        per_class[part] = {class_name(part, one): float(v) for one, v in zip(ap.class_ids, ap.per_class, strict=True)}
    how = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    true = [np.flatnonzero(row) for row in gold]
    result |= {**triplet_coverage(best, true, groups=videos, **how), "per_video": per_video, "per_class": per_class}
    if per_sample:
        result["per_sample"] = [
            {"top_k": [TRIPLETS[one] for one in ours], "covered": [TRIPLETS[one] for one in names if one in ours]}
            for ours, names in zip(best, true, strict=True)
        ]
    return result


def _read(text: str | None) -> tuple[tuple[str, ...], str]:
    reply = read_reply(text)
    if reply.unparsed:
        return (), UNREAD
    if reply.predicted is not None:
        return reply.predicted, "given"
    reading = read_instruments(reply.text)
    return reading.names, reading.outcome


def _rates(said: np.ndarray, true: np.ndarray, labels: np.ndarray, bootstrap: Mapping[str, Any]) -> dict[str, Any]:
    """Rates and counts of (n, C) predictions. F1 = 2 TP / (2 TP + FP + FN) is a share too: one bootstrap serves all."""
    hit, false, missed = (np.sum(pairs, axis=1) for pairs in (said & true, said & ~true, ~said & true))
    return {
        **_share("precision", hit, false, labels, bootstrap),
        **_share("recall", hit, missed, labels, bootstrap),
        **_share("f1", 2 * hit, false + missed, labels, bootstrap),
        "n_true_positives": int(hit.sum()),
        "n_false_positives": int(false.sum()),
        "n_false_negatives": int(missed.sum()),
    }


def _share(
    name: str, ones: np.ndarray, zeros: np.ndarray, labels: np.ndarray, bootstrap: Mapping[str, Any]
) -> dict[str, float]:
    """The share of ones among ones and zeros, counts of shape (n,), and the interval from drawing whole groups."""
    interval = bootstrap_mean(
        np.repeat([1.0, 0.0], [int(ones.sum()), int(zeros.sum())]),
        groups=np.concatenate([np.repeat(labels, ones), np.repeat(labels, zeros)]),
        bounds=(0, 1),
        **bootstrap,
    )
    return {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}


def _indicators(name: str, sets: Sequence[Collection[str]], classes: Sequence[str]) -> np.ndarray:
    """(n, C) bool: which classes each set has."""
    column = {one: number for number, one in enumerate(classes)}
    table = np.zeros((len(sets), len(classes)), dtype=bool)
    for row, names in enumerate(sets):
        for one in names:
            if one not in column:
                raise ValueError(f"{name}, row {row + 1}: {one!r}; expected one of the {len(classes)} classes")
            table[row, column[one]] = True
    return table


def _check_lengths(n: int, **columns: Sequence[Any] | np.ndarray | None) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != n:
            raise ValueError(f"{len(column)} {name} for {n} frames: give one for each")
