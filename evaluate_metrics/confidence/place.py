"""Whether answers depend on the region that the question asks about: rule 2 of `medfaith audit` (docs/audit.md).

An edit changes the region of the question, or a region of the same shape elsewhere in the image. It also leaves
artefacts (paint, blur, a seam), to which a model may react. Two differences separate both. In rows with the finding
present, the effect is the score after the edit elsewhere minus the score after the edit at the region. In rows with
the finding absent (the placebo), the artefact floor is the score after the edit at the region minus the score
elsewhere: how much more often the artefacts make the model answer "absent". The net effect is effect minus floor.

A model that answers "absent" after every artefact changes more rows with the finding than without it if it guesses
better than chance. The verdict "depends" therefore requires a model that uses the image.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..arguments.kinds import FLAG, LABELS, MARGIN, SEED, UNIT, flags, instance, mapping, optional, record, sequence
from ..arguments.schema import check_arguments
from .paired import (
    Difference,
    apply_holm,
    choose_difference_interval,
    compute_detectable_difference,
    compute_equivalence_level,
    describe_difference,
    enough,
)
from .proportion import FEW, compute_mean, quantise, sum_by_group
from .reliance import ALPHA, FEWEST, Share, share
from .score import permutation_test

Name = Literal["depends", "no dependence", "elsewhere", "open", "unanswered", "undefined"]
N_KINDS = 2  # number of kinds of edit that must agree
N_RESAMPLES = 2000


class Edited(NamedTuple):
    """Scores of the same rows after one kind of edit at one dose, each of shape (n,), in [0, 1]; NaN where missing.

    Attributes:
        at: Scores after the edit at the region of the question.
        elsewhere: Scores after the same edit at another region.
        flips: 1 where the two answers differ, 0 where they are the same; NaN where either is missing.
    """

    at: np.ndarray
    elsewhere: np.ndarray
    flips: np.ndarray


class PlaceEffect(NamedTuple):
    """The effect of one kind of edit.

    Attributes:
        effect: Score elsewhere minus score at the region, in rows with the finding present.
        floor: Score at the region minus score elsewhere, in rows with the finding absent; None without such rows.
        net: Effect minus floor.
        low: Lower bound of its 95% interval.
        high: Upper bound.
        p_above: One-sided p-value of "net is no more than the margin".
        p_below: One-sided p-value of "net is no less than minus the margin".
        p_equal: P-value of "net differs from 0 by the margin or more".
        n_enough: Rows that would settle it with a power of 0.8.
        flips: Share of answers that differ between the two regions if the finding is present.
        placebo_flips: The same share if the finding is absent.
        slope: Net effect of editing the full region, by a line through 0 over the doses.
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
    """The verdict on the dependence on a region.

    Attributes:
        name: The verdict.
        p_holm: The corrected p-value of the verdict.
        n_enough: For "open", the rows that would settle it; otherwise NaN.
    """

    name: Name
    p_holm: float
    n_enough: float = math.nan


_EFFECTS = mapping(instance(PlaceEffect))


@check_arguments(
    like="is_present",
    doses=mapping(record(Edited, at=UNIT, elsewhere=UNIT, flips=UNIT)),
    is_present=flags(is_column=True),
    margin=MARGIN,
    groups=optional(LABELS),
    seed=SEED,
)
def measure_place_effect(
    doses: Mapping[int, Edited],
    is_present: np.ndarray,
    *,
    margin: float,
    groups: Sequence | np.ndarray | None = None,
    seed: int = 42,
) -> PlaceEffect:
    """Measure the effect of one kind of edit.

    Args:
        doses: Percentage of the region that is edited -> scores; 100 is required.
        is_present: Shape (n,), whether the finding of the question is in the image.
        margin: Equivalence margin, a fraction.
        groups: Shape (n,), one label per row.
        seed: Seed of the permutations and resamples.

    Returns:
        The effect. The interval of the net effect joins the intervals of effect and floor (MOVER; Zou and Donner,
        Statistics in Medicine 27, 2008).

    Raises:
        ValueError: Arrays of another shape, or a score outside [0, 1].
    """
    if 100 not in doses:
        raise ValueError(f"doses {list(doses)}: expected 100 among them, the full region")
    labels = np.arange(len(is_present)) if groups is None else np.asarray(groups)
    full_dose = doses[100]
    effect = _Gap(full_dose.elsewhere, full_dose.at, is_present, labels, seed)
    floor = _Gap(full_dose.at, full_dose.elsewhere, ~is_present, labels, seed)
    has_floor = floor.difference.n > 0
    used_floor = floor if has_floor else None
    net, low, high = _compute_net(effect, used_floor, 0.95)
    by_dose = {dose: _compute_net_mean(edited, is_present) for dose, edited in sorted(doses.items())}
    slope = _fit_slope(doses, is_present, labels, seed)
    could_find = compute_detectable_difference(low, high)
    within = margin - abs(net)
    target = max(within if could_find < margin and within > 0 else margin, abs(net) - margin)
    n_enough = enough(effect.difference.n + floor.difference.n, could_find, target)
    return PlaceEffect(
        effect.difference, floor.difference if has_floor else None, net, low, high,
        _compute_net_exceeding_p(effect, used_floor, margin, seed),
        _compute_net_exceeding_p(effect, used_floor, margin, seed, sign=-1),
        _compute_equal_p(effect, used_floor, margin),
        _compute_settling_n(effect, used_floor, margin, n_enough),
        share(full_dose.flips[is_present], labels[is_present]),
        share(full_dose.flips[~is_present], labels[~is_present]),
        *slope, by_dose,
    )  # fmt: skip


@check_arguments(effects_by_kind=sequence(_EFFECTS), uses_image=sequence(FLAG), margin=MARGIN)
def judge_place(
    effects_by_kind: Sequence[Mapping[str, PlaceEffect]], uses_image: Sequence[bool], margin: float
) -> list[PlaceVerdict]:
    """Judge the regions of models and benchmarks that form one family of tests.

    At least two kinds of edit have to show the effect, and no kind may be on the other side of the margin. The p-value
    is that for the partial conjunction hypothesis "at most one kind shows it" (Benjamini and Heller, Biometrics 64,
    2008), corrected by Holm's method over the family. Below 0.05 in one direction only:

    - "depends": the net effect is above the margin, and the model uses the image. A model that does not use it, and
      guesses better than chance, loses more right answers than wrong ones to any artefact of an edit;
    - "elsewhere": it is below minus the margin, or two 95% intervals are entirely there, and the model uses the image.
      A model that does not use it, and names one finding without an artefact, loses few right answers to it;
    - "no dependence": it is within the margin;
    - "open": everything else, including kinds that contradict each other;
    - "undefined": no edit was asked.

    The caller gives "unanswered" where too many answers are unread or declined.

    Args:
        effects_by_kind: Kind of edit -> effect, for each model and benchmark; empty if none was asked.
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
    adjusted_p: dict[Name, np.ndarray] = {
        name: apply_holm(
            [_compute_conjunction_p([p_value(effect) for effect in effects.values()]) for effects in effects_by_kind]
        )
        for name, p_value in directions.items()
    }
    p_values: list[dict[Name, float]] = [
        {name: float(p[index]) for name, p in adjusted_p.items()} for index in range(len(effects_by_kind))
    ]
    return [
        _choose_verdict(effects, p, uses, margin)
        for effects, p, uses in zip(effects_by_kind, p_values, uses_image, strict=True)
    ]


def _choose_verdict(
    effects: Mapping[str, PlaceEffect], p_by_name: Mapping[Name, float], uses_image: bool, margin: float
) -> PlaceVerdict:
    known_effects = [effect for effect in effects.values() if not math.isnan(effect.net)]
    if not known_effects:
        return PlaceVerdict("undefined" if not effects else "open", math.nan)
    names: list[Name] = [
        name for name, p_value in p_by_name.items() if p_value < ALPHA and _is_agreed(known_effects, name, margin)
    ]
    n_below = sum(effect.high < -margin and effect.effect.n_groups >= FEWEST for effect in known_effects)
    is_below = n_below >= N_KINDS and _is_agreed(known_effects, "elsewhere", margin)
    if not names and is_below:
        names = ["elsewhere"]
    if len(names) == 1:
        is_allowed = uses_image or names == ["no dependence"]
        return PlaceVerdict(names[0] if is_allowed else "open", p_by_name[names[0]])
    is_hopeless = is_contradictory(effects, margin) or len(known_effects) < N_KINDS
    n_enough = math.nan if is_hopeless else max(effect.n_enough for effect in known_effects)
    return PlaceVerdict("open", float(np.nanmin([*p_by_name.values(), 1.0])), n_enough)


@check_arguments(effects=_EFFECTS, margin=MARGIN)
def is_contradictory(effects: Mapping[str, PlaceEffect], margin: float) -> bool:
    """Whether one kind of edit contradicts another one, so that more rows would not settle the test.

    Args:
        effects: Kind of edit -> effect.
        margin: Equivalence margin, a fraction.

    Returns:
        True if two kinds contradict each other.
    """
    known_effects = [effect for effect in effects.values() if not math.isnan(effect.net)]
    names: list[Name | None] = [_find_direction(effect, margin) for effect in known_effects]
    return any(name is not None and not _is_agreed(known_effects, name, margin) for name in names)


def _is_agreed(effects: Sequence[PlaceEffect], name: Name, margin: float) -> bool:
    """Whether the net effects of all kinds agree with a verdict."""
    if name == "depends":
        return all(effect.net > margin for effect in effects)
    if name == "elsewhere":
        return all(effect.net < -margin for effect in effects)
    return all(abs(effect.net) < margin for effect in effects)


def _find_direction(effect: PlaceEffect, margin: float) -> Name | None:
    """Find the verdict that the 95% interval of one kind supports."""
    if effect.low > margin:
        return "depends"
    if effect.high < -margin:
        return "elsewhere"
    return "no dependence" if -margin < effect.low and effect.high < margin else None


def _compute_conjunction_p(p_values: Sequence[float]) -> float:
    """Compute the p-value of "fewer than `N_KINDS` of these hypotheses are false"; 1 with fewer tests, NaN without."""
    sorted_p = sorted(p for p in p_values if not math.isnan(p))
    if not sorted_p:
        return math.nan
    if len(sorted_p) < N_KINDS:
        return 1.0
    return min(1.0, (len(sorted_p) - N_KINDS + 1) * sorted_p[N_KINDS - 1])


class _Gap:
    """A paired difference on some of the rows, with the values and the interval that its tests need."""

    def __init__(
        self, after: np.ndarray, before: np.ndarray, is_used: np.ndarray, labels: np.ndarray, seed: int
    ) -> None:
        is_known = is_used & ~np.isnan(after) & ~np.isnan(before)
        after, before, self.labels = after[is_known], before[is_known], labels[is_known]
        self.values = quantise(after, 1) - quantise(before, 1)
        way, self.interval = choose_difference_interval(after, before, self.labels, N_RESAMPLES, seed)
        n_nan = int(is_used.sum()) - len(after)
        self.difference = describe_difference(after, before, self.labels, n_nan, way, self.interval(0.95))


def _compute_net(effect: _Gap, floor: _Gap | None, level: float) -> tuple[float, float, float]:
    """Compute effect minus floor with its interval."""
    effect_mean, (effect_low, effect_high) = compute_mean(effect.values), effect.interval(level)
    if floor is None:
        return effect_mean, effect_low, effect_high
    floor_mean, (floor_low, floor_high) = compute_mean(floor.values), floor.interval(level)
    net = effect_mean - floor_mean
    return (
        net,
        net - math.hypot(effect_mean - effect_low, floor_high - floor_mean),
        net + math.hypot(effect_high - effect_mean, floor_mean - floor_low),
    )


def _compute_net_mean(edited: Edited, is_present: np.ndarray) -> float:
    gaps = edited.elsewhere - edited.at
    present, absent = (gaps[rows & ~np.isnan(gaps)] for rows in (is_present, ~is_present))
    if not len(present):
        return math.nan
    return float(present.mean() + (absent.mean() if len(absent) else 0.0))


def _fit_slope(
    doses: Mapping[int, Edited], is_present: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[float, float, float]:
    """Fit the net effect on the dose (1 = the full region) by least squares through 0, with its 95% interval.

    The slope is the mean of a weighted sum over the doses of each row. It therefore needs rows with answers at all
    doses.
    """
    squares = sum((dose / 100) ** 2 for dose in doses)
    weighted = sum((dose / 100) * (edited.elsewhere - edited.at) for dose, edited in doses.items()) / squares
    weighted = np.asarray(weighted)
    bound = sum(dose / 100 for dose in doses) / squares  # the largest absolute value: division by it gives [0, 1]
    gains, losses = (np.clip(signed, 0, None) / bound for signed in (weighted, -weighted))
    effect = _Gap(gains, losses, is_present, labels, seed)
    floor = _Gap(losses, gains, ~is_present, labels, seed)
    mean, low, high = _compute_net(effect, floor if floor.difference.n else None, 0.95)
    return bound * mean, bound * low, bound * high


def _compute_net_exceeding_p(effect: _Gap, floor: _Gap | None, margin: float, seed: int, sign: int = 1) -> float:
    """Compute the p-value of effect minus floor, like `reliance.compute_exceeding_p`.

    Whole groups are exchanged, and one more group contradicts the effect.
    """
    samples = [(sign * effect.values - margin, effect.labels)]
    if floor is not None:
        samples.append((-sign * floor.values, floor.labels))
    if not len(effect.values):
        return math.nan
    excess = np.concatenate([values / len(values) for values, _ in samples if len(values)])
    sums, _ = sum_by_group(excess, np.concatenate([labels for values, labels in samples if len(values)]))
    if len(sums) < 2:
        return math.nan
    if len(sums) < FEWEST:
        return 1.0
    if len(sums) < FEW:
        return _find_smallest_alpha(effect, floor, lambda low, high: (low if sign > 0 else -high) > margin)
    contradicting_sum = -(1 + margin + (floor is not None)) / len(sums)
    sums_with_contradiction = np.round(np.append(sums, contradicting_sum), 12)
    if not math.fsum(sums_with_contradiction) > 0:
        return 1.0
    return permutation_test(
        sums_with_contradiction, np.zeros_like(sums_with_contradiction), seed=seed, alternative="greater"
    ).p_value


def _compute_equal_p(effect: _Gap, floor: _Gap | None, margin: float) -> float:
    """Find the smallest alpha at which the interval is within the margin (two one-sided tests).

    If no row changes, (1 - margin) ** patients is the probability of that for a model of which the share `margin` of
    the patients changes. With fewer than `FEW` groups rows count singly (see `reliance.Reliance.p_equal`). Both the
    effect and the floor have to be known. Fewer than `FEWEST` groups in which a row changes show nothing.
    """
    gaps = [effect] if floor is None else [effect, floor]
    if math.isnan(effect.difference.low):
        return math.nan
    if not any(gap.values.any() for gap in gaps):
        return (1 - margin) ** _count_observations(gaps)
    if effect.difference.n_groups < FEWEST:
        return 1.0
    return _find_smallest_alpha(effect, floor, lambda low, high: -margin < low and high < margin)


def _count_observations(gaps: Sequence[_Gap]) -> int:
    """Count the groups of the effect or of the floor, whichever has fewer; rows with fewer than `FEW` groups."""
    counts = [(gap.difference.n_groups, gap.difference.n) for gap in gaps]
    return min(n_groups if n_groups >= FEW else n for n_groups, n in counts)


def _compute_settling_n(effect: _Gap, floor: _Gap | None, margin: float, n_enough: float) -> float:
    """Compute the rows that would settle the test: `n_enough`, unless no row changes.

    Then log(0.025) / log(1 - margin) groups of this size show it (`_compute_equal_p`), because the p-value of two of
    three kinds of edit is twice that of one (`judge_place`).
    """
    gaps = [effect] if floor is None else [effect, floor]
    n_observations = _count_observations(gaps)
    if any(gap.values.any() for gap in gaps) or not n_observations or margin <= 0:
        return n_enough
    n_needed = math.ceil(math.log(ALPHA / 2) / math.log(1 - margin))
    return math.ceil(sum(gap.difference.n for gap in gaps) / n_observations * n_needed)


def _find_smallest_alpha(effect: _Gap, floor: _Gap | None, holds: Callable[[float, float], bool]) -> float:
    """Find the smallest alpha whose interval of the net effect, at the level 1 - 2 alpha, satisfies `holds`."""
    alphas = np.geomspace(0.0005, 0.5, 60)
    index = bisect_left(
        alphas, True, key=lambda alpha: holds(*_compute_net(effect, floor, compute_equivalence_level(alpha=alpha))[1:])
    )
    return float(alphas[index]) if index < len(alphas) else 1.0
