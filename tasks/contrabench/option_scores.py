"""CXR-ContraBench by option scores: log p(option text | images, question), and the polarity gap (Appendix A).

For models that give log-likelihoods with images (`medfaith-hf-vlm`); lm-eval asks once for every option of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.polarity.option_scores import polarity_gap, predicted, subsets
from medfaith.tasks.contrabench.prompts import INSTRUCTION, b0

TEXT_INSTRUCTION = "Answer with the text of the correct option."


def prompt(doc: dict[str, Any]) -> str:
    """B0, asking for an option's text, since that is what is scored. The paper does not print its prompt."""
    return b0(doc).removesuffix(INSTRUCTION) + TEXT_INSTRUCTION


def choices(doc: dict[str, Any]) -> list[str]:
    """The option strings."""
    return doc["options"]


def target(doc: dict[str, Any]) -> int:
    """Index of the gold option."""
    return doc["answer"]


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Per-row values: `accuracy` and `negated_rate` of the option with the highest score, and the row's polarity gap.

    `<...>_gap_safe` and `<...>_gap_control` are in nats and None outside their subset; see
    `evaluate_metrics/polarity/option_scores.py`. Values for an interval are pairs (value, study).
    """
    scores = [[score for score, _ in results]]
    answer, negated, counterpart = ([doc[name]] for name in ("answer", "negated", "counterpart"))
    choice = int(predicted(scores)[0])
    values: dict[str, Any] = {"accuracy": float(choice == doc["answer"]), "n_rows_skipped": doc["n_rows_skipped"]}
    if doc["negated"] >= 0:
        values["negated_rate"] = float(choice == doc["negated"])
    gap = float(polarity_gap(scores, negated, counterpart)[0])
    parts = subsets(scores, answer, negated, counterpart)
    for name, mask in (("safe", parts.safe), ("control", parts.control)):
        of_subset = gap if mask[0] else None
        values |= {f"n_{name}": int(mask[0]), f"mean_gap_{name}": of_subset, f"median_gap_{name}": of_subset}
        values |= {f"mean_gap_{name}_ci_{end}": [of_subset, doc["study_id"]] for end in ("low", "high")}
    values |= {f"accuracy_ci_{end}": [values["accuracy"], doc["study_id"]] for end in ("low", "high")}
    return values


def mean(items: Sequence[float | None]) -> float:
    """Aggregation: the mean of the rows that have the value, NaN where none has."""
    known = [item for item in items if item is not None]
    return float(np.mean(known)) if known else float("nan")


def median(items: Sequence[float | None]) -> float:
    """Aggregation: the median of the rows that have the value, NaN where none has."""
    known = [item for item in items if item is not None]
    return float(np.median(known)) if known else float("nan")
