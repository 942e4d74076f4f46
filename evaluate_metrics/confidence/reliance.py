"""Does a score rest on something? The score with it beside the scores of controls that take it away.

`medfaith audit` takes the image away (docs/audit.md); the same functions serve a control that takes away a place in
the image. They resample and exchange whole groups (patient, study, video), as `score` and `paired` do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from .paired import (
    Difference,
    detectable,
    enough,
    equivalence_p,
    holm,
    paired_difference,
    superiority_p,
)
from .proportion import FEW, by_group, effective_n, wilson
from .score import known_pairs, permutation_test

ALPHA = 0.05
FEWEST = 5  # groups that can show that a score rests on something
Name = Literal["uses", "no use", "harmed", "open", "undefined"]


class Share(NamedTuple):
    """value = n_hits / n with its interval [low, high]; NaN where undefined. n_groups: n without groups."""

    value: float
    low: float
    high: float
    n_hits: int
    n: int
    n_groups: int


class Reliance(NamedTuple):
    """What the image adds to the score of one benchmark.

    best: the blind control that leaves least to the image, on the rows for which both have a value.
    found: the score with the image less that of `best`, with its 95% interval.
    p_above: that the image adds no more than the margin to some blind control (`exceeding_p`; the largest of all).
    p_below: that the image takes away no more than the margin from some blind control (the same).
    p_equal: that image and `best` differ by the margin or more (`paired.equivalence_p`), times the blind controls,
        since the data chose `best` (Bonferroni). Where not one row differs under any control, nothing is known of how
        rows of a group go together, and they count singly: (1 - margin) ** n is the chance of that if the share
        `margin` of all rows differed. That speaks of these groups, not of other ones.
    could_find: the difference from `best` that this many rows show four times in five.
    n_enough: rows that would settle it four times in five. That is for a difference of the margin, or, where that could
        be found already, for the distance of the difference from the margin.
    """

    best: str
    found: Difference
    p_above: float
    p_below: float
    p_equal: float
    could_find: float
    n_enough: float


class Verdict(NamedTuple):
    """name: what can be said. p_holm: the corrected p-value that says it; of "open", the smallest of the three."""

    name: Name
    p_holm: float


def share(
    hits: Sequence[float] | np.ndarray,
    groups: Sequence | np.ndarray | None = None,
    confidence_level: float = 0.95,
) -> Share:
    """A proportion with Wilson's score interval.

    In groups, n is the effective one (`proportion.effective_n`).

    Args:
        hits: shape (n,), 1 or 0; NaN is left out. groups: shape (n,), one label a value.

    Returns:
        the share; low and high are NaN with fewer than two groups.

    Raises:
        ValueError: arrays of another shape, or another number.

    >>> share([1, 1, 1, 0]).value
    0.75
    """
    known, _, labels, _ = known_pairs(hits, hits, groups)
    if not np.isin(known, (0, 1)).all():
        raise ValueError(f"hits: {known[~np.isin(known, (0, 1))][0]:g}; expected 1 or 0, or NaN")
    n_groups = len(by_group(known, labels)[0])
    if not len(known):
        return Share(math.nan, math.nan, math.nan, 0, 0, 0)
    value = float(known.mean())
    low, high = wilson(value, effective_n(known, labels), confidence_level)
    return Share(value, low, high, int(known.sum()), len(known), n_groups)


def reliance(
    image: Sequence[float] | np.ndarray,
    blind: Mapping[str, Sequence[float] | np.ndarray],
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> Reliance:
    """What the image adds to a score, beside the blind control that needs it least.

    Args:
        image: shape (n,), the score of each row with the image, in [0, 1]; NaN where a row has none.
        blind: the same rows' scores under each blind control. A row without a value is left out of that pair.
        margin: a smaller difference makes no difference; in the unit of the scores.
        groups: shape (n,), one label a row. seed: of the resamples and permutations.

    Returns:
        what `verdicts` judges. The p-values are NaN where a pair has fewer than two groups.

    Raises:
        ValueError: no blind control, arrays of another shape, or a score outside [0, 1].
    """
    if not blind:
        raise ValueError("blind: no control; expected the scores of one or more")
    how = {"groups": groups, "seed": seed}
    all_found = {name: paired_difference(image, scores, **how) for name, scores in blind.items()}
    best = min(all_found, key=lambda name: (math.isnan(all_found[name].difference), all_found[name].difference))
    found = all_found[best]
    above = [exceeding_p(image, scores, margin, **how) for scores in blind.values()]
    below = [exceeding_p(scores, image, margin, **how) for scores in blind.values()]
    p_equal = float(np.minimum(1, len(blind) * equivalence_p(image, blind[best], margin, **how)))
    if all(unchanged(image, scores) for scores in blind.values()):
        p_equal = min(p_equal, (1 - margin) ** found.n)
    could_find = detectable(found.low, found.high)
    wanted = abs(abs(found.difference) - margin) if could_find < margin else margin
    n_enough = enough(found.n, could_find, wanted)
    return Reliance(best, found, float(np.max(above)), float(np.max(below)), p_equal, could_find, n_enough)


def unchanged(after: Sequence[float] | np.ndarray, before: Sequence[float] | np.ndarray) -> bool:
    """Whether every row that has both scores has the same in both.

    >>> unchanged([1, 0, math.nan], [1, 0, 1])
    True
    """
    after, before, _, _ = known_pairs(after, before, None)
    return bool(np.array_equal(after, before))


def exceeding_p(
    after: Sequence[float] | np.ndarray,
    before: Sequence[float] | np.ndarray,
    margin: float = 0.0,
    *,
    groups: Sequence | np.ndarray | None = None,
    n_permutations: int = 10_000,
    seed: int = 42,
    alternative: Literal["two-sided", "greater"] = "two-sided",
) -> float:
    """The p-value of "mean(after) is above mean(before) by no more than the margin".

    "two-sided" rejects at half its level, as the intervals do; "greater" at all of it.

    It is that of a permutation test of groups. The difference less the margin is not symmetric under this hypothesis,
    and where it is skewed the plain test fails: 60 rows that each gain a little, of which none happens to show the rare
    great loss, seem sure. So one more group counts, of the mean size, that speaks wholly against it. With fewer than
    `FEW` groups that would leave no power, and the interval decides (`paired.superiority_p`): five videos are what
    some benchmarks have. Fewer than five show nothing, however they agree: a sign test of four cannot.
    benchmarks/audit_coverage.py has the errors of both.

    Returns:
        the p-value, 1 where the difference is not above the margin; NaN with fewer than two groups.
    """
    after, before, labels, _ = known_pairs(after, before, groups)
    sums, sizes = by_group(after - before, labels)
    if len(sums) < 2:
        return math.nan
    if len(sums) < FEWEST:
        return 1.0
    if len(sums) < FEW:
        p_value = superiority_p(after, before, margin, groups=labels, seed=seed)
        return p_value if alternative == "two-sided" or p_value == 1 else p_value / 2
    size = sizes.mean()
    excess = np.round(np.append(sums, -size) - margin * np.append(sizes, size), 12)  # equal ones stay equal
    if not excess.sum() > 0:
        return 1.0
    how = {"n_resamples": n_permutations, "seed": seed, "alternative": alternative}
    return permutation_test(excess, np.zeros_like(excess), **how).p_value


def verdicts(found: Sequence[Reliance]) -> list[Verdict]:
    """What can be said of each benchmark, when all of them are judged together.

    Each of the three kinds of p-values is corrected by Holm's method over the benchmarks. Below 0.05

    - p_above says "uses": the score with the image is above that under every blind control, by more than the margin;
    - p_below says "harmed": it is below each of them, by more than the margin;
    - p_equal says "no use": two one-sided tests find it within the margin of the best blind control.

    Where none of them says anything, the verdict is "open". That is never a finding of equality: `Reliance.n_enough`
    rows would tell. A benchmark of fewer than two groups is "undefined" and counts as no test.
    """
    kinds: dict[Name, np.ndarray] = {
        "uses": holm([one.p_above for one in found]),
        "harmed": holm([one.p_below for one in found]),
        "no use": holm([one.p_equal for one in found]),
    }
    return [_verdict({name: float(p[i]) for name, p in kinds.items()}) for i in range(len(found))]


def _verdict(p_values: Mapping[Name, float]) -> Verdict:
    if any(math.isnan(p) for p in p_values.values()):
        return Verdict("undefined", math.nan)
    name = min(p_values, key=p_values.__getitem__)
    return Verdict(name if p_values[name] < ALPHA else "open", p_values[name])
