"""The table of differences between models, and the verdict on each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.confidence.paired import (
    FEW,
    Difference,
    apply_holm,
    compute_detectable_difference,
    compute_equivalence_level,
    compute_paired_difference,
    enough,
)
from medfaith.evaluate_metrics.confidence.score import permutation_test
from medfaith.loaders.errors import MedfaithError
from medfaith.report.tables import SEED, Column, Table, count, p_value, percent, points_interval

from .pairs import Pair, Side, match, read_side

ALPHA = 0.05
MARGIN = 0.02
UNDECIDED = "undecided"


class Compared(NamedTuple):
    """One task of a model beside the first model's.

    p: of the permutation test; p_holm: over the tasks of this model. equal: whether the equivalence test says that the
    two differ by less than the margin. could_find: the difference that would have been found four times in five.
    n_enough: how many rows would find a difference as large as the margin so often.
    """

    model: str
    task: str
    metric: str
    found: Difference
    p: float
    p_holm: float
    equal: bool
    could_find: float
    n_enough: float

    @property
    def significant(self) -> bool:
        return self.p_holm < ALPHA

    def verdict(self, margin: float) -> str:
        if math.isnan(self.found.low):
            return "too little to compare"
        within = f"within ±{100 * margin:g}"
        if self.significant:
            return ("better" if self.found.difference > 0 else "worse") + f", but {within}" * self.equal
        return f"same, {within}" if self.equal else UNDECIDED


class Comparison(NamedTuple):
    """first: the name of the model that all others are compared with; margin: what makes no difference, a fraction."""

    first: str
    lines: list[Compared]
    notes: list[str]
    margin: float

    def table(self) -> Table:
        """In per cent and points; what is undefined or left out is in the notes."""
        models = self._models()
        columns = [
            Column("Model" if len(models) > 1 else None, ("model",)),
            Column("Task", ("task",)), Column("Metric", ("metric",)),
            Column("Rows", ("n",), count), Column("Groups", ("n_groups",), count),
            Column("First", ("first",), percent), Column("Other", ("other",), percent),
            Column("Difference [95%]", ("difference", "low", "high"), points_interval),
            Column("p", ("p_value",), p_value), Column("p (Holm)", ("p_holm",), p_value),
            Column("Could find", ("could_find",), _findable), Column("Verdict", ("verdict",)),
            Column(None, ("rows_enough",)), Column(None, ("n_undefined",)), Column(None, ("interval",)),
        ]  # fmt: skip
        title = f"Comparison of {' and '.join(models)} with {self.first}"
        return Table("comparison", title, columns, [self._row(line) for line in self.lines], self._explained())

    def named(self, line: Compared) -> str:
        """The line's task, with its model where there are several."""
        return f"{line.task} of {line.model}" if len(self._models()) > 1 else line.task

    def worse(self, margin: float) -> list[Compared]:
        """Lines that are significantly worse, and by more than the margin."""
        return [line for line in self.lines if line.significant and line.found.difference < -margin]

    def blind(self, margin: float) -> list[Compared]:
        """Lines that are not worse so far but had too few rows to show a loss as large as the margin."""
        worse = self.worse(margin)
        return [line for line in self.lines if line not in worse and not line.could_find <= margin]

    def _models(self) -> list[str]:
        return list(dict.fromkeys(line.model for line in self.lines))

    def _row(self, line: Compared) -> list[Any]:
        found = line.found
        return [
            line.model, line.task, line.metric, found.n, found.n_groups, found.before, found.after, found.difference,
            found.low, found.high, line.p, line.p_holm, line.could_find, line.verdict(self.margin), line.n_enough,
            found.n_nan, found.way,
        ]  # fmt: skip

    def _explained(self) -> list[str]:
        points = f"{100 * self.margin:g} points"
        open_ = [line for line in self.lines if line.verdict(self.margin) == UNDECIDED and line.n_enough > line.found.n]
        needed = (f"{self.named(line)} {count(line.n_enough)}" for line in open_)
        return [
            f"The difference is that model less {self.first}, in percentage points, on the rows for which both have a "
            f"value. Its interval draws whole groups (patients, or else studies, images or videos), 2,000 resamples, "
            f"seed {SEED}; where fewer than {FEW} groups differ, it is Newcombe's from Wilson scores.",
            "p: a permutation test that exchanges whole groups, two-sided; Holm: corrected over the tasks of a model. "
            f"Better and worse: the corrected p is below {ALPHA}. Same: two one-sided tests find the difference to be "
            f"within {points}. Undecided: neither. Could find: the difference that one test of this many rows "
            "shows 4 times in 5, without Holm's correction.",
            *([f"Rows that would show a difference of {points} 4 times in 5: {'; '.join(needed)}."] if open_ else []),
        ]


def compare(
    paths: Sequence[Path], *, common: bool = False, margin: float = MARGIN, rows: Path | None = None
) -> Comparison:
    """Each run beside the first one, task by task.

    Args:
        paths: of two runs or more, as `pairs.read_side` takes them. common: see `pairs.match`.
        margin: a smaller difference makes no difference; a fraction. rows: see `report.results.read_results`.

    Raises:
        MedfaithError: fewer than two runs; InputError: see `pairs.read_side` and `pairs.match`.
    """
    if len(paths) < 2:
        raise MedfaithError(
            f"{', '.join(map(str, paths)) or 'no run'}: one run has nothing that it could be compared with\n"
            "  what to do: name two runs or more, first the one that the others are compared with"
        )
    first, *others = _named([read_side(path, rows) for path in paths])
    lines, notes = [], list(first.notes)
    for other in others:
        pairs, left_out = match(first, other, common=common)
        lines += _compared(other.name, pairs, margin)
        notes += [*left_out, *other.notes]
    return Comparison(first.name, lines, list(dict.fromkeys(notes)), margin)


def _findable(value: float) -> str:
    return "100+" if value > 1 else percent(value)


def _named(sides: Sequence[Side]) -> list[Side]:
    """Models of one name are told apart by their folders."""
    names = [side.name for side in sides]
    return [side._replace(name=f"{side.name} [{side.path}]") if names.count(side.name) > 1 else side for side in sides]


def _compared(model: str, pairs: Sequence[Pair], margin: float) -> list[Compared]:
    p_values = [permutation_test(p.after, p.before, groups=p.groups, seed=SEED).p_value for p in pairs]
    adjusted = apply_holm(p_values)
    level = compute_equivalence_level(sum(p > 0 for p in p_values) or 1)  # NaN is no test
    lines = []
    for pair, p, p_holm in zip(pairs, p_values, adjusted, strict=True):
        found = compute_paired_difference(pair.after, pair.before, groups=pair.groups, seed=SEED)
        within = compute_paired_difference(
            pair.after, pair.before, groups=pair.groups, seed=SEED, confidence_level=level
        )
        could_find = compute_detectable_difference(found.low, found.high)
        equal = -margin < within.low and within.high < margin
        n_enough = enough(found.n, could_find, margin)
        lines.append(Compared(model, pair.task, pair.metric, found, p, float(p_holm), equal, could_find, n_enough))
    return lines
