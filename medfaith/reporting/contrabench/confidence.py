"""Stated confidence and accuracy: the confidence that the prompt `packet` asks for.

Answers with a legible confidence fall into ten bins of equal width. The expected calibration error is the mean distance
of accuracy and confidence over the bins, weighted by their number of answers (Guo et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.polarity.fallback import read_packet
from medfaith.logs.lines import responses

from ..pictures import make_figure, make_styles
from ..tables import MODEL, PROTOCOL, SEED, Column, Table, count, format_interval_note, interval, percent
from .names import protocol_name
from .runs import Run

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
    """Stated confidence and correctness of a run's rows.

    Attributes:
        confidence: Shape (n,), NaN if not legible.
        right: Shape (n,), 1.0 for a right answer.
    """

    confidence: np.ndarray
    right: np.ndarray


class Bin(NamedTuple):
    """Answers with similar confidence.

    Attributes:
        n: Number of answers.
        confidence: Mean confidence.
        accuracy: Accuracy.
        low: Lower bound of the accuracy's 95% interval.
        high: Upper bound.
    """

    n: int
    confidence: float
    accuracy: float
    low: float
    high: float


def select_packet_runs(runs: Sequence[Run]) -> list[Run]:
    """Select the runs whose prompt asks for the confidence.

    Args:
        runs: The runs.

    Returns:
        Runs with the prompt `packet`.
    """
    return [run for run in runs if run.setting.prompt == PROMPT]


def read_stated_confidence(run: Run) -> Stated:
    """Read the stated confidence from the log of a run.

    Args:
        run: A run with the prompt `packet`.

    Returns:
        Confidence and correctness of its rows.
    """
    response_by_id = dict(responses(run.source.path))
    confidences = [
        read_packet(response_by_id.get(row), run.wordings[wording][1]).baseline.confidence.value
        for row, wording in zip(run.id, run.wording, strict=True)
    ]
    return Stated(np.array(confidences, dtype=float), run.correct())  # None becomes NaN


def compute_bins(run: Run, answers: Stated) -> list[Bin]:
    """Group answers into bins of equal width.

    Args:
        run: The run.
        answers: Its stated confidence.

    Returns:
        The bins that are not empty, by rising confidence.
    """
    bin_numbers = np.clip(np.digitize(answers.confidence, EDGES) - 1, 0, len(EDGES) - 2)
    has_confidence = np.isfinite(answers.confidence)
    filled_bins = []
    for index in range(len(EDGES) - 1):
        rows = has_confidence & (bin_numbers == index)
        if rows.any():
            accuracy = bootstrap_mean(answers.right[rows], groups=list(run.study[rows]), seed=SEED, bounds=(0, 1))
            filled_bins.append(
                Bin(int(rows.sum()), float(answers.confidence[rows].mean()), accuracy.mean, accuracy.low, accuracy.high)
            )
    return filled_bins


def compute_calibration_error(bins: Sequence[Bin]) -> float:
    """Compute the expected calibration error.

    Args:
        bins: The bins of a run.

    Returns:
        The error; NaN without answers.
    """
    total = sum(item.n for item in bins)
    return sum(item.n * abs(item.accuracy - item.confidence) for item in bins) / total if total else math.nan


def build_confidence_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the table of stated confidence, with a row for each run.

    Args:
        runs: The runs.

    Returns:
        One table; none without a run with the prompt `packet`.
    """
    rows = [_format_row(run) for run in select_packet_runs(runs)]
    columns = [
        MODEL, PROTOCOL, Column("n", ("n",), count), Column("No confidence", ("n_without",), count),
        Column("Mean confidence %", ("confidence",), percent),
        Column("Accuracy % [95% CI]", tuple(f"accuracy{end}" for end in _ENDS), interval),
        Column("ECE %", ("calibration_error",), percent),
    ]  # fmt: skip
    return [Table("contrabench_confidence", "Stated confidence", columns, rows, _NOTES)] if rows else []


def _format_row(run: Run) -> list[Any]:
    answers = read_stated_confidence(run)
    has_confidence = np.isfinite(answers.confidence)
    accuracy = bootstrap_mean(
        np.where(has_confidence, answers.right, np.nan), groups=list(run.study), seed=SEED, bounds=(0, 1)
    )
    mean_confidence = float(answers.confidence[has_confidence].mean()) if has_confidence.any() else math.nan
    names = [run.model_name, protocol_name(run), int(has_confidence.sum()), int((~has_confidence).sum())]
    return [
        *names,
        mean_confidence,
        accuracy.mean,
        accuracy.low,
        accuracy.high,
        compute_calibration_error(compute_bins(run, answers)),
    ]


def draw_confidence_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw accuracy by stated confidence, with a line for each model and a panel for each protocol.

    Args:
        runs: The runs.

    Returns:
        The figure; None without a legible confidence.
    """
    panels: dict[str, list[tuple[Run, list[Bin]]]] = {}
    for run in select_packet_runs(runs):
        if filled_bins := compute_bins(run, read_stated_confidence(run)):
            panels.setdefault(protocol_name(run), []).append((run, filled_bins))
    if not panels:
        return None
    styles = make_styles(sorted({run.model_name for panel_runs in panels.values() for run, _ in panel_runs}))
    figure = make_figure(3.2 * len(panels), styles)
    for axes, (title, panel_runs) in zip(np.ravel(figure.subplots(len(panels), 1)), panels.items(), strict=True):
        axes.plot([0, 100], [0, 100], color="#999999", linewidth=0.8, linestyle="--")
        for run, filled_bins in panel_runs:
            x, y = ([100 * getattr(item, name) for item in filled_bins] for name in ("confidence", "accuracy"))
            colour = styles[run.model_name]["facecolor"]
            axes.plot(x, y, marker="o", markersize=4, color=colour)
            axes.vlines(
                x, *([100 * getattr(item, end) for item in filled_bins] for end in ("low", "high")), color=colour
            )
        axes.set(xlim=(-2, 102), ylim=(-2, 102), xlabel="stated confidence (%)", ylabel="accuracy (%), 95% CI")
        axes.set_title(title, loc="left", fontsize=11)
    return figure
