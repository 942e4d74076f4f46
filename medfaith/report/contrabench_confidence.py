"""How sure models say they are, and how often they are right: the confidence that the prompt `packet` asks for.

Ten bins of equal width take the answers whose confidence can be read. The expected calibration error is the mean
distance of accuracy and confidence over the bins, each with its share of these answers (Guo et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.fallback import read_packet
from medfaith.logs.lines import responses

from .contrabench_names import protocol_name
from .contrabench_runs import Run
from .pictures import make_figure, make_styles, short
from .tables import MODEL, PROTOCOL, SEED, Column, Table, count, format_interval_note, interval, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGES = np.linspace(0, 1, 11)
PROMPT = "packet"
_ENDS = ("", "_low", "_high")
_NOTES = (
    "Of the answers to the prompt packet: how sure the model says it is of its direct answer. ECE: expected "
    "calibration error, over ten bins of equal width. no confidence: answers that state none, or none that is legible.",
    format_interval_note("studies"),
)


class Stated(NamedTuple):
    """Of a run's rows the stated confidence, NaN where none can be read, and whether the answer is right: (n,)."""

    confidence: np.ndarray
    right: np.ndarray


class Bin(NamedTuple):
    """Answers with about the same confidence; low and high: of the accuracy."""

    n: int
    confidence: float
    accuracy: float
    low: float
    high: float


def asked(runs: Sequence[Run]) -> list[Run]:
    """The runs in which the model was asked how sure it is."""
    return [run for run in runs if run.setting.prompt == PROMPT]


def stated(run: Run) -> Stated:
    """What the model says, read from its log once more."""
    text = dict(responses(run.source.path))
    said = [
        read_packet(text.get(row), run.wordings[wording][1]).baseline.confidence.value
        for row, wording in zip(run.id, run.wording, strict=True)
    ]
    return Stated(np.array(said, dtype=float), run.correct())  # None becomes NaN


def bins(run: Run, given: Stated) -> list[Bin]:
    """Those with answers, by rising confidence."""
    number = np.clip(np.digitize(given.confidence, EDGES) - 1, 0, len(EDGES) - 2)
    known = np.isfinite(given.confidence)
    found = []
    for one in range(len(EDGES) - 1):
        rows = known & (number == one)
        if rows.any():
            of = bootstrap_mean(given.right[rows], groups=list(run.study[rows]), seed=SEED, bounds=(0, 1))
            found.append(Bin(int(rows.sum()), float(given.confidence[rows].mean()), of.mean, of.low, of.high))
    return found


def calibration_error(of_bins: Sequence[Bin]) -> float:
    """NaN without any answer."""
    total = sum(one.n for one in of_bins)
    return sum(one.n * abs(one.accuracy - one.confidence) for one in of_bins) / total if total else math.nan


def confidence_table(runs: Sequence[Run]) -> list[Table]:
    """A row a run; none where no model was asked how sure it is."""
    rows = [_cells(run) for run in asked(runs)]
    columns = [
        MODEL, PROTOCOL, Column("n", ("n",), count), Column("No confidence", ("n_without",), count),
        Column("Mean confidence %", ("confidence",), percent),
        Column("Accuracy % [95% CI]", tuple(f"accuracy{end}" for end in _ENDS), interval),
        Column("ECE %", ("calibration_error",), percent),
    ]  # fmt: skip
    return [Table("contrabench_confidence", "Stated confidence", columns, rows, _NOTES)] if rows else []


def _cells(run: Run) -> list[Any]:
    given = stated(run)
    known = np.isfinite(given.confidence)
    of = bootstrap_mean(np.where(known, given.right, np.nan), groups=list(run.study), seed=SEED, bounds=(0, 1))
    mean = float(given.confidence[known].mean()) if known.any() else math.nan
    names = [run.model_name, protocol_name(run), int(known.sum()), int((~known).sum())]
    return [*names, mean, of.mean, of.low, of.high, calibration_error(bins(run, given))]


def figure_confidence(runs: Sequence[Run]) -> Figure | None:
    """Accuracy by stated confidence, a line a model, a panel a protocol; None where nobody states any."""
    panels: dict[str, list[tuple[Run, list[Bin]]]] = {}
    for run in asked(runs):
        if found := bins(run, stated(run)):
            panels.setdefault(protocol_name(run), []).append((run, found))
    if not panels:
        return None
    styles = make_styles(sorted({run.model_name for of in panels.values() for run, _ in of}))
    figure = make_figure(3.2 * len(panels), styles)
    for axes, (title, of) in zip(np.ravel(figure.subplots(len(panels), 1)), panels.items(), strict=True):
        axes.plot([0, 100], [0, 100], color="#999999", linewidth=0.8, linestyle="--")
        for run, found in of:
            x, y = ([100 * getattr(one, name) for one in found] for name in ("confidence", "accuracy"))
            colour = styles[run.model_name]["facecolor"]
            axes.plot(x, y, marker="o", markersize=4, color=colour, label=short(run.model_name, 40))
            axes.vlines(x, *([100 * getattr(one, end) for one in found] for end in ("low", "high")), color=colour)
        axes.set(xlim=(-2, 102), ylim=(-2, 102), xlabel="stated confidence (%)", ylabel="accuracy (%), 95% CI")
        axes.set_title(title, loc="left", fontsize=11)
    return figure
