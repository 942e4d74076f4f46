"""Tables of the internal ReXVQA slices: 5 to 8 of CXR-ContraBench."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .contrabench_intervals import build_internal_intervals
from .contrabench_names import B0_ACCURACY, DELTA, M1_ACCURACY, REPAIRS, base_name, in_order
from .contrabench_runs import Run, n_errors, pooled
from .tables import MODEL, OUTCOMES, PROMPT, SIZE, Column, Table, change, count, get_outcome_shares, percent, points

_SEEDED = re.compile(r"(?P<slice>.+)_s(?P<number>\d+)")
_SEEDS = {"1": "20260326", "2": "20260327", "3": "20260328"}  # of the three 10k samples (Table 8)
_ABLATIONS = ("y0", "m2")  # confidence fallback and location scaffold (section 4), where a run has such filters
_SETTING = Column("Setting", ("setting",))
_EXPLICIT = Column("Explicit-neg. Δ pp", ("explicit_negation_delta",), points)
_CONTRADICTIONS = (
    Column("Contradictions", ("base_contradictions", "verified_contradictions"), change),
    Column("“No X” chosen", ("base_negated_chosen", "verified_negated_chosen"), change),
)
_CONTRADICTIONS_NOTE = (
    "Contradictions: of the questions with a negation cue, wrong answers that are the negated option (reversals where "
    "the question asks what is present). “No X” chosen: the negated option was chosen, right or wrong. The paper "
    "prints the latter under the name contradictions: its 17, 24 and 51 equal the changed predictions, of which 1, 2 "
    "and 1 were right before."
)


def internal_tables(runs: Sequence[Run]) -> list[Table]:
    """The tables that the runs give; one without rows is left out."""
    slices = sorted((run for run in in_order(runs) if run.setting.internal), key=_size_and_seed)
    named = [(slice_name(run.setting.protocol), run) for run in slices] + _pooled(slices)
    single = [(name, run) for name, run in named if not _SEEDED.fullmatch(run.setting.protocol) or "pooled" in name]
    tables = build_internal_intervals(named), _sparsity(single), _ablations(named), _seeds(slices)
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
    """The values of `_CONTRADICTIONS` on explicit-negation questions, before and after; NaN if not run."""
    asked = run.cue != ""
    scores = run.scores(after, rows=asked)
    before = int(np.sum(asked & run.chose_negated()))
    chosen = int(np.sum(asked & run.chose_negated(after))) if after in run.choice else float("nan")
    return [n_errors(scores), n_errors(scores, "_verified"), before, chosen]


def _sparsity(named: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named:
        scores = run.scores()
        rows.append(
            [name, run.model_name, base_name(run.setting), run.n, run.n_data,
             scores["accuracy"], scores["accuracy_verified"], scores["accuracy_delta"],
             scores["n_changed"], scores["n_improved"], scores["n_worsened"],
             _explicit_delta(run), int(np.sum(run.cue != "")), scores["coverage"],
             *_contradictions(run), *get_outcome_shares(scores)]
        )  # fmt: skip
    columns = [
        _SETTING, MODEL, PROMPT, SIZE,
        B0_ACCURACY, M1_ACCURACY, DELTA, *REPAIRS,
        _EXPLICIT, Column("Explicit-neg. n", ("n_explicit_negation",), count),
        Column("Cov. %", ("coverage",), percent), *_CONTRADICTIONS, *OUTCOMES,
    ]  # fmt: skip
    notes = [
        "Explicit negation: questions with a negation cue.",
        _CONTRADICTIONS_NOTE,
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
                 *get_outcome_shares(scores)]
            )  # fmt: skip
    columns = [
        _SETTING, MODEL, Column("Variant", ("variant",)), SIZE, Column("Acc.", ("accuracy",), percent),
        DELTA, *REPAIRS, _EXPLICIT, *_CONTRADICTIONS, *OUTCOMES,
    ]  # fmt: skip
    return Table("table_07_ablations", "Table 7: internal ablations Y0 and M2", columns, rows, [_CONTRADICTIONS_NOTE])


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
             *_contradictions(run), *get_outcome_shares(scores)]
        )  # fmt: skip
    columns = [
        Column("Seed", ("seed",)), MODEL, PROMPT, SIZE,
        B0_ACCURACY, M1_ACCURACY, DELTA, *_CONTRADICTIONS, *OUTCOMES,
    ]  # fmt: skip
    return Table("table_08_seeds", "Table 8: seeded ReXVQA samples", columns, rows, [_CONTRADICTIONS_NOTE])
