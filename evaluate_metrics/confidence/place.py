"""Do answers rest on the place that is asked about? Rule 2 of `medfaith audit` (docs/audit.md), as pure functions.

An edit changes the place that is asked about, or a place of the same shape elsewhere in the image. It also leaves
traces (paint, blur, a seam), to which a model may react. Two differences tell the one from the other. In rows where
what is asked about is present, the effect is the score after the edit elsewhere less that after the edit at the place.
In rows where it is absent (the placebo), the artefact floor is the score after the edit at the place less that
elsewhere: how much more often the model says "absent" because of the traces. The net effect is effect less floor.

A model that says "absent" to every trace changes more rows that are present than rows that are absent, as soon as it
guesses better than chance. So nothing is said to depend on the place unless the model uses the image at all.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from .paired import (
    Difference,
    describe_difference,
    detectable,
    difference_interval,
    enough,
    equivalence_level,
    holm,
)
from .proportion import FEW, by_group
from .reliance import ALPHA, FEWEST, Share, share
from .score import permutation_test

Name = Literal["depends", "no dependence", "elsewhere", "open", "undefined"]
N_KINDS = 2  # kinds of edit that have to agree
N_RESAMPLES = 2000


class Edited(NamedTuple):
    """Scores of the same rows after one kind of edit at one dose, each of shape (n,), in [0, 1]; NaN where missing.

    Attributes:
        at: After the edit at the place that is asked about.
        elsewhere: After the same edit at another place.
        flips: 1 where the two answers differ, 0 where they are the same; NaN where either is missing.
    """

    at: np.ndarray
    elsewhere: np.ndarray
    flips: np.ndarray


class PlaceEffect(NamedTuple):
    """One kind of edit.

    Attributes:
        effect: Score elsewhere less score at the place, in rows where what is asked about is present.
        floor: Score at the place less score elsewhere, in rows where it is absent; None without such rows.
        net: Effect less floor.
        low: Lower bound of its 95% interval.
        high: Upper bound.
        p_above: One-sided p-value of "net is no more than the margin".
        p_below: One-sided p-value of "net is no less than minus the margin".
        p_equal: P-value of "net differs from 0 by the margin or more".
        n_enough: Rows that would settle it four times in five.
        flips: Share of answers that differ between the two places where what is asked about is present.
        placebo_flips: The same where it is absent.
        slope: Net effect of editing the whole place, by a line through 0 over the doses.
        slope_low: Lower bound of its 95% interval.
        slope_high: Upper bound.
        by_dose: Dose in percent -> net effect.
    """

    effect: Difference
    floor: Difference | None
    net: float
    low: float
    high: float
    p_above: float
    p_below: float
    p_equal: float
    n_enough: float
    flips: Share
    placebo_flips: Share
    slope: float
    slope_low: float
    slope_high: float
    by_dose: Mapping[int, float]


class PlaceVerdict(NamedTuple):
    """name: What can be said. p_holm: the corrected p-value that says it. n_enough: of "open"; NaN elsewhere."""

    name: Name
    p_holm: float
    n_enough: float = math.nan


def measure_place_effect(
    doses: Mapping[int, Edited],
    is_present: np.ndarray,
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> PlaceEffect:
    """Measure what one kind of edit changes.

    Args:
        doses: Percentage of the region that is edited -> scores; 100 is required.
        is_present: Shape (n,), whether what is asked about is in the image.
        margin: Equivalence margin, a fraction.
        groups: Shape (n,), one label a row.
        seed: Seed of the permutations and resamples.

    Returns:
        The effect. The interval of the net effect joins those of effect and floor (MOVER; Zou and Donner, Statistics in
        Medicine 27, 2008).

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    labels = np.arange(len(is_present)) if groups is None else np.asarray(groups)
    whole = doses[100]
    effect = _Gap(whole.elsewhere, whole.at, is_present, labels, seed)
    floor = _Gap(whole.at, whole.elsewhere, ~is_present, labels, seed)
    has_floor = floor.difference.n > 0
    floors = floor if has_floor else None
    net, low, high = _net(effect, floors, 0.95)
    by_dose = {dose: _net_mean(edited, is_present) for dose, edited in sorted(doses.items())}
    slope = _slope(doses, is_present, labels, seed)
    could_find = detectable(low, high)
    within = margin - abs(net)
    wanted = max(within if could_find < margin and within > 0 else margin, abs(net) - margin)
    return PlaceEffect(
        effect.difference, floor.difference if has_floor else None, net, low, high,
        _exceeding_p(effect, floors, margin, seed), _exceeding_p(effect, floors, margin, seed, sign=-1),
        _equal_p(effect, floors, margin), enough(effect.difference.n + floor.difference.n, could_find, wanted),
        share(whole.flips[is_present], labels[is_present]), share(whole.flips[~is_present], labels[~is_present]),
        *slope, by_dose,
    )  # fmt: skip


def judge_place(
    found: Sequence[Mapping[str, PlaceEffect]], uses_image: Sequence[bool], margin: float
) -> list[PlaceVerdict]:
    """Judge the places of models and benchmarks that form one family of tests.

    At least two kinds of edit have to show it, and no kind may lie on the other side of the margin. The p-value is that
    of the partial conjunction hypothesis "at most one kind shows it" (Benjamini and Heller, Biometrics 64, 2008), by
    Holm's method over the family. Below 0.05 in one direction only:

    - "depends": the net effect is above the margin, and the model uses the image. A model that does not, and guesses
      better than chance, loses more right answers than wrong ones to any trace of an edit;
    - "elsewhere": it is below minus the margin, or two 95% intervals lie wholly there, and the model uses the image. A
      model that does not, and names one finding wherever there is no trace, loses few right answers to it;
    - "no dependence": it is within the margin;
    - "open": everything else. That includes kinds that contradict each other.

    Args:
        found: Kind of edit -> effect, for each model and benchmark; empty where none was asked.
        uses_image: Whether each of them uses the image (`image_verdict.judge_image_use`).
        margin: Equivalence margin, a fraction.

    Returns:
        One verdict for each, in the same order.
    """
    directions: dict[Name, Callable[[PlaceEffect], float]] = {
        "depends": lambda effect: effect.p_above,
        "elsewhere": lambda effect: effect.p_below,
        "no dependence": lambda effect: effect.p_equal,
    }
    kinds: dict[Name, np.ndarray] = {
        name: holm([_conjunction([p_value(effect) for effect in of.values()]) for of in found])
        for name, p_value in directions.items()
    }
    p_values: list[dict[Name, float]] = [{name: float(p[i]) for name, p in kinds.items()} for i in range(len(found))]
    return [_judge(of, p, uses, margin) for of, p, uses in zip(found, p_values, uses_image, strict=True)]


def _judge(of: Mapping[str, PlaceEffect], p: Mapping[Name, float], uses_image: bool, margin: float) -> PlaceVerdict:
    known = [effect for effect in of.values() if not math.isnan(effect.net)]
    if not known:
        return PlaceVerdict("undefined" if not of else "open", math.nan)
    shown: list[Name] = [name for name, p_value in p.items() if p_value < ALPHA and _agrees(known, name, margin)]
    is_below = sum(effect.high < -margin for effect in known) >= N_KINDS and _agrees(known, "elsewhere", margin)
    if not shown and is_below:
        shown = ["elsewhere"]
    if len(shown) == 1:
        is_allowed = uses_image or shown == ["no dependence"]
        return PlaceVerdict(shown[0] if is_allowed else "open", p[shown[0]])
    is_hopeless = is_contradictory(of, margin) or len(known) < N_KINDS
    n_enough = math.nan if is_hopeless else max(effect.n_enough for effect in known)
    return PlaceVerdict("open", float(np.nanmin([*p.values(), 1.0])), n_enough)


def is_contradictory(of: Mapping[str, PlaceEffect], margin: float) -> bool:
    """Whether one kind of edit shows what another one contradicts: more rows would not settle that."""
    known = [effect for effect in of.values() if not math.isnan(effect.net)]
    names: list[Name | None] = [_direction(effect, margin) for effect in known]
    return any(name is not None and not _agrees(known, name, margin) for name in names)


def _agrees(effects: Sequence[PlaceEffect], name: Name, margin: float) -> bool:
    """Whether the net effects of all kinds lie where a verdict says."""
    if name == "depends":
        return all(effect.net > margin for effect in effects)
    if name == "elsewhere":
        return all(effect.net < -margin for effect in effects)
    return all(abs(effect.net) < margin for effect in effects)


def _direction(effect: PlaceEffect, margin: float) -> Name | None:
    """What the 95% interval of one kind shows alone."""
    if effect.low > margin:
        return "depends"
    if effect.high < -margin:
        return "elsewhere"
    return "no dependence" if -margin < effect.low and effect.high < margin else None


def _conjunction(p_values: Sequence[float]) -> float:
    """P-value of "fewer than `N_KINDS` of these hypotheses are false"; 1 with fewer tests, NaN without any."""
    known = sorted(p for p in p_values if not math.isnan(p))
    if not known:
        return math.nan
    if len(known) < N_KINDS:
        return 1.0
    return min(1.0, (len(known) - N_KINDS + 1) * known[N_KINDS - 1])


class _Gap:
    """A paired difference in some of the rows, with what its tests need."""

    def __init__(
        self, after: np.ndarray, before: np.ndarray, is_used: np.ndarray, labels: np.ndarray, seed: int
    ) -> None:
        is_known = is_used & ~np.isnan(after) & ~np.isnan(before)
        after, before, self.labels = after[is_known], before[is_known], labels[is_known]
        self.values = after - before
        way, self.interval = difference_interval(after, before, self.labels, N_RESAMPLES, seed)
        n_nan = int(is_used.sum()) - len(after)
        self.difference = describe_difference(after, before, self.labels, n_nan, way, self.interval(0.95))


def _net(effect: _Gap, floor: _Gap | None, level: float) -> tuple[float, float, float]:
    """Effect less floor with its interval."""
    mean, (low, high) = effect.difference.difference, effect.interval(level)
    if floor is None:
        return mean, low, high
    mean_floor, (low_floor, high_floor) = floor.difference.difference, floor.interval(level)
    net = mean - mean_floor
    return (
        net,
        net - math.hypot(mean - low, high_floor - mean_floor),
        net + math.hypot(high - mean, mean_floor - low_floor),
    )


def _net_mean(edited: Edited, is_present: np.ndarray) -> float:
    gaps = edited.elsewhere - edited.at
    present, absent = (gaps[rows & ~np.isnan(gaps)] for rows in (is_present, ~is_present))
    if not len(present):
        return math.nan
    return float(present.mean() + (absent.mean() if len(absent) else 0.0))


def _slope(
    doses: Mapping[int, Edited], is_present: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[float, float, float]:
    """Least squares through 0 of the net effect on the dose (1 = the whole place), and its 95% interval.

    The slope is the mean of a weighted sum over the doses of each row, so it needs rows that are answered at all doses.
    """
    squares = sum((dose / 100) ** 2 for dose in doses)
    weighted = sum((dose / 100) * (edited.elsewhere - edited.at) for dose, edited in doses.items()) / squares
    weighted = np.asarray(weighted)
    bound = sum(dose / 100 for dose in doses) / squares  # of the absolute value: brings it into [0, 1]
    up, down = (np.clip(part, 0, None) / bound for part in (weighted, -weighted))
    effect = _Gap(up, down, is_present, labels, seed)
    floor = _Gap(down, up, ~is_present, labels, seed)
    return tuple(bound * value for value in _net(effect, floor if floor.difference.n else None, 0.95))  # pyright: ignore


def _exceeding_p(effect: _Gap, floor: _Gap | None, margin: float, seed: int, sign: int = 1) -> float:
    """As `reliance.exceeding_p`, for effect less floor: whole groups are exchanged, and one more speaks against it."""
    parts = [(sign * effect.values - margin, effect.labels)]
    if floor is not None:
        parts.append((-sign * floor.values, floor.labels))
    if not len(effect.values):
        return math.nan
    excess = np.concatenate([values / len(values) for values, _ in parts if len(values)])
    sums, _ = by_group(excess, np.concatenate([labels for values, labels in parts if len(values)]))
    if len(sums) < 2:
        return math.nan
    if len(sums) < FEWEST:
        return 1.0
    if len(sums) < FEW:
        return _smallest_alpha(effect, floor, lambda low, high: (low if sign > 0 else -high) > margin)
    against = -(1 + margin + (floor is not None)) / len(sums)
    with_one = np.round(np.append(sums, against), 12)
    if not with_one.sum() > 0:
        return 1.0
    return permutation_test(with_one, np.zeros_like(with_one), seed=seed, alternative="greater").p_value


def _equal_p(effect: _Gap, floor: _Gap | None, margin: float) -> float:
    """The smallest alpha at which the interval lies within the margin (two one-sided tests).

    Rows in which nothing changes count singly (see `reliance.Reliance.p_equal`).
    """
    if math.isnan(effect.difference.low):
        return math.nan
    p_value = _smallest_alpha(effect, floor, lambda low, high: -margin < low and high < margin)
    if not effect.values.any() and (floor is None or not floor.values.any()):
        p_value = min(p_value, (1 - margin) ** effect.difference.n)
    return p_value


def _smallest_alpha(effect: _Gap, floor: _Gap | None, holds: Callable[[float, float], bool]) -> float:
    """The smallest alpha at which something holds of the net effect's interval at the level 1 - 2 alpha."""
    alphas = np.geomspace(0.0005, 0.5, 60)
    first = bisect_left(alphas, True, key=lambda alpha: holds(*_net(effect, floor, equivalence_level(alpha=alpha))[1:]))
    return float(alphas[first]) if first < len(alphas) else 1.0
