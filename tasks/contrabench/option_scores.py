"""Option scores of CXR-ContraBench: log p(option text | images, question), and the polarity gap (Appendix A).

These tasks need a model that gives log-likelihoods with images (`medfaith-hf-vlm`). lm-eval requests one score for
every option of a row, and four more for the likelihood of the finding's words after a positive and after a negated
beginning.

Servers list only the likeliest first tokens of an answer. For servers, the letters of the options are scored instead,
after the prompt B0. The paper scores the texts of the options; gaps of letters are not comparable with its figures.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.option_scores import concept_difference, polarity_gap, predicted, subsets
from medfaith.tasks.contrabench import adapter
from medfaith.tasks.contrabench.prompts import INSTRUCTION, b0
from medfaith.tasks.scoring import Scorer, metric

SUBSETS = ("safe", "control")  # subsets of rows, Appendix A
TEXT_INSTRUCTION = "Answer with the text of the correct option."


def prompt(doc: dict[str, Any]) -> str:
    """Format B0 with a request for the text of an option, which is scored. The paper does not print its prompt.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return b0(doc).removesuffix(INSTRUCTION) + TEXT_INSTRUCTION


def choices(doc: dict[str, Any]) -> list[str]:
    """List the option texts, then the `concept_texts`.

    Args:
        doc: The document.

    Returns:
        The texts that lm-eval scores as answers.
    """
    return [*doc["options"], *concept_texts(doc)]


def letters(doc: dict[str, Any]) -> list[str]:
    """List the letters of the options, for servers, which score only the first token of an answer.

    Args:
        doc: The document.

    Returns:
        "A" for the first option, and so on.
    """
    return list(string.ascii_uppercase[: len(doc["options"])])


def concept_texts(doc: dict[str, Any]) -> list[str]:
    """Build the positive and the negated context, and both followed by the finding's words (Appendix A.3).

    With the letters of the prompt: `["A.", "B. No", "A. Edema", "B. No edema"]`. The paper does not print its contexts.
    Scores can be subtracted if the tokens of a context begin the tokens of the longer text. Each context ends before
    white space, where current tokenizers split words.

    Args:
        doc: The document.

    Returns:
        Four texts. The list is empty for a row without a pair, and if the negated option does not end in the words of
        the positive option ("Edema is not present").
    """
    negated, counterpart = doc["negated"], doc["counterpart"]
    if min(negated, counterpart) < 0:
        return []
    text, finding = doc["options"][negated], doc["options"][counterpart]
    prefix = text[: len(text) - len(finding)]
    if not prefix.strip() or not prefix[-1].isspace() or text[len(prefix) :].casefold() != finding.casefold():
        return []
    alphabet = string.ascii_uppercase
    contexts = [f"{alphabet[counterpart]}.", f"{alphabet[negated]}. {prefix.rstrip()}"]
    return [*contexts, f"{alphabet[counterpart]}. {finding}", f"{alphabet[negated]}. {text}"]


def target(doc: dict[str, Any]) -> int:
    """Return the index of the gold option.

    Args:
        doc: The document.

    Returns:
        The index, from 0.
    """
    return doc["answer"]


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Compute a row's values: whether the best-scored option is the right or the negated one, and the polarity gap.

    A row whose scores are all NaN is wrong, and has no gap. The gap and the concept difference are in nats. A row is in
    the subset `safe`, in `control` or in neither. Its concept difference is None if `concept_texts` has no texts. See
    `evaluate_metrics/polarity/option_scores.py`.

    Args:
        doc: The document.
        results: (log-likelihood, is greedy) of each of `choices`.

    Returns:
        Metric -> value of the row.
    """
    option_scores, difference = split_scores(doc, [score for score, _ in results])
    scores = [option_scores]
    answer, negated, counterpart = ([doc[name]] for name in ("answer", "negated", "counterpart"))
    choice = int(predicted(scores)[0])
    row_subsets = subsets(scores, answer, negated, counterpart)
    record = {
        "study_id": doc["study_id"],
        "gap": float(polarity_gap(scores, negated, counterpart)[0]),
        "concept_difference": None if np.isnan(difference) else difference,
        "subsets": [name for name in SUBSETS if getattr(row_subsets, name)[0]],
    }
    values = adapter.with_interval("accuracy", choice == doc["answer"], doc["study_id"])
    if doc["negated"] >= 0:
        values["negated_rate"] = float(choice == doc["negated"])
    return values | GAPS.values(doc, record)


def process_letters(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Compute the values of `process_results`, and counts of unlisted scores, which are NaN.

    A row without any score is unread, and wrong. A pair with an unlisted letter has no gap. Its row counts in
    `n_pairs_unlisted`, and in no subset.

    Args:
        doc: The document.
        results: (log-likelihood, is greedy) of each letter.

    Returns:
        Metric -> value of the row.
    """
    scores = [score for score, _ in results]
    negated, counterpart = doc["negated"], doc["counterpart"]
    unlisted = min(negated, counterpart) >= 0 and bool(np.isnan([scores[negated], scores[counterpart]]).any())
    counts = {"parse_failure_rate": float(np.isnan(scores).all()), "n_pairs_unlisted": int(unlisted)}
    return process_results(doc, results) | counts


def compute_gap_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Compute for each subset its size, the mean and median of its gaps, and the mean of its concept differences.

    Args:
        records: The records of all rows.

    Returns:
        Name of the figure -> value: counts (`n_...`), and means with the bounds of their intervals in nats. Intervals
        resample whole studies. Figures of an empty subset are NaN.
    """
    figures: dict[str, float] = {}
    for name in SUBSETS:
        members = [record for record in records if name in record["subsets"]]
        gaps = [record["gap"] for record in members]
        differences = [record["concept_difference"] for record in members if record["concept_difference"] is not None]
        interval = bootstrap_mean(gaps, groups=[record["study_id"] for record in members])
        figures |= {
            f"n_{name}": len(members),
            f"mean_gap_{name}": interval.mean,
            f"mean_gap_{name}_ci_low": interval.low,
            f"mean_gap_{name}_ci_high": interval.high,
            f"median_gap_{name}": float(np.median(gaps)) if gaps else float("nan"),
            f"n_concept_difference_{name}": len(differences),
            f"mean_concept_difference_{name}": float(np.mean(differences)) if differences else float("nan"),
        }
    return figures


def split_scores(doc: dict[str, Any], scores: Sequence[float]) -> tuple[list[float], float]:
    """Split the scores of `choices` into option scores and the concept difference in nats (NaN without texts).

    Args:
        doc: The document.
        scores: The score of each of `choices`.

    Returns:
        The scores of the options, in their order, and the concept difference.
    """
    n = len(doc["options"])
    options, context_scores = list(scores[:n]), scores[n:]
    return options, float(
        concept_difference([context_scores[:2]], [context_scores[2:]])[0]
    ) if context_scores else float("nan")


_SUBSET_METRICS = (
    "n_{}", "mean_gap_{}", "mean_gap_{}_ci_low", "mean_gap_{}_ci_high", "median_gap_{}",
    "n_concept_difference_{}", "mean_concept_difference_{}",
)  # fmt: skip
GAPS = Scorer(
    compute_gap_figures,
    [name.format(subset) for subset in SUBSETS for name in _SUBSET_METRICS],
    lower=[name.format("safe") for name in _SUBSET_METRICS],
)
metrics = [*adapter.rate("accuracy", higher=True), metric("negated_rate", "mean", higher=False), *GAPS.metric_list]
metrics_of_letters = [
    *metrics,
    metric("parse_failure_rate", "mean", higher=False),
    metric("n_pairs_unlisted", adapter.total, higher=False),
]
