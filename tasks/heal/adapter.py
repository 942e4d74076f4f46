"""Between lm-eval and HEAL-MedVQA: each response is read once, and aggregations score all rows of a task together.

What an aggregation needs of a row travels as one tuple under the name of each metric: the reading of the response, the
gold, and the image that intervals draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.evaluate_metrics.reading.diseases import extract_labels
from medfaith.evaluate_metrics.reading.yes_no import read_yes_no

F1 = ("f1", "f1_ci_low", "f1_ci_high", "precision", "recall")
CLOSED = (*(f"yes_no_{name}" for name in F1), "yes_no_accuracy", "n_closed_unparsed")
OPEN = (*(f"open_{name}" for name in F1), "open_exact_match", "n_open_unreadable")
PAIRED = ("n_pairs", "n_changed", "n_true_positives", "n_unparsed_originals", "n_unparsed_perturbed")
INTERVAL = ("", "_ci_low", "_ci_high")
TPT = (*(f"tpt{kind}{end}" for kind in ("", "_anatomy", "_disease") for end in INTERVAL), *PAIRED)
VPT = (*(f"vpt{end}" for end in INTERVAL), *PAIRED)
SKIPPED = "n_rows_skipped"


def closed_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of a closed question."""
    row = (read_yes_no(results[0]), doc["options"][doc["answer"]].casefold(), doc["image_id"])
    return dict.fromkeys(CLOSED, row) | {SKIPPED: doc[SKIPPED]}


def open_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of an open question, its labels read by the deterministic extractor."""
    said = extract_labels(results[0])
    row = (said.outcome, sorted(said.labels), doc["diseases"], doc["image_id"])
    return dict.fromkeys(OPEN, row) | {SKIPPED: doc[SKIPPED]}


def tpt_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of an original or of a question with another anatomy or disease."""
    return dict.fromkeys(TPT, _paired_row(doc, results)) | {SKIPPED: doc[SKIPPED]}


def vpt_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per-row values of an original or of the same question about an edited image."""
    return dict.fromkeys(VPT, _paired_row(doc, results)) | {SKIPPED: doc[SKIPPED]}


def _paired_row(doc: dict[str, Any], results: Sequence[str]) -> tuple[str, str, str, str]:
    return read_yes_no(results[0]), doc["original_id"], doc["kind"], doc["image_id"]
