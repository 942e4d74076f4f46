"""Paraphrases: how much a model's score depends on the wording of the questions and the order of the options."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.paired import Difference, apply_holm
from medfaith.evaluate_metrics.confidence.reliance import ALPHA, Share, compute_exceeding_p, share
from medfaith.reporting.tables import SEED

from .audited import Audited, ConditionAnswers
from .figures import find_blind_guesses
from .run import IMAGE, is_wording

MOST_WRONG = 0.5  # an answer that is wrong under a larger share of paraphrases is right by its wording only


class Wordings(NamedTuple):
    """One model on one benchmark.

    Attributes:
        scores: Wording, or IMAGE for the question's own words -> mean score of the rows that both answer.
        under: Wording -> that wording less the question's own words.
        worst: The wording with the lowest score.
        best: The wording with the highest score.
        p_worse: P-value of "no paraphrase is worse than the own words by more than the margin", by Holm's method.
        by_wording: Share of the right answers that are wrong or unanswered under most paraphrases. Answers that a guess
            without evidence gets right do not count (`figures.find_blind_guesses`).
    """

    scores: dict[str, float]
    under: dict[str, Difference]
    worst: str
    best: str
    p_worse: float
    by_wording: Share

    @property
    def spread(self) -> float:
        """Best score less worst score, a fraction."""
        return self.scores[self.best] - self.scores[self.worst]

    @property
    def is_by_wording_only(self) -> bool:
        """Whether the model is right by the wording only."""
        return self.p_worse < ALPHA and self.by_wording.low > MOST_WRONG

    @property
    def depends(self) -> bool:
        """Whether some paraphrase is worse than the own words by more than the margin."""
        return self.p_worse < ALPHA

    @property
    def verdict(self) -> Literal["wording only", "depends", "not shown"]:
        """The effect of the wording: on which answers are right, on the score, or none that can be shown."""
        if self.is_by_wording_only:
            return "wording only"
        return "depends" if self.depends else "not shown"


def compare_wordings(audit: Audited, margin: float) -> Wordings | None:
    """Compare the paraphrases of one model's questions.

    Args:
        audit: The model's answers.
        margin: Smallest difference that counts, a fraction.

    Returns:
        The comparison; None where no paraphrase was asked.
    """
    names = [name for name in audit.answers if is_wording(name)]
    if not names:
        return None
    own_words = audit.answers[IMAGE]
    under = {name: audit.under(name) for name in names}
    scores = {IMAGE: float(np.nanmean(own_words.answered)) if (~np.isnan(own_words.answered)).any() else math.nan}
    scores |= {name: difference.after for name, difference in under.items()}
    p_values = [
        compute_exceeding_p(own_words.answered, audit.answers[name].answered, margin, groups=audit.groups, seed=SEED,
                    alternative="greater") for name in names
    ]  # fmt: skip
    order = sorted(scores, key=lambda name: (math.isnan(scores[name]), scores[name]))
    defined = [name for name in order if not math.isnan(scores[name])] or order
    return Wordings(
        scores,
        under,
        defined[0],
        defined[-1],
        float(np.min(apply_holm(p_values))),
        _by_wording(own_words, audit, names),
    )


def _by_wording(own_words: ConditionAnswers, audit: Audited, names: list[str]) -> Share:
    """Compute `Wordings.by_wording`: the share of right answers that are not right under most paraphrases.

    Rows that a guess without evidence gets right do not count.
    """
    is_right = np.array([audit.answers[name].right == 1 for name in names])
    is_asked = np.array([~np.isnan(audit.answers[name].right) for name in names])
    guesses = find_blind_guesses(audit)
    is_guessed = np.array([guesses.get(row, False) for row in audit.rows])
    used = (own_words.right == 1) & is_asked.any(axis=0) & ~is_guessed
    wrong = 1 - is_right.sum(axis=0) / np.maximum(is_asked.sum(axis=0), 1)
    return share((wrong > MOST_WRONG)[used], audit.groups[used])
