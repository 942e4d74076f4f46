"""Does a score rest on the image? The tests of rule 2 of `medfaith audit` (docs/audit.md), as functions of scores.

The rule compares the answers to the same rows under several conditions: with the row's own image, with another
patient's image whose right answer differs (`other`), without an image (blind), and after a harmless change of the
image. All tests resample and exchange whole groups (patient, study, video). `image_verdict` judges by their p-values.
Rule 1 is `reliance.verdicts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .paired import FEW, Difference, detectable, enough, paired_difference
from .reliance import ALPHA, exceeding_p
from .score import known_pairs, permutation_test

N_PERMUTATIONS = 2000  # of the tests of equality, as many as the bootstrap's resamples
PERFECT = 0.95  # score with the plain image from which a model may have memorised it
MOST_LOST = 0.5  # share of what the own image adds that a harmless change may take away


class Condition(NamedTuple):
    """The answers under one condition, in the order of the rows.

    Attributes:
        scores: Shape (n,), in [0, 1]; NaN where the row was not asked or not answered.
        is_asked: Shape (n,), whether the row was asked; an unread or declined answer is asked and has no score.
        is_changed: Shape (n,), 1 where the answer differs from that with the own image, 0 where it is the same; NaN
            where either answer is missing. None where answers are no words.
    """

    scores: np.ndarray
    is_asked: np.ndarray
    is_changed: np.ndarray | None = None


class Comparison(NamedTuple):
    """Two conditions on the rows that both answer.

    Attributes:
        difference: The first score less the second, with its 95% interval.
        p_above: One-sided p-value of "the first is above the second by no more than the threshold of the test".
        p_below: One-sided p-value of "the first is below the second by no more than the margin".
        p_equal: P-value of "the two differ by the margin or more" (two one-sided tests).
        n_enough: Rows that would settle the test four times in five (`settling_n`).
    """

    difference: Difference
    p_above: float
    p_below: float
    p_equal: float
    n_enough: float


class Blind(NamedTuple):
    """The own image against one blind condition, on the rows that are answered with the image.

    Attributes:
        comparison: On the rows that both answer. Its p-values hold under worst-case bounds: an unanswered blind row has
            the score, 0 or 1, that hurts the claim most.
        n_unanswered: Rows that the blind condition leaves unread or declined.
        n: Rows that are answered with the image and asked under the blind condition.
        is_hidden: Whether unanswered rows are more than the margin, so that equality can never be shown, or n is 0.
    """

    comparison: Comparison
    n_unanswered: int
    n: int
    is_hidden: bool


class ImageUse(NamedTuple):
    """The tests of one model and one benchmark.

    Attributes:
        other: Test (a): the own image against another patient's image, above the margin; None if not asked.
        p_no_effect: Permutation p-value of "the own image is no better than another one" (margin 0).
        blind: Test (b) for each blind condition, above 0.
        best: The blind condition with the highest score beside that of the image; "" without any.
        fragility: For each harmless condition, the own image against it, above the margin; the p-values are NaN where
            fewer than `MOST_LOST` of what the own image adds is lost.
        p_follows: P-value of "answers change with another image no more often than after a harmless change, but for the
            margin"; NaN where it was not asked.
        share_unanswered: Share of unread and declined answers with the own image.
        margin: Equivalence margin, a fraction.
    """

    other: Comparison | None
    p_no_effect: float
    blind: Mapping[str, Blind]
    best: str
    fragility: Mapping[str, Comparison]
    p_follows: float
    share_unanswered: float
    margin: float

    @property
    def n_open_blind(self) -> int:
        """Blind conditions that can settle test (b)."""
        return sum(not blind.is_hidden for blind in self.blind.values())


def compare_conditions(
    after: np.ndarray,
    before: np.ndarray,
    *,
    margin: float,
    threshold: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
    bounds: tuple[np.ndarray, np.ndarray] | None = None,
    n_tests: int = 1,
) -> Comparison:
    """Compare two conditions row by row.

    Args:
        after: Shape (n,), scores in [0, 1]; NaN where missing.
        before: Shape (n,), likewise.
        margin: Equivalence margin, a fraction.
        threshold: By how much `after` has to exceed `before` for `p_above`.
        groups: Shape (n,), one label a row.
        seed: Seed of the permutations and resamples.
        bounds: The lowest and the highest possible scores of `before`, which replace it in the tests; by default
            `before` itself.
        n_tests: Factor of `p_equal` where the data chose the condition (Bonferroni).

    Returns:
        The comparison. P-values are NaN with fewer than two groups.

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    how = {"groups": groups, "seed": seed}
    difference = paired_difference(after, before, **how)
    low, high = bounds or (before, before)
    p_above = exceeding_p(after, high, threshold, alternative="greater", **how)
    p_below = exceeding_p(low, after, margin, alternative="greater", **how)
    p_equal = max(_equal_p(after, scores, margin, n_tests, **how) for scores in bounds or (before,))
    return Comparison(difference, p_above, p_below, p_equal, settling_n(difference, margin, threshold))


def settling_n(difference: Difference, margin: float, threshold: float) -> float:
    """Compute how many rows would settle a test four times in five.

    Where no group differs, log(0.05) / log(1 - margin) groups of this size make equality sure. Elsewhere the rows find
    the distance of the difference from the threshold if that is more than the margin. If the present rows
    could find a difference of the margin already, they find the distance of the difference from it. Else they find a
    difference of the margin.
    """
    if difference.n and not difference.n_differ and margin > 0:
        n_groups = math.ceil(math.log(ALPHA) / math.log(1 - margin))
        return math.ceil(difference.n / difference.n_groups * n_groups)
    could_find = detectable(difference.low, difference.high)
    within = margin - abs(difference.difference)
    wanted = within if could_find < margin and within > 0 else margin
    return enough(difference.n, could_find, max(wanted, difference.difference - threshold))


def measure_image_use(
    own: Condition,
    other: Condition | None,
    blind: Mapping[str, Condition],
    harmless: Mapping[str, Condition],
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> ImageUse:
    """Run the tests of rule 2 on one model and one benchmark.

    Args:
        own: With the row's own image.
        other: With another patient's image of the same view, whose right answer differs.
        blind: Conditions that show nothing of what is asked.
        harmless: Changes of the own image that leave the right answer as it is.
        margin: Equivalence margin, a fraction.
        groups: Shape (n,), one label a row.
        seed: Seed of the permutations and resamples.

    Returns:
        The tests, which `image_verdict.judge_image_use` corrects and judges.

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    how = {"margin": margin, "groups": groups, "seed": seed}
    n_asked = int(own.is_asked.sum())
    n_unanswered = int((own.is_asked & np.isnan(own.scores)).sum())
    against_other, p_no_effect = None, math.nan
    if other is not None:
        against_other = compare_conditions(own.scores, other.scores, threshold=margin, **how)
        p_no_effect = permutation_test(
            own.scores, other.scores, alternative="greater", groups=groups, seed=seed
        ).p_value
    tests = {name: _compare_blind(own, condition, len(blind), how) for name, condition in blind.items()}
    differences = {name: test.comparison.difference.difference for name, test in tests.items()}
    best = min(differences, key=lambda name: (math.isnan(differences[name]), differences[name]), default="")
    fragility = {}
    for name, condition in harmless.items():
        comparison = compare_conditions(own.scores, condition.scores, threshold=margin, **how)
        lost = _share_lost(own, condition, other, tests)
        fragility[name] = comparison if lost > MOST_LOST else comparison._replace(p_above=math.nan)
    return ImageUse(
        against_other, p_no_effect, tests, best, fragility, _following_p(other, harmless, how),
        n_unanswered / n_asked if n_asked else math.nan, margin,
    )  # fmt: skip


def _compare_blind(own: Condition, blind: Condition, n_blind: int, how: Mapping) -> Blind:
    is_compared = blind.is_asked & ~np.isnan(own.scores)
    is_unanswered = is_compared & np.isnan(blind.scores)
    n, n_unanswered = int(is_compared.sum()), int(is_unanswered.sum())
    low, high = (np.where(is_unanswered, bound, blind.scores) for bound in (0.0, 1.0))
    bounds = (low, high) if n_unanswered else None
    comparison = compare_conditions(own.scores, blind.scores, threshold=0.0, bounds=bounds, n_tests=n_blind, **how)
    return Blind(comparison, n_unanswered, n, n == 0 or n_unanswered > how["margin"] * n)


def _equal_p(after: np.ndarray, before: np.ndarray, margin: float, n_tests: int, **how) -> float:
    """P-value of "the two differ by the margin or more", times the number of tests.

    Where no row differs, a model that reads the images of a share `margin` of all patients has not met one of them:
    (1 - margin) ** patients is the chance of that. With fewer than `FEW` groups rows count singly, and the result
    speaks of these groups only (see `reliance.Reliance.p_equal`). Elsewhere it is two one-sided tests, each of which
    adds one group that differs wholly (`reliance.exceeding_p`): a bootstrap would take a change that is too rare to be
    seen in these rows for none.
    """
    how = how | {"alternative": "greater", "n_permutations": N_PERMUTATIONS}
    known_after, known_before, labels, _ = known_pairs(after, before, how["groups"])
    if len(known_after) and np.array_equal(known_after, known_before):
        n_groups = len(known_after) if labels is None else len(np.unique(labels))
        return (1 - margin) ** (n_groups if n_groups >= FEW else len(known_after)) if n_groups > 1 else math.nan
    p_value = max(exceeding_p(after, before, -margin, **how), exceeding_p(before, after, -margin, **how))
    return float(np.minimum(1.0, n_tests * p_value))


def _share_lost(own: Condition, harmless: Condition, other: Condition | None, blind: Mapping[str, Blind]) -> float:
    """Share of what the own image adds that is lost under a harmless change; NaN where nothing is added.

    The own image adds to the best blind condition that can settle (b). Without such a condition `other` serves by half:
    a guess is right in about half of the rows. A model that is perfect on the plain image may recall the answer to the
    other image, too, and be wrong there. `other` then counts what its guess gets right as well: it serves by a third.
    """
    known = [of.comparison.difference.difference for of in blind.values() if not of.is_hidden]
    if known:
        added = float(min(known))
    elif other is not None:
        is_perfect = bool(np.nanmean(_known(own.scores)) >= PERFECT)
        added = float(np.nanmean(_known(own.scores - other.scores))) / (3 if is_perfect else 2)
    else:
        return math.nan
    lost = float(np.nanmean(_known(own.scores - harmless.scores)))
    return lost / added if added > 0 else math.nan


def _known(values: np.ndarray) -> np.ndarray:
    """Values with their NaN, or one 0 where all are NaN: the mean of no row would warn."""
    return values if (~np.isnan(values)).any() else np.zeros(1)


def _following_p(other: Condition | None, harmless: Mapping[str, Condition], how: Mapping) -> float:
    """The largest p-value over the harmless conditions."""
    if other is None or other.is_changed is None:
        return math.nan
    of_harmless = [condition.is_changed for condition in harmless.values() if condition.is_changed is not None]
    how = {"groups": how["groups"], "seed": how["seed"], "alternative": "greater"} | {"margin": how["margin"]}
    return max((exceeding_p(other.is_changed, changed, **how) for changed in of_harmless), default=math.nan)
