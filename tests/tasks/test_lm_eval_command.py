"""The real thing: the `lm_eval` command line with tiny models of the real classes, and `medfaith eval`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks import tiny_models

ERROR = {"chexpert_presence": "reversal", "chexpert_absence": "contradiction", "openi_report_absence": "contradiction"}


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "LMEVAL_LOG_LEVEL": "WARNING"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def read_results(folder: Path) -> tuple[dict, dict[str, list[dict]]]:
    (file,) = folder.rglob("results_*.json")
    samples = {
        path.name.split("medfaith_contrabench_")[1].rsplit("_", 1)[0]: [json.loads(x) for x in path.open()]
        for path in folder.rglob("samples_*.jsonl")
    }
    results = json.loads(file.read_text())["results"]
    return {name.removeprefix("medfaith_contrabench_"): scores for name, scores in results.items()}, samples


@pytest.mark.parametrize("save", [tiny_models.save_llava, tiny_models.save_qwen2_5_vl], ids=["llava", "qwen2_5_vl"])
def test_plain_lm_eval_scores_a_model_on_the_phantom(save, phantom_build, phantom_roots, tmp_path):
    model = save(tmp_path / "model")
    include_path = run([sys.executable, "-m", "medfaith", "tasks"], tmp_path).stdout.strip()
    metadata = {"data": str(phantom_build), "roots": {name: str(root) for name, root in phantom_roots.items()}}
    command = [
        *(sys.executable, "-m", "lm_eval", "run", "--model", "hf-multimodal", "--device", "cpu", "--batch_size", "2"),
        *(
            "--model_args",
            f"pretrained={model},dtype=float32",
            "--apply_chat_template",
            "--gen_kwargs",
            "max_gen_toks=4",
        ),
        *("--include_path", include_path, "--tasks", "medfaith_contrabench", "--metadata", json.dumps(metadata)),
        *("--limit", "8", "--output_path", str(tmp_path / "results"), "--log_samples"),
    ]
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    results, samples = read_results(tmp_path / "results")
    for task, error in ERROR.items():
        scores = results[task]
        assert scores["sample_len"] == 8
        b0 = [sample for sample in samples[task] if sample["filter"] == "b0"]
        assert len(b0) == 8
        assert {sample["filter"] for sample in samples[task]} == {"b0", "m1", "m1_slot_agnostic", "m1_extended"}
        right = [json.loads(s["filtered_resps"][0])["choice"] == s["doc"]["answer"] for s in b0]
        assert scores["accuracy,b0"] == pytest.approx(sum(right) / 8)
        for reading in ("b0", "m1", "m1_slot_agnostic", "m1_extended"):
            assert 0 <= scores[f"accuracy_ci_low,{reading}"] <= scores[f"accuracy_ci_high,{reading}"] <= 1
            assert f"n_{error}s,{reading}" in scores
        for sample in b0:  # every image of the study is sent, each with its placeholder
            arguments = sample["arguments"]["gen_args_0"]
            n_images = len(sample["doc"]["images"].split())
            placeholder = "<image>" if save is tiny_models.save_llava else "<|image_pad|>"
            assert arguments["arg_0"].count(placeholder) == n_images == len(arguments["arg_2"]["visual"].split())
    assert any(len(sample["doc"]["images"].split()) > 1 for sample in samples["openi_report_absence"])
    logged = json.dumps(samples)
    assert not [root for root in phantom_roots.values() if str(root) in logged]


def test_medfaith_eval_runs_a_baseline(phantom_build, tmp_path):
    command = [
        *(sys.executable, "-m", "medfaith", "eval", "--data", str(phantom_build), "--model", "negation_attracted"),
        *("--tasks", "medfaith_contrabench_chexpert_presence,medfaith_contrabench_chexpert_absence_train"),
        *("--output_path", str(tmp_path / "results")),
    ]
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "reversal_rate" in result.stdout
    results, _ = read_results(tmp_path / "results")
    assert results["chexpert_presence"]["reversal_rate,b0"] == 1
    assert results["chexpert_presence"]["accuracy,m1"] == 1
    assert results["chexpert_absence_train"]["contradiction_rate,b0"] == 1


def test_medfaith_eval_runs_a_model_of_lm_evals_own_and_reports_it(phantom_build, phantom_roots, tmp_path):
    model = tiny_models.save_llava(tmp_path / "model")
    command = [
        *(sys.executable, "-m", "medfaith", "eval", "--data", str(phantom_build), "--model", "hf-multimodal"),
        *("--root", f"chexpert={phantom_roots['chexpert']}", "--model_args", f"pretrained={model},dtype=float32"),
        *("--apply_chat_template", "--gen_kwargs", "max_gen_toks=4", "--limit", "4", "--device", "cpu"),
        *("--tasks", "medfaith_contrabench_chexpert_presence", "--output_path", str(tmp_path / "res"), "--log_samples"),
    ]
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    report = run([sys.executable, "-m", "medfaith", "report", str(tmp_path / "res")], tmp_path)
    assert report.returncode == 0, report.stderr
    assert "4 of" in report.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "oracle", "--tasks", "x", "-cpath"], "does not look at the image"),
        (["--model", "oracle", "--tasks", "x", "--use_cach", "x"], "does not look at the image"),
        (["--model", "oracle", "--config", "CONFIG"], "does not look at the image"),
        (["--model", "nosuch", "--tasks", "medfaith_contrabench"], "nosuch"),
        ([], "lm_eval: "),
        (["--use_cache", "c", "--model", "oracle", "--tasks", "x"], "does not look at the image"),
        (["--cache_requests=true", "--model", "oracle", "--tasks", "x"], "does not look at the image"),
        (["--metadata", "{}"], "medfaith eval sets it"),
        (["--model", "oracle", "--tasks", "medfaith_contrabench_chexpert_presence"], "no data was named"),
    ],
)
def test_medfaith_eval_refuses_with_a_message_and_status_2(arguments, words, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("tasks: [x]\nuse_cache: somewhere\n")
    arguments = [str(config) if argument == "CONFIG" else argument for argument in arguments]
    result = run([sys.executable, "-m", "medfaith", "eval", *arguments], tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
