"""Plots for the template: positions on an axis with ticks, for inline SVG and the numbers around it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.controls import BLIND, DONORS, EDITS, ELSEWHERE, HARMLESS, in_order

from .audits import Change
from .cases import IMAGE
from .forest import Forest, Line

_GROUPS = (  # title, and the controls of the group
    ("Own image: the score itself", (IMAGE,)),
    ("Other patients' images", DONORS),
    ("Without an image (blind)", BLIND),
    ("The place, edited: filled at the place that is asked about, hollow elsewhere", (*EDITS, "only_target")),
    ("Harmless changes: what is right stays, or changes with them", (*HARMLESS, "flipped")),
)
_WORDINGS = "Other wordings"


class Mark(NamedTuple):
    """A dot with its interval. at, low, high: in per cent of the axis, None where unknown; y: its height, 0 to 10."""

    at: float | None
    low: float | None
    high: float | None
    y: float
    is_filled: bool


class Axis(NamedTuple):
    """An axis of fractions with equally spaced ticks."""

    ticks: Sequence[float]

    def place(self, value: float | None) -> float | None:
        """Position of a value in per cent of the width; None where it is unknown."""
        if value is None or math.isnan(value):
            return None
        low, high = self.ticks[0], self.ticks[-1]
        return 100 * (min(max(value, low), high) - low) / (high - low)

    def mark(self, value: float | None, low: float | None, high: float | None, y: float, *, is_filled: bool) -> Mark:
        """Make a dot with its interval."""
        return Mark(self.place(value), self.place(low), self.place(high), y, is_filled)

    def plot(
        self, title: str, zero: float, groups: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]
    ) -> dict[str, Any]:
        """Make a plot. zero: where a line across all rows stands."""
        signed = self.ticks[0] < 0
        labels = [f"{100 * tick:+.0f}" if signed and tick else f"{100 * tick:.0f}" for tick in self.ticks]
        return {"title": title, "ticks": labels, "middle": self.place(zero), "groups": [*groups]}


SCORES = Axis((0.0, 0.25, 0.5, 0.75, 1.0))


def axis_of(values: Iterable[float]) -> Axis:
    """Make an axis for differences, with 0 on it and a tick at each 25 or 50 points.

    >>> axis_of([-0.7, 0.04]).ticks
    [-0.75, -0.5, -0.25, 0.0, 0.25]
    """
    known = [min(max(value, -2.0), 2.0) for value in values if not math.isnan(value)]
    step = 0.25 if max([0.0, *known]) - min([0.0, *known]) <= 1 + 1e-9 else 0.5
    first, last = math.floor(min([0.0, *known]) / step), math.ceil(max([0.0, *known]) / step)
    if first == last:
        first, last = -1, 1
    return Axis([step * number for number in range(first, last + 1)])


def plot_scores(title: str, lines: Sequence[Line]) -> dict[str, Any]:
    """Make a plot of scores from 0 to 100%."""
    rows = [
        _row(line.model, "" if line.shown == IMAGE else line.shown, [line.text], [""], [
            SCORES.mark(line.mean, line.low, line.high, 5, is_filled=line.shown == IMAGE)
        ])
        for line in lines
    ]  # fmt: skip
    return SCORES.plot(title, 0.5, [("", rows)])


def plot_kind(plot: Forest) -> dict[str, Any]:
    """As `plot_scores`, named after the finding or the view, with the largest number of rows of a model."""
    return plot_scores(f"{plot.task} (n = {max(line.n for line in plot.lines):,})", plot.lines)


def plot_changes(title: str, changes: Sequence[Change]) -> dict[str, Any]:
    """Make a plot of what each control changes, in groups; an edit at the place and elsewhere share a row."""
    axis = axis_of(value for of in changes for value in (of.difference, of.low, of.high))
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in _GROUPS} | {_WORDINGS: []}
    by_control: dict[str, dict[str, Change]] = {}
    for of in changes:
        by_control.setdefault(of.shown, {})[of.model] = of
    for control in _ordered(by_control):
        at = _at(control)
        if control != at and at in by_control:
            continue  # with the edit at the place
        away = {model: of for name, of_name in by_control.items() if name != control and _at(name) == control
                for model, of in of_name.items()}  # fmt: skip
        groups[_group(at)] += [
            _change_row(axis, [of, *([away[model]] if model in away else [])])
            for model, of in by_control[control].items()
        ]
    return axis.plot(title, 0.0, [(name, rows) for name, rows in groups.items() if rows])


def _ordered(controls: Iterable[str]) -> list[str]:
    """Controls as they are listed, and then wordings and what this version does not know."""
    known = {name for _, names in _GROUPS for name in names}
    given = [*controls]
    listed = [name for name in given if _at(name).partition("@")[0] in known and name != IMAGE]
    with suppress(MedfaithError):  # a dose that there is not
        listed = in_order(listed)
    return [*([IMAGE] if IMAGE in given else []), *listed, *(name for name in given if name not in {IMAGE, *listed})]


def _at(control: str) -> str:
    """The same edit, with the same dose, at the place that is asked about."""
    name, at, dose = control.partition("@")
    return f"{name.removesuffix(ELSEWHERE)}{at}{dose}"


def _group(control: str) -> str:
    name = control.partition("@")[0]
    return next((title for title, names in _GROUPS if name in names), _WORDINGS)


def _change_row(axis: Axis, marks: Sequence[Change]) -> dict[str, Any]:
    of = marks[0]
    if of.shown == IMAGE:
        score = f"{100 * of.score:.2f}" if not math.isnan(of.score) else "–"
        return _row(of.model, "", [score], [of.unanswered], [])
    is_pair = len(marks) > 1
    heights = (3, 7) if is_pair else (5,)
    at = ELSEWHERE not in of.shown
    dots = [
        axis.mark(one.difference, one.low, one.high, y, is_filled=is_first and at)
        for one, y, is_first in zip(marks, heights, (True, False), strict=False)
    ]
    told = [one.unanswered for one in marks]
    if is_pair and told[0] == told[1]:
        told = told[:1]
    elif is_pair:
        told = [f"{place}: {text}" for place, text in zip(("at", "elsewhere"), told, strict=True) if text]
    name, _, dose = of.shown.replace("_", " ").partition("@")
    return _row(of.model, name + (f", {dose}%" if dose else ""), [one.text for one in marks], told, dots)


def _row(model: str, shown: str, texts: Sequence[str], told: Sequence[str], marks: Sequence[Mark]) -> dict[str, Any]:
    return {"model": model, "shown": shown, "texts": texts, "told": [*filter(None, told)], "marks": marks}


class DosePlot(NamedTuple):
    """Net effect by dose, in the units of an SVG 200 wide and 100 high.

    Attributes:
        line: The points of a polyline.
        points: x, y and label of each.
        zero: y of no effect.
        ticks: y and label of the lowest and the highest value of the axis.
        told: The same for those who do not see it.
    """

    line: str
    points: Sequence[tuple[float, float, str]]
    zero: float
    ticks: Sequence[tuple[float, str]]
    told: str


def plot_doses(by_dose: Mapping[int, float]) -> DosePlot | None:
    """Draw net effects in points by dose in per cent; None with fewer than two doses.

    >>> plot_doses({50: 20.0, 100: 40.0}).points
    [(110.0, 49.0, '+20.0'), (180.0, 18.0, '+40.0')]
    """
    if len(by_dose) < 2:
        return None
    low, high = min(0.0, *by_dose.values()), max(0.0, *by_dose.values())
    high = high if high > low else low + 1

    def height(value: float) -> float:
        return round(80 - 62 * (value - low) / (high - low), 1)

    points = [(round(40 + 1.4 * dose, 1), height(net), f"{net:+.1f}") for dose, net in sorted(by_dose.items())]
    line = " ".join(f"{x},{y}" for x, y, _ in points)
    told = "Net effect by dose: " + ", ".join(f"{dose}% {net:+.2f}" for dose, net in sorted(by_dose.items()))
    return DosePlot(line, points, height(0.0), [*_ends(low, high, height)], told)


def _ends(low: float, high: float, height: Any) -> Iterator[tuple[float, str]]:
    for value in dict.fromkeys((low, 0.0, high)):
        yield height(value), f"{value:+.0f}" if value else "0"
