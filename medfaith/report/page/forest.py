"""Scores with their intervals, each model and control on a line, as numbers for an inline SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from medfaith.compare.answers import Answers
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

from ..tables import SEED, interval
from .cases import IMAGE


class Line(NamedTuple):
    """One model as shown in one way. mean, low, high: fractions, low and high None where unknown."""

    model: str
    shown: str
    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def text(self) -> str:
        return interval(self.mean, self.low, self.high)


class Forest(NamedTuple):
    """One task's plot. metric: what the values are means of."""

    task: str
    metric: str
    lines: list[Line]


def forests(answers: Sequence[Answers]) -> list[Forest]:
    """A plot for each task and metric; lines by model, with the image first and then the controls by name.

    Intervals draw whole patients, studies, images or videos (95%, 2,000 resamples). Rows without a value are left out.
    """
    plots: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for of in answers:
        found = bootstrap_mean(of.values, groups=[str(group) for group in of.groups], seed=SEED)
        if found.n > found.n_nan:
            known = found.low == found.low  # NaN is unlike itself
            ends = (found.low, found.high) if known else (None, None)
            shown = of.how.get("control", IMAGE)
            telling = ", ".join(word for word in of.variant.split(", ") if word != shown)
            name = of.model + (f" ({telling})" if telling else "")
            plots[of.task, of.metric].append(Line(name, shown, found.mean, *ends, found.n - found.n_nan))
    order = {
        key: sorted(lines, key=lambda line: (line.model, line.shown != IMAGE, line.shown))
        for key, lines in plots.items()
    }
    return [Forest(task, metric, lines) for (task, metric), lines in order.items()]
