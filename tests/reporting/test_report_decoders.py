"""Decoders compared with the plain model and with a shift to yes, and the cost of their answers (HEAL Table 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from tests.support.reporting.heal_logs import question, write_heal
from tests.support.reporting.report_logs import csv_rows

pytestmark = pytest.mark.usefixtures("tables_only")

POSITIVE = [question(n, "positive") for n in range(10)]
NEGATIVE = [question(n, "hallucinated") for n in range(10)]
RUNS = {  # arguments, how many of the positive and of the negative questions are answered yes
    "a": ({"decoding": "greedy", "regions": "/data/masks"}, 4, 1),
    "b": ({"decoding": "vcd", "alpha": 2}, 8, 1),
    "c": ({"decoding": "yes_bias", "yes_share": 0.45}, 5, 4),
    "d": ({"decoding": "yes_bias", "bias": 9}, 10, 10),
    "e": ({"decoding": "crg"}, 2, 0),
}


def test_a_decoder_stands_beside_its_model_and_as_many_yes(tmp_path: Path):
    for name, (arguments, *n_yes) in RUNS.items():
        answers = [
            (doc, "Yes" if number < n else "No")
            for docs, n in zip((POSITIVE, NEGATIVE), n_yes, strict=True)
            for number, doc in enumerate(docs)
        ]
        model_args: dict[str, Any] = {"pretrained": "org/vlm"} | arguments
        write_heal(tmp_path / "runs" / name, "closed", answers, model_args=model_args)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    rows = {row["decoder"]: row for row in csv_rows(tmp_path / "out" / "decoders.csv")}
    assert {row["model"] for row in rows.values()} == {"org/vlm"}
    plain, vcd, crg = rows["greedy, regions masks"], rows["VCD, alpha 2"], rows["CRG"]
    assert [float(row["score"]) for row in (plain, vcd, crg)] == pytest.approx([0.65, 0.85, 0.6])
    assert [float(row["yes_share"]) for row in (plain, vcd, crg)] == pytest.approx([0.25, 0.45, 0.1])
    assert (plain["to_greedy"], plain["to_yes_bias"], crg["to_yes_bias"]) == ("", "", "")
    assert [float(row["to_greedy"]) for row in (vcd, crg)] == pytest.approx([0.2, -0.05])
    assert float(vcd["to_yes_bias"]) == pytest.approx(0.85 - 0.55)
    assert float(vcd["to_greedy_low"]) < 0.2 < float(vcd["to_greedy_high"])


def test_lobas_parts_and_weights_have_tables_of_their_own(tmp_path: Path):
    arguments_by_run = {"plain": {}, "located": {"decoding": "greedy", "regions": "loba:/x/loba"}} | {
        str(weight): {"decoding": "loba", "weight": weight} for weight in (0.5, 4)
    }
    for number, (name, arguments) in enumerate(arguments_by_run.items()):
        answers = [(doc, "Yes" if at <= 2 * number else "No") for at, doc in enumerate(POSITIVE)]
        write_heal(tmp_path / "runs" / name, "closed", answers, model_args={"pretrained": "org/vlm"} | arguments)
    other_model = {"pretrained": "org/other"}
    write_heal(tmp_path / "runs" / "other", "closed", [(doc, "Yes") for doc in POSITIVE], model_args=other_model)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    part_rows, weights = (
        {row["model"]: row["vindr_yes_no_f1"] for row in csv_rows(tmp_path / "out" / f"heal_table_{name}.csv")}
        for name in ("05_parts", "08_weights")
    )
    assert [*weights] == ["org/vlm + LobA, weight 0.5", "org/vlm + LobA, weight 4"]
    assert [*part_rows] == ["org/vlm", *weights, "org/vlm + greedy, regions loba:loba"]
    recall = 5 / 10
    assert float(weights["org/vlm + LobA, weight 0.5"]) == pytest.approx(2 * recall / (1 + recall))


YES = [(doc, "Yes") for doc in POSITIVE[:4]]
GPU = "NVIDIA A100"
COSTS: list[tuple[dict[str, Any], dict[str, Any] | None, Any]] = [  # arguments, work, batch size
    ({}, {"answers": 4, "seconds": 2.0, "peak_memory": 1000.0, "on": GPU}, 8),
    ({"decoding": "vcd"}, {"answers": 2, "seconds": 1.5, "peak_memory": 1500.0, "on": GPU}, 8),
    ({"decoding": "crg"}, {"answers": 4, "seconds": 4.0, "peak_memory": None, "on": "cpu"}, 8),
    ({"decoding": "icd"}, {"answers": 4, "seconds": 4.0, "peak_memory": 1000.0, "on": GPU}, 1),
    ({"decoding": "m3id"}, {"answers": 0, "seconds": 0.0, "peak_memory": 9.0, "on": GPU}, 8),
    ({"decoding": "loba"}, {"answers": "many", "seconds": []}, 8),
    ({"decoding": "cutoff"}, None, 8),
]


def test_each_run_has_its_cost_and_a_decoder_that_of_its_model_beside_it(tmp_path: Path):
    for number, (arguments, work, batch_size) in enumerate(COSTS):
        model_args = {"pretrained": "org/vlm"} | arguments
        config = {"batch_size": batch_size, **({} if work is None else {"work": work})}
        write_heal(tmp_path / "runs" / str(number), "closed", YES, model_args=model_args, config=config)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    rows = {row["model"]: row for row in csv_rows(tmp_path / "out" / "heal_table_06_costs.csv")}
    columns = ("answers", "seconds_of_100", "seconds_ratio", "peak_memory", "memory_ratio", "device", "batch_size")
    assert {name: tuple(row[column] for column in columns) for name, row in rows.items()} == {
        "org/vlm": ("4", "50.0", "", "1000.0", "", GPU, "8"),
        "org/vlm + VCD": ("2", "75.0", "1.5", "1500.0", "1.5", GPU, "8"),
        "org/vlm + CRG": ("4", "100.0", "", "", "", "cpu", "8"),  # no plain run on a CPU
        "org/vlm + ICD": ("4", "100.0", "", "1000.0", "", GPU, "1"),  # nor one by one
    }
