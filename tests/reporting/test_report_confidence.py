"""Stated confidence of a model, next to its accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from medfaith.reporting import write
from tests.support.reporting.report_logs import csv_rows, question, write_log

SURE = [  # stated confidence, whether the answer is right; None: no object, no confidence
    *((0.95, True) for _ in range(6)), *((0.95, False) for _ in range(2)), *(("45%", n < 1) for n in range(4)),
    (1.0, True), (None, True),
]  # fmt: skip


def answer(confidence: Any, right: bool) -> str:
    letter = "A" if right else "C"
    if confidence is None:
        return letter
    return json.dumps({"answer": letter, "confidence": confidence, "packet": {"answer": letter, "confidence": 0.5}})


def test_stated_confidence_is_set_beside_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save = write.files  # the other figures take longer than all else
    own_figure = "figure_contrabench_confidence"
    monkeypatch.setattr(write, "files", lambda figures: save({own_figure: figures[own_figure]}))
    docs = [question("chexpert_presence", number, prompt="packet") for number in range(len(SURE))]
    answers = [(doc, answer(*stated)) for doc, stated in zip(docs, SURE, strict=True)]
    write_log(tmp_path / "runs" / "a", "model-a", answers, filters=("packet_b0", "y0"))
    plain = [(question("chexpert_presence", number), "A") for number in range(4)]
    write_log(tmp_path / "runs" / "b", "model-b", plain)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    (row,) = csv_rows(tmp_path / "out" / "contrabench_confidence.csv")
    assert (row["model"], row["n"], row["n_without"]) == ("model-a", "13", "1")
    assert float(row["accuracy"]) == pytest.approx(8 / 13)
    assert float(row["confidence"]) == pytest.approx((8 * 0.95 + 4 * 0.45 + 1) / 13)
    high = (8 * 0.95 + 1) / 9
    assert float(row["calibration_error"]) == pytest.approx((9 * abs(7 / 9 - high) + 4 * abs(0.25 - 0.45)) / 13)
    saved = [path for path in (tmp_path / "out").glob("figure_contrabench_confidence.*") if path.stat().st_size > 1000]
    assert {path.suffix for path in saved} == {".png", ".pdf", ".svg"}
