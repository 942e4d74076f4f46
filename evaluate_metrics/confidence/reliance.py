"""Whether a score depends on the image: the score with the image next to the scores of blind controls.

`medfaith audit` removes the image (docs/audit.md). The same functions serve a control that removes a region of the
image. They resample and exchange whole groups (patient, study, video), like `score` and `paired`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..arguments.kinds import (
    COUNT,
    DIFFERENCE,
    LABELS,
    LEVEL,
    MARGIN,
    SEED,
    UNIT,
    VALUES,
    instance,
    mapping,
    numbers,
    one_of,
    optional,
    sequence,
)
from ..arguments.schema import check_arguments
from .paired import (
    Difference,
    apply_holm,
    compute_detectable_difference,
    compute_equivalence_p,
    compute_paired_difference,
    compute_superiority_p,
    enough,
)
from .proportion import FEW, compute_effective_n, compute_wilson_interval, quantise, sum_by_group
from .score import permutation_test, select_known_pairs

ALPHA = 0.05
FEWEST = 5  # smallest number of groups that can show a dependence
Name = Literal["uses", "no use", "harmed", "open", "undefined"]

_GROUPS = optional(LABELS)
_HITS = numbers("1 or 0, or NaN", lambda array: np.isnan(array) | (array == 0) | (array == 1))


class Share(NamedTuple):
    """A share with its interval; NaN where undefined.

    Attributes:
        value: n_hits / n.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n_hits: Number of hits.
        n: Number of values.
        n_groups: Number of groups; n without groups.
    """

    value: float
    low: float
    high: float
    n_hits: int
    n: int
    n_groups: int


class Reliance(NamedTuple):
    """The gain that the image adds to the score of one benchmark.

    Attributes:
        best: The blind control with the smallest gain of the image, on the rows with both values.
        found: The score with the image minus the score under `best`, with its 95% interval.
        p_above: P-value of "the image adds no more than the margin to some blind control" (`compute_exceeding_p`; the
            largest over the controls).
        p_below: P-value of "the image takes no more than the margin from some blind control" (likewise).
        p_equal: P-value of "the image and `best` differ by the margin or more" (`paired.compute_equivalence_p`), times
            the number of blind controls, because the data chose `best` (Bonferroni). If no row differs under any
            control, the correlation of rows within a group is unknown and rows count singly: (1 - margin) ** n is the
            probability of that if the share `margin` of all rows differed. The result then holds for these groups only.
        could_find: The minimum difference from `best` that this number of rows detects with a power of 0.8.
        n_enough: Rows that would settle the test with a power of 0.8. The difference to detect is the margin or, if the
            rows could detect the margin already, the distance of the difference from the margin.
    """

    best: str
    found: Difference
    p_above: float
    p_below: float
    p_equal: float
    could_find: float
    n_enough: float


class Verdict(NamedTuple):
    """The verdict on one benchmark.

    Attributes:
        name: The verdict.
        p_holm: The corrected p-value of the verdict; the smallest of the three for "open".
    """

    name: Name
    p_holm: float


@check_arguments(hits=_HITS, groups=_GROUPS, confidence_level=LEVEL)
def share(
    hits: Sequence[float] | np.ndarray,
    groups: Sequence | np.ndarray | None = None,
    confidence_level: float = 0.95,
) -> Share:
    """Compute a proportion with Wilson's score interval.

    With groups, n is the effective one (`proportion.compute_effective_n`).

    Args:
        hits: Shape (n,), 1 or 0; NaN is left out.
        groups: Shape (n,), one label per value.
        confidence_level: Level of the interval.

    Returns:
        The share; low and high are NaN with fewer than two groups.

    Raises:
        ValueError: Arrays of another shape, or another number.

    >>> share([1, 1, 1, 0]).value
    0.75
    """
    known_hits, _, labels, _ = select_known_pairs(hits, hits, groups)
    n_groups = len(sum_by_group(known_hits, labels)[0])
    if not len(known_hits):
        return Share(math.nan, math.nan, math.nan, 0, 0, 0)
    value = float(known_hits.mean())
    low, high = compute_wilson_interval(value, compute_effective_n(known_hits, labels), confidence_level)
    return Share(value, low, high, int(known_hits.sum()), len(known_hits), n_groups)


@check_arguments(image=UNIT, blind=mapping(UNIT), margin=MARGIN, groups=_GROUPS, seed=SEED)
def reliance(
    image: Sequence[float] | np.ndarray,
    blind: Mapping[str, Sequence[float] | np.ndarray],
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> Reliance:
    """Compute the gain of the image over the blind control with the smallest gain.

    Args:
        image: Shape (n,), the score of each row with the image, in [0, 1]; NaN where a row has none.
        blind: The scores of the same rows under each blind control. A row without a value is left out of that pair.
        margin: The equivalence margin: a smaller difference does not count; a fraction like the scores, at least 0 and
            below 1. `medfaith audit --margin` takes percentage points: 5 there is 0.05 here.
        groups: Shape (n,), one label per row.
        seed: Seed of the resamples and permutations.

    Returns:
        The gain, which `verdicts` judges. The p-values are NaN if a pair has fewer than two groups.

    Raises:
        ValueError: No blind control, arrays of another shape, or a score outside [0, 1].
    """
    if not blind:
        raise ValueError("blind: no control; expected the scores of one or more")
    options = {"groups": groups, "seed": seed}
    differences = {name: compute_paired_difference(image, scores, **options) for name, scores in blind.items()}
    best = min(differences, key=lambda name: (math.isnan(differences[name].difference), differences[name].rounded))
    best_difference = differences[best]
    p_values_above = [compute_exceeding_p(image, scores, margin, **options) for scores in blind.values()]
    p_values_below = [compute_exceeding_p(scores, image, margin, **options) for scores in blind.values()]
    p_equal = float(np.minimum(1, len(blind) * compute_equivalence_p(image, blind[best], margin, **options)))
    if all(is_unchanged(image, scores) for scores in blind.values()):
        p_equal = min(p_equal, (1 - margin) ** best_difference.n)
    could_find = compute_detectable_difference(best_difference.low, best_difference.high)
    target_difference = abs(abs(best_difference.difference) - margin) if could_find < margin else margin
    n_enough = enough(best_difference.n, could_find, target_difference)
    return Reliance(
        best,
        best_difference,
        float(np.max(p_values_above)),
        float(np.max(p_values_below)),
        p_equal,
        could_find,
        n_enough,
    )


@check_arguments(after=VALUES, before=VALUES)
def is_unchanged(after: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray) -> bool:
    """Whether every row with both scores has the same score in both, except for rounding.

    Args:
        after: Shape (n,), scores; NaN where missing.
        before: Shape (n,), scores of the same rows.

    Returns:
        True if no score differs.

    >>> is_unchanged([1, 0, math.nan], [1, 0, 1])
    True
    """
    after, before, _, _ = select_known_pairs(after, before, None)
    return bool(np.array_equal(quantise(after, 1), quantise(before, 1)))


@check_arguments(
    after=UNIT,
    before=UNIT,
    margin=DIFFERENCE,
    groups=_GROUPS,
    n_permutations=COUNT,
    seed=SEED,
    alternative=one_of(("two-sided", "greater")),
    n_adverse=SEED,
)
def compute_exceeding_p(  # noqa: PLR0913 (settings of the test, by name)
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float = 0.0,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_permutations: int = 10_000,
    seed: int = 42,
    alternative: Literal["two-sided", "greater"] = "two-sided",
    n_adverse: int = 1,
) -> float:
    """Compute the p-value of "mean(after) is above mean(before) by no more than the margin".

    "two-sided" rejects at half its level, like the intervals; "greater" rejects at its full level.

    The test is a permutation test of groups. The difference minus the margin is not symmetric under this hypothesis,
    and the plain test fails if it is skewed: 60 rows that each gain a little, without an example of the rare great
    loss, seem certain. So one more group counts, of the mean size, that contradicts the difference fully. With fewer
    than `FEW` groups that would leave no power, and the interval decides (`paired.compute_superiority_p`), because some
    benchmarks have five videos. Fewer than five groups show nothing even if they agree, as in a sign test of four.
    benchmarks/audit_coverage.py measures the errors of both.

    Args:
        after: Shape (n,), scores; NaN where missing.
        before: Shape (n,), scores of the same rows.
        margin: The equivalence margin, in the unit of the scores.
        groups: Shape (n,), one label per row.
        n_permutations: Number of random permutations.
        seed: Seed of the generator.
        alternative: "two-sided" or "greater".
        n_adverse: Number of added groups that contradict the difference.

    Returns:
        The p-value, 1 if the difference is not above the margin; NaN with fewer than two groups.
    """
    after, before, labels, _ = select_known_pairs(after, before, groups)
    sums, sizes = sum_by_group(quantise(after, 1) - quantise(before, 1), labels)
    if len(sums) < 2:
        return math.nan
    if len(sums) < FEWEST:
        return 1.0
    if len(sums) < FEW:
        p_value = compute_superiority_p(after, before, margin, groups=labels, seed=seed)
        return p_value if alternative == "two-sided" or p_value == 1 else p_value / 2
    size = sizes.mean()
    adverse = np.full(n_adverse, -size * (1 + margin))
    excess = np.round(np.append(sums - margin * sizes, adverse), 12)  # equal numbers stay equal
    if not math.fsum(excess) > 0:
        return 1.0
    options = {"n_resamples": n_permutations, "seed": seed, "alternative": alternative}
    return permutation_test(excess, np.zeros_like(excess), **options).p_value


@check_arguments(reliances=sequence(instance(Reliance)))
def verdicts(reliances: Sequence[Reliance]) -> list[Verdict]:
    """Judge all benchmarks together.

    Holm's method corrects each of the three kinds of p-values over the benchmarks. Below 0.05

    - p_above means "uses": the score with the image is above the score under every blind control, by more than the
      margin;
    - p_below means "harmed": it is below each of them, by more than the margin;
    - p_equal means "no use": two one-sided tests show that it is within the margin of the best blind control.

    If no p-value is below 0.05, the verdict is "open". That is never a finding of equality: `Reliance.n_enough` rows
    would settle it. A benchmark with fewer than two groups is "undefined" and does not count as a test.

    Args:
        reliances: The gains of all benchmarks, which form one family of tests.

    Returns:
        One verdict for each benchmark, in the same order.
    """
    kinds: dict[Name, np.ndarray] = {
        "uses": apply_holm([result.p_above for result in reliances]),
        "harmed": apply_holm([result.p_below for result in reliances]),
        "no use": apply_holm([result.p_equal for result in reliances]),
    }
    return [
        _choose_verdict({name: float(adjusted[index]) for name, adjusted in kinds.items()})
        for index in range(len(reliances))
    ]


def _choose_verdict(p_values: Mapping[Name, float]) -> Verdict:
    if any(math.isnan(p) for p in p_values.values()):
        return Verdict("undefined", math.nan)
    name = min(p_values, key=p_values.__getitem__)
    return Verdict(name if p_values[name] < ALPHA else "open", p_values[name])
