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

from ..tables import SEED, Column, Table, count, p_value, percent, points_interval
from .pairs import Pair, Side, match, read_side

ALPHA = 0.05
MARGIN = 0.02
UNDECIDED = "undecided"


class Compared(NamedTuple):
    """One task of a model compared with the first model.

    Attributes:
        model: Name of the model.
        task: Title of the task.
        metric: Name of the figure.
        found: The difference with its interval.
        p: P-value of the permutation test.
        p_holm: The same, corrected over all lines of the comparison.
        equal: Whether the equivalence test shows a difference below the margin.
        could_find: Minimum detectable effect at a power of 80%.
        n_enough: Number of rows that detect a difference of the margin at a power of 80%.
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
        """Whether the corrected p-value is below `ALPHA`."""
        return self.p_holm < ALPHA

    def verdict(self, margin: float) -> str:
        """Name the verdict on the difference from the first model.

        It is "better" or "worse" if the corrected p-value is significant, with "but within ±M" if the equivalence test
        shows a difference below the margin, too. It is "same, within ±M" if only the equivalence test shows something,
        undecided if no test does, and "too little to compare" without an interval.

        Args:
            margin: Equivalence margin, a fraction.

        Returns:
            The verdict in words.
        """
        if math.isnan(self.found.low):
            return "too little to compare"
        within = f"within ±{100 * margin:g}"
        if self.significant:
            return ("better" if self.found.difference > 0 else "worse") + f", but {within}" * self.equal
        return f"same, {within}" if self.equal else UNDECIDED


class Comparison(NamedTuple):
    """All models compared with the first one.

    Attributes:
        first: Name of the first model.
        lines: One task of one model each.
        notes: Notes on what is left out.
        margin: Equivalence margin, a fraction.
        warnings: Warnings of unread, declined and cut answers; a report has its own.
    """

    first: str
    lines: list[Compared]
    notes: list[str]
    margin: float
    warnings: list[str]

    def table(self) -> Table:
        """Make the table, in per cent and points; notes name undefined values and rows that are left out."""
        models = self._list_models()
        columns = [
            Column("Model" if len(models) > 1 else None, ("model",)),
            Column("Task", ("task",)), Column("Metric", ("metric",)),
            Column("Rows", ("n",), count), Column("Groups", ("n_groups",), count),
            Column("First", ("first",), percent), Column("Other", ("other",), percent),
            Column("Difference [95%]", ("difference", "low", "high"), points_interval),
            Column("p", ("p_value",), p_value), Column("p (Holm)", ("p_holm",), p_value),
            Column("Could find", ("could_find",), _format_detectable), Column("Verdict", ("verdict",)),
            Column(None, ("rows_enough",)), Column(None, ("n_undefined",)), Column(None, ("interval",)),
        ]  # fmt: skip
        title = f"Comparison of {' and '.join(models)} with {self.first}"
        return Table("comparison", title, columns, [self._make_row(line) for line in self.lines], self._write_notes())

    def named(self, line: Compared) -> str:
        """Name the task of a line, with its model if there are several.

        Args:
            line: The line.

        Returns:
            The name.
        """
        return f"{line.task} of {line.model}" if len(self._list_models()) > 1 else line.task

    def worse(self, margin: float) -> list[Compared]:
        """List the lines that are significantly worse, and by more than the margin.

        Args:
            margin: Equivalence margin, a fraction.

        Returns:
            The lines, in their order.
        """
        return [line for line in self.lines if line.significant and line.found.rounded < -margin]

    def blind(self, margin: float) -> list[Compared]:
        """List the lines that are not worse but have too few rows to detect a loss of the margin.

        Args:
            margin: Equivalence margin, a fraction.

        Returns:
            The lines, in their order.
        """
        worse = self.worse(margin)
        return [line for line in self.lines if line not in worse and not line.could_find <= margin]

    def _list_models(self) -> list[str]:
        return list(dict.fromkeys(line.model for line in self.lines))

    def _make_row(self, line: Compared) -> list[Any]:
        difference = line.found
        return [
            line.model, line.task, line.metric, difference.n, difference.n_groups, difference.before, difference.after,
            difference.difference, difference.low, difference.high, line.p, line.p_holm, line.could_find,
            line.verdict(self.margin), line.n_enough, difference.n_nan, difference.way,
        ]  # fmt: skip

    def _write_notes(self) -> list[str]:
        points = f"{100 * self.margin:g} points"
        open_ = [line for line in self.lines if line.verdict(self.margin) == UNDECIDED and line.n_enough > line.found.n]
        needed = (f"{self.named(line)} {count(line.n_enough)}" for line in open_)
        return [
            f"The difference is that model less {self.first}, in percentage points, on the rows for which both have a "
            f"value. Its interval draws whole groups (patients, or else studies, images or videos), 2,000 resamples, "
            f"seed {SEED}; where fewer than {FEW} groups differ, it is Newcombe's from Wilson scores, or that of "
            "rare gains and losses where it is wider.",
            "p: a permutation test that exchanges whole groups, two-sided; Holm: corrected over all lines here. "
            f"Better and worse: the corrected p is below {ALPHA}. Same: two one-sided tests, corrected by Bonferroni, "
            f"find the difference to be within {points}. Undecided: neither. Could find: the difference that one test "
            "of this many rows shows 4 times in 5. Neither it nor the interval is corrected.",
            *(
                [
                    f"Rows that would show a difference of {points} 4 times in 5, in groups of the same size: "
                    f"{'; '.join(needed)}."
                ]
                if open_
                else []
            ),
        ]


def compare(
    paths: Sequence[Path], *, common: bool = False, margin: float = MARGIN, rows: Path | None = None
) -> Comparison:
    """Compare each run with the first one, task by task.

    Args:
        paths: Two runs or more, see `pairs.read_side`.
        common: Whether to compare only common rows, see `pairs.match`.
        margin: Equivalence margin, a fraction.
        rows: A csv file of row ids, see `reporting.results.read_results`.

    Returns:
        The comparison.

    Raises:
        MedfaithError: Fewer than two runs.
        InputError: See `pairs.read_side` and `pairs.match`.
    """
    if len(paths) < 2:
        raise MedfaithError(
            f"{', '.join(map(str, paths)) or 'no run'}: one run has nothing that it could be compared with\n"
            "  what to do: name two runs or more, first the one that the others are compared with"
        )
    first_side, *other_sides = _make_names_distinct([read_side(path, rows) for path in paths])
    pairs, notes = [], list(first_side.notes)
    for other_side in other_sides:
        side_pairs, left_out = match(first_side, other_side, common=common)
        pairs += [(other_side.name, pair) for pair in side_pairs]
        notes += [*left_out, *other_side.notes]
    warnings = [warning for side in (first_side, *other_sides) for warning in side.warnings]
    return Comparison(
        first_side.name,
        _compare_pairs(pairs, margin),
        list(dict.fromkeys(notes)),
        margin,
        list(dict.fromkeys(warnings)),
    )


def _format_detectable(value: float) -> str:
    return "100+" if value > 1 else percent(value)


def _make_names_distinct(sides: Sequence[Side]) -> list[Side]:
    """Add the folder to names that several runs share."""
    names = [side.name for side in sides]
    return [side._replace(name=f"{side.name} [{side.path}]") if names.count(side.name) > 1 else side for side in sides]


def _compare_pairs(pairs: Sequence[tuple[str, Pair]], margin: float) -> list[Compared]:
    """Compare the pairs of all models, which are one family of tests: a reader picks the best of all lines."""
    p_values = [permutation_test(p.after, p.before, groups=p.groups, seed=SEED).p_value for _, p in pairs]
    adjusted = apply_holm(p_values)
    level = compute_equivalence_level(sum(p > 0 for p in p_values) or 1)  # NaN does not count as a test
    lines = []
    for (model, pair), p, p_holm in zip(pairs, p_values, adjusted, strict=True):
        difference = compute_paired_difference(pair.after, pair.before, groups=pair.groups, seed=SEED)
        within = compute_paired_difference(
            pair.after, pair.before, groups=pair.groups, seed=SEED, confidence_level=level
        )
        could_find = compute_detectable_difference(difference.low, difference.high)
        equal = -margin < within.low and within.high < margin
        n_enough = enough(difference.n, could_find, margin)
        lines.append(Compared(model, pair.task, pair.metric, difference, p, float(p_holm), equal, could_find, n_enough))
    return lines
