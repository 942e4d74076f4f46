"""Accuracy of HEAL-MedVQA's answers (section 5): F1 of yes/no questions, multi-label micro F1 of open-ended ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments.kinds import (
    COUNT,
    FLAG,
    LABEL,
    LABELS,
    LEVEL,
    SEED,
    TEXT,
    TEXTS,
    instance,
    one,
    one_of,
    optional,
    rows_of,
    sequence,
    texts,
)
from ..arguments.schema import check_arguments
from ..confidence.score import bootstrap_mean
from ..reading.disease_names import CLASSES
from ..reading.diseases import Extraction, extract_labels
from ..reading.outcome import ANSWERED, DECLINED, UNREAD
from ..reading.yes_no import YesNoOutcome, read_yes_no

_SET = texts("a list of texts")
_ANSWER = one("answer", "Yes or No", lambda value: isinstance(value, str) and value.casefold() in {"yes", "no"})
_OUTCOMES = ("yes", "no", UNREAD, DECLINED)
_TEXT_PER_ROW = sequence(TEXT, is_column=True)


@check_arguments(
    like="references",
    predictions=sequence(optional(TEXT), is_column=True),
    references=rows_of({"question_type": one_of(("closed", "open")), "image_id": LABEL}),
    labels=optional(sequence(optional(_SET), is_column=True)),
    questions=optional(_TEXT_PER_ROW),
    vocabulary=TEXTS,
    n_resamples=COUNT,
    seed=SEED,
    confidence_level=LEVEL,
    per_sample=FLAG,
)
def score_predictions(  # noqa: PLR0913 (options of the metric)
    predictions: Sequence[str | None],
    references: Sequence[Mapping[str, Any]],
    *,
    labels: Sequence[Collection[str] | None] | None = None,
    questions: Sequence[str] | None = None,
    vocabulary: Sequence[str] = CLASSES,
    n_resamples: int = 2000,
    seed: int = 42,
    confidence_level: float = 0.95,
    per_sample: bool = False,
) -> dict[str, Any]:
    """Read and score the answers to closed and open-ended questions, in any order.

    Args:
        predictions: n responses.
        references: n dicts of question_type ("closed" or "open"), answer (closed: "Yes" or "No"), diseases (open: the
            labels, empty for a normal region) and image_id.
        labels: n label collections that another extractor read from open-ended responses (None: unread); the entries of
            closed questions are ignored. By default `diseases.extract_labels` reads the responses.
        questions: n questions; with them a sentence counts only if it is about the question.
        vocabulary: The possible labels.
        n_resamples: Number of bootstrap resamples; they draw whole images.
        seed: Seed of the resampling.
        confidence_level: Level of the intervals, between 0 and 1.
        per_sample: Whether to return each response's reading as well.

    Returns:
        The keys of `closed_scores` and `open_scores`; on request "per_sample": n dicts of question_type, outcome,
        labels (sorted; None for closed) and correct (an open answer is correct if its labels equal the gold labels).

    Raises:
        ValueError: Different lengths, or a row with an unknown question_type, answer or label.
    """
    known_labels = frozenset(vocabulary)
    for row, reference in enumerate(references):
        _require_row(row, reference, known_labels)
    closed_rows = [row for row, reference in enumerate(references) if reference["question_type"] == "closed"]
    open_rows = [row for row, reference in enumerate(references) if reference["question_type"] == "open"]
    outcomes: dict[int, YesNoOutcome] = {
        row: read_yes_no(predictions[row], questions[row] if questions is not None else "") for row in closed_rows
    }
    extractions = {
        row: extract_labels(predictions[row], vocabulary)
        if labels is None
        else _build_extraction(row, labels[row], known_labels)
        for row in open_rows
    }
    options = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    gold = {row: references[row]["answer"].casefold() for row in closed_rows}
    scores: dict[str, Any] = {
        **closed_scores(
            list(outcomes.values()),
            list(gold.values()),
            groups=[references[row]["image_id"] for row in closed_rows],
            **options,
        ),
        **open_scores(
            list(extractions.values()),
            [references[row]["diseases"] for row in open_rows],
            groups=[references[row]["image_id"] for row in open_rows],
            **options,
        ),
    }
    if per_sample:
        scores["per_sample"] = _build_samples(references, outcomes, extractions)
    return scores


@check_arguments(
    like="answers",
    outcomes=sequence(one_of(_OUTCOMES), is_column=True),
    answers=sequence(one_of(("yes", "no"))),
    groups=optional(LABELS),
)
def closed_scores(
    outcomes: Sequence[YesNoOutcome],
    answers: Sequence[str],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Compute precision, recall and F1 of yes/no answers, with "yes" as the positive class.

    An unread or declined answer is wrong: it is a miss if the gold answer is yes (it lowers recall), and no false yes.

    Args:
        outcomes: n readings (`yes_no.YesNoOutcome`).
        answers: n gold answers, "yes" or "no".
        groups: n labels, the images that the interval of F1 draws.
        bootstrap: Further arguments of `bootstrap_mean`.

    Returns:
        Unrounded scores, NaN where undefined, with their counts. yes_no_macro_f1 is the mean of the F1 of yes and no.
    """
    predicted, gold = np.array(outcomes, dtype=str), np.array(answers, dtype=str)
    scores = {answer: _count_outcomes(predicted == answer, gold == answer) for answer in ("yes", "no")}
    true_positive, false_positive, false_negative = scores["yes"]
    is_unread, is_declined = predicted == UNREAD, predicted == DECLINED
    return {
        **_compute_named_scores("yes_no", true_positive, false_positive, false_negative, groups, bootstrap),
        "yes_no_macro_f1": float(
            np.mean([_compute_f1(*(counts.sum() for counts in scores[answer])) for answer in ("yes", "no")])
        ),
        "yes_no_accuracy": _compute_share(int(np.sum(predicted == gold)), len(gold)),
        "n_closed": len(gold),
        "n_closed_yes": int(np.sum(gold == "yes")),
        "n_closed_unparsed": int(np.sum(is_unread)),
        "n_closed_unparsed_yes": int(np.sum(is_unread & (gold == "yes"))),
        "n_closed_declined": int(np.sum(is_declined)),
        "n_closed_declined_yes": int(np.sum(is_declined & (gold == "yes"))),
    }


@check_arguments(
    like="diseases",
    extractions=sequence(instance(Extraction), is_column=True),
    diseases=sequence(_SET),
    groups=optional(LABELS),
)
def open_scores(
    extractions: Sequence[Extraction],
    diseases: Sequence[Collection[str]],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Compute multi-label precision, recall and micro F1, with positives counted over all answers and labels.

    An unread or declined answer names no disease: the diseases of its region are missed. A normal region adds false
    positives only.

    Args:
        extractions: n readings.
        diseases: n gold label collections.
        groups: See `closed_scores`.
        bootstrap: See `closed_scores`.

    Returns:
        Unrounded scores, NaN where undefined, with their counts. open_exact_match is the share, among all n answers, of
        read answers with exactly the gold labels.
    """
    predicted = [extraction.labels for extraction in extractions]
    gold = [frozenset(labels) for labels in diseases]
    pairs = list(zip(predicted, gold, strict=True))
    true_positive, false_positive, false_negative = (
        np.array([len(label_set) for label_set in label_sets], dtype=np.int64)
        for label_sets in (
            [predicted_labels & gold_labels for predicted_labels, gold_labels in pairs],
            [predicted_labels - gold_labels for predicted_labels, gold_labels in pairs],
            [gold_labels - predicted_labels for predicted_labels, gold_labels in pairs],
        )
    )
    n_exact = sum(_is_exact(extraction, labels) for extraction, labels in zip(extractions, gold, strict=True))
    return {
        **_compute_named_scores("open", true_positive, false_positive, false_negative, groups, bootstrap),
        "open_exact_match": _compute_share(n_exact, len(gold)),
        "n_open": len(gold),
        "n_open_normal": sum(not labels for labels in gold),
        "n_open_answered_normal": sum(reading.outcome == ANSWERED and not reading.labels for reading in extractions),
        "n_open_unreadable": sum(reading.outcome == UNREAD for reading in extractions),
        "n_open_declined": sum(reading.outcome == DECLINED for reading in extractions),
    }


def _build_samples(
    references: Sequence[Mapping[str, Any]], outcomes: Mapping[int, YesNoOutcome], extractions: Mapping[int, Extraction]
) -> list[dict[str, Any]]:
    samples = []
    for row, reference in enumerate(references):
        if row in outcomes:
            is_correct = outcomes[row] == reference["answer"].casefold()
            reading = {"outcome": outcomes[row], "labels": None, "correct": is_correct}
        else:
            extraction = extractions[row]
            is_correct = _is_exact(extraction, reference["diseases"])
            reading = {"outcome": extraction.outcome, "labels": sorted(extraction.labels), "correct": is_correct}
        samples.append({"question_type": reference["question_type"], **reading})
    return samples


def _compute_named_scores(
    name: str,
    true_positive: np.ndarray,
    false_positive: np.ndarray,
    false_negative: np.ndarray,
    groups: Sequence[Hashable] | None,
    bootstrap: Mapping[str, Any],
) -> dict[str, float | int]:
    """Compute the scores of counts of shape (n,), with the interval of F1.

    F1 = 2 TP / (2 TP + FP + FN) is the mean of two ones for each TP and a zero for each FP and FN, so the bootstrap of
    a mean applies. Images without any of the three do not enter it.
    """
    ones, zeros = 2 * true_positive, false_positive + false_negative
    tp, fp, fn = (int(counts.sum()) for counts in (true_positive, false_positive, false_negative))
    labels = np.arange(len(ones)) if groups is None else np.asarray(groups)
    interval = bootstrap_mean(
        np.repeat([1.0, 0.0], [int(ones.sum()), int(zeros.sum())]),
        groups=np.concatenate([np.repeat(labels, ones), np.repeat(labels, zeros)]),
        bounds=(0, 1),
        **bootstrap,
    )
    return {
        f"{name}_precision": _compute_share(tp, tp + fp),
        f"{name}_recall": _compute_share(tp, tp + fn),
        f"{name}_f1": _compute_f1(tp, fp, fn),
        f"{name}_f1_ci_low": interval.low,
        f"{name}_f1_ci_high": interval.high,
        f"n_{name}_true_positives": tp,
        f"n_{name}_false_positives": fp,
        f"n_{name}_false_negatives": fn,
    }


def _count_outcomes(predicted: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mark true positives, false positives and false negatives, 0 or 1 per example."""
    true_positive, false_positive, false_negative = (
        mask.astype(np.int64) for mask in (predicted & gold, predicted & ~gold, ~predicted & gold)
    )
    return true_positive, false_positive, false_negative


def _compute_f1(tp: int, fp: int, fn: int) -> float:
    return _compute_share(2 * tp, 2 * tp + fp + fn)


def _compute_share(count: int, total: int) -> float:
    return float(count / total) if total else float("nan")


def _is_exact(extraction: Extraction, diseases: Collection[str]) -> bool:
    return extraction.outcome == ANSWERED and extraction.labels == frozenset(diseases)


def _build_extraction(row: int, labels: Collection[str] | None, known_labels: frozenset[str]) -> Extraction:
    if labels is None:
        return Extraction(frozenset(), UNREAD)
    _require_labels("labels", row, labels, known_labels)
    return Extraction(frozenset(labels), ANSWERED)


def _require_row(row: int, reference: Mapping[str, Any], known_labels: frozenset[str]) -> None:
    place = f"references, row {row + 1}, column"
    if reference["question_type"] == "open":
        _SET.convert(reference.get("diseases"), f"{place} 'diseases'")
        _require_labels("references", row, reference["diseases"], known_labels)
    else:
        _ANSWER.convert(reference.get("answer"), f"{place} 'answer'")


def _require_labels(name: str, row: int, labels: Collection[str], known_labels: frozenset[str]) -> None:
    unknown = sorted(set(labels) - known_labels)
    if unknown:
        raise ValueError(
            f"{name}, row {row + 1}, column 'diseases': {unknown[0]!r}; expected labels of the vocabulary "
            f"({len(known_labels)} labels, in its spelling)"
        )
