"""Does a score rest on the image? Rule 2 of `medfaith audit` (docs/audit.md), as pure functions of scores.

The rule compares the answers to the same rows under several conditions: with the row's own image, with another
patient's image whose right answer differs (`other`), without an image (blind), and after a harmless change of the
image. Rule 1 is `reliance.verdicts`. All tests resample and exchange whole groups (patient, study, video).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from .paired import (
    FEW,
    Difference,
    benjamini_yekutieli,
    detectable,
    enough,
    holm,
    paired_difference,
)
from .reliance import ALPHA, exceeding_p
from .score import known_pairs, permutation_test

Name = Literal["uses", "recalls", "no use", "reacts", "harmed", "open", "unanswered", "undefined"]
MOST_UNANSWERED = 0.5  # share of unread and declined answers with the image above which there is no verdict
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
    """What `judge_image_use` needs to know of one model and one benchmark.

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


class ImageVerdict(NamedTuple):
    """The verdict of rule 2.

    Attributes:
        name: What can be said.
        p_holm: The corrected p-value that says it; of "open" the smallest of all.
        failed: Of "open", the test that failed: "other" or the name of a blind or harmless condition; "" elsewhere.
        n_enough: Of "open", the rows that would settle that test; NaN elsewhere, or where more rows would not help.
    """

    name: Name
    p_holm: float
    failed: str = ""
    n_enough: float = math.nan


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
        The tests, which `judge_image_use` corrects and judges.

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


def judge_image_use(found: Sequence[ImageUse]) -> list[ImageVerdict]:
    """Judge models and benchmarks that form one family of tests.

    Each kind of p-value is corrected by Holm's method over the family. In this order, below 0.05:

    - "uses": the own image is better than another one by more than the margin (a), and better than each blind condition
      that can settle it (b). Where the model leaves more blind rows unanswered than the margin, (a) alone decides.
      "recalls": the same, but a harmless change takes most of that away. If that cannot be shown, it is "open".
    - "harmed": the own image is worse than another one, or worse than every blind condition, by more than the margin;
      also where the 95% interval lies wholly there.
    - "reacts": equal to another image (a), but better than blind (b) or with answers that follow the image.
    - "no use": equal to another image (a) and to the best blind condition (b).
    - "open": everything else.

    Args:
        found: The tests of each model and benchmark.

    Returns:
        One verdict for each, in the same order. "unanswered": too many answers with the image are unread or declined.
        "undefined": `other` or all blind conditions were not asked. Fewer than two groups are "open".
    """
    can_judge = [_can_judge(use) for use in found]
    kinds = {
        name: holm([p_value(use) if judged else math.nan for use, judged in zip(found, can_judge, strict=True)])
        for name, p_value in _P_VALUES.items()
    }
    return [
        _judge(use, {name: float(p[i]) for name, p in kinds.items()}) if can_judge[i] else _without_verdict(use)
        for i, use in enumerate(found)
    ]


def judge_findings(found: Sequence[ImageUse]) -> list[ImageVerdict]:
    """Judge the rows of single findings, anatomies or instruments, which form one family of tests.

    The p-values of "uses" and of "no use" are adjusted for the false discovery rate (`benjamini_yekutieli`).

    Args:
        found: The tests on the rows of each finding of each model and benchmark.

    Returns:
        One verdict for each, in the same order: "uses", "recalls", "no use", "open", or as `judge_image_use` without a
        verdict.
    """
    can_judge = [_can_judge(use) for use in found]
    uses, no_use = (
        benjamini_yekutieli([p_value(use) if can else math.nan for use, can in zip(found, can_judge, strict=True)])
        for p_value in (uses_p, no_use_p)
    )
    verdicts = []
    for use, can, p_uses, p_no_use in zip(found, can_judge, uses, no_use, strict=True):
        if not can:
            verdicts.append(_without_verdict(use))
        elif p_uses < ALPHA:
            verdicts.append(_judge_robustness(use, float(p_uses), _recalls_p(use)))
        elif p_no_use < ALPHA:
            verdicts.append(ImageVerdict("no use", float(p_no_use)))
        else:
            verdicts.append(_open(use, float(min(p_uses, p_no_use))))
    return verdicts


def uses_p(use: ImageUse) -> float:
    """P-value of "uses": the larger of (a) and (b), an intersection-union test."""
    return float(np.maximum(_a(use).p_above, _blind_above(use)))  # NaN stays


def no_use_p(use: ImageUse) -> float:
    """P-value of "no use": the larger of the equivalences (a) and (b)."""
    return float(np.maximum(_a(use).p_equal, _blind_equal(use)))


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


def _a(use: ImageUse) -> Comparison:
    assert use.other is not None
    return use.other


def _blind_above(use: ImageUse) -> float:
    """The largest p-value over the blind conditions that can settle it; 0 where none can."""
    return max((blind.comparison.p_above for blind in use.blind.values() if not blind.is_hidden), default=0.0)


def _blind_equal(use: ImageUse) -> float:
    """The p-value of the best blind condition among those that can settle it; 0 where none can."""
    known = [blind.comparison for blind in use.blind.values() if not blind.is_hidden]
    best = min(known, key=lambda comparison: comparison.difference.difference, default=None)
    return 0.0 if best is None else best.p_equal


def _harmed_p(use: ImageUse) -> float:
    """Either test may show harm, so the smaller p-value counts twice."""
    below_blind = max((blind.comparison.p_below for blind in use.blind.values() if blind.n), default=1.0)
    return min(1.0, 2 * min(_a(use).p_below, below_blind))


def _reacts_p(use: ImageUse) -> float:
    """Equal by (a), and one of two signs that the image changes something."""
    better = _blind_above(use) if use.n_open_blind else 1.0
    follows = 1.0 if math.isnan(use.p_follows) else use.p_follows
    return max(_a(use).p_equal, min(1.0, 2 * min(better, follows)))


def _recalls_p(use: ImageUse) -> float:
    """The smallest p-value over the harmless conditions, times their number."""
    known = [of.p_above for of in use.fragility.values() if not math.isnan(of.p_above)]
    return min(1.0, len(use.fragility) * min(known)) if known else 1.0


_P_VALUES = {"uses": uses_p, "no use": no_use_p, "harmed": _harmed_p, "reacts": _reacts_p, "recalls": _recalls_p}


def _can_judge(use: ImageUse) -> bool:
    if (
        use.other is None
        or not any(blind.n for blind in use.blind.values())
        or not use.share_unanswered <= MOST_UNANSWERED
    ):
        return False
    return not any(math.isnan(p_value(use)) for p_value in _P_VALUES.values())


def _without_verdict(use: ImageUse) -> ImageVerdict:
    """No verdict; "open" where all was asked, of too few groups."""
    if use.share_unanswered > MOST_UNANSWERED:
        return ImageVerdict("unanswered", math.nan)
    is_asked = use.other is not None and any(blind.n for blind in use.blind.values())
    return ImageVerdict("open", math.nan, "other") if is_asked else ImageVerdict("undefined", math.nan)


def _judge(use: ImageUse, p: Mapping[str, float]) -> ImageVerdict:
    if p["uses"] < ALPHA:
        return _judge_robustness(use, p["uses"], p["recalls"])
    if p["harmed"] < ALPHA or _is_wholly_below(use):
        return ImageVerdict("harmed", p["harmed"])
    for name in ("reacts", "no use"):
        if p[name] < ALPHA:
            return ImageVerdict(name, p[name])
    return _open(use, min(p.values()))


def _judge_robustness(use: ImageUse, p_uses: float, p_recalls: float) -> ImageVerdict:
    """Tell a model that uses the image from one whose answers a harmless change takes away."""
    fragile = {name: of for name, of in use.fragility.items() if not math.isnan(of.p_above)}
    if not fragile:
        return ImageVerdict("uses", p_uses)
    if p_recalls < ALPHA:
        return ImageVerdict("recalls", p_recalls)
    failed = min(fragile, key=lambda name: fragile[name].p_above)
    return ImageVerdict("open", p_recalls, failed, fragile[failed].n_enough)


def _is_wholly_below(use: ImageUse) -> bool:
    """Whether the interval of (a), or each one of (b), lies wholly below the margin."""
    of_blind = [blind.comparison.difference.high for blind in use.blind.values() if blind.n]
    return _a(use).difference.high < -use.margin or bool(np.max(of_blind) < -use.margin)  # not where one is NaN


def _open(use: ImageUse, p_value: float) -> ImageVerdict:
    """Name the test that failed: (a) unless that shows something, else the blind condition that is farthest from it."""
    by_other = _a(use)
    is_above = by_other.p_above < ALPHA
    known = {name: blind.comparison for name, blind in use.blind.items() if not blind.is_hidden}
    if not known or not (is_above or by_other.p_equal < ALPHA):
        return ImageVerdict("open", p_value, "other", by_other.n_enough)
    order = (lambda name: -known[name].p_above) if is_above else (lambda name: known[name].difference.difference)
    failed = min(known, key=order)
    is_settled = is_above and known[failed].p_equal < ALPHA  # equal to a blind condition: more rows show no more
    return ImageVerdict("open", p_value, failed, math.nan if is_settled else known[failed].n_enough)
