"""CXR-ContraBench's pictures: accuracy and answers by protocol (after Figure 3), and option scores (Figure 5).

Figure 3 has accuracy before and after the verifier, and how many errors of polarity there are. Here each accuracy has
an interval, and a bar says what all answers are. Intervals draw whole studies.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.option_scores import polarity_gap, subsets
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD

from .contrabench_confidence import figure_confidence
from .contrabench_names import base_name, external, protocol_name, protocol_place
from .contrabench_option_scores import ScoredRun
from .contrabench_runs import ORIGINAL, Run, n_errors
from .pictures import (
    NONE,
    Drawn,
    box,
    check_matplotlib,
    draw_empty_note,
    draw_separators,
    draw_stacked_bar,
    iterate_places,
    make_figure,
    short,
)
from .tables import SEED, change

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_R = TypeVar("_R", bound=Run)
# What an answer is -> its style in a bar.
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "right": {"facecolor": "#009e73"},
    "wrong: “No X”": {"facecolor": "#d55e00"},
    "wrong: “No X”, read from sentences": {"facecolor": "#d55e00", "hatch": "..."},
    "wrong: another option": {"facecolor": "#bbbbbb"},
    "declined": {"facecolor": "#eeeeee", "hatch": "xx"},
    "not read": {"facecolor": "white", "hatch": "///"},
}
SUBSETS: Mapping[str, Mapping[str, Any]] = {  # of Appendix A.3
    "safe: “No X” has the highest score": {"facecolor": "#d55e00", "edgecolor": "black", "alpha": 0.75},
    "control: the right “X” has it": {"facecolor": "#0072b2", "edgecolor": "black", "alpha": 0.75},
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "“X” and “No X”": {"facecolor": "#e69f00", "edgecolor": "black", "alpha": 0.75},
    "“X” and the distractors": {"facecolor": "#56b4e9", "edgecolor": "black", "alpha": 0.75},
}
_COLOUR = "#0072b2"
_ROW, _AROUND = 0.42, 0.75  # inches of a row, and of what stands around a panel or around all
_NAME = 38  # characters of a model's name that a row has room for
_WIDE = 140  # characters below a panel of the whole width


def contrabench_pictures(runs: Sequence[Run], scored: Sequence[ScoredRun]) -> Drawn:
    """Figures by file name, those of the original order of options apart, and notes on what is not drawn.

    Drawn are the external protocols in the published wording, and of option scores every run.
    """
    drawn: dict[str, Figure] = {}
    if (runs or scored) and (note := check_matplotlib("CXR-ContraBench")):
        return {}, note
    for layout in ("", f"_{ORIGINAL}"):
        asked = [run for run in external(runs, split=None) if _suffix(run) == layout]
        gaps = [run for run in scored if _suffix(run) == layout]
        if asked:
            drawn[f"figure_contrabench_03{layout}"] = figure_3(asked)
        if gaps:
            drawn[f"figure_contrabench_05{layout}"] = figure_5(gaps)
        if (reliability := figure_confidence([run for run in runs if _suffix(run) == layout])) is not None:
            drawn[f"figure_contrabench_confidence{layout}"] = reliability
    return drawn, []


def _suffix(run: Run) -> str:
    return f"_{ORIGINAL}" if run.setting.layout == ORIGINAL else ""


def _by_protocol(runs: Sequence[_R]) -> list[tuple[str, list[_R]]]:
    """The runs of each protocol and wording, by its title, in the order of the tables."""

    def place(run: _R) -> tuple:
        return protocol_place(run), len(run.setting.changed_forms), run.changed_values, run.variant

    return [(title, [*of]) for title, of in groupby(sorted(runs, key=place), key=_title)]


def _title(run: Run) -> str:
    return protocol_name(run) + (f" ({run.changed_values})" if run.changed_values else "")


def _row(run: Run) -> str:
    size = f"n = {run.n:,}" + (f" of {run.n_data:,}" if run.n < run.n_data else "")
    return f"{short(run.model_name, _NAME)}\n{base_name(run.setting)}, {size}"


def figure_3(runs: Sequence[Run]) -> Figure:
    """A row a model and prompt below each protocol: accuracy before and after M1, and what the answers are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    panels = _by_protocol(runs)
    sizes = [len(of) for _, of in panels]
    dots = [
        Line2D([], [], color=_COLOUR, marker="o", markerfacecolor="white", label="as answered"),
        Line2D([], [], color=_COLOUR, marker="o", markersize=4, alpha=0.6, label="after the verifier (M1)"),
    ]
    figure = make_figure(_AROUND + sum(_ROW * size + _AROUND for size in sizes), {}, *dots)
    axes = figure.subplots(len(panels), 2, squeeze=False, height_ratios=[size + 0.6 for size in sizes])
    for (left, right), (title, of) in zip(axes, panels, strict=True):
        for number, run in enumerate(of):
            _accuracy(left, number, run)
            draw_stacked_bar(right, number, [(share, ANSWERS[name]) for name, share in answers(run).items()])
        for panel, ends in ((left, (-3, 103)), (right, (0, 1))):
            panel.set(xlim=ends, ylim=(len(of) - 0.4, -0.6))
        left.set_yticks(range(len(of)), [_row(run) for run in of], fontsize=8)
        left.xaxis.grid(visible=True, color="#dddddd")
        right.set_yticks(range(len(of)), [_errors(run) for run in of], fontsize=9)
        right.yaxis.tick_right()
        left.set_title(title, loc="left", fontsize=11)
        right.set_title("“No X”, before → after M1", loc="right", fontsize=9)
    axes[-1][0].set_xlabel("accuracy (%), 95% CI")
    axes[-1][1].set_xlabel("share of the answers")
    patches = [Patch(**style, edgecolor="black", label=name) for name, style in ANSWERS.items()]
    figure.legend(handles=patches, loc="outside lower right", ncols=len(patches), fontsize=9, frameon=False)
    return figure


def _accuracy(axes: Axes, number: int, run: Run) -> None:
    """Both accuracies with their intervals, the one a little above the other."""
    for after, at, style in (
        (None, number - 0.12, {"markersize": 6, "markerfacecolor": "white"}),
        ("m1", number + 0.12, {"markersize": 4, "alpha": 0.6}),
    ):
        mean, low, high, *_ = bootstrap_mean(run.correct(after), groups=_studies(run), seed=SEED, bounds=(0, 1))
        if not math.isnan(low):
            axes.plot([100 * low, 100 * high], [at, at], color=_COLOUR, alpha=style.get("alpha"))
        if math.isnan(mean):
            axes.text(0, at, f"M1: {NONE}", va="center", fontsize=7, color="#888888")
        else:
            axes.plot(100 * mean, at, marker="o", color=_COLOUR, **style)


def _studies(run: Run) -> np.ndarray:
    return np.unique(run.study, return_inverse=True)[1]


def answers(run: Run) -> dict[str, float]:
    """The share of each kind of ANSWERS, of all questions asked."""
    right, declined, unread = run.base == run.answer, run.outcome == DECLINED, run.outcome == UNREAD
    negated, from_prose = run.errors(), run.errors(from_prose=True)
    other = ~(right | declined | unread | negated | from_prose)
    found = (right, negated, from_prose, other, declined, unread)
    return {name: float(mask.mean()) for name, mask in zip(ANSWERS, found, strict=True)}


def _errors(run: Run) -> str:
    """How many errors of polarity there are before and after the verifier; nothing where no question can have one."""
    scores = run.scores()
    before = n_errors(scores)
    return "" if math.isnan(before) else change(before, n_errors(scores, "_verified"))


def figure_5(runs: Sequence[ScoredRun]) -> Figure:
    """A panel a protocol with the gaps of both subsets (A); beside it, where states were kept, similarities (B)."""
    from matplotlib.patches import Patch

    panels = _by_protocol(runs)
    with_states = any(run.similarity is not None for run in runs)
    shown = {**SUBSETS, **(OPTIONS if with_states else {})}
    figure = make_figure(3.4 * len(panels), {}, *(Patch(**style, label=name) for name, style in shown.items()))
    axes = figure.subplots(len(panels), 1 + with_states, squeeze=False)
    room = _WIDE // (1 + with_states)
    for of_row, (title, of) in zip(axes, panels, strict=True):
        _boxes(of_row[0], of, [_gaps(run) for run in of], SUBSETS, "no right “X” stands beside its “No X”", room)
        of_row[0].axhline(0, color="black", linewidth=0.8)
        of_row[0].set_ylabel("log p(“No X”) − log p(“X”)\n(nats); n above")
        of_row[0].set_title(f"A. {title}: gap", loc="left", fontsize=11)
        if with_states:
            found = [_similarities(run) for run in of]
            _boxes(of_row[1], of, found, OPTIONS, "no hidden states of the safe subset were kept", room)
            of_row[1].set_ylabel("cosine of the hidden states; n above")
            of_row[1].set_title("B. Options of the safe subset", loc="left", fontsize=11)
    return figure


def _gaps(run: ScoredRun) -> list[list[float]]:
    """Those of the safe and of the control subset, in nats."""
    gaps = polarity_gap(run.option_scores, run.negated, run.counterpart)
    parts = subsets(run.option_scores, run.answer, run.negated, run.counterpart)
    return [gaps[parts.safe].tolist(), gaps[parts.control].tolist()]


def _similarities(run: ScoredRun) -> list[list[float]]:
    """Of the safe subset, the positive option's to the negated one and to the distractors."""
    if run.similarity is None:
        return [[], []]
    safe = subsets(run.option_scores, run.answer, run.negated, run.counterpart).safe
    return [values[safe & ~np.isnan(values)].tolist() for values in run.similarity]


def _boxes(
    axes: Axes,
    runs: Sequence[Run],
    values: Sequence[Sequence[list[float]]],
    styles: Mapping[str, Any],
    empty: str,
    n_characters: int,
) -> None:
    """A group a run, and in it a box for each list of values, with how many these are.

    empty: what a panel says that has none; n_characters: that have room below it.
    """
    for group, of_run in enumerate(values):
        for place, width, (of_box, style) in iterate_places(group, [*zip(of_run, styles.values(), strict=True)]):
            box(axes, place, width, of_box, style)
            top = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
            axes.annotate(f"{len(of_box):,}", (place, 1), (0, -3), ha="center", fontsize=8, color="#444444", **top)
    if not any(of_box for of_run in values for of_box in of_run):
        draw_empty_note(axes, empty)
    draw_separators(axes, len(runs))
    axes.margins(y=0.15)
    names = [textwrap.fill(short(run.model_name, _NAME), max(n_characters // len(runs), 8)) for run in runs]
    axes.set_xticks(range(len(runs)), names, fontsize=9)
