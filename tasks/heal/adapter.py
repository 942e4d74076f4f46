"""lm-eval's metrics for HEAL-MedVQA. Each response is read once, and all rows of a task are scored together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from medfaith.evaluate_metrics.medvqa_f1.score import closed_scores, open_scores
from medfaith.evaluate_metrics.reading.disease_names import list_classes
from medfaith.evaluate_metrics.reading.diseases import Extraction, extract_labels
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no
from medfaith.evaluate_metrics.tpt.score import score_outcomes as tpt_scores
from medfaith.evaluate_metrics.vpt.score import score_outcomes as vpt_scores
from medfaith.tasks.heal.localization import read_reply, score_localization
from medfaith.tasks.outcomes import is_cut
from medfaith.tasks.scoring import Scorer

Records = Sequence[Mapping[str, Any]]

F1 = ("f1", "f1_ci_low", "f1_ci_high", "precision", "recall")
INTERVAL = ("", "_ci_low", "_ci_high")
UNANSWERED = ("n_unparsed_originals", "n_unparsed_perturbed", "n_declined_originals", "n_declined_perturbed")
PAIRED = ("n_pairs", "n_changed", "n_true_positives", *UNANSWERED)


def closed_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the answer to a closed question, and the Dice of its region if it has one.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    answer, reply = doc["options"][doc["answer"]].casefold(), read_reply(results[0])
    reading = read_yes_no(reply.text, doc["question"], cut=is_cut(doc))
    record = {"said": reading, "answer": answer, "image_id": doc["image_id"]}
    return CLOSED.values(doc, record | score_localization(doc, reply))


def open_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the answer to an open question, whose labels the deterministic extractor reads.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    reply = read_reply(results[0])
    extraction = extract_labels(reply.text, list_classes(doc["id"]), cut=is_cut(doc))
    record = {"outcome": extraction.outcome, "labels": sorted(extraction.labels)}
    record |= {name: doc[name] for name in ("diseases", "image_id")}
    return OPEN.values(doc, record | score_localization(doc, reply))


def tpt_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the answer to an original question, or to one with another anatomy or disease.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    return TPT.values(doc, _build_paired_record(doc, results))


def vpt_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Compute the metric values of the answer to an original question, or to the same one about an edited image.

    Args:
        doc: The document.
        results: The response.

    Returns:
        Metric -> value of the row.
    """
    return VPT.values(doc, _build_paired_record(doc, results))


def _build_paired_record(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
    reading = read_yes_no(read_reply(results[0]).text, doc["question"], cut=is_cut(doc))
    return {"said": reading, **{name: doc[name] for name in ("original_id", "kind", "image_id")}}


def _compute_closed_figures(records: Records) -> dict[str, float]:
    readings, answers, images = ([record[name] for record in records] for name in ("said", "answer", "image_id"))
    return closed_scores(readings, answers, groups=images)


def _compute_open_figures(records: Records) -> dict[str, float]:
    extractions = [Extraction(frozenset(record["labels"]), record["outcome"]) for record in records]
    diseases, images = ([record[name] for record in records] for name in ("diseases", "image_id"))
    return open_scores(extractions, diseases, groups=images)


def _compute_paired_figures(score: Callable[..., dict[str, Any]], records: Records) -> dict[str, float]:
    return score([record["said"] for record in records], records)


CLOSED = Scorer(
    _compute_closed_figures,
    (*(f"yes_no_{name}" for name in F1), "yes_no_accuracy", "n_closed_unparsed", "n_closed_declined"),
    lower=("n_closed_unparsed", "n_closed_declined"),
)
OPEN = Scorer(
    _compute_open_figures,
    (*(f"open_{name}" for name in F1), "open_exact_match", "n_open_unreadable", "n_open_declined"),
    lower=("n_open_unreadable", "n_open_declined"),
)
TPT = Scorer(
    partial(_compute_paired_figures, tpt_scores),
    (*(f"tpt{kind}{end}" for kind in ("", "_anatomy", "_disease") for end in INTERVAL), *PAIRED),
    lower=UNANSWERED,
)
VPT = Scorer(
    partial(_compute_paired_figures, vpt_scores), (*(f"vpt{end}" for end in INTERVAL), *PAIRED), lower=UNANSWERED
)

closed_metrics, open_metrics, tpt_metrics, vpt_metrics = (scorer.metric_list for scorer in (CLOSED, OPEN, TPT, VPT))
