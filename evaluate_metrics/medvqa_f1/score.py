"""Accuracy of HEAL-MedVQA's answers (section 5): F1 of yes/no questions, multi-label micro F1 of open-ended ones."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..confidence.score import bootstrap_mean
from ..reading.disease_names import CLASSES
from ..reading.diseases import Extraction, extract_labels
from ..reading.outcome import ANSWERED, DECLINED, UNREAD
from ..reading.yes_no import YesNoOutcome, read_yes_no


def score_predictions(
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
    """Read and score the answers to closed and open-ended questions, which may stand mixed.

    Args:
        predictions: n responses.
        references: n dicts of question_type ("closed" or "open"), answer (closed: "Yes" or "No"), diseases (open: the
            labels, none for a normal region) and image_id.
        labels: n label collections that another extractor read from open-ended responses (None: unread); the
            entries of closed questions are ignored. Without it `diseases.extract_labels` reads them.
        questions: n questions; with them a sentence counts only where it speaks of what was asked.
        vocabulary: the labels that may occur.
        n_resamples, seed, confidence_level: of the bootstrap intervals of the two F1, which draw whole images.
        per_sample: whether to return each response's reading as well.

    Returns:
        the keys of `closed_scores` and `open_scores`; on request "per_sample": n dicts of question_type, outcome,
        labels (sorted; None for closed) and correct (an open answer is correct if its labels are exactly the gold's).

    Raises:
        ValueError: lengths differ, or a row whose question_type, answer or label is unknown.
    """
    known = frozenset(vocabulary)
    _check(references, known, predictions=predictions, labels=labels, questions=questions)
    closed = [row for row, reference in enumerate(references) if reference["question_type"] == "closed"]
    opened = [row for row, reference in enumerate(references) if reference["question_type"] == "open"]
    outcomes: dict[int, YesNoOutcome] = {
        row: read_yes_no(predictions[row], questions[row] if questions is not None else "") for row in closed
    }
    extractions = {
        row: extract_labels(predictions[row], vocabulary) if labels is None else _given(row, labels[row], known)
        for row in opened
    }
    how = {"n_resamples": n_resamples, "seed": seed, "confidence_level": confidence_level}
    gold = {row: references[row]["answer"].casefold() for row in closed}
    scores: dict[str, Any] = {
        **closed_scores(
            list(outcomes.values()), list(gold.values()), groups=[references[row]["image_id"] for row in closed], **how
        ),
        **open_scores(
            list(extractions.values()),
            [references[row]["diseases"] for row in opened],
            groups=[references[row]["image_id"] for row in opened],
            **how,
        ),
    }
    if per_sample:
        scores["per_sample"] = _samples(references, outcomes, extractions)
    return scores


def closed_scores(
    outcomes: Sequence[YesNoOutcome],
    answers: Sequence[str],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Precision, recall and F1 of yes/no answers, "yes" the positive class.

    An answer that is unread or declined is wrong: missed where the gold is yes (it lowers recall), and no false yes.

    Args:
        outcomes, answers: n readings (`yes_no.YesNoOutcome`) and n gold answers, "yes" or "no".
        groups: n labels, the images that the interval of F1 draws; bootstrap: further arguments of `bootstrap_mean`.

    Returns:
        unrounded scores, NaN where undefined, beside their counts. yes_no_macro_f1 is the mean of the F1 of yes and no.
    """
    said, gold = np.array(outcomes, dtype=str), np.array(answers, dtype=str)
    scores = {answer: _counts(said == answer, gold == answer) for answer in ("yes", "no")}
    true_positive, false_positive, false_negative = scores["yes"]
    unread, declined = said == UNREAD, said == DECLINED
    return {
        **_named("yes_no", true_positive, false_positive, false_negative, groups, bootstrap),
        "yes_no_macro_f1": float(np.mean([_f1(*(c.sum() for c in scores[answer])) for answer in ("yes", "no")])),
        "yes_no_accuracy": _share(int(np.sum(said == gold)), len(gold)),
        "n_closed": len(gold),
        "n_closed_yes": int(np.sum(gold == "yes")),
        "n_closed_unparsed": int(np.sum(unread)),
        "n_closed_unparsed_yes": int(np.sum(unread & (gold == "yes"))),
        "n_closed_declined": int(np.sum(declined)),
        "n_closed_declined_yes": int(np.sum(declined & (gold == "yes"))),
    }


def open_scores(
    extractions: Sequence[Extraction],
    diseases: Sequence[Collection[str]],
    *,
    groups: Sequence[Hashable] | None = None,
    **bootstrap: Any,
) -> dict[str, float | int]:
    """Multi-label precision, recall and micro F1: true and false positives are counted over all answers and labels.

    An answer that is unread or declined names no disease: what its region has is missed. A normal region adds false
    positives only.

    Args:
        extractions, diseases: n readings and n gold label collections.
        groups, bootstrap: as for `closed_scores`.

    Returns:
        unrounded scores, NaN where undefined, beside their counts. open_exact_match is the share of answers, among all
        n, that were read and whose labels are exactly the gold's.
    """
    said = [extraction.labels for extraction in extractions]
    gold = [frozenset(labels) for labels in diseases]
    pairs = list(zip(said, gold, strict=True))
    true_positive, false_positive, false_negative = (
        np.array([len(part) for part in parts], dtype=np.int64)
        for parts in (
            [ours & theirs for ours, theirs in pairs],
            [ours - theirs for ours, theirs in pairs],
            [theirs - ours for ours, theirs in pairs],
        )
    )
    exact = sum(_exact(extraction, labels) for extraction, labels in zip(extractions, gold, strict=True))
    return {
        **_named("open", true_positive, false_positive, false_negative, groups, bootstrap),
        "open_exact_match": _share(exact, len(gold)),
        "n_open": len(gold),
        "n_open_normal": sum(not labels for labels in gold),
        "n_open_answered_normal": sum(of.outcome == ANSWERED and not of.labels for of in extractions),
        "n_open_unreadable": sum(of.outcome == UNREAD for of in extractions),
        "n_open_declined": sum(of.outcome == DECLINED for of in extractions),
    }


def _samples(
    references: Sequence[Mapping[str, Any]], outcomes: Mapping[int, YesNoOutcome], extractions: Mapping[int, Extraction]
) -> list[dict[str, Any]]:
    samples = []
    for row, reference in enumerate(references):
        if row in outcomes:
            correct = outcomes[row] == reference["answer"].casefold()
            read = {"outcome": outcomes[row], "labels": None, "correct": correct}
        else:
            extraction = extractions[row]
            correct = _exact(extraction, reference["diseases"])
            read = {"outcome": extraction.outcome, "labels": sorted(extraction.labels), "correct": correct}
        samples.append({"question_type": reference["question_type"], **read})
    return samples


def _named(
    name: str,
    true_positive: np.ndarray,
    false_positive: np.ndarray,
    false_negative: np.ndarray,
    groups: Sequence[Hashable] | None,
    bootstrap: Mapping[str, Any],
) -> dict[str, float | int]:
    """The scores of counts of shape (n,), with the interval of F1.

    F1 = 2 TP / (2 TP + FP + FN) is the mean of two ones for each TP and a zero for each FP and FN, so the bootstrap of
    a mean serves it. Images without any of the three do not enter it.
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
        f"{name}_precision": _share(tp, tp + fp),
        f"{name}_recall": _share(tp, tp + fn),
        f"{name}_f1": _f1(tp, fp, fn),
        f"{name}_f1_ci_low": interval.low,
        f"{name}_f1_ci_high": interval.high,
        f"n_{name}_true_positives": tp,
        f"n_{name}_false_positives": fp,
        f"n_{name}_false_negatives": fn,
    }


def _counts(said: np.ndarray, gold: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True positives, false positives and false negatives, 0 or 1 an example."""
    true, false, missed = (mask.astype(np.int64) for mask in (said & gold, said & ~gold, ~said & gold))
    return true, false, missed


def _f1(tp: int, fp: int, fn: int) -> float:
    return _share(2 * tp, 2 * tp + fp + fn)


def _share(count: int, total: int) -> float:
    return float(count / total) if total else float("nan")


def _exact(extraction: Extraction, diseases: Collection[str]) -> bool:
    return extraction.outcome == ANSWERED and extraction.labels == frozenset(diseases)


def _given(row: int, labels: Collection[str] | None, known: frozenset[str]) -> Extraction:
    if labels is None:
        return Extraction(frozenset(), UNREAD)
    _check_labels("labels", row, labels, known)
    return Extraction(frozenset(labels), ANSWERED)


def _check(references: Sequence[Mapping[str, Any]], known: frozenset[str], **columns: Sequence | None) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != len(references):
            raise ValueError(f"{len(column)} {name} for {len(references)} references: give one for each")
    for row, reference in enumerate(references):
        _check_row(row, reference, known)


def _check_row(row: int, reference: Mapping[str, Any], known: frozenset[str]) -> None:
    place = f"references, row {row + 1}, column"
    if reference["question_type"] not in {"closed", "open"}:
        raise ValueError(f"{place} 'question_type': {reference['question_type']!r}; expected closed or open")
    if reference["question_type"] == "open":
        _check_labels("references", row, reference["diseases"], known)
    elif (reference["answer"] or "").casefold() not in {"yes", "no"}:
        raise ValueError(f"{place} 'answer': {reference['answer']!r}; expected Yes or No")


def _check_labels(name: str, row: int, labels: Collection[str], known: frozenset[str]) -> None:
    unknown = sorted(set(labels) - known)
    if unknown:
        raise ValueError(
            f"{name}, row {row + 1}, column 'diseases': {unknown[0]!r}; expected labels of the vocabulary "
            f"({len(known)} labels, spelled as there)"
        )
