"""The `lm_eval` command line with a tiny model of a real class, and `medfaith eval`."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from medfaith.cli import main, parser
from medfaith.eval import metadata
from medfaith.tasks import include_path, preflight
from medfaith.tasks.models.server import access
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tiers import is_full_run

ERROR = {"chexpert_presence": "reversal", "chexpert_absence": "contradiction", "openi_report_absence": "contradiction"}
READINGS = ("b0", "m1", "m1_slot_agnostic", "m1_extended")
VPT = "medfaith_heal_vindr_vpt"
LIMIT = 8
PRESENCE = "medfaith_contrabench_chexpert_presence"


@pytest.fixture(scope="module")
def run(phantom_build, phantom_roots, phantom_heal_build, phantom_heal_roots, vlms, once) -> Path:
    """Results of plain `lm_eval` on multiple choice and on edited images. Read-only.

    The full run has a fresh process, which indexes lm-eval's own 14,000 task files, too.
    """
    builds, roots = (phantom_build, phantom_heal_build), {**phantom_roots, **phantom_heal_roots}
    return once("lm-eval-command", lambda folder: run_lm_eval(folder, builds, roots, vlms["llava"])) / "results"


def run_lm_eval(folder: Path, builds: Iterable[Path], roots: Mapping[str, Path], model: Path) -> None:
    data = folder / "data"
    data.mkdir(parents=True)
    for repository in (path for build in builds for path in build.iterdir()):
        (data / repository.name).symlink_to(repository)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["tasks"]) == 0
    include_path = printed.getvalue().strip()
    places = {name: str(root) for name, root in roots.items()}
    command = [
        *("run", "--model", "hf-multimodal", "--device", "cpu", "--batch_size", "8"),
        *("--model_args", f"pretrained={model},dtype=float32", "--apply_chat_template"),
        *("--include_path", include_path, "--tasks", f"medfaith_contrabench,{VPT}"),
        *("--metadata", json.dumps({"data": str(data), "roots": places}), "--gen_kwargs", "max_gen_toks=4"),
        *("--limit", str(LIMIT), "--output_path", str(folder / "results"), "--log_samples"),
    ]
    if is_full_run():
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "LMEVAL_LOG_LEVEL": "WARNING"}
        command = [sys.executable, "-m", "lm_eval", *command]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[-3000:]
        return
    from lm_eval.__main__ import cli_evaluate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lm_eval", *command])
        patch.chdir(folder)
        cli_evaluate()


@pytest.mark.parametrize(("task", "error"), ERROR.items())
def test_plain_lm_eval_scores_a_model_on_the_phantom(run, task, error):
    scores, samples = results_of(run)[f"medfaith_contrabench_{task}"], samples_of(run, task)
    assert scores["sample_len"] == LIMIT
    b0 = [sample for sample in samples if sample["filter"] == "b0"]
    assert len(b0) == LIMIT
    assert {sample["filter"] for sample in samples} == set(READINGS)
    right = [json.loads(s["filtered_resps"][0])["choice"] == s["doc"]["answer"] for s in b0]
    assert scores["accuracy,b0"] == pytest.approx(sum(right) / LIMIT)
    variance = scores["accuracy,b0"] * (1 - scores["accuracy,b0"]) / (LIMIT - 1)
    assert scores["accuracy_stderr,b0"] == pytest.approx(variance**0.5)
    for reading in READINGS:
        assert 0 <= scores[f"accuracy_ci_low,{reading}"] <= scores[f"accuracy_ci_high,{reading}"] <= 1
        assert f"n_{error}s,{reading}" in scores
        assert scores[f"n_images_missing,{reading}"] == 0
    for sample in b0:  # every image of the study is sent, each with its placeholder
        arguments = sample["arguments"]["gen_args_0"]
        n_images = len(sample["doc"]["images"].split())
        assert (sample["doc"]["n_images_sent"], sample["n_images_missing"]) == (n_images, 0)
        assert arguments["arg_0"].count("<image>") == n_images == len(arguments["arg_2"]["visual"].split())
    if task.startswith("openi"):
        assert any(len(sample["doc"]["images"].split()) > 1 for sample in b0)


def test_plain_lm_eval_scores_a_model_on_edited_images(run):
    scores, samples = results_of(run)[VPT], samples_of(run, VPT)
    assert scores["sample_len"] == len(samples) == LIMIT
    n_originals = sum(sample["doc"]["kind"] == "original" for sample in samples)
    assert 0 < n_originals < LIMIT
    assert 0 <= scores["n_changed,none"] <= scores["n_pairs,none"] <= LIMIT - n_originals
    assert scores["n_unparsed_originals,none"] + scores["n_true_positives,none"] <= n_originals


def test_sample_logs_name_no_place_and_hold_no_mask(run, phantom_roots, phantom_heal_roots):
    logged = "".join(path.read_text() for path in run.rglob("samples_*.jsonl"))
    assert not [root for root in (*phantom_roots.values(), *phantom_heal_roots.values()) if str(root) in logged]
    assert "donor_region" not in logged
    assert "counts" not in logged


@pytest.mark.full  # the README page runs one
def test_medfaith_eval_runs_a_baseline(phantom_build, tmp_path, capsys):
    tasks = "medfaith_contrabench_chexpert_presence,medfaith_contrabench_chexpert_absence_train"
    options = ["--model", "negation_attracted", "--tasks", tasks, "--output_path", str(tmp_path), "--log_samples"]
    assert main(["eval", "--data", str(phantom_build), "--images", "first", *options]) == 0
    out = capsys.readouterr().out
    assert "N/A" not in out, "lm-eval's own table is not printed"
    assert len(out.splitlines()) < 20
    assert re.search(
        r"^CheXpert report-style absence \(train\): accuracy +0\.00 \[0\.00, ([1-9]|1\d)\.\d\d\] +180$",
        out,
        re.MULTILINE,
    )
    assert re.search(r"^Unread: 0 of \d+ answers \(0\.00%\)\.$", out, re.MULTILINE)
    assert out.splitlines()[-1].split(" --html")[0] == f"  medfaith report {tmp_path}"
    assert "WARNING" not in out
    presence, absence = (results_of(tmp_path)[task] for task in tasks.split(","))
    assert presence["reversal_rate,b0"] == presence["accuracy,m1"] == absence["contradiction_rate,b0"] == 1
    assert {len(s["doc"]["images"].split()) for task in tasks.split(",") for s in samples_of(tmp_path, task)} == {1}
    assert {row[1] for row in rows_of(write_report([tmp_path]), "Runs")} == {"B0 (first image)"}
    (results,) = (json.loads(path.read_text()) for path in tmp_path.rglob("results_*.json"))
    run_metadata = results["configs"][tasks.split(",", maxsplit=1)[0]]["metadata"]
    assert run_metadata["command"].startswith(
        f"medfaith eval --data {phantom_build} --images first --model negation_attracted"
    )
    build = (phantom_build / "cxr-contrabench-chexpert" / "build.json").read_bytes()
    digest, version = run_metadata["builds"]["cxr-contrabench-chexpert"].split(" ", 1)
    assert digest == hashlib.sha256(build).hexdigest()[:16]
    assert version == f"(chexpert {json.loads(build)['sources']['chexpert']['version']})"


def test_results_keep_no_secret_of_a_command():
    command_line = ["eval", "--model", "m", "--model_args", "pretrained=a,token=hf_abc,api_key=b,max_tokens=5"]
    arguments, _ = parser().parse_known_args(command_line)
    arguments.words = command_line
    command = metadata(arguments)["command"]
    assert command == "medfaith eval --model m --model_args pretrained=a,token=...,api_key=...,max_tokens=5"


def test_without_sample_logs_the_scores_with_an_interval_are_printed(phantom_build, capsys):
    options = ["--model", "oracle", "--tasks", PRESENCE, "--limit", "12"]
    assert main(["eval", "--data", str(phantom_build), *options]) == 0
    *_, header, _, accuracy_line, reversal_line, _, _, _, _, _, _, _, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["task", "filter", "metric", "value", "[95%]", "rows"]
    assert accuracy_line.split() == [PRESENCE, "b0", "accuracy", "1.000", "[0.534,", "1.000]", "12"]
    assert reversal_line.split()[:3] == [PRESENCE, "b0", "reversal_rate"]
    assert "--log_samples" in last


def test_the_report_of_plain_lm_eval(run, tmp_path, capsys):
    """Plain lm_eval has neither controls nor --model_name."""
    assert main(["report", str(run), "--results-yaml", str(tmp_path), "--org", "group"]) == 0
    out = capsys.readouterr().out.replace("\n  ", " ")
    assert len(re.findall(rf": (?:accuracy|VPT) .* +{LIMIT}$", out, re.MULTILINE)) >= 4
    assert "not in the Hub's files: 4 of some rows only" in out
    assert "Note: no row has a score: HEAL-MedVQA VinDr VPT of llava" in out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "oracle", "--tasks", "x", "-cpath"], "does not look at the image"),
        (["--model", "oracle", "--tasks", "x", "--use_cach", "x"], "does not look at the image"),
        (["--model", "oracle", "--config", "CONFIG"], "does not look at the image"),
        (["--model", "nosuch", "--tasks", "medfaith_contrabench"], "nosuch"),
        ([], "--model and --tasks: not given"),
        (["--config", "nosuch.yaml", "--tasks", "medfaith_contrabench"], "what to do: correct the path of --config"),
        (["--config", "LIST"], "YAML root must be a mapping"),
        (["--model", "oracle", "--tasks", "medfaith_contrabench", "--log_samples"], "what to do: correct the options"),
        (["--use_cache", "c", "--model", "oracle", "--tasks", "x"], "does not look at the image"),
        (["--cache_requests=true", "--model", "oracle", "--tasks", "x"], "does not look at the image"),
        (["--model", "oracle", "--tasks", "x", "--metadata", "{}"], "medfaith eval sets it"),
        (["--model", "oracle", "--tasks", PRESENCE], "no data was named"),
        (
            ["--model", "oracle", "--tasks", PRESENCE, "--model_args", "api_key=hidden"],
            "set OPENAI_API_KEY for a server",
        ),
        *(
            (["--model", model, "--tasks", PRESENCE, "--model_args", f"model=m,base_url={url}"], "OPENAI_API_KEY")
            for model, url in (
                ("medfaith-server", "http://me:hidden@127.0.0.1:9/v1"),
                ("local-chat-completions", "http://127.0.0.1:9/v1/chat/completions?api_key=hidden"),
            )
        ),
        (["--model", "oracle", "--tasks", PRESENCE, "--model_args", "api_key=1234567hidden"], "OPENAI_API_KEY"),
        (["--data", "DATA", "--control", "occluded", "--model", "oracle", "--tasks", PRESENCE], "do not say where"),
    ],
)
def test_medfaith_eval_refuses_with_a_message_and_status_2(
    arguments, message, phantom_build, tmp_path, monkeypatch, capsys
):
    """The command writes no file."""
    monkeypatch.chdir(tmp_path)
    config, no_mapping = tmp_path / "config.yaml", tmp_path / "list.yaml"
    config.write_text("tasks: [x]\nuse_cache: somewhere\n")
    no_mapping.write_text("- x\n")
    places = {"CONFIG": str(config), "LIST": str(no_mapping), "DATA": str(phantom_build)}
    output_options = ["--output_path", "results"] if "DATA" in arguments else []
    assert main(["eval", *(places.get(argument, argument) for argument in arguments), *output_options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "hidden" not in captured.err + captured.out
    assert sorted(tmp_path.iterdir()) == [config, no_mapping]


def test_a_task_of_ones_own_includes_one_of_ours(phantom_heal_build, phantom_heal_roots, tmp_path, capsys):
    ours = Path(include_path()) / "heal" / "vindr_closed.yaml"
    own = "Say Yes or No, and no more: {{question}}"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "my.yaml").write_text(f"include: {ours}\ntask: my_closed\ndoc_to_text: '<image>{own}'\n")
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    job = ["eval", "--data", str(phantom_heal_build), "--root", root, "--tasks", "my_closed", "--limit", "4"]
    job += ["--include_path", str(tmp_path / "own"), "--model", "always_yes"]
    assert main([*job, "--output_path", str(tmp_path / "out"), "--log_samples"]) == 0
    (file,) = (tmp_path / "out").rglob("samples_my_closed_*.jsonl")
    for line in file.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        assert (
            sample["arguments"]["gen_args_0"]["arg_0"]
            == f"<image>{own.replace('{{question}}', sample['doc']['question'])}"
        )
    assert "my_closed" in capsys.readouterr().out
    assert main([*job[:-3], str(tmp_path / "nowhere"), *job[-2:]]) == 2
    assert "nowhere: is no folder" in capsys.readouterr().err


def test_images_of_a_task_of_ones_own_stay_where_their_licence_says(
    phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(preflight, "check_server", lambda url: None)  # there is none
    monkeypatch.setattr(access, "is_third_party", lambda host: True)
    ours = Path(include_path()) / "heal" / "vindr_closed.yaml"
    (tmp_path / "my.yaml").write_text(f"include: {ours}\ntask: my_closed\n")
    job = ["eval", "--data", str(phantom_heal_build), "--root", f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"]
    job += ["--tasks", "my_closed", "--include_path", str(tmp_path), "--send-images-to", "127.0.0.1"]
    client = [
        "--model",
        "local-chat-completions",
        "--model_args",
        "base_url=http://127.0.0.1:9/v1/chat/completions,model=m",
    ]
    assert main([*job, *client, "--apply_chat_template"]) == 2
    assert "vindr_cxr" in capsys.readouterr().err
