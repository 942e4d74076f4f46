"""A tiny GLoRIA through the real commands: eval writes attention and logs, report makes the tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from medfaith.cli import main
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.models import gloria
from tests.tasks import tiny_gloria

GROUP = "medfaith_wrong_lung"
LIMIT = 6
TASKS = ("gold", "swap_left_right", "random_sentences")


@pytest.fixture(scope="module")
def run(phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path_factory) -> tuple[list[str], Path]:
    """Arguments of `medfaith eval`, and where it has written."""
    folder = tmp_path_factory.mktemp("alignment-run")
    checkpoint, tokenizer = tiny_gloria.save(folder / "gloria", no_attn=True)
    roots = [word for name, root in phantom_wrong_lung_roots.items() for word in ("--root", f"{name}={root}")]
    arguments = [
        "eval", "--data", str(phantom_wrong_lung_build), *roots, "--heatmaps", str(folder / "attention"),
        "--model", "medfaith-alignment", "--model_args", f"pretrained=gloria:{checkpoint},text_model={tokenizer}",
        "--tasks", ",".join(f"{GROUP}_{task}" for task in TASKS), "--limit", str(LIMIT), "--batch_size", "4",
        "--output_path", str(folder / "results"), "--log_samples",
    ]  # fmt: skip
    assert main(arguments) == 0
    return arguments, folder


def samples(folder: Path, task: str) -> list[dict]:
    log = max((folder / "results").rglob(f"samples_{GROUP}_{task}_*.jsonl"))
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_attention_goes_to_the_store_and_scores_to_the_log(run):
    folder = run[1]
    for sample in samples(folder, "gold"):
        reply = json.loads(sample["filtered_resps"][0])
        entry = open_store(folder / "attention").read(reply["heatmaps"], sample["doc"]["id"])
        values = sample["auroc"]["values"]
        assert entry.maps["attention"].shape == (19, 19)
        assert values["no_attn"] == pytest.approx(1 - entry.maps["attention"].sum(), abs=1e-6)
        assert 0 <= values["no_attn"] < 1
        assert 0 < values["auroc"] < 1
        assert [values["local"], values["global"]] == [reply["local"], reply["global"]]


def test_results_are_means_of_the_log(run):
    (results,) = (run[1] / "results").rglob("results_*.json")
    found = json.loads(results.read_text())["results"]
    gold = [sample["auroc"]["values"] for sample in samples(run[1], "gold")]
    assert found[f"{GROUP}_gold"]["auroc,none"] == pytest.approx(np.mean([values["auroc"] for values in gold]))
    pairs = [sample["delta_auroc"]["values"] for sample in samples(run[1], "random_sentences")]
    own, other = pairs[::2], pairs[1::2]
    right = np.mean([a["global"] > b["global"] for a, b in zip(own, other, strict=True)])
    assert found[f"{GROUP}_random_sentences"]["global_accuracy,none"] == right
    assert found[f"{GROUP}_random_sentences"]["kl,none"] > 0


def test_a_second_run_computes_nothing(run, monkeypatch):
    def aligned_again(*_: object) -> None:
        raise AssertionError("computed again")

    before = samples(run[1], "swap_left_right")
    monkeypatch.setattr(gloria.GloriaAligner, "align", aligned_again)
    assert main(run[0]) == 0
    assert [sample["delta_auroc"] for sample in samples(run[1], "swap_left_right")] == [
        s["delta_auroc"] for s in before
    ]


def test_report_makes_its_tables(run, tmp_path, capsys):
    out = tmp_path / "report"
    assert main(["report", str(run[1] / "results"), "--out", str(out)]) == 0
    assert "That's the Wrong Lung!" in capsys.readouterr().out
    with (out / next(path.name for path in out.glob("wrong_lung_table_01*.csv"))).open() as file:
        (row,) = csv.DictReader(file)
    gold = [sample["auroc"]["values"]["auroc"] for sample in samples(run[1], "gold")]
    assert float(row["auroc"]) == pytest.approx(np.mean(gold))


def test_another_folder_for_the_attention_is_refused_before_the_run(run, capsys):
    arguments = [word if word != str(run[1] / "attention") else str(run[1] / "elsewhere") for word in run[0]]
    arguments[arguments.index("--model_args") + 1] += f",store={run[1] / 'attention'}"
    assert main(arguments[: arguments.index("--heatmaps")] + arguments[arguments.index("--heatmaps") + 2 :]) == 2
    assert "--heatmaps DIR" in capsys.readouterr().err
