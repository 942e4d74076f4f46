"""Tables of the internal ReXVQA slices: 5 to 8 of CXR-ContraBench."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .contrabench_intervals import internal_intervals
from .contrabench_names import B0_ACCURACY, DELTA, M1_ACCURACY, REPAIRS, base_name, in_order
from .contrabench_runs import Run, pooled
from .tables import MODEL, PROMPT, SIZE, UNREAD, Column, Table, change, count, percent, points

_SEEDED = re.compile(r"(?P<slice>.+)_s(?P<number>\d+)")
_SEEDS = {"1": "20260326", "2": "20260327", "3": "20260328"}  # of the three 10k samples (Table 8)
_ABLATIONS = ("y0", "m2")  # confidence fallback and location scaffold (section 4), where a run has such filters
_SETTING = Column("Setting", ("setting",))
_EXPLICIT = Column("Explicit-neg. Δ pp", ("explicit_negation_delta",), points)
_CONTRADICTIONS = Column("Contradictions", ("base_contradictions", "verified_contradictions"), change)


def internal_tables(runs: Sequence[Run]) -> list[Table]:
    """The tables that the runs give; one without rows is left out."""
    slices = sorted((run for run in in_order(runs) if run.setting.internal), key=_size_and_seed)
    named = [(slice_name(run.setting.protocol), run) for run in slices] + _pooled(slices)
    single = [(name, run) for name, run in named if not _SEEDED.fullmatch(run.setting.protocol) or "pooled" in name]
    tables = internal_intervals(named), _sparsity(single), _ablations(named), _seeds(slices)
    return [table for table in tables if table.rows]


def slice_name(protocol: str) -> str:
    """`rexvqa_10k_s1` -> `10k s1`, `rexvqa_1k` -> `1k`, as the tables have it."""
    return protocol.removeprefix("rexvqa_").replace("_", " ")


def _size_and_seed(run: Run) -> list[int]:
    """`rexvqa_10k_s1` -> [10, 1], which sorts after [10] and [5]."""
    return [int(number) for number in re.findall(r"\d+", run.setting.protocol)]


def _pooled(slices: Sequence[Run]) -> list[tuple[str, Run]]:
    """The seeded samples of one size together, for each variant with more than one of them."""
    seeded: dict[tuple, list[Run]] = {}
    for run in slices:
        match = _SEEDED.fullmatch(run.setting.protocol)
        if match:
            seeded.setdefault((run.variant, match["slice"]), []).append(run)
    return [
        (f"{len(of_seed)}x{slice_name(size)} pooled", pooled(of_seed))
        for (_, size), of_seed in seeded.items()
        if len(of_seed) > 1
    ]


def _explicit_delta(run: Run, after: str = "m1") -> float:
    """Accuracy gain on the explicit-negation questions, those with a negation cue; NaN without such questions."""
    return run.scores(after, rows=run.cue != "")["accuracy_delta"]


def _contradictions(run: Run, after: str = "m1") -> list[float]:
    """How often the negated option was chosen on explicit-negation questions, before and after; NaN if not run.

    Right answers count too: the paper's one worsened case, "least likely present", is among its contradictions.
    """
    asked = (run.cue != "") & (run.negated >= 0)
    before = int(np.sum(asked & (run.base == run.negated)))
    return [before, int(np.sum(asked & (run.choice[after] == run.negated))) if after in run.choice else float("nan")]


def _sparsity(named: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named:
        scores = run.scores()
        rows.append(
            [name, run.model_name, base_name(run.setting), run.n, run.n_data,
             scores["accuracy"], scores["accuracy_verified"], scores["accuracy_delta"],
             scores["n_changed"], scores["n_improved"], scores["n_worsened"],
             _explicit_delta(run), int(np.sum(run.cue != "")), scores["coverage"],
             *_contradictions(run), scores["parse_failure_rate"]]
        )  # fmt: skip
    columns = [
        _SETTING, MODEL, PROMPT, SIZE,
        B0_ACCURACY, M1_ACCURACY, DELTA, *REPAIRS,
        _EXPLICIT, Column("Explicit-neg. n", ("n_explicit_negation",), count),
        Column("Cov. %", ("coverage",), percent), _CONTRADICTIONS, UNREAD,
    ]  # fmt: skip
    notes = [
        "Explicit negation: questions with a negation cue. Contradictions: the negated option chosen on one of them."
    ]
    return Table("table_06_internal", "Table 6: internal ReXVQA results", columns, rows, notes)


def _ablations(named: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named:
        for variant in (variant for variant in _ABLATIONS if variant in run.choice):
            scores = run.scores(variant)
            rows.append(
                [name, run.model_name, variant.upper(), run.n, run.n_data, scores["accuracy_verified"],
                 scores["accuracy_delta"], scores["n_changed"], scores["n_improved"], scores["n_worsened"],
                 _explicit_delta(run, variant), *_contradictions(run, variant),
                 scores["parse_failure_rate"]]
            )  # fmt: skip
    columns = [
        _SETTING, MODEL, Column("Variant", ("variant",)), SIZE, Column("Acc.", ("accuracy",), percent),
        DELTA, *REPAIRS, _EXPLICIT, _CONTRADICTIONS, UNREAD,
    ]  # fmt: skip
    return Table("table_07_ablations", "Table 7: internal ablations Y0 and M2", columns, rows)


def _seeds(slices: Sequence[Run]) -> Table:
    rows = []
    for run in slices:
        match = _SEEDED.fullmatch(run.setting.protocol)
        if not match:
            continue
        scores = run.scores()
        rows.append(
            [_SEEDS.get(match["number"], f"s{match['number']}"), run.model_name, base_name(run.setting),
             run.n, run.n_data, scores["accuracy"], scores["accuracy_verified"], scores["accuracy_delta"],
             *_contradictions(run), scores["parse_failure_rate"]]
        )  # fmt: skip
    columns = [
        Column("Seed", ("seed",)), MODEL, PROMPT, SIZE,
        B0_ACCURACY, M1_ACCURACY, DELTA, _CONTRADICTIONS, UNREAD,
    ]  # fmt: skip
    return Table("table_08_seeds", "Table 8: seeded ReXVQA samples", columns, rows)
