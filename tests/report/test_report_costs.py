"""HEAL Table 6: what answers cost, as the results of runs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from tests.report.heal_logs import question, write_heal
from tests.report.report_logs import csv_rows

ANSWERS = [(question(n, "positive"), "Yes") for n in range(4)]
GPU = "NVIDIA A100"
RUNS: list[tuple[dict[str, Any], dict[str, Any] | None, Any]] = [  # arguments, work, batch size
    ({}, {"answers": 4, "seconds": 2.0, "peak_memory": 1000.0, "on": GPU}, 8),
    ({"decoding": "vcd"}, {"answers": 2, "seconds": 1.5, "peak_memory": 1500.0, "on": GPU}, 8),
    ({"decoding": "crg"}, {"answers": 4, "seconds": 4.0, "peak_memory": None, "on": "cpu"}, 8),
    ({"decoding": "icd"}, {"answers": 4, "seconds": 4.0, "peak_memory": 1000.0, "on": GPU}, 1),
    ({"decoding": "m3id"}, {"answers": 0, "seconds": 0.0, "peak_memory": 9.0, "on": GPU}, 8),
    ({"decoding": "loba"}, {"answers": "many", "seconds": []}, 8),
    ({"decoding": "cutoff"}, None, 8),
]


@pytest.mark.usefixtures("tables_only")
def test_each_run_has_its_cost_and_a_decoder_that_of_its_model_beside_it(tmp_path: Path):
    for number, (arguments, work, batch_size) in enumerate(RUNS):
        given = {"pretrained": "org/vlm"} | arguments
        told = {"batch_size": batch_size, **({} if work is None else {"work": work})}
        write_heal(tmp_path / "runs" / str(number), "closed", ANSWERS, model_args=given, config=told)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    rows = {row["model"]: row for row in csv_rows(tmp_path / "out" / "heal_table_06_costs.csv")}
    columns = ("answers", "seconds_of_100", "seconds_ratio", "peak_memory", "memory_ratio", "device", "batch_size")
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        "org/vlm": ("4", "50.0", "", "1000.0", "", GPU, "8"),
        "org/vlm + VCD": ("2", "75.0", "1.5", "1500.0", "1.5", GPU, "8"),
        "org/vlm + CRG": ("4", "100.0", "", "", "", "cpu", "8"),  # no plain run on a CPU
        "org/vlm + ICD": ("4", "100.0", "", "1000.0", "", GPU, "1"),  # nor one by one
    }
    assert "| org/vlm + VCD | medfaith_heal_vindr_closed | 2 | 75.0 | 1.50 | 1,500 | 1.50 | NVIDIA A100 | 8 |" in (
        tmp_path / "out" / "report.md"
    ).read_text(encoding="utf-8")
