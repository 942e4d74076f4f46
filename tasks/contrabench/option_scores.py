"""CXR-ContraBench by option scores: log p(option text | images, question), and the polarity gap (Appendix A).

For models that give log-likelihoods with images (`medfaith-hf-vlm`); lm-eval asks once for every option of a row, and
for four texts more that tell how likely the finding's words are after a positive and after a negated beginning.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.polarity.option_scores import concept_difference, polarity_gap, predicted, subsets
from medfaith.tasks.contrabench.prompts import INSTRUCTION, b0

TEXT_INSTRUCTION = "Answer with the text of the correct option."


def prompt(doc: dict[str, Any]) -> str:
    """B0, asking for an option's text, since that is what is scored. The paper does not print its prompt."""
    return b0(doc).removesuffix(INSTRUCTION) + TEXT_INSTRUCTION


def choices(doc: dict[str, Any]) -> list[str]:
    """The option strings, then `concept_texts`."""
    return [*doc["options"], *concept_texts(doc)]


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
    letters = string.ascii_uppercase
    contexts = [f"{letters[counterpart]}.", f"{letters[negated]}. {prefix.rstrip()}"]
    return [*contexts, f"{letters[counterpart]}. {words}", f"{letters[negated]}. {text}"]


def target(doc: dict[str, Any]) -> int:
    """Index of the gold option."""
    return doc["answer"]


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Per-row values: `accuracy` and `negated_rate` of the option with the highest score, and the row's polarity gap.

    `<...>_gap_<subset>` and `mean_concept_difference_<subset>` (subsets: safe, control) are in nats and None outside
    their subset; the latter also where `concept_texts` has none. See `evaluate_metrics/polarity/option_scores.py`.
    Values for an interval are pairs (value, study).
    """
    of_options, difference = split_scores(doc, [score for score, _ in results])
    scores = [of_options]
    answer, negated, counterpart = ([doc[name]] for name in ("answer", "negated", "counterpart"))
    choice = int(predicted(scores)[0])
    values: dict[str, Any] = {"accuracy": float(choice == doc["answer"]), "n_rows_skipped": doc["n_rows_skipped"]}
    if doc["negated"] >= 0:
        values["negated_rate"] = float(choice == doc["negated"])
    gap = float(polarity_gap(scores, negated, counterpart)[0])
    parts = subsets(scores, answer, negated, counterpart)
    for name, mask in (("safe", parts.safe), ("control", parts.control)):
        of_subset = gap if mask[0] else None
        of_concept = difference if mask[0] and not np.isnan(difference) else None
        values |= {f"n_{name}": int(mask[0]), f"mean_gap_{name}": of_subset, f"median_gap_{name}": of_subset}
        values |= {f"mean_concept_difference_{name}": of_concept}
        values |= {f"n_concept_difference_{name}": int(of_concept is not None)}
        values |= {f"mean_gap_{name}_ci_{end}": [of_subset, doc["study_id"]] for end in ("low", "high")}
    values |= {f"accuracy_ci_{end}": [values["accuracy"], doc["study_id"]] for end in ("low", "high")}
    return values


def split_scores(doc: dict[str, Any], scores: Sequence[float]) -> tuple[list[float], float]:
    """Of the scores of `choices`, those of the options, and the concept difference in nats (NaN without its texts)."""
    n = len(doc["options"])
    options, rest = list(scores[:n]), scores[n:]
    return options, float(concept_difference([rest[:2]], [rest[2:]])[0]) if rest else float("nan")


def mean(items: Sequence[float | None]) -> float:
    """Aggregation: the mean of the rows that have the value, NaN where none has."""
    known = [item for item in items if item is not None]
    return float(np.mean(known)) if known else float("nan")


def median(items: Sequence[float | None]) -> float:
    """Aggregation: the median of the rows that have the value, NaN where none has."""
    known = [item for item in items if item is not None]
    return float(np.median(known)) if known else float("nan")
