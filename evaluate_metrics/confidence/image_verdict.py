"""Verdicts of rule 2 of `medfaith audit` on the use of images (docs/audit.md), from the tests of `image_use`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..arguments.kinds import instance, sequence
from ..arguments.schema import check_arguments
from .image_use import Comparison, ImageUse
from .paired import Difference, apply_benjamini_yekutieli, apply_holm
from .reliance import ALPHA, FEWEST

Name = Literal["uses", "recalls", "no use", "reacts", "harmed", "open", "unanswered", "undefined"]
MOST_UNANSWERED = 0.5  # largest share of unread and declined answers with the image that allows a verdict

_USE = instance(ImageUse)


class ImageVerdict(NamedTuple):
    """The verdict of rule 2.

    Attributes:
        name: The verdict.
        p_holm: The corrected p-value of the verdict; the smallest of all for "open".
        failed: For "open", the test that failed: "other" or the name of a blind or harmless condition; otherwise "".
        n_enough: For "open", the rows that would settle that test; otherwise NaN, also if more rows would not help.
    """

    name: Name
    p_holm: float
    failed: str = ""
    n_enough: float = math.nan


@check_arguments(uses=sequence(_USE))
def judge_image_use(uses: Sequence[ImageUse]) -> list[ImageVerdict]:
    """Judge models and benchmarks that form one family of tests.

    Holm's method corrects each kind of p-value over the family. In this order, below 0.05:

    - "uses": the own image is better than another one by more than the margin (a), and better than each blind condition
      that can settle it (b). If the model leaves more blind rows unanswered than the margin, (a) alone decides.
      "recalls": the same, but a harmless change removes most of that gain. If neither can be shown, it is "open".
    - "harmed": the own image is worse than another one, or worse than every blind condition, by more than the margin;
      also if the 95% interval is entirely there.
    - "reacts": equal to another image (a), but better than blind (b) or with answers that follow the image.
    - "no use": equal to another image (a) and to the best blind condition (b).
    - "open": everything else.

    Args:
        uses: The tests of each model and benchmark.

    Returns:
        One verdict for each, in the same order. "unanswered": too many answers with the image are unread or declined.
        "undefined": `other` or all blind conditions were not asked. Fewer than two groups are "open".
    """
    is_judgeable = [_can_judge(use) for use in uses]
    adjusted_p = {
        name: apply_holm(
            [p_value(use) if can_judge else math.nan for use, can_judge in zip(uses, is_judgeable, strict=True)]
        )
        for name, p_value in _P_VALUE_FUNCTIONS.items()
    }
    return [
        _choose_verdict(use, {name: float(p_values[index]) for name, p_values in adjusted_p.items()})
        if is_judgeable[index]
        else _describe_without_verdict(use)
        for index, use in enumerate(uses)
    ]


@check_arguments(finding_uses=sequence(_USE))
def judge_findings(finding_uses: Sequence[ImageUse]) -> list[ImageVerdict]:
    """Judge the rows of single findings, anatomies or instruments, which form one family of tests.

    The p-values of "uses" and of "no use" are adjusted for the false discovery rate (`apply_benjamini_yekutieli`).

    Args:
        finding_uses: The tests on the rows of each finding of each model and benchmark.

    Returns:
        One verdict for each, in the same order: "uses", "recalls", "no use", "open", or a name without a verdict, like
        `judge_image_use`.
    """
    is_judgeable = [_can_judge(use) for use in finding_uses]
    adjusted_uses, adjusted_no_use = (
        apply_benjamini_yekutieli(
            [
                p_value(use) if is_decidable else math.nan
                for use, is_decidable in zip(finding_uses, is_judgeable, strict=True)
            ]
        )
        for p_value in (compute_uses_p, compute_no_use_p)
    )
    verdicts = []
    for use, is_decidable, p_uses, p_no_use in zip(
        finding_uses, is_judgeable, adjusted_uses, adjusted_no_use, strict=True
    ):
        if not is_decidable:
            verdicts.append(_describe_without_verdict(use))
        elif p_uses < ALPHA:
            verdicts.append(_choose_robustness_verdict(use, float(p_uses), _compute_recalls_p(use)))
        elif p_no_use < ALPHA:
            verdicts.append(ImageVerdict("no use", float(p_no_use)))
        else:
            verdicts.append(_describe_open(use, float(min(p_uses, p_no_use))))
    return verdicts


@check_arguments(use=_USE)
def compute_uses_p(use: ImageUse) -> float:
    """Compute the p-value of "uses": the larger of (a) and (b), an intersection-union test.

    Args:
        use: The tests of one model and one benchmark.

    Returns:
        The p-value; NaN if either is NaN.
    """
    return float(np.maximum(_get_other_test(use).p_above, _compute_blind_p_above(use)))  # NaN stays


@check_arguments(use=_USE)
def compute_no_use_p(use: ImageUse) -> float:
    """Compute the p-value of "no use": the larger of the equivalences (a) and (b).

    Args:
        use: The tests of one model and one benchmark.

    Returns:
        The p-value; NaN if either is NaN.
    """
    return float(np.maximum(_get_other_test(use).p_equal, _compute_blind_p_equal(use)))


def _get_other_test(use: ImageUse) -> Comparison:
    assert use.other is not None
    return use.other


def _compute_blind_p_above(use: ImageUse) -> float:
    """Compute the largest p-value over the blind conditions that can settle it; 0 without such a condition."""
    return max((blind.comparison.p_above for blind in use.blind.values() if not blind.is_hidden), default=0.0)


def _compute_blind_p_equal(use: ImageUse) -> float:
    """Find the p-value of the best blind condition among those that can settle it; 0 without such a condition."""
    settling = [blind.comparison for blind in use.blind.values() if not blind.is_hidden]
    best = min(settling, key=lambda comparison: comparison.difference.rounded, default=None)
    return 0.0 if best is None else best.p_equal


def _compute_harmed_p(use: ImageUse) -> float:
    """Compute the p-value of "harmed": either test may show harm, so the smaller p-value counts twice."""
    below_blind = max((blind.comparison.p_below for blind in use.blind.values() if blind.n), default=1.0)
    return min(1.0, 2 * min(_get_other_test(use).p_below, below_blind))


def _compute_reacts_p(use: ImageUse) -> float:
    """Compute the p-value of "reacts": equal by (a), and one of two signs that the image changes something."""
    p_better = _compute_blind_p_above(use) if use.n_open_blind else 1.0
    p_follows = 1.0 if math.isnan(use.p_follows) else use.p_follows
    return max(_get_other_test(use).p_equal, min(1.0, 2 * min(p_better, p_follows)))


def _compute_recalls_p(use: ImageUse) -> float:
    """Compute the p-value of "recalls": the smallest one over the harmless conditions, times their number."""
    p_values = [comparison.p_above for comparison in use.fragility.values() if not math.isnan(comparison.p_above)]
    return min(1.0, len(use.fragility) * min(p_values)) if p_values else 1.0


_P_VALUE_FUNCTIONS = {
    "uses": compute_uses_p,
    "no use": compute_no_use_p,
    "harmed": _compute_harmed_p,
    "reacts": _compute_reacts_p,
    "recalls": _compute_recalls_p,
}


def _can_judge(use: ImageUse) -> bool:
    if (
        use.other is None
        or not any(blind.n for blind in use.blind.values())
        or not use.share_unanswered <= MOST_UNANSWERED
    ):
        return False
    return not any(math.isnan(p_value(use)) for p_value in _P_VALUE_FUNCTIONS.values())


def _describe_without_verdict(use: ImageUse) -> ImageVerdict:
    """Describe tests without a verdict; "open" if everything was asked, but of too few groups."""
    if use.share_unanswered > MOST_UNANSWERED:
        return ImageVerdict("unanswered", math.nan)
    is_asked = use.other is not None and any(blind.n for blind in use.blind.values())
    return ImageVerdict("open", math.nan, "other") if is_asked else ImageVerdict("undefined", math.nan)


def _choose_verdict(use: ImageUse, p_values: Mapping[str, float]) -> ImageVerdict:
    if p_values["uses"] < ALPHA:
        return _choose_robustness_verdict(use, p_values["uses"], p_values["recalls"])
    if p_values["harmed"] < ALPHA or _is_below_margin(use):
        return ImageVerdict("harmed", p_values["harmed"])
    for name in ("reacts", "no use"):
        if p_values[name] < ALPHA:
            return ImageVerdict(name, p_values[name])
    return _describe_open(use, min(p_values.values()))


def _choose_robustness_verdict(use: ImageUse, p_uses: float, p_recalls: float) -> ImageVerdict:
    """Distinguish a model that uses the image from one whose right answers change with a harmless edit."""
    fragile = {name: comparison for name, comparison in use.fragility.items() if not math.isnan(comparison.p_above)}
    if not fragile:
        return ImageVerdict("uses", p_uses)
    if p_recalls < ALPHA:
        return ImageVerdict("recalls", p_recalls)
    failed = min(fragile, key=lambda name: fragile[name].p_above)
    return ImageVerdict("open", p_recalls, failed, fragile[failed].n_enough)


def _is_below_margin(use: ImageUse) -> bool:
    """Whether the interval of (a), or each interval of (b), is entirely below minus the margin.

    Like in the tests, fewer than `FEWEST` groups show nothing, nor does a blind condition with too few answers.
    """

    def is_below(difference: Difference) -> bool:
        return difference.n_groups >= FEWEST and difference.high < -use.margin

    return is_below(_get_other_test(use).difference) or all(
        not blind.is_hidden and is_below(blind.comparison.difference) for blind in use.blind.values() if blind.n
    )


def _describe_open(use: ImageUse, p_value: float) -> ImageVerdict:
    """Name the test that failed: (a), unless it shows something; else the blind condition farthest from settling."""
    other_test = _get_other_test(use)
    is_above = other_test.p_above < ALPHA
    settling = {name: blind.comparison for name, blind in use.blind.items() if not blind.is_hidden}
    if not settling or not (is_above or other_test.p_equal < ALPHA):
        return ImageVerdict("open", p_value, "other", other_test.n_enough)
    rank = (lambda name: -settling[name].p_above) if is_above else (lambda name: settling[name].difference.rounded)
    failed = min(settling, key=rank)
    # equal to a blind condition, or worse: more rows show no more
    is_settled = is_above and min(settling[failed].p_equal, settling[failed].p_below) < ALPHA
    return ImageVerdict("open", p_value, failed, math.nan if is_settled else settling[failed].n_enough)
