"""Tables 5 to 8 of CXR-ContraBench: the internal ReXVQA slices."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..tables import MODEL, OUTCOMES, PROMPT, SIZE, Column, Table, change, count, get_outcome_shares, percent, points
from .intervals import build_internal_intervals
from .names import B0_ACCURACY, DELTA, M1_ACCURACY, REPAIRS, format_base_name, sort_runs
from .runs import Run, count_errors, pooled

_SEEDED = re.compile(r"(?P<slice>.+)_s(?P<number>\d+)")
_SEEDS = {"1": "20260326", "2": "20260327", "3": "20260328"}  # seeds of the three 10k samples (Table 8)
_ABLATIONS = ("y0", "m2")  # optional filters: confidence fallback and location scaffold (section 4)
_SETTING = Column("Setting", ("setting",))
_EXPLICIT = Column("Explicit-neg. Δ pp", ("explicit_negation_delta",), points)
_CONTRADICTIONS = (
    Column("Contradictions", ("base_contradictions", "verified_contradictions"), change),
    Column("“No X” chosen", ("base_negated_chosen", "verified_negated_chosen"), change),
)
_CONTRADICTIONS_NOTE = (
    "Contradictions: of the questions with a negation cue, wrong answers that are the negated option (reversals where "
    "the question asks what is present; none where it asks what is least likely). “No X” chosen: the negated option "
    "was chosen, right or wrong. The paper prints the latter under the name contradictions: its 17, 24 and 51 equal "
    "the changed predictions, of which 1, 2 and 1 were right before."
)


def build_internal_tables(runs: Sequence[Run]) -> list[Table]:
    """Build the tables of the internal slices.

    Args:
        runs: The runs.

    Returns:
        The tables that have rows.
    """
    slices = sorted((run for run in sort_runs(runs) if run.setting.internal), key=_get_size_and_seed)
    named_runs = [(format_slice_name(run.setting.protocol), run) for run in slices] + _pool_seeds(slices)
    single = [
        (name, run) for name, run in named_runs if not _SEEDED.fullmatch(run.setting.protocol) or "pooled" in name
    ]
    tables = (
        build_internal_intervals(named_runs),
        _build_sparsity_table(single),
        _build_ablation_table(named_runs),
        _build_seed_table(slices),
    )
    return [table for table in tables if table.rows]


def format_slice_name(protocol: str) -> str:
    """Format the name of a slice: `rexvqa_10k_s1` -> `10k s1`.

    Args:
        protocol: Name of the protocol.

    Returns:
        The name.
    """
    return protocol.removeprefix("rexvqa_").replace("_", " ")


def _get_size_and_seed(run: Run) -> list[int]:
    """Get the key that sorts slices: `rexvqa_10k_s1` -> [10, 1], after [5] and [10]."""
    return [int(number) for number in re.findall(r"\d+", run.setting.protocol)]


def _pool_seeds(slices: Sequence[Run]) -> list[tuple[str, Run]]:
    """Pool the seeded samples of one size, for each variant with more than one of them."""
    seeded: dict[tuple, list[Run]] = {}
    for run in slices:
        match = _SEEDED.fullmatch(run.setting.protocol)
        if match:
            seeded.setdefault((run.variant, match["slice"]), []).append(run)
    return [
        (f"{len(seed_runs)}x{format_slice_name(size)} pooled", pooled(seed_runs))
        for (_, size), seed_runs in seeded.items()
        if len(seed_runs) > 1
    ]


def _compute_explicit_delta(run: Run, after: str = "m1") -> float:
    """Compute the accuracy gain on questions with a negation cue; NaN without such questions."""
    return run.scores(after, rows=run.cue != "")["accuracy_delta"]


def _count_contradictions(run: Run, after: str = "m1") -> list[float]:
    """Count the values of `_CONTRADICTIONS` on questions with a negation cue; NaN without the filter."""
    has_cue = run.cue != ""
    scores = run.scores(after, rows=has_cue)
    before = int(np.sum(has_cue & run.chose_negated()))
    after_count = int(np.sum(has_cue & run.chose_negated(after))) if after in run.choice else float("nan")
    return [count_errors(scores), count_errors(scores, "_verified"), before, after_count]


def _build_sparsity_table(named_runs: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named_runs:
        scores = run.scores()
        rows.append(
            [name, run.model_name, format_base_name(run.setting), run.n, run.n_data,
             scores["accuracy"], scores["accuracy_verified"], scores["accuracy_delta"],
             scores["n_changed"], scores["n_improved"], scores["n_worsened"],
             _compute_explicit_delta(run), int(np.sum(run.cue != "")), scores["coverage"],
             *_count_contradictions(run), *get_outcome_shares(scores)]
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


def _build_ablation_table(named_runs: Sequence[tuple[str, Run]]) -> Table:
    rows = []
    for name, run in named_runs:
        for variant in (variant for variant in _ABLATIONS if variant in run.choice):
            scores = run.scores(variant)
            rows.append(
                [name, run.model_name, format_base_name(run.setting), variant.upper(), run.n, run.n_data,
                 scores["accuracy_verified"], scores["accuracy_delta"], scores["n_changed"], scores["n_improved"],
                 scores["n_worsened"], _compute_explicit_delta(run, variant), *_count_contradictions(run, variant),
                 *get_outcome_shares(scores)]
            )  # fmt: skip
    columns = [
        _SETTING, MODEL, PROMPT, Column("Variant", ("variant",)), SIZE, Column("Acc.", ("accuracy",), percent),
        DELTA, *REPAIRS, _EXPLICIT, *_CONTRADICTIONS, *OUTCOMES,
    ]  # fmt: skip
    return Table("table_07_ablations", "Table 7: internal ablations Y0 and M2", columns, rows, [_CONTRADICTIONS_NOTE])


def _build_seed_table(slices: Sequence[Run]) -> Table:
    rows = []
    for run in slices:
        match = _SEEDED.fullmatch(run.setting.protocol)
        if not match:
            continue
        scores = run.scores()
        rows.append(
            [_SEEDS.get(match["number"], f"s{match['number']}"), run.model_name, format_base_name(run.setting),
             run.n, run.n_data, scores["accuracy"], scores["accuracy_verified"], scores["accuracy_delta"],
             *_count_contradictions(run), *get_outcome_shares(scores)]
        )  # fmt: skip
    columns = [
        Column("Seed", ("seed",)), MODEL, PROMPT, SIZE,
        B0_ACCURACY, M1_ACCURACY, DELTA, *_CONTRADICTIONS, *OUTCOMES,
    ]  # fmt: skip
    return Table("table_08_seeds", "Table 8: seeded ReXVQA samples", columns, rows, [_CONTRADICTIONS_NOTE])
