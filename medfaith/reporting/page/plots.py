"""Plots for the template: positions on an axis with ticks, and the numbers next to an inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.controls import BLIND, DONORS, EDITS, ELSEWHERE, HARMLESS, in_order

from .audit_results import Change
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
    """A dot with its interval.

    Attributes:
        at: Position in per cent of the axis; None if unknown.
        low: Position of the lower bound.
        high: Position of the upper bound.
        y: Height, 0 to 10.
        is_filled: Whether the dot is filled.
    """

    at: float | None
    low: float | None
    high: float | None
    y: float
    is_filled: bool


class Axis(NamedTuple):
    """An axis of fractions.

    Attributes:
        ticks: Equally spaced values.
    """

    ticks: Sequence[float]

    def place(self, value: float | None) -> float | None:
        """Position of a value in per cent of the width.

        Args:
            value: A fraction.

        Returns:
            The position; None if the value is unknown.
        """
        if value is None or math.isnan(value):
            return None
        low, high = self.ticks[0], self.ticks[-1]
        return 100 * (min(max(value, low), high) - low) / (high - low)

    def mark(self, value: float | None, low: float | None, high: float | None, y: float, *, is_filled: bool) -> Mark:
        """Make a dot with its interval.

        Args:
            value: Value of the dot.
            low: Lower bound.
            high: Upper bound.
            y: Height, 0 to 10.
            is_filled: Whether the dot is filled.

        Returns:
            The mark.
        """
        return Mark(self.place(value), self.place(low), self.place(high), y, is_filled)

    def plot(
        self, title: str, zero: float, groups: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]
    ) -> dict[str, Any]:
        """Make a plot for the template.

        Args:
            title: Title of the plot.
            zero: Value of the vertical line across all rows.
            groups: Title and rows of each group.

        Returns:
            The values that the template needs.
        """
        signed = self.ticks[0] < 0
        labels = [f"{100 * tick:+.0f}" if signed and tick else f"{100 * tick:.0f}" for tick in self.ticks]
        return {"title": title, "ticks": labels, "middle": self.place(zero), "groups": [*groups]}


SCORES = Axis((0.0, 0.25, 0.5, 0.75, 1.0))


def make_axis(values: Iterable[float]) -> Axis:
    """Make an axis for differences, with 0 on it and a tick at every 25 or 50 points.

    >>> make_axis([-0.7, 0.04]).ticks
    [-0.75, -0.5, -0.25, 0.0, 0.25]

    Args:
        values: Differences, fractions; NaN is skipped.

    Returns:
        The axis.
    """
    finite = [min(max(value, -2.0), 2.0) for value in values if not math.isnan(value)]
    step = 0.25 if max([0.0, *finite]) - min([0.0, *finite]) <= 1 + 1e-9 else 0.5
    low_step, high_step = math.floor(min([0.0, *finite]) / step), math.ceil(max([0.0, *finite]) / step)
    if low_step == high_step:
        low_step, high_step = -1, 1
    return Axis([step * number for number in range(low_step, high_step + 1)])


def plot_scores(title: str, lines: Sequence[Line]) -> dict[str, Any]:
    """Make a plot of scores from 0 to 100%.

    Args:
        title: Title of the plot.
        lines: Models and conditions.

    Returns:
        The values that the template needs.
    """
    rows = [
        _build_row(line.model, "" if line.shown == IMAGE else line.shown, [line.text], [""], [
            SCORES.mark(line.mean, line.low, line.high, 5, is_filled=line.shown == IMAGE)
        ])
        for line in lines
    ]  # fmt: skip
    return SCORES.plot(title, 0.5, [("", rows)])


def plot_kind(plot: Forest) -> dict[str, Any]:
    """Make a plot of scores for one finding or view.

    Args:
        plot: The finding or view with its lines.

    Returns:
        The values that the template needs; the title has the largest number of rows of a model.
    """
    return plot_scores(f"{plot.task} (n = {max(line.n for line in plot.lines):,})", plot.lines)


def plot_changes(title: str, changes: Sequence[Change]) -> dict[str, Any]:
    """Make a plot of the change under each control, in groups; an edit at the place and elsewhere share a row.

    Args:
        title: Title of the plot.
        changes: Changes of all models.

    Returns:
        The values that the template needs.
    """
    axis = make_axis(value for change in changes for value in (change.difference, change.low, change.high))
    groups: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in _GROUPS} | {_WORDINGS: []}
    by_control: dict[str, dict[str, Change]] = {}
    for change in changes:
        by_control.setdefault(change.shown, {})[change.model] = change
    for control in _sort_controls(by_control):
        edit_at_place = _get_place_edit(control)
        if control != edit_at_place and edit_at_place in by_control:
            continue  # drawn in the row of the edit at the place
        elsewhere = {
            model: change
            for name, changes_by_model in by_control.items()
            if name != control and _get_place_edit(name) == control
            for model, change in changes_by_model.items()
        }
        groups[_find_group(edit_at_place)] += [
            _build_change_row(axis, [change, *([elsewhere[model]] if model in elsewhere else [])])
            for model, change in by_control[control].items()
        ]
    return axis.plot(title, 0.0, [(name, rows) for name, rows in groups.items() if rows])


def _sort_controls(controls: Iterable[str]) -> list[str]:
    """Sort controls in their usual order, then wordings and unknown names."""
    grouped = {name for _, names in _GROUPS for name in names}
    all_names = [*controls]
    listed = [name for name in all_names if _get_place_edit(name).partition("@")[0] in grouped and name != IMAGE]
    with suppress(MedfaithError):  # an unknown dose
        listed = in_order(listed)
    return [
        *([IMAGE] if IMAGE in all_names else []),
        *listed,
        *(name for name in all_names if name not in {IMAGE, *listed}),
    ]


def _get_place_edit(control: str) -> str:
    """Get the name of the same edit, with the same dose, at the place that the question asks about."""
    name, at, dose = control.partition("@")
    return f"{name.removesuffix(ELSEWHERE)}{at}{dose}"


def _find_group(control: str) -> str:
    name = control.partition("@")[0]
    return next((title for title, names in _GROUPS if name in names), _WORDINGS)


def _build_change_row(axis: Axis, marks: Sequence[Change]) -> dict[str, Any]:
    change = marks[0]
    if change.shown == IMAGE:
        score = f"{100 * change.score:.2f}" if not math.isnan(change.score) else "–"
        return _build_row(change.model, "", [score], [change.unanswered], [])
    is_pair = len(marks) > 1
    heights = (3, 7) if is_pair else (5,)
    is_at_place = ELSEWHERE not in change.shown
    dots = [
        axis.mark(mark.difference, mark.low, mark.high, y, is_filled=is_first and is_at_place)
        for mark, y, is_first in zip(marks, heights, (True, False), strict=False)
    ]
    outcome_texts = [mark.unanswered for mark in marks]
    if is_pair and outcome_texts[0] == outcome_texts[1]:
        outcome_texts = outcome_texts[:1]
    elif is_pair:
        outcome_texts = [
            f"{place}: {text}" for place, text in zip(("at", "elsewhere"), outcome_texts, strict=True) if text
        ]
    name, _, dose = change.shown.replace("_", " ").partition("@")
    return _build_row(
        change.model, name + (f", {dose}%" if dose else ""), [mark.text for mark in marks], outcome_texts, dots
    )


def _build_row(
    model: str, condition: str, texts: Sequence[str], outcome_texts: Sequence[str], marks: Sequence[Mark]
) -> dict[str, Any]:
    return {"model": model, "shown": condition, "texts": texts, "told": [*filter(None, outcome_texts)], "marks": marks}


class DosePlot(NamedTuple):
    """Net effect by dose, in the units of an SVG 200 wide and 100 high.

    Attributes:
        line: The points of a polyline.
        points: x, y and label of each point.
        zero: y of no effect.
        ticks: y and label of the lowest and the highest value of the axis.
        description: The same values as text, for screen readers.
    """

    line: str
    points: Sequence[tuple[float, float, str]]
    zero: float
    ticks: Sequence[tuple[float, str]]
    description: str


def plot_doses(by_dose: Mapping[int, float]) -> DosePlot | None:
    """Draw net effects by dose.

    >>> plot_doses({50: 20.0, 100: 40.0}).points
    [(110.0, 49.0, '+20.0'), (180.0, 18.0, '+40.0')]

    Args:
        by_dose: Dose in per cent -> net effect in points.

    Returns:
        The plot; None with fewer than two doses.
    """
    if len(by_dose) < 2:
        return None
    low, high = min(0.0, *by_dose.values()), max(0.0, *by_dose.values())
    high = high if high > low else low + 1

    def get_height(value: float) -> float:
        return round(80 - 62 * (value - low) / (high - low), 1)

    points = [(round(40 + 1.4 * dose, 1), get_height(net), f"{net:+.1f}") for dose, net in sorted(by_dose.items())]
    line = " ".join(f"{x},{y}" for x, y, _ in points)
    description = "Net effect by dose: " + ", ".join(f"{dose}% {net:+.2f}" for dose, net in sorted(by_dose.items()))
    return DosePlot(line, points, get_height(0.0), [*_iterate_ticks(low, high, get_height)], description)


def _iterate_ticks(low: float, high: float, height: Any) -> Iterator[tuple[float, str]]:
    for value in dict.fromkeys((low, 0.0, high)):
        yield height(value), f"{value:+.0f}" if value else "0"
