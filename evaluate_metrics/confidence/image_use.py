"""Whether a score depends on the image: the tests of rule 2 of `medfaith audit` (docs/audit.md) on scores.

The rule compares the answers to the same rows under several conditions: with the row's own image, with another
patient's image whose right answer differs (`other`), without an image (blind), and after a harmless change of the
image. All tests resample and exchange whole groups (patient, study, video). `image_verdict` judges by their p-values.
Rule 1 is `reliance.verdicts`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arguments.kinds import (
    COUNT,
    DIFFERENCE,
    LABELS,
    MARGIN,
    SEED,
    UNIT,
    flags,
    instance,
    mapping,
    one,
    optional,
    record,
)
from ..arguments.schema import check_arguments
from .paired import POWER, Difference, compute_detectable_difference, compute_paired_difference, enough
from .proportion import FEW, compute_mean, compute_normal_quantile
from .reliance import ALPHA, FEWEST, compute_exceeding_p, is_unchanged
from .score import permutation_test, select_known_pairs

N_PERMUTATIONS = 2000  # permutations of the equality tests, equal to the bootstrap's number of resamples
N_ADVERSE = 2  # groups that the equality tests add: with one, a model at the margin is called equal in 5.5% of audits
PERFECT = 0.95  # from this score on, a model may have memorised the images
MOST_GROUPS = 10**9  # the present difference is at the margin if that many groups are not enough
MOST_LOST = 0.5  # largest share of the own image's gain that a harmless change may remove


class Condition(NamedTuple):
    """The answers under one condition, in the order of the rows.

    Attributes:
        scores: Shape (n,), in [0, 1]; NaN where the row was not asked or not answered.
        is_asked: Shape (n,), whether the row was asked; an unread or declined answer is asked and has no score.
        is_changed: Shape (n,), 1 where the answer differs from the answer with the own image, 0 where it is the same;
            NaN where either answer is missing. A declined answer may count as an answer here. None if answers are not
            texts.
    """

    scores: np.ndarray
    is_asked: np.ndarray
    is_changed: np.ndarray | None = None


class Comparison(NamedTuple):
    """Two conditions on the rows that both answer.

    Attributes:
        difference: The first score minus the second, with its 95% interval.
        p_above: One-sided p-value of "the first is above the second by no more than the threshold of the test".
        p_below: One-sided p-value of "the first is below the second by no more than the margin".
        p_equal: P-value of "the two differ by the margin or more" (two one-sided tests).
        n_enough: Rows that would settle the test with a power of 0.8 (`compute_settling_n`).
        is_over_donors: Whether the interval, its groups and `n_enough` are over the other images that the rows show.
    """

    difference: Difference
    p_above: float
    p_below: float
    p_equal: float
    n_enough: float
    is_over_donors: bool = False


class Blind(NamedTuple):
    """The own image compared with one blind condition, on the rows that are answered with the image.

    Attributes:
        comparison: On the rows that both answer. Its p-values hold under worst-case bounds: an unanswered blind row has
            the score, 0 or 1, that hurts the claim most.
        n_unanswered: Rows that the blind condition leaves unread or declined.
        n: Rows that are answered with the image and asked under the blind condition.
        is_hidden: Whether this condition can settle nothing: n is 0, or more rows are unanswered than the margin
            allows, and the own image is not worse by more than the margin even if each unanswered blind row is wrong.
    """

    comparison: Comparison
    n_unanswered: int
    n: int
    is_hidden: bool


class ImageUse(NamedTuple):
    """The tests of one model and one benchmark.

    Attributes:
        other: Test (a): the own image compared with another patient's image, above the margin; None if not asked.
        p_no_effect: Permutation p-value of "the own image is no better than another one" (margin 0).
        blind: Test (b) for each blind condition, above 0.
        best: The blind condition with the highest score relative to the score with the image, of those that can settle
            (b) if there are any; "" without any.
        fragility: For each harmless condition, the own image compared with it, above the margin; `p_above` is NaN
            unless more than `MOST_LOST` of the own image's gain is lost. An answer that is missing under one of the two
            counts as wrong there.
        p_follows: P-value of "answers change with another image no more often than after a harmless change, plus the
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
        """Number of blind conditions that can settle test (b)."""
        return sum(not blind.is_hidden for blind in self.blind.values())


_GROUPS = optional(LABELS)
_BOUNDS = one("limits", "two arrays of scores", lambda bounds: isinstance(bounds, tuple) and len(bounds) == 2)
_CONDITION = record(Condition, scores=UNIT, is_asked=flags(), is_changed=optional(UNIT))


@check_arguments(
    after=UNIT,
    before=UNIT,
    margin=MARGIN,
    threshold=DIFFERENCE,
    groups=_GROUPS,
    seed=SEED,
    bounds=optional(_BOUNDS),
    n_tests=COUNT,
)
def compare_conditions(  # noqa: PLR0913 (settings of the test, by name)
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
        threshold: The excess of `after` over `before` that `p_above` tests.
        groups: Shape (n,), one label per row.
        seed: Seed of the permutations and resamples.
        bounds: The lowest and the highest possible scores of `before`, which replace it in the tests; by default
            `before` itself.
        n_tests: Factor of `p_equal` if the data chose the condition (Bonferroni).

    Returns:
        The comparison. P-values are NaN with fewer than two groups.

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    options = {"groups": groups, "seed": seed}
    difference = compute_paired_difference(after, before, **options)
    lowest, highest = bounds or (before, before)
    p_above = compute_exceeding_p(after, highest, threshold, alternative="greater", **options)
    p_below = compute_exceeding_p(lowest, after, margin, alternative="greater", **options)
    p_equal = max(_compute_equal_p(after, scores, margin, n_tests, **options) for scores in bounds or (before,))
    return Comparison(difference, p_above, p_below, p_equal, compute_settling_n(difference, margin, threshold))


@check_arguments(difference=instance(Difference), margin=MARGIN, threshold=DIFFERENCE)
def compute_settling_n(difference: Difference, margin: float, threshold: float) -> float:
    """Compute the number of rows that would settle a test with a power of 0.8.

    If no group differs, log(0.05) / log(1 - margin) groups of this size show equality. Otherwise the rows detect the
    distance of the difference from the threshold if that is more than the margin. Otherwise they show equality: if the
    present rows could detect the margin already, for the present difference, else for a difference of 0.

    Args:
        difference: The difference of the present rows.
        margin: Equivalence margin, a fraction.
        threshold: The excess that the test requires.

    Returns:
        The number of rows; NaN if undefined.
    """
    if difference.n and not difference.n_differ and margin > 0:
        n_groups = math.ceil(math.log(ALPHA) / math.log(1 - margin))
        return math.ceil(difference.n / difference.n_groups * n_groups)
    could_find = compute_detectable_difference(difference.low, difference.high)
    within = margin - abs(difference.difference)
    target = within if could_find < margin and within > 0 else margin
    if math.isnan(could_find) or difference.difference - threshold > target:
        return enough(difference.n, could_find, difference.difference - threshold)
    n_groups = _count_groups_for_equality(difference, target)
    return math.ceil(difference.n / difference.n_groups * n_groups) if n_groups < MOST_GROUPS else math.nan


def _count_groups_for_equality(difference: Difference, margin: float) -> int:
    """Count the groups of which both tests of `_compute_equal_p` reject with a power of 0.9, so of 0.8 together.

    The groups vary as the present ones do. The added groups count against the margin and widen the permutations.
    """
    spread = (difference.high - difference.low) / 2 / compute_normal_quantile(0.95) * math.sqrt(difference.n_groups)
    z_alpha, z_power = compute_normal_quantile(1 - 2 * ALPHA), compute_normal_quantile(POWER)

    def is_enough(n: int) -> bool:
        permuted = math.sqrt(n * (spread**2 + margin**2) + N_ADVERSE * (1 + margin) ** 2)
        return n * margin - N_ADVERSE * (1 + margin) >= z_alpha * permuted + z_power * spread * math.sqrt(n)

    return bisect_left(range(MOST_GROUPS), True, key=is_enough)


@check_arguments(
    own_image=_CONDITION,
    other_image=optional(_CONDITION),
    blind=mapping(_CONDITION),
    harmless=mapping(_CONDITION),
    margin=MARGIN,
    groups=_GROUPS,
    donors=_GROUPS,
    seed=SEED,
)
def measure_image_use(  # noqa: PLR0913 (conditions and settings of one measurement)
    own_image: Condition,
    other_image: Condition | None,
    blind: Mapping[str, Condition],
    harmless: Mapping[str, Condition],
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    donors: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> ImageUse:
    """Run the tests of rule 2 on one model and one benchmark.

    Args:
        own_image: The answers with the row's own image.
        other_image: The answers with another patient's image of the same view, whose right answer differs.
        blind: Conditions that hide the evidence for the question.
        harmless: Changes of the own image that preserve the right answer.
        margin: Equivalence margin, a fraction.
        groups: Shape (n,), one label per row.
        donors: Shape (n,), the other image of each row. Few images that are shown to many rows are few observations:
            tests against `other_image` have to hold over the rows' groups and over these.
        seed: Seed of the permutations and resamples.

    Returns:
        The tests, which `image_verdict.judge_image_use` corrects and judges.

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    options = {"margin": margin, "groups": groups, "seed": seed}
    n_asked = int(own_image.is_asked.sum())
    n_unanswered = int((own_image.is_asked & np.isnan(own_image.scores)).sum())
    against_other, p_no_effect = None, math.nan
    if other_image is not None:
        against_other = _compare_other(own_image, other_image, donors, options)
        p_no_effect = _take_larger(
            permutation_test(
                own_image.scores, other_image.scores, alternative="greater", groups=labels, seed=seed
            ).p_value
            for labels in ((groups,) if donors is None else (groups, donors))
        )
    tests = {name: _compare_blind(own_image, condition, len(blind), options) for name, condition in blind.items()}
    differences = {name: test.comparison.difference.rounded for name, test in tests.items()}
    ranks = {name: (tests[name].is_hidden, math.isnan(gain), gain) for name, gain in differences.items()}
    best = min(ranks, key=ranks.__getitem__, default="")
    fragility = {}
    for name, condition in harmless.items():
        own_scores, harmless_scores = _count_missing_as_wrong(own_image, condition)
        comparison = compare_conditions(own_scores, harmless_scores, threshold=margin, **options)
        share_lost = _compute_share_lost(own_image, other_image, tests, comparison.difference.rounded)
        fragility[name] = comparison if share_lost > MOST_LOST else comparison._replace(p_above=math.nan)
    return ImageUse(
        against_other, p_no_effect, tests, best, fragility,
        _compute_following_p(other_image, harmless, donors, options),
        n_unanswered / n_asked if n_asked else math.nan, margin,
    )  # fmt: skip


def _compare_other(
    own_image: Condition, other_image: Condition, donors: Sequence | np.ndarray | None, options: Mapping
) -> Comparison:
    """Compare the own image with another one, over the rows' groups and over the other images; the wider result counts.

    Too few other images to show anything are the wider result. If no answer differs, the own images alone tell how many
    images had no effect.
    """
    scores, margin = (own_image.scores, other_image.scores), options["margin"]
    by_group = compare_conditions(*scores, threshold=margin, **options)
    if donors is None or not by_group.difference.n_differ:
        return by_group
    donor_options: dict[str, Any] = {**options, "groups": donors}
    by_donor = compare_conditions(*scores, threshold=margin, **donor_options)._replace(is_over_donors=True)
    group_width, donor_width = (test.difference.high - test.difference.low for test in (by_group, by_donor))
    has_enough = by_donor.difference.n_groups >= FEWEST or by_group.difference.n_groups < FEWEST
    wider = by_group if has_enough and donor_width <= group_width else by_donor
    return wider._replace(
        p_above=_take_larger((by_group.p_above, by_donor.p_above)),
        p_below=_take_larger((by_group.p_below, by_donor.p_below)),
        p_equal=_take_larger((by_group.p_equal, by_donor.p_equal)),
    )


def _take_larger(p_values: Iterable[float]) -> float:
    """Take the larger p-value: NaN if the first one is; a further one that is NaN shows nothing, so it is 1."""
    first, *further = p_values
    return (
        max([first, *(1.0 if math.isnan(p_value) else p_value for p_value in further)])
        if not math.isnan(first)
        else first
    )


def _compare_blind(own_image: Condition, blind: Condition, n_blind: int, options: Mapping) -> Blind:
    is_compared = blind.is_asked & ~np.isnan(own_image.scores)
    is_unanswered = is_compared & np.isnan(blind.scores)
    n, n_unanswered = int(is_compared.sum()), int(is_unanswered.sum())
    lowest, highest = (np.where(is_unanswered, bound, blind.scores) for bound in (0.0, 1.0))
    bounds = (lowest, highest) if n_unanswered else None
    comparison = compare_conditions(
        own_image.scores, blind.scores, threshold=0.0, bounds=bounds, n_tests=n_blind, **options
    )
    is_bounded = n_unanswered <= options["margin"] * n or comparison.p_below < ALPHA
    return Blind(comparison, n_unanswered, n, n == 0 or not is_bounded)


def _count_missing_as_wrong(own_image: Condition, harmless: Condition) -> tuple[np.ndarray, np.ndarray]:
    """Score an answer that is missing under one of two conditions as wrong there; NaN if both are missing.

    A harmless change that takes the answer takes the gain from the image. Declines at random cancel out.
    """
    is_used = own_image.is_asked & harmless.is_asked & ~(np.isnan(own_image.scores) & np.isnan(harmless.scores))
    own_scores, harmless_scores = (
        np.where(is_used, np.nan_to_num(condition.scores), math.nan) for condition in (own_image, harmless)
    )
    return own_scores, harmless_scores


def _compute_equal_p(after: np.ndarray, before: np.ndarray, margin: float, n_tests: int, **options) -> float:
    """Compute the p-value of "the two differ by the margin or more", times the number of tests.

    If no row differs, a model that reads the images of a share `margin` of all patients happens to meet none of them:
    (1 - margin) ** patients is the probability of that. With fewer than `FEW` groups rows count singly, and the result
    holds for these groups only (see `reliance.Reliance.p_equal`). Otherwise the test is two one-sided tests, each with
    added groups that differ fully (`reliance.compute_exceeding_p`), because a bootstrap would treat a change that
    is too rare for these rows as no change.
    """
    options = options | {"alternative": "greater", "n_permutations": N_PERMUTATIONS, "n_adverse": N_ADVERSE}
    known_after, known_before, labels, _ = select_known_pairs(after, before, options["groups"])
    if len(known_after) and is_unchanged(known_after, known_before):
        n_groups = len(known_after) if labels is None else len(np.unique(labels))
        return (1 - margin) ** (n_groups if n_groups >= FEW else len(known_after)) if n_groups > 1 else math.nan
    p_value = max(
        compute_exceeding_p(after, before, -margin, **options), compute_exceeding_p(before, after, -margin, **options)
    )
    return float(np.minimum(1.0, n_tests * p_value))


def _compute_share_lost(
    own_image: Condition, other_image: Condition | None, blind: Mapping[str, Blind], loss: float
) -> float:
    """Compute the share of the own image's gain that is lost under a harmless change; NaN without a gain.

    The gain is relative to the best blind condition that can settle (b). Without such a condition the gain is that over
    `other` times the share of wrong guesses, because a model that follows an image is wrong with another one even where
    a guess is right. The rows that do not depend on the image are guesses. Their share of wrong answers is used, but at
    most half. A perfect model has too few of them, so the share is a third.
    """
    gains = [test.comparison.difference.rounded for test in blind.values() if not test.is_hidden]
    if gains:
        gain = float(min(gains))
    elif other_image is not None:
        own_score = _compute_known_mean(own_image.scores)
        gain_over_other = _compute_known_mean(own_image.scores - other_image.scores)
        n_guessed = max(1 - own_score, 1 - gain_over_other)
        gain = gain_over_other * (1 / 3 if own_score >= PERFECT else min(1 / 2, (1 - own_score) / n_guessed))
    else:
        return math.nan
    return loss / gain if gain > 0 else math.nan


def _compute_known_mean(values: np.ndarray) -> float:
    """Compute the mean of the values that are not NaN, without the last digits; 0 if all are NaN."""
    known_values = values[~np.isnan(values)]
    return round(compute_mean(known_values), 12) if len(known_values) else 0.0


def _compute_following_p(
    other_image: Condition | None,
    harmless: Mapping[str, Condition],
    donors: Sequence | np.ndarray | None,
    options: Mapping,
) -> float:
    """Compute the p-value of `ImageUse.p_follows`: the largest one over the harmless conditions."""
    if other_image is None or other_image.is_changed is None:
        return math.nan
    harmless_changes = [condition.is_changed for condition in harmless.values() if condition.is_changed is not None]
    settings: dict[str, Any] = {"seed": options["seed"], "alternative": "greater", "margin": options["margin"]}
    all_labels = (options["groups"],) if donors is None else (options["groups"], donors)
    return max(
        (
            _take_larger(
                compute_exceeding_p(other_image.is_changed, is_changed, groups=labels, **settings)
                for labels in all_labels
            )
            for is_changed in harmless_changes
        ),
        default=math.nan,
    )
