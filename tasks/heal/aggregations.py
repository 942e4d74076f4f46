"""Aggregations over all rows of a HEAL-MedVQA task, one function a metric; the tuples are those of `adapter`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores
from medfaith.evaluate_metrics.reading.diseases import Extraction
from medfaith.evaluate_metrics.tpt.score import score_predictions as tpt_scores
from medfaith.evaluate_metrics.vpt.score import score_predictions as vpt_scores


def _closed(key: str) -> Callable[[Sequence[tuple]], float]:
    def aggregate(items: Sequence[tuple]) -> float:
        outcomes, answers, images = zip(*items, strict=True)
        return closed_scores(outcomes, answers, groups=images)[key]

    return aggregate


def _open(key: str) -> Callable[[Sequence[tuple]], float]:
    def aggregate(items: Sequence[tuple]) -> float:
        said = [Extraction(frozenset(labels), outcome) for outcome, labels, _, _ in items]
        return open_scores(said, [item[2] for item in items], groups=[item[3] for item in items])[key]

    return aggregate


def _paired(score: Callable[..., dict[str, Any]], key: str) -> Callable[[Sequence[tuple]], float]:
    def aggregate(items: Sequence[tuple]) -> float:
        references = [{"original_id": of, "kind": kind, "image_id": image} for _, of, kind, image in items]
        return score([outcome for outcome, *_ in items], references)[key]

    return aggregate


def largest(items: Sequence[int]) -> int:
    """Aggregation of a count that every row repeats."""
    return max(items)


yes_no_f1 = _closed("yes_no_f1")
yes_no_f1_ci_low = _closed("yes_no_f1_ci_low")
yes_no_f1_ci_high = _closed("yes_no_f1_ci_high")
yes_no_precision = _closed("yes_no_precision")
yes_no_recall = _closed("yes_no_recall")
yes_no_accuracy = _closed("yes_no_accuracy")
n_closed_unparsed = _closed("n_closed_unparsed")

open_f1 = _open("open_f1")
open_f1_ci_low = _open("open_f1_ci_low")
open_f1_ci_high = _open("open_f1_ci_high")
open_precision = _open("open_precision")
open_recall = _open("open_recall")
open_exact_match = _open("open_exact_match")
n_open_unreadable = _open("n_open_unreadable")

tpt = _paired(tpt_scores, "tpt")
tpt_ci_low = _paired(tpt_scores, "tpt_ci_low")
tpt_ci_high = _paired(tpt_scores, "tpt_ci_high")
tpt_anatomy = _paired(tpt_scores, "tpt_anatomy")
tpt_anatomy_ci_low = _paired(tpt_scores, "tpt_anatomy_ci_low")
tpt_anatomy_ci_high = _paired(tpt_scores, "tpt_anatomy_ci_high")
tpt_disease = _paired(tpt_scores, "tpt_disease")
tpt_disease_ci_low = _paired(tpt_scores, "tpt_disease_ci_low")
tpt_disease_ci_high = _paired(tpt_scores, "tpt_disease_ci_high")
tpt_n_pairs = _paired(tpt_scores, "n_pairs")
tpt_n_changed = _paired(tpt_scores, "n_changed")
tpt_n_true_positives = _paired(tpt_scores, "n_true_positives")
tpt_n_unparsed_originals = _paired(tpt_scores, "n_unparsed_originals")
tpt_n_unparsed_perturbed = _paired(tpt_scores, "n_unparsed_perturbed")

vpt = _paired(vpt_scores, "vpt")
vpt_ci_low = _paired(vpt_scores, "vpt_ci_low")
vpt_ci_high = _paired(vpt_scores, "vpt_ci_high")
vpt_n_pairs = _paired(vpt_scores, "n_pairs")
vpt_n_changed = _paired(vpt_scores, "n_changed")
vpt_n_true_positives = _paired(vpt_scores, "n_true_positives")
vpt_n_unparsed_originals = _paired(vpt_scores, "n_unparsed_originals")
vpt_n_unparsed_perturbed = _paired(vpt_scores, "n_unparsed_perturbed")
