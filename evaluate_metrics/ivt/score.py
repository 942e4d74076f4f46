"""Standard metrics of SurgXBench (appendix D): instruments and triplets. `triplets` computes AP."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.arrays import is_list, read_numbers
from ..arguments.kinds import (
    COUNT,
    FLAG,
    LABEL,
    LABELS,
    LEVEL,
    SEED,
    TEXT,
    TEXTS,
    one,
    optional,
    read_later,
    rows_of,
    sequence,
    texts,
)
from ..arguments.schema import check_arguments
from ..confidence.score import bootstrap_mean
from ..reading.outcome import ANSWERED, DECLINED, UNREAD
from ..reading.surgery import read_instruments, read_reply
from ..reading.surgical_names import INSTRUMENTS, TRIPLETS
from .triplets import average_precision, class_name, require_table, top_k, triplet_ap

__all__ = [
    "average_precision",
    "instrument_scores",
    "score_instruments",
    "score_triplets",
    "top_k",
    "triplet_ap",
    "triplet_coverage",
]

_BOOTSTRAP = {"n_resamples": COUNT, "seed": SEED, "confidence_level": LEVEL}
_SET = texts("a list or set of texts")
_IDS = one("ids", "a list or set of triplets", lambda ids: is_list(ids) or isinstance(ids, set | frozenset))


@check_arguments(
    like="gold",
    noun="frames",
    predicted=sequence(optional(_SET), is_column=True),
    gold=sequence(_SET),
    classes=TEXTS,
    outcomes=optional(sequence(TEXT, is_column=True)),
    groups=optional(LABELS),
)
def instrument_scores(
    predicted: Sequence[Collection[str] | None],
    gold: Sequence[Collection[str]],
    classes: Sequence[str] = INSTRUMENTS,
    *,
    outcomes: Sequence[str] | None = None,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, Any]:
    """Compute precision TP / (TP + FP), recall TP / (TP + FN) and F1 over frames and classes (appendix D.1).

    Args:
        predicted: n sets of classes, one per frame; None for an unread or declined answer, which predicts nothing.
        gold: n sets of the true classes.
        classes: The possible classes.
        outcomes: n outcomes of reading, which separate declined from unread answers; by default None is unread.
        groups: n labels, the videos that the intervals draw; by default each frame is a group.
        bootstrap: Further arguments of `confidence.bootstrap_mean`.

    Returns:
        precision, recall and f1, each with _ci_low and _ci_high; macro_precision, macro_recall and macro_f1, means over
        the n_classes_... classes with a defined score; per_class, the first three with their counts for each class; and
        the counts n_.... Undefined scores are NaN.

    Raises:
        ValueError: Different lengths, or an unknown class. The message names the frame's row.

    >>> scores = instrument_scores([{"hook"}, {"hook", "grasper"}, None], [{"hook"}, {"hook"}, {"grasper"}])
    >>> round(scores["precision"], 3), round(scores["recall"], 3), scores["n_unparsed"]
    (0.667, 0.667, 1)
    """
    n_declined = sum(outcome == DECLINED for outcome in outcomes or ())
    is_predicted = _build_indicators("predicted", [names or () for names in predicted], classes)
    is_true = _build_indicators("gold", gold, classes)
    labels = np.arange(len(gold)) if groups is None else np.asarray(groups)
    per_class = {
        name: _compute_rates(is_predicted[:, [column]], is_true[:, [column]], labels, bootstrap)
        for column, name in enumerate(classes)
    }
    scores: dict[str, Any] = _compute_rates(is_predicted, is_true, labels, bootstrap)
    for rate in ("precision", "recall", "f1"):
        known_rates = [class_scores[rate] for class_scores in per_class.values() if not np.isnan(class_scores[rate])]
        scores[f"macro_{rate}"] = float(np.mean(known_rates)) if known_rates else float("nan")
        scores[f"n_classes_{rate}"] = len(known_rates)
    return {
        **scores,
        "n": len(gold),
        "n_unparsed": sum(names is None for names in predicted) - n_declined,
        "n_declined": n_declined,
        "n_empty_predictions": int(np.sum(~is_predicted.any(axis=1))),
        "n_empty_references": int(np.sum(~is_true.any(axis=1))),
        "per_class": per_class,
    }


@check_arguments(
    like="gold",
    noun="frames",
    predicted=sequence(_IDS, is_column=True),
    gold=sequence(_IDS),
    groups=optional(LABELS),
)
def triplet_coverage(
    predicted: Sequence[Collection] | np.ndarray,
    gold: Sequence[Collection],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Compute the share of the gold triplets among their frame's predictions.

    Args:
        predicted: n collections of triplets, as `top_k` or `surgery.read_triplets` return them.
        gold: n collections, of ids or texts like predicted.
        groups: See `instrument_scores`.
        bootstrap: See `instrument_scores`.

    Returns:
        coverage, in [0, 1], NaN without a gold triplet, with _ci_low and _ci_high, n_gold_triplets and n_covered.

    >>> triplet_coverage([[17, 60], [19]], [[17], [19, 94]])["n_covered"]
    2
    """
    n_gold = np.array([len(set(names)) for names in gold], dtype=int)
    n_covered = np.array(
        [len(set(predicted_names) & set(names)) for predicted_names, names in zip(predicted, gold, strict=True)],
        dtype=int,
    )
    labels = np.arange(len(gold)) if groups is None else np.asarray(groups)
    return {
        **_compute_share("coverage", n_covered, n_gold - n_covered, labels, bootstrap),
        "n_gold_triplets": int(n_gold.sum()),
        "n_covered": int(n_covered.sum()),
    }


@check_arguments(
    like="references",
    noun="frames",
    predictions=sequence(optional(TEXT), is_column=True),
    references=rows_of({"classes": _SET, "video": LABEL}),
    classes=TEXTS,
    **_BOOTSTRAP,
    per_sample=FLAG,
)
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
        references: n dicts of classes (the true ones) and video.
        classes: The possible classes; other instruments in a text are left out and counted.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        per_sample: Whether to return each answer's reading as well.

    Returns:
        The keys of `instrument_scores`, n_answered_none (texts that deny every tool) and n_outside_classes; on request
        per_sample: n dicts of predicted (sorted; None: unread or declined) and outcome ("answered", "declined",
        "unread", or "given" if the model gave classes).

    Raises:
        ValueError: See `instrument_scores`.
    """
    readings = [_read_answer(text) for text in predictions]
    outside_classes = [() if outcome == "given" else set(names) - set(classes) for names, outcome in readings]
    predicted = [
        None if outcome in (UNREAD, DECLINED) else sorted(set(names) - set(outside_names))
        for (names, outcome), outside_names in zip(readings, outside_classes, strict=True)
    ]
    scores = instrument_scores(
        predicted,
        [reference["classes"] for reference in references],
        classes,
        outcomes=[outcome for _, outcome in readings],
        groups=[reference["video"] for reference in references],
        n_resamples=n_resamples,
        seed=seed,
        confidence_level=confidence_level,
    )
    scores["n_answered_none"] = sum(outcome == ANSWERED and not names for names, outcome in readings)
    scores["n_outside_classes"] = sum(map(len, outside_classes))
    if per_sample:
        scores["per_sample"] = [
            {"predicted": names, "outcome": outcome} for names, (_, outcome) in zip(predicted, readings, strict=True)
        ]
    return scores


@check_arguments(
    like="references",
    noun="frames",
    predictions=sequence(
        read_later("scores", lambda value, place: read_numbers(value, place.removesuffix(": "))), is_column=True
    ),
    references=rows_of({"triplets": _SET, "video": LABEL}),
    k=COUNT,
    ignore_null=FLAG,
    **_BOOTSTRAP,
    per_sample=FLAG,
)
def score_triplets(  # noqa: PLR0913 (options of the metric)
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
    """Score 100 numbers per frame against its triplets.

    Args:
        predictions: n lists of 100 scores, in the order of the ids.
        references: n dicts of triplets (texts like "grasper,retract,gallbladder", empty for a frame without any) and
            video.
        k: Number of the highest scores that the coverage uses.
        ignore_null: See `triplet_ap`.
        n_resamples: Number of bootstrap resamples; they draw whole videos.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        per_sample: Whether to return each frame's k best triplets as well.

    Returns:
        For each part ap_<part> (the mean over classes of the means over videos), ap_<part>_pooled and n_classes_<part>,
        the classes that occur; the keys of `triplet_coverage`; per_video, {video: {ap_<part>}}; per_class, {part:
        {class: AP}}, NaN for classes that do not occur; n and n_videos. On request per_sample: n dicts of top_k (texts,
        best first) and covered (the gold triplets among them, sorted).

    Raises:
        ValueError: See `triplet_ap`, or an unknown triplet. The message names the row.
    """
    table = require_table(predictions, "predictions", len(TRIPLETS))
    gold = _build_indicators("references", [reference["triplets"] for reference in references], TRIPLETS)
    videos = [reference["video"] for reference in references]
    best_ids = top_k(table, k)
    result: dict[str, Any] = {"n": len(table), "n_videos": len(set(videos))}
    per_video: dict[Any, dict[str, float]] = {video: {} for video in dict.fromkeys(videos)}
    per_class: dict[str, dict[str, float]] = {}
    for component, ap in triplet_ap(table, gold, videos, ignore_null=ignore_null).items():
        result[f"ap_{component}"], result[f"ap_{component}_pooled"] = ap.mean, ap.pooled_mean
        result[f"n_classes_{component}"] = int(np.sum(~np.isnan(ap.per_class)))
        for video, mean in zip(per_video, ap.video_means, strict=True):
            per_video[video][f"ap_{component}"] = float(mean)
        per_class[component] = {
            class_name(component, class_id): float(class_ap)
            for class_id, class_ap in zip(ap.class_ids, ap.per_class, strict=True)
        }
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    true_ids = [np.flatnonzero(row) for row in gold]
    result |= {
        **triplet_coverage(best_ids, true_ids, groups=videos, **options),
        "per_video": per_video,
        "per_class": per_class,
    }
    if per_sample:
        result["per_sample"] = [
            {
                "top_k": [TRIPLETS[class_id] for class_id in frame_best],
                "covered": [TRIPLETS[class_id] for class_id in frame_true if class_id in frame_best],
            }
            for frame_best, frame_true in zip(best_ids, true_ids, strict=True)
        ]
    return result


def _read_answer(text: str | None) -> tuple[tuple[str, ...], str]:
    reply = read_reply(text)
    if reply.unparsed:
        return (), UNREAD
    if reply.predicted is not None:
        return reply.predicted, "given"
    reading = read_instruments(reply.text)
    return reading.names, reading.outcome


def _compute_rates(
    is_predicted: np.ndarray, is_true: np.ndarray, labels: np.ndarray, bootstrap: Mapping[str, Any]
) -> dict[str, Any]:
    """Compute rates and counts of (n, C) predictions. F1 = 2 TP / (2 TP + FP + FN) is a share, too."""
    n_hits, n_false, n_missed = (
        np.sum(outcomes, axis=1)
        for outcomes in (is_predicted & is_true, is_predicted & ~is_true, ~is_predicted & is_true)
    )
    return {
        **_compute_share("precision", n_hits, n_false, labels, bootstrap),
        **_compute_share("recall", n_hits, n_missed, labels, bootstrap),
        **_compute_share("f1", 2 * n_hits, n_false + n_missed, labels, bootstrap),
        "n_true_positives": int(n_hits.sum()),
        "n_false_positives": int(n_false.sum()),
        "n_false_negatives": int(n_missed.sum()),
    }


def _compute_share(
    name: str, ones: np.ndarray, zeros: np.ndarray, labels: np.ndarray, bootstrap: Mapping[str, Any]
) -> dict[str, float]:
    """Compute the share of ones among ones and zeros, counts of shape (n,), and its interval over whole groups."""
    interval = bootstrap_mean(
        np.repeat([1.0, 0.0], [int(ones.sum()), int(zeros.sum())]),
        groups=np.concatenate([np.repeat(labels, ones), np.repeat(labels, zeros)]),
        bounds=(0, 1),
        **bootstrap,
    )
    return {name: interval.mean, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}


def _build_indicators(name: str, sets: Sequence[Collection[str]], classes: Sequence[str]) -> np.ndarray:
    """Build a bool table (n, C) of the classes in each set. Raise ValueError for a label that is no class."""
    column = {label: number for number, label in enumerate(classes)}
    table = np.zeros((len(sets), len(classes)), dtype=bool)
    for row, names in enumerate(sets):
        for label in names:
            if label not in column:
                raise ValueError(f"{name}, row {row + 1}: {label!r}; expected one of the {len(classes)} classes")
            table[row, column[label]] = True
    return table
