"""Decoders beside the model that they decode, and beside the controls that belong to such a comparison.

A gain of a contrastive decoder may come from a shift to yes alone (Yin et al. 2025, "The Mirage of Performance Gains"):
so each decoder stands beside a constant that is added to yes until as many answers are yes.
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

from .tables import MODEL, SEED, Column, Table, count, interval, intervals_of, paired_interval, percent

if TYPE_CHECKING:
    from medfaith.compare.answers import Answers

PLAIN, YES_BIAS = TITLES["greedy"], TITLES["yes_bias"]
NEAR = 0.02  # two shares of yes that differ by no more count as the same
_ENDS = ("", "_low", "_high")
_NOTES = (
    "Yes %: of the answers that could be read. Each difference is that of the decoder's score, row by row. To greedy: "
    "to the model without a decoder. To the yes bias: to the run with decoding=yes_bias whose share of yes is that of "
    f"the decoder, or at most {100 * NEAR:g} points off; – where there is none: run it with yes_share=S, the share "
    "of yes that stands here, as a fraction. A decoder that is not better than its yes bias has only shifted to yes.",
    intervals_of("patients, studies or images"),
)


def decoder_table(answers: Sequence[Answers]) -> list[Table]:
    """A row a decoder and task, behind its model's own; none where no run has a decoder."""
    groups: dict[tuple[Any, ...], list[Answers]] = defaultdict(list)
    for of in answers:
        base = of.model.removesuffix(of.decoding).removesuffix(" + ")
        groups[base, of.task, of.metric, *sorted(of.how.items())].append(of)
    rows = [
        [key[0], of.decoding or PLAIN, f"{of.task}: {of.metric}", *_cells(of, runs)]
        for key, runs in groups.items()
        if any(of.decoding for of in runs)
        for of in sorted(runs, key=lambda of: (not _is_plain(of), of.decoding))
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


def _cells(of: Answers, runs: Sequence[Answers]) -> list[Any]:
    score = bootstrap_mean(of.values, groups=[str(group) for group in of.groups], seed=SEED, bounds=(0, 1))
    plain = next((run for run in runs if _is_plain(run)), None)
    biased = [run for run in runs if run.decoding.startswith(YES_BIAS) and abs(_yes(run) - _yes(of)) <= NEAR]
    control = min(biased, key=lambda run: abs(_yes(run) - _yes(of)), default=None)
    compared = [*_difference(plain, of), *_difference(control, of)]
    return [score.n, score.mean, score.low, score.high, _yes(of), *compared]


def _is_plain(of: Answers) -> bool:
    return of.decoding.partition(",")[0] in ("", PLAIN)


def _yes(of: Answers) -> float:
    """The share of yes among the answers that say yes or no; NaN where none does."""
    said = [str(one).casefold() for one in of.said if one is not None]
    words = [one for one in said if one in ("yes", "no")]
    return words.count("yes") / len(words) if words else math.nan


def _difference(before: Answers | None, after: Answers) -> list[Any]:
    """Difference, low, high and how many rows differ, over the rows of both; NaN against itself or nothing."""
    if before is None or before is after:
        return [math.nan, math.nan, math.nan, None]
    _, mine, theirs = np.intersect1d(before.ids, after.ids, return_indices=True)
    if not np.isfinite(before.values[mine] - after.values[theirs]).any():
        return [math.nan, math.nan, math.nan, None]
    groups = [str(before.groups[row]) for row in mine]
    found = compute_paired_difference(after.values[theirs], before.values[mine], groups=groups, seed=SEED)
    return [found.difference, found.low, found.high, found.n_differ]
