"""Write the folder of a `medfaith audit` run from tables chosen by a test; no model runs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def make_verdict_row(
    model: str, benchmark: str, image: str, place: str = "undefined", **columns: Any
) -> dict[str, Any]:
    """Build one row of audit.csv under rule 2."""
    row = {
        "model": model, "benchmark": benchmark, "rule": 2, "n": 200, "score": 0.8, "other": 0.3,
        "own_less_other": 0.5, "own_low": 0.4, "own_high": 0.6, "own_n_differ": 90, "blind": 0.5, "reliance": 0.3,
        "low": 0.2, "high": 0.4, "n_differ": 60, "declined_rate": 0.0, "declined_rate_blind": 0.0, "mirage": 0.6,
        "unrelated": 0.3, "grounding": "", "grounding_floor": "", "uses_image": image, "n_tested": 180,
        "n_enough": "", "depends_on_place": place, "n_place": "", "n_enough_place": "", "p_holm": 0.001,
        "p_holm_place": "", "best_blind": "none", "failed_test": "", "p_no_effect": 0.001, "by_other_alone": False,
        "unread_rate": 0.0,
    }  # fmt: skip
    return row | columns


def make_change_row(
    model: str, control: str, difference: Any, unread: Any = 0.0, declined: Any = 0.0
) -> dict[str, Any]:
    """Build one row of audit_<benchmark>.csv; `""` is the difference for the original image."""
    ends = ["", ""] if difference == "" else [difference - 0.1, difference + 0.1]
    return {
        "model": model, "task": "all", "control": control, "n": 180, "n_without": 20,
        "score": 0.8 + (difference or 0), "score_with_image": 0.8, "difference": difference, "low": ends[0],
        "high": ends[1], "n_differ": 40, "parse_failure_rate": unread, "declined_rate": declined,
    }  # fmt: skip


def make_edit_row(model: str, edit: str, net: float, by_dose: str, slope: Any = "") -> dict[str, Any]:
    """Build one row of audit_<benchmark>_edits.csv."""
    return {
        "model": model, "edit": edit, "n": 120, "n_placebo": 110, "effect": net + 0.02, "floor": 0.02,
        "floor_low": -0.01, "floor_high": 0.05, "net": net, "net_low": net - 0.1, "net_high": net + 0.1, "flips": 0.5,
        "placebo_flips": 0.04, "slope": slope, "slope_low": slope and slope - 0.1, "slope_high": slope and slope + 0.1,
        "by_dose": by_dose,
    }  # fmt: skip


def make_finding_row(model: str, subject: str, verdict: str) -> dict[str, Any]:
    """Build one row of audit_<benchmark>_findings.csv."""
    return {
        "model": model, "subject": subject, "n": 40, "own_less_other": 0.5, "own_low": 0.3, "own_high": 0.7,
        "own_n_differ": 20, "reliance": 0.4, "low": 0.2, "high": 0.6, "n_differ": 20, "uses_image": verdict,
    }  # fmt: skip


def make_wording_row(model: str, wording: str, score: float, verdict: str = "depends") -> dict[str, Any]:
    """Build one row of audit_<benchmark>_wordings.csv."""
    return {
        "model": model, "wording": wording, "score": score, "difference": "", "low": "", "high": "", "n_differ": "",
        "depends_on_wording": verdict,
    }  # fmt: skip


def write_audit(folder: Path, tables: Mapping[str, Sequence[Row]]) -> Path:
    """Write the tables of an audit.

    Args:
        folder: Folder to create.
        tables: Rows by the end of the file's name (`""`, `"_heal_medvqa_edits"`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text("{}")
    for name, rows in tables.items():
        with (folder / f"audit{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder
