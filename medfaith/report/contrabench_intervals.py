"""Intervals and permutation tests: Tables 3 and 4 (external protocols) and 5 (ReXVQA), Appendix C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medfaith.evaluate_metrics.confidence.score import Interval, bootstrap_mean, permutation_test

from .contrabench_names import base_name, external, protocol_name
from .contrabench_runs import Run, n_errors
from .tables import (
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

_P_NOTE = (
    "p: paired permutation test of the accuracy gain, two-sided, 10,000 permutations. The paper calls its test paired, "
    "but its figures are those of an independent, one-sided one; the card of the confidence metric compares the two."
)

_ALL_ALIKE = "Where all answers are right, or all wrong, the interval of a share or a count is Wilson's."
_NO_CHANGE = (
    "Where no answer changes, the interval of the gain is Wilson's: a change that is too rare to be seen in these rows "
    "could go in either direction."
)


def interval_tables(runs: Sequence[Run]) -> list[Table]:
    """Table 4 by example and Table 3 by example and by study (Appendix C)."""
    by_example, by_study = [], []
    for run in external(runs, split=None):
        scores = run.scores()
        if np.isnan(n_errors(scores)) or np.isnan(scores["accuracy_delta"]):
            continue
        before, after = run.correct(), run.correct("m1")
        studies = np.unique(run.study, return_inverse=True)[1]
        whole = _change(before, after), _change(before, after, studies)
        tests = [permutation_test(after, before, groups=groups, seed=SEED).p_value for groups in (None, studies)]
        name = [run.model_name, base_name(run.setting), protocol_name(run), run.n, run.n_data]
        of_count = _share(run.errors().astype(float))
        by_example.append(
            [
                *name,
                *_share(before)[:3],
                *_share(after)[:3],
                n_errors(scores),
                run.n * of_count.low,
                run.n * of_count.high,
                n_errors(scores, "_verified"),
                tests[0],
                *get_outcome_shares(scores),
            ]
        )
        by_study.append(
            [*name, whole[1].n_groups, scores["accuracy_delta"], *whole[0][1:3], tests[0], *whole[1][1:3], tests[1],
              *get_outcome_shares(scores)]
        )  # fmt: skip
    return [_table_4(by_example), _table_3(by_study)] if by_example else []


def _share(values: np.ndarray) -> Interval:
    """By percentiles, as the paper's, unless all are 0 or all are 1."""
    return bootstrap_mean(values, seed=SEED, bounds=(0, 1), few=1)


def _change(before: np.ndarray, after: np.ndarray, groups: np.ndarray | None = None) -> Interval:
    """Interval of a gain, by percentiles unless no answer changes."""
    return bootstrap_mean(after - before, groups=groups, seed=SEED, bounds=(-1, 1), few=1)


def _table_4(rows: list[list]) -> Table:
    columns = [
        MODEL, PROMPT, PROTOCOL, SIZE,
        Column("B0 Acc. [95% CI]", ("base_accuracy", "base_low", "base_high"), interval),
        Column("M1 Acc. [95% CI]", ("verified_accuracy", "verified_low", "verified_high"), interval),
        Column("Errors B0 [95% CI] → M1",
               ("base_errors", "errors_low", "errors_high", "verified_errors"), change_interval),
        Column("Perm. p", ("p_value",), p_value), *OUTCOMES,
    ]  # fmt: skip
    notes = [f"Percentile bootstrap over examples, 2,000 resamples, seed {SEED}. {_ALL_ALIKE} B0 stands for the "
             "output under the prompt named. The paper reports the presence protocols as point estimates.",
             _P_NOTE]  # fmt: skip
    return Table("table_04_intervals", "Table 4: bootstrap intervals and permutation tests", columns, rows, notes)


def _table_3(rows: list[list]) -> Table:
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


def internal_intervals(named: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named:
        before, after = run.correct(), run.correct("m1")
        parts = [of[:3] for of in (_share(before), _share(after), _change(before, after))]
        test = permutation_test(after, before, seed=SEED)
        rows.append(
            [name, run.model_name, base_name(run.setting), run.n, run.n_data,
             *(value for part in parts for value in part), test.p_value, *get_outcome_shares(run.scores())]
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
