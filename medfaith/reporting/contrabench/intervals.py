"""Intervals and permutation tests: Tables 3 and 4 (external protocols) and 5 (ReXVQA), Appendix C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medfaith.evaluate_metrics.confidence.score import Interval, bootstrap_mean, permutation_test

from ..tables import (
    MODEL,
    OUTCOMES,
    PROMPT,
    PROTOCOL,
    SEED,
    SIZE,
    Column,
    Table,
    change_interval,
    count,
    get_outcome_shares,
    interval,
    p_value,
    percent,
    points,
    points_interval,
)
from .names import format_base_name, protocol_name, select_external
from .runs import Run, count_errors

_P_NOTE = (
    "p: paired permutation test of the accuracy gain, two-sided, 10,000 permutations. The paper calls its test paired, "
    "but its figures are those of an independent, one-sided one; the card of the confidence metric compares the two."
)

_ALL_ALIKE = "Where all answers are right, or all wrong, the interval of a share or a count is Wilson's."
_NO_CHANGE = (
    "Where no answer changes, the interval of the gain is Wilson's: a change that is too rare to be seen in these rows "
    "could go in either direction."
)


def build_interval_tables(runs: Sequence[Run]) -> list[Table]:
    """Build Table 4 by example, and Table 3 by example and by study (Appendix C).

    Args:
        runs: The runs.

    Returns:
        The tables; none without runs that have a verifier.
    """
    by_example, by_study = [], []
    for run in select_external(runs, split=None):
        scores = run.scores()
        if np.isnan(count_errors(scores)) or np.isnan(scores["accuracy_delta"]):
            continue
        before, after = run.correct(), run.correct("m1")
        studies = np.unique(run.study, return_inverse=True)[1]
        gains = _compute_gain_interval(before, after), _compute_gain_interval(before, after, studies)
        tests = [permutation_test(after, before, groups=groups, seed=SEED).p_value for groups in (None, studies)]
        name = [run.model_name, format_base_name(run.setting), protocol_name(run), run.n, run.n_data]
        error_interval = _compute_share_interval(run.errors().astype(float))
        by_example.append(
            [
                *name,
                *_compute_share_interval(before)[:3],
                *_compute_share_interval(after)[:3],
                count_errors(scores),
                run.n * error_interval.low,
                run.n * error_interval.high,
                count_errors(scores, "_verified"),
                tests[0],
                *get_outcome_shares(scores),
            ]
        )
        by_study.append(
            [*name, gains[1].n_groups, scores["accuracy_delta"], *gains[0][1:3], tests[0], *gains[1][1:3], tests[1],
              *get_outcome_shares(scores)]
        )  # fmt: skip
    return [_build_table_4(by_example), _build_table_3(by_study)] if by_example else []


def _compute_share_interval(values: np.ndarray) -> Interval:
    """Compute the percentile interval of a share, as the paper does; Wilson's if all values are equal."""
    return bootstrap_mean(values, seed=SEED, bounds=(0, 1), few=1)


def _compute_gain_interval(before: np.ndarray, after: np.ndarray, groups: np.ndarray | None = None) -> Interval:
    """Compute the percentile interval of a gain; Wilson's if no answer changes."""
    return bootstrap_mean(after - before, groups=groups, seed=SEED, bounds=(-1, 1), few=1)


def _build_table_4(rows: list[list]) -> Table:
    columns = [
        MODEL, PROMPT, PROTOCOL, SIZE,
        Column("B0 Acc. [95% CI]", ("base_accuracy", "base_low", "base_high"), interval),
        Column("M1 Acc. [95% CI]", ("verified_accuracy", "verified_low", "verified_high"), interval),
        Column("Errors B0 [95% CI] → M1",
               ("base_errors", "errors_low", "errors_high", "verified_errors"), change_interval),
        Column("Perm. p", ("p_value",), p_value), *OUTCOMES,
    ]  # fmt: skip
    notes = [f"Percentile bootstrap over examples, 2,000 resamples, seed {SEED}. {_ALL_ALIKE} B0 is the "
             "output under the prompt named. The paper reports the presence protocols as point estimates.",
             _P_NOTE]  # fmt: skip
    return Table("table_04_intervals", "Table 4: bootstrap intervals and permutation tests", columns, rows, notes)


def _build_table_3(rows: list[list]) -> Table:
    columns = [
        MODEL, PROMPT, PROTOCOL, SIZE,
        Column("Studies", ("n_studies",), count),
        Column("Δ pp", ("delta",), points),
        Column("Example low", ("example_low",), percent), Column("high", ("example_high",), percent),
        Column("p", ("example_p",), p_value),
        Column("Study low", ("study_low",), percent), Column("high", ("study_high",), percent),
        Column("p", ("study_p",), p_value), *OUTCOMES,
    ]  # fmt: skip
    notes = ["95% intervals of the accuracy gain from B0 to M1, in percentage points: resampling examples, and whole "
             f"studies with all their records. {_NO_CHANGE}", _P_NOTE]  # fmt: skip
    return Table("table_03_study_intervals", "Table 3: example-level and study-level intervals", columns, rows, notes)


def build_internal_intervals(named_runs: Sequence[tuple[str, Run]]) -> Table:
    """Build Table 5: intervals of the internal slices.

    Args:
        named_runs: Name and run of each slice.

    Returns:
        The table.
    """
    rows = []
    for name, run in named_runs:
        before, after = run.correct(), run.correct("m1")
        intervals = [
            estimate[:3]
            for estimate in (
                _compute_share_interval(before),
                _compute_share_interval(after),
                _compute_gain_interval(before, after),
            )
        ]
        test = permutation_test(after, before, seed=SEED)
        rows.append(
            [name, run.model_name, format_base_name(run.setting), run.n, run.n_data,
             *(value for ends in intervals for value in ends), test.p_value, *get_outcome_shares(run.scores())]
        )  # fmt: skip
    columns = [
        Column("Setting", ("setting",)), MODEL, PROMPT, SIZE,
        Column("B0 Acc. [95% CI]", ("base_accuracy", "base_low", "base_high"), interval),
        Column("M1 Acc. [95% CI]", ("verified_accuracy", "verified_low", "verified_high"), interval),
        Column("Δ pp [95% CI]", ("delta", "delta_low", "delta_high"), points_interval),
        Column("Perm. p", ("p_value",), p_value), *OUTCOMES,
    ]  # fmt: skip
    notes = [f"{_ALL_ALIKE} {_NO_CHANGE}", _P_NOTE]
    return Table("table_05_internal_intervals", "Table 5: internal bootstrap intervals", columns, rows, notes)
