"""Decoders next to the undecoded model and to their controls.

A gain of a contrastive decoder may come from a shift to yes alone (Yin et al. 2025, "The Mirage of Performance Gains").
So each decoder is compared with a constant that is added to yes until the share of yes is equal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from medfaith.evaluate_metrics.confidence.paired import compute_paired_difference
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.tasks.decoding.titles import TITLES

from .tables import MODEL, SEED, Column, Table, count, format_interval_note, interval, paired_interval, percent

if TYPE_CHECKING:
    from .answers import Answers

PLAIN, YES_BIAS = TITLES["greedy"], TITLES["yes_bias"]
NEAR = 0.02  # two shares of yes count as equal up to this difference
_ENDS = ("", "_low", "_high")
_NOTES = (
    "Yes %: of the answers that could be read. Each difference is that of the decoder's score, row by row. To greedy: "
    "to the model without a decoder. To the yes bias: to the run with decoding=yes_bias whose share of yes is that of "
    f"the decoder, or at most {100 * NEAR:g} points off; – where there is none: run it with yes_share=S, the share "
    "of yes that is given here, as a fraction. A decoder that is not better than its yes bias has only shifted to yes.",
    format_interval_note("patients, studies or images"),
)


def build_decoder_tables(answers: Sequence[Answers]) -> list[Table]:
    """Build the table of decoders, with a row for each decoder and task after the row of the model alone.

    Args:
        answers: The answers of all runs.

    Returns:
        One table; none if no run has a decoder.
    """
    groups: dict[tuple[Any, ...], list[Answers]] = defaultdict(list)
    for run in answers:
        base = run.model.removesuffix(run.decoding).removesuffix(" + ")
        groups[base, run.task, run.metric, *sorted(run.how.items())].append(run)
    rows = [
        [key[0], run.decoding or PLAIN, f"{run.task}: {run.metric}", *_compute_row(run, runs)]
        for key, runs in groups.items()
        if any(run.decoding for run in runs)
        for run in sorted(runs, key=lambda run: (not _is_plain(run), run.decoding))
    ]
    columns = [
        MODEL,
        Column("Decoder", ("decoder",)),
        Column("Task", ("task",)),
        Column("n", ("n",), count),
        Column("Score % [95% CI]", tuple(f"score{end}" for end in _ENDS), interval),
        Column("Yes %", ("yes_share",), percent),
        *(
            Column(f"{title} [95% CI]", (*(f"{name}{end}" for end in _ENDS), f"{name}_n_differ"), paired_interval)
            for title, name in (("Δ to greedy", "to_greedy"), ("Δ to the yes bias", "to_yes_bias"))
        ),
    ]
    return [Table("decoders", "Decoders and their controls", columns, rows, _NOTES)] if rows else []


def _compute_row(decoded: Answers, related_runs: Sequence[Answers]) -> list[Any]:
    score = bootstrap_mean(decoded.values, groups=[str(group) for group in decoded.groups], seed=SEED, bounds=(0, 1))
    plain = next((run for run in related_runs if _is_plain(run)), None)
    biased = [
        run
        for run in related_runs
        if run.decoding.startswith(YES_BIAS) and abs(_compute_yes_share(run) - _compute_yes_share(decoded)) <= NEAR
    ]
    control = min(biased, key=lambda run: abs(_compute_yes_share(run) - _compute_yes_share(decoded)), default=None)
    compared = [*_compute_difference(plain, decoded), *_compute_difference(control, decoded)]
    return [score.n, score.mean, score.low, score.high, _compute_yes_share(decoded), *compared]


def _is_plain(run: Answers) -> bool:
    return run.decoding.partition(",")[0] in ("", PLAIN)


def _compute_yes_share(run: Answers) -> float:
    """Compute the share of yes among the answers yes and no; NaN without such answers."""
    readings = [str(reading).casefold() for reading in run.said if reading is not None]
    yes_no = [reading for reading in readings if reading in ("yes", "no")]
    return yes_no.count("yes") / len(yes_no) if yes_no else math.nan


def _compute_difference(before: Answers | None, after: Answers) -> list[Any]:
    """Compute the paired difference over common rows: (difference, low, high, rows that differ); NaN if undefined."""
    if before is None or before is after:
        return [math.nan, math.nan, math.nan, None]
    _, before_rows, after_rows = np.intersect1d(before.ids, after.ids, return_indices=True)
    if not np.isfinite(before.values[before_rows] - after.values[after_rows]).any():
        return [math.nan, math.nan, math.nan, None]
    groups = [str(before.groups[row]) for row in before_rows]
    paired = compute_paired_difference(after.values[after_rows], before.values[before_rows], groups=groups, seed=SEED)
    return [paired.difference, paired.low, paired.high, paired.n_differ]
