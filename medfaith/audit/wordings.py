"""Paraphrases: how much a model's score depends on the wording of the questions and the order of the options."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.paired import Difference, apply_holm
from medfaith.evaluate_metrics.confidence.reliance import ALPHA, Share, compute_exceeding_p, share
from medfaith.report.tables import SEED

from .figures import Audited, Shown, blind_guesses
from .run import IMAGE, is_wording

MOST_WRONG = 0.5  # share of the paraphrases from which on an answer is right by its wording only


class Wordings(NamedTuple):
    """One model on one benchmark.

    Attributes:
        scores: Wording, or IMAGE for the question's own words -> mean score of the rows that both answer.
        under: Wording -> that wording less the question's own words.
        worst: The wording with the lowest score.
        best: The wording with the highest score.
        p_worse: P-value of "no paraphrase is worse than the own words by more than the margin", by Holm's method.
        by_wording: Of the right answers that no guess without evidence gets right (`figures.blind_guesses`), those that
            are wrong or unanswered under most paraphrases.
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
        """What the wording decides: which answers are right, the score, or nothing that can be shown."""
        if self.is_by_wording_only:
            return "wording only"
        return "depends" if self.depends else "not shown"


def compare_wordings(found: Audited, margin: float) -> Wordings | None:
    """Compare the paraphrases of one model's questions.

    Args:
        found: The model's answers.
        margin: Smallest difference that counts, a fraction.

    Returns:
        The comparison; None where no paraphrase was asked.
    """
    names = [name for name in found.shown if is_wording(name)]
    if not names:
        return None
    own = found.shown[IMAGE]
    under = {name: found.under(name) for name in names}
    scores = {IMAGE: float(np.nanmean(own.answered)) if (~np.isnan(own.answered)).any() else math.nan}
    scores |= {name: of.after for name, of in under.items()}
    p_values = [
        compute_exceeding_p(own.answered, found.shown[name].answered, margin, groups=found.groups, seed=SEED,
                    alternative="greater") for name in names
    ]  # fmt: skip
    order = sorted(scores, key=lambda name: (math.isnan(scores[name]), scores[name]))
    known = [name for name in order if not math.isnan(scores[name])] or order
    return Wordings(
        scores, under, known[0], known[-1], float(np.min(apply_holm(p_values))), _by_wording(own, found, names)
    )


def _by_wording(own: Shown, found: Audited, names: list[str]) -> Share:
    """Rows whose graded score counts as right from one half on."""
    is_right = np.array([found.shown[name].right == 1 for name in names])
    is_asked = np.array([~np.isnan(found.shown[name].right) for name in names])
    guesses = blind_guesses(found)
    is_guessed = np.array([guesses.get(row, False) for row in found.rows])
    used = (own.right == 1) & is_asked.any(axis=0) & ~is_guessed
    wrong = 1 - is_right.sum(axis=0) / np.maximum(is_asked.sum(axis=0), 1)
    return share((wrong > MOST_WRONG)[used], found.groups[used])
