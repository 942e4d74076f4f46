"""CXR-ContraBench by option scores: log p(option text | images, question), and the polarity gap (Appendix A).

For models that give log-likelihoods with images (`medfaith-hf-vlm`); lm-eval asks once for every option of a row, and
for four texts more that tell how likely the finding's words are after a positive and after a negated beginning.

Servers list only the likeliest first tokens of an answer. There the letters of the options are scored in their place,
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

SUBSETS = ("safe", "control")  # of rows, Appendix A
TEXT_INSTRUCTION = "Answer with the text of the correct option."


def prompt(doc: dict[str, Any]) -> str:
    """B0, asking for an option's text, since that is what is scored. The paper does not print its prompt."""
    return b0(doc).removesuffix(INSTRUCTION) + TEXT_INSTRUCTION


def choices(doc: dict[str, Any]) -> list[str]:
    """The option strings, then `concept_texts`."""
    return [*doc["options"], *concept_texts(doc)]


def letters(doc: dict[str, Any]) -> list[str]:
    """The letters of the options, for servers, which score the first token of an answer at most."""
    return list(string.ascii_uppercase[: len(doc["options"])])


def concept_texts(doc: dict[str, Any]) -> list[str]:
    """Positive and negated context, and both followed by the finding's words: four texts, or none (Appendix A.3).

    With the letters of the prompt, `["A.", "B. No", "A. Edema", "B. No edema"]`. The paper does not print its contexts.
    There are none for a row without a pair, or whose negated option does not end in the words of the positive one
    ("Edema is not present"). Their scores can be subtracted if a context's tokens begin those of the longer text; each
    ends before white space, where the tokenisers of today's models part words.
    """
    negated, counterpart = doc["negated"], doc["counterpart"]
    if min(negated, counterpart) < 0:
        return []
    text, words = doc["options"][negated], doc["options"][counterpart]
    prefix = text[: len(text) - len(words)]
    if not prefix.strip() or not prefix[-1].isspace() or text[len(prefix) :].casefold() != words.casefold():
        return []
    of = string.ascii_uppercase
    contexts = [f"{of[counterpart]}.", f"{of[negated]}. {prefix.rstrip()}"]
    return [*contexts, f"{of[counterpart]}. {words}", f"{of[negated]}. {text}"]


def target(doc: dict[str, Any]) -> int:
    """Index of the gold option."""
    return doc["answer"]


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Per-row values: whether the option with the highest score is right or the negated one, and the polarity gap.

    A row whose scores are all NaN is not right, and has no gap. The gap and the concept difference are in nats. A row
    is in the subset `safe`, in `control` or in neither, and its concept difference is None where `concept_texts` has no
    texts. See `evaluate_metrics/polarity/option_scores.py`.
    """
    of_options, difference = split_scores(doc, [score for score, _ in results])
    scores = [of_options]
    answer, negated, counterpart = ([doc[name]] for name in ("answer", "negated", "counterpart"))
    choice = int(predicted(scores)[0])
    parts = subsets(scores, answer, negated, counterpart)
    record = {
        "study_id": doc["study_id"],
        "gap": float(polarity_gap(scores, negated, counterpart)[0]),
        "concept_difference": None if np.isnan(difference) else difference,
        "subsets": [name for name in SUBSETS if getattr(parts, name)[0]],
    }
    values = adapter.with_interval("accuracy", choice == doc["answer"], doc["study_id"])
    if doc["negated"] >= 0:
        values["negated_rate"] = float(choice == doc["negated"])
    return values | GAPS.values(doc, record)


def process_letters(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """`process_results`, and what the server did not list, whose scores are NaN.

    A row without any score is unread, and wrong. A pair that lacks the score of one letter has no gap; its row counts
    in `n_pairs_unlisted`, and in no subset.
    """
    scores = [score for score, _ in results]
    negated, counterpart = doc["negated"], doc["counterpart"]
    unlisted = min(negated, counterpart) >= 0 and bool(np.isnan([scores[negated], scores[counterpart]]).any())
    counts = {"parse_failure_rate": float(np.isnan(scores).all()), "n_pairs_unlisted": int(unlisted)}
    return process_results(doc, results) | counts


def gap_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """For each subset: its rows, the mean and median of their gaps, and the mean of their concept differences."""
    found: dict[str, float] = {}
    for name in SUBSETS:
        here = [record for record in records if name in record["subsets"]]
        gaps = [record["gap"] for record in here]
        differences = [record["concept_difference"] for record in here if record["concept_difference"] is not None]
        interval = bootstrap_mean(gaps, groups=[record["study_id"] for record in here])
        found |= {
            f"n_{name}": len(here),
            f"mean_gap_{name}": interval.mean,
            f"mean_gap_{name}_ci_low": interval.low,
            f"mean_gap_{name}_ci_high": interval.high,
            f"median_gap_{name}": float(np.median(gaps)) if gaps else float("nan"),
            f"n_concept_difference_{name}": len(differences),
            f"mean_concept_difference_{name}": float(np.mean(differences)) if differences else float("nan"),
        }
    return found


def split_scores(doc: dict[str, Any], scores: Sequence[float]) -> tuple[list[float], float]:
    """From the scores of `choices`: those of the options, and the concept difference in nats (NaN without texts)."""
    n = len(doc["options"])
    options, rest = list(scores[:n]), scores[n:]
    return options, float(concept_difference([rest[:2]], [rest[2:]])[0]) if rest else float("nan")


_OF_SUBSET = (
    "n_{}", "mean_gap_{}", "mean_gap_{}_ci_low", "mean_gap_{}_ci_high", "median_gap_{}",
    "n_concept_difference_{}", "mean_concept_difference_{}",
)  # fmt: skip
GAPS = Scorer(
    gap_figures,
    [name.format(subset) for subset in SUBSETS for name in _OF_SUBSET],
    lower=[name.format("safe") for name in _OF_SUBSET],
)
metrics = [*adapter.rate("accuracy", higher=True), metric("negated_rate", "mean", higher=False), *GAPS.metric_list]
metrics_of_letters = [
    *metrics,
    metric("parse_failure_rate", "mean", higher=False),
    metric("n_pairs_unlisted", adapter.total, higher=False),
]
