"""The verdicts of rule 2 of `medfaith audit` on the use of images (docs/audit.md), from the tests of `image_use`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from .image_use import Comparison, ImageUse
from .paired import benjamini_yekutieli, holm
from .reliance import ALPHA

Name = Literal["uses", "recalls", "no use", "reacts", "harmed", "open", "unanswered", "undefined"]
MOST_UNANSWERED = 0.5  # share of unread and declined answers with the image above which there is no verdict


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
