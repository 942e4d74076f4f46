"""Merged shards equal the run without shards, to the digit; inconsistent shards are refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.config.evaluate_config import EvaluatorConfig

from medfaith import merge
from medfaith.cli import main
from medfaith.loaders.errors import InputError
from medfaith.loaders.row_ids import write_ids
from medfaith.tasks import lm_eval_internals, shard_marker
from medfaith.tasks.index import task_index
from medfaith.tasks.listing import listed
from medfaith.tasks.logged_figures import aggregations
from medfaith.tasks.row_store import read
from medfaith.tasks.shards import Shard, list_patients, positions
from tests.support.full_disk import no_file_above
from tests.support.tasks.evaluating import load, samples_of
from tests.support.tasks.server_scene import serving
from tests.support.tasks.shard_scene import BENCHMARKS, PRESENCE, ask, forged
from tests.support.tiers import keep_quick

SCORES = "medfaith_contrabench_option_scores"
PAIRS = "medfaith_heal_vindr_tpt,medfaith_heal_vindr_vpt"
SURGX = "medfaith_surgx_instruments,medfaith_surgx_triplets,medfaith_surgx_occlusion"
WRONG_LUNG = "medfaith_wrong_lung_random_sentences"
OF_A_RUN = ("date", "total_evaluation_time_seconds", "start_time", "end_time")


def read_results(folder: Path) -> dict:
    """Read the results of the one run in a folder, without entries that differ between runs."""
    (path,) = folder.rglob("results_*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    for config in content["configs"].values():
        del config["metadata"]["command"]
    return {name: value for name, value in content.items() if name not in OF_A_RUN}


def read_logs(folder: Path) -> dict[str, bytes]:
    return {path.name.rpartition("_")[0]: path.read_bytes() for path in folder.rglob("samples_*.jsonl")}


RUNS = [
    ("contrabench", 3, ["--tasks", f"{SCORES},{PRESENCE}", "--model", "random"]),
    ("contrabench", 3, ["--tasks", PRESENCE, "--model", "random", "--control", "other"]),
    ("heal", 3, ["--tasks", PAIRS, "--model", "random"]),
    ("surgx", 6, ["--tasks", SURGX, "--model", "looks", "--heatmaps", "MAPS"]),  # five videos
    ("wrong_lung", 3, ["--tasks", WRONG_LUNG, "--model", "oracle", "--heatmaps", "MAPS"]),
]


@pytest.mark.parametrize(("benchmark", "n_shards", "options"), keep_quick(RUNS, lambda case: case is RUNS[0]))
def test_merged_shards_are_the_run_without_shards(benchmark, n_shards, options, scenes, tmp_path, capsys):
    """Results and intervals are equal, and sample logs are equal to the byte."""
    arguments = [*scenes(benchmark), *(str(tmp_path / word) if word == "MAPS" else word for word in options)]
    assert ask(arguments, tmp_path / "whole") == 0
    output = capsys.readouterr().out
    for number in range(n_shards, 0, -1):
        assert ask(arguments, tmp_path / "shards" / str(number), f"{number}/{n_shards}") == 0
    shard_logs = [read_logs(tmp_path / "shards" / str(number)) for number in range(1, n_shards + 1)]
    assert ({} in shard_logs) == (benchmark == "surgx")
    capsys.readouterr()
    assert main(["merge", str(tmp_path / "shards"), "--out", str(tmp_path / "merged")]) == 0
    assert read_logs(tmp_path / "merged") == read_logs(tmp_path / "whole")
    merged_results, expected = read_results(tmp_path / "merged"), read_results(tmp_path / "whole")
    assert any("_ci_low," in name for scores in expected["results"].values() for name in scores)
    assert merged_results == expected
    assert [*merged_results["results"]] == [*expected["results"]]
    merged = capsys.readouterr().out.replace("/merged", "/whole")
    assert merged in output, "the summary, with its scores and intervals, which medfaith report reads"
    if benchmark != "wrong_lung":  # medfaith compare reads no random sentences alone
        assert main(["compare", str(tmp_path / "whole"), str(tmp_path / "merged")]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected I/N, such as 1/4 for the first of four shards, got 'x'"),
        ("3", "expected I/N"), ("1/4/2", "expected I/N"), ("-1/4", "expected I/N"), ("1/", "expected I/N"),
        ("1.5/4", "expected I/N"), ("0/4", "expected one of 1/4 to 4/4, got '0/4'"),
        ("5/4", "expected one of 1/4 to 4/4, got '5/4'"), ("1/0", "expected at least one shard, such as 1/1"),
    ],
)  # fmt: skip
def test_what_is_no_shard_is_told(text, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["eval", f"--shard={text}"])
    assert ended.value.code == 2
    assert f"argument --shard: {message}" in capsys.readouterr().err


SAVED = ["--output_path", "OUT", "--log_samples"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "oracle", "--tasks", PRESENCE], "--shard 1/2: sample logs are what is merged"),
        (["--model", "oracle", "--tasks", PRESENCE, *SAVED[:2]], "sample logs are what is merged"),
        (["--model", "oracle", "--tasks", PRESENCE, *SAVED, "--limit", "5"], "--limit takes the first rows"),
        (
            ["--model", "oracle", "--tasks", PRESENCE, *SAVED, "--samples", f'{{"{PRESENCE}": [0]}}'],
            "--samples chooses",
        ),
        (["--model", "oracle", "--tasks", PRESENCE, *SAVED, "--predict_only"], "--predict_only computes no figures"),
        (["--model", "oracle", "--tasks", f"{PRESENCE},arc_easy", *SAVED], "only medfaith's tasks have patients"),
        (["--model", "mirage", "--tasks", PRESENCE, *SAVED], "the answers of mirage depend on the other rows"),
        (["--model", "oracle", "--model_args", "threshold=per_class", "--tasks", PRESENCE, *SAVED], "per_class needs"),
        (["--model", "oracle", "--model_args", "states_path=x", "--tasks", PRESENCE, *SAVED], "states_path keeps"),
    ],
)
def test_a_run_that_has_no_shards_is_refused(options, message, scenes, tmp_path, capsys):
    arguments = [str(tmp_path / "out") if word == "OUT" else word for word in options]
    assert main(["eval", *scenes("contrabench"), *arguments, "--shard", "1/2"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "\n  what to do: " in error
    assert not [*tmp_path.iterdir()]


@pytest.mark.full  # two more runs
def test_two_shards_do_not_share_a_folder(scenes, halves, tmp_path, capsys):
    shutil.copytree(halves / "1", tmp_path / "1")
    options = [*scenes("contrabench"), "--tasks", PRESENCE, "--model"]
    for model, shard in (("oracle", "2/2"), ("oracle", "1/3"), ("always_yes", "1/2")):
        assert ask([*options, model], tmp_path / "1", shard) == 2
        assert "/1: holds shard 1/2 of another run, or another shard of this one" in capsys.readouterr().err
    ended, marker = shard_marker.read(tmp_path / "1"), (tmp_path / "1" / shard_marker.NAME).read_bytes()
    with pytest.raises(merge.InputError, match="holds shard 1/2"):  # two concurrent runs
        shard_marker.write(ended.folder, (2, 2), ended.asked, ended.rows, [ended.path(ended.results)])
    assert (tmp_path / "1" / shard_marker.NAME).read_bytes() == marker
    assert ask([*options, "oracle"], tmp_path / "1", "1/2") == 0
    assert shard_marker.read(tmp_path / "1").results.name == max(
        path.relative_to(tmp_path / "1").as_posix() for path in tmp_path.rglob("results_*.json")
    ), "the marker is of the newer run"


def test_a_shard_that_could_not_be_saved_has_no_marker(scenes, halves, tmp_path, capsys):
    options = [*scenes("contrabench"), "--tasks", PRESENCE, "--model", "oracle"]
    with no_file_above(60_000):
        assert ask(options, tmp_path, "1/2") == 2
    assert "could not all be saved: File too large" in capsys.readouterr().err
    assert not (tmp_path / shard_marker.NAME).exists()


@pytest.mark.full  # the sums: test_sums_of_what_runs_took
def test_what_a_server_takes_is_summed(scenes, tmp_path, capsys):
    """One of 180 rows has no answer: more than 1% of its shard, and less than 1% of all. One has a cut answer."""
    options = [*scenes("contrabench"), "--tasks", "medfaith_contrabench_chexpert_absence_train", "--images", "first"]
    options += ["--model", "medfaith-server", "--apply_chat_template", "--model_args"]

    def choose_fault(request):
        lost = len(server.requests) == 3
        return (lambda handler: handler.send(500, {"error": {"message": "oh"}})) if lost else None

    def make_answer(messages):
        cut = {"message": {"content": "A. It is"}, "finish_reason": "length"}
        return cut if len(server.requests) == 5 else "A"

    with serving(make_answer, fault=choose_fault, usage={"prompt_tokens": 300, "completion_tokens": 2}) as server:
        options += [f"base_url={server.url},model=m,concurrency=1,max_retries=0,prompt_price=10,answer_price=1000"]
        statuses = [ask(options, tmp_path / "shards" / n, f"{n}/2") for n in "12"]
    assert main(["merge", str(tmp_path / "shards"), "--out", str(tmp_path / "out")]) == 0
    assert "Of these 1 have no answer." in capsys.readouterr().out
    assert statuses == [3, 0]
    usage = read_results(tmp_path / "out")["config"]["usage"]
    assert usage.pop("price") == pytest.approx(179 * 0.005)
    assert usage == {
        "rows": 180, "rows_answered_before": 0, "outcomes": {"answered": 178, "cut": 1, "unanswered": 1},
        "reasons": {"cut: length": 1, "unanswered: 500: oh": 1},
        "prompt_tokens": 300 * 179, "answer_tokens": 2 * 179, "answers_without_token_counts": 0,
    }  # fmt: skip
    samples = samples_of(tmp_path / "out", "medfaith_contrabench_chexpert_absence_train")
    outcomes = Counter(
        (sample["doc"]["answer_outcome"], sample["resps"][0][0]) for sample in samples if sample["filter"] == "b0"
    )
    assert outcomes == {("answered", "A"): 178, ("cut", "A. It is"): 1, ("unanswered", ""): 1}
    forged("results_*", lambda text: text.replace('"unanswered": 1', '"unanswered": 2'), "1")(tmp_path / "shards")
    assert main(["merge", str(tmp_path / "shards"), "--out", str(tmp_path / "out")]) == 3
    assert "2 of 181 rows (1.1%) have no answer" in capsys.readouterr().err


def test_sums_of_what_runs_took():
    def make_results(seconds, memory, device, price):
        work = {"answers": 2, "seconds": seconds, "peak_memory": memory, "on": device}
        tables = {name: {} for name in ("versions", "configs", "higher_is_better", "n-shot", "results")}
        return {**tables, "config": {"work": work, "usage": {"price": price}}, "total_evaluation_time_seconds": "1.5"}

    merged = merge.together(
        [
            make_results(1.5, None, "cpu", None),
            make_results(2.0, 70.0, "H100", 0.5),
            make_results(0.0, 80.0, "H100", 0.5),
        ],
        3,
    )
    work = {"answers": 6, "seconds": 3.5, "peak_memory": 80.0, "on": "cpu, H100"}
    assert merged["config"] == {"work": work, "usage": {"price": None}}
    assert merged["total_evaluation_time_seconds"] == "4.5"


@given(st.lists(st.sampled_from([f"p{n}" for n in range(12)]), min_size=1), st.integers(1, 20))
def test_every_patient_is_in_one_shard(patients, n_shards):
    """Shards differ by at most one patient, and the order of the rows does not matter."""
    shard_positions = [positions(patients, Shard(number, n_shards)) for number in range(1, n_shards + 1)]
    assert sorted(place for places in shard_positions for place in places) == [*range(len(patients))]
    sets = [{patients[place] for place in places} for places in shard_positions]
    assert sum(map(len, sets)) == len(set(patients))
    assert max(map(len, sets)) - min(map(len, sets)) <= 1
    turned = [positions(patients[::-1], Shard(number, n_shards)) for number in range(1, n_shards + 1)]
    assert [{patients[::-1][place] for place in places} for places in turned] == sets


def test_more_processes_than_rows_are_refused(halves, scenes, tmp_path, monkeypatch, capsys):
    """lm-eval would wait forever for the process without a row."""
    monkeypatch.setattr("medfaith.tasks.models.reference.baselines.Oracle.world_size", 29)
    options = [*scenes("contrabench"), "--tasks", PRESENCE, "--model", "oracle"]
    assert ask(options, tmp_path, "1/2") == 2
    assert f"medfaith: {PRESENCE}: this shard has 28 rows, and 29 processes would share them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "cluster"),
    [
        (PRESENCE, "study_id"), ("medfaith_heal_mimic_tpt", "image_id"), ("medfaith_heal_mimic_vpt", "image_id"),
        ("medfaith_heal_vindr_closed", "image_id"), ("medfaith_surgx_instruments", "video"),
        ("medfaith_wrong_lung_random_sentences", "patient_id"), ("medfaith_wrong_lung_shuffle_in_report", "patient_id"),
    ],
)  # fmt: skip
def test_pairs_and_what_intervals_draw_are_of_one_patient(task, cluster, scenes):
    (benchmark,) = (name for name in BENCHMARKS if f"medfaith_{name}" in task)
    (loaded,) = load([task], Path(scenes(benchmark)[1]))["tasks"].values()
    rows = loaded.eval_docs.with_format(None)
    patient = dict(zip(rows["id"], list_patients(loaded), strict=True))
    patients_by_cluster: dict[str, set[str]] = {}
    for row in rows:
        patients_by_cluster.setdefault(row[cluster], set()).add(patient[row["id"]])
        assert patient[row.get("original_id") or row["id"]] == patient[row["id"]]
    assert {len(patients) for patients in patients_by_cluster.values()} == {1}
    assert ("original_id" in rows.column_names) == (benchmark in ("heal", "wrong_lung"))


@pytest.mark.parametrize("control", ["none", "other"])
def test_a_control_changes_no_patient(control, phantom_heal_build, phantom_heal_roots):
    """Facts come from images, and these controls remove the image or show another patient's."""
    task, patients = "medfaith_heal_mimic_closed", []
    for options in ({}, {"control": control}):
        (loaded,) = load([task], phantom_heal_build, phantom_heal_roots, **options)["tasks"].values()
        patients.append(dict(zip(loaded.eval_docs.with_format(None)["id"], list_patients(loaded), strict=True)))
    assert len({*patients[1].values()}) > 1
    assert patients[1].items() <= patients[0].items()


def test_every_task_has_its_aggregations():
    """The task's own file declares them; lm-eval lets a group override its tasks, but none of our groups does."""
    index = task_index()
    for task in {task.name for listing in listed() for task in listing.tasks}:
        assert aggregations(task, index), task
    for entry in index.values():
        members = (entry.cfg or {}).get("task", ())
        if not isinstance(members, str) and any(isinstance(member, str) for member in members):
            assert "metric_list" not in entry.cfg, entry.name


def test_a_task_of_another_version_is_named():
    with pytest.raises(InputError, match=r"medfaith_gone: is no task of this version(.|\n)*merge with the version"):
        aggregations("medfaith_gone", task_index())


@pytest.mark.parametrize(("shard", "model"), [((2, 2), "m"), ((1, 3), "m"), ((1, 2), "n")])
def test_a_folder_of_another_shard_is_refused(shard, model, tmp_path):
    (tmp_path / "results.json").write_text("{}")
    shard_marker.write(tmp_path, (1, 2), {"--model": "m"}, {}, [tmp_path / "results.json"])
    with pytest.raises(InputError, match=r"holds shard 1/2 of another run(.|\n)*an --output_path of its own"):
        shard_marker.refuse_others(tmp_path, shard, {"--model": model})


BASE = ["--model", "m", "--model_args", "pretrained=a", "--tasks", "t", "--seed", "1"]


@pytest.mark.parametrize(
    ("arguments", "options", "differs"),
    [
        (["--model", "n"], {}, "--model"), (["--model_args", "pretrained=b"], {}, "pretrained in --model_args"),
        (["--model_args", "peft=c"], {}, "peft in --model_args"), (["--seed", "2"], {}, "--seed"),
        (["--gen_kwargs", "do_sample=True"], {}, "--gen_kwargs"),
        (["--apply_chat_template"], {}, "--apply_chat_template"), (["--num_fewshot", "1"], {}, "--num_fewshot"),
        (["--system_instruction", "x"], {}, "--system_instruction"),
        ([], {"control": "blank"}, "the option control"), ([], {"images": "first"}, "the option images"),
        ([], {"builds": {"b": "1"}}, "the build b"), ([], {"data": "ORG"}, "the option data"),
        # Paths and speed:
        (["--batch_size", "9", "--device", "cpu", "--output_path", "o"], {"roots": {"s": "/r"}, "command": "c"}, ""),
        (["--model_args", "answers=x,store=y,base_url=z,concurrency=3,api_key=k"], {"heatmaps": "/h"}, ""),
    ],
)  # fmt: skip
def test_what_two_shards_have_in_common(arguments, options, differs):
    def describe_run(arguments, metadata):
        config = lm_eval_internals.read_config(lm_eval_internals.parse_options(arguments))
        return shard_marker.asked(config, metadata)

    difference = shard_marker.difference(describe_run([*BASE, *arguments], options), describe_run(BASE, {}))
    assert difference.partition(" is ")[0] == differs


def test_other_rows_have_another_digest():
    def digest_rows(**columns):
        return shard_marker.rows_of(SimpleNamespace(eval_docs=Dataset.from_dict(columns)))

    reference = digest_rows(id=["1", "2"], question=["a", "b"])
    assert reference == digest_rows(id=["1", "2"], question=["a", "b"])
    for changed in (digest_rows(id=["1", "3"], question=["a", "b"]), digest_rows(id=["1", "2"], question=["a", "c"])):
        assert (changed.n, changed.digest != reference.digest) == (2, True)


def test_where_the_data_lie_does_not_matter_where_their_builds_are_known():
    config = EvaluatorConfig(model="m", tasks=["t"])
    first_run, second_run = (
        shard_marker.asked(config, {"data": data, "builds": {"b": "1"}}) for data in ("/here", "/there")
    )
    assert first_run == second_run


@pytest.mark.full
def test_shards_of_two_processes_each(vlms, scenes, phantom_build, tmp_path):
    """Follow docs/clusters.md: each shard by `accelerate launch` with two processes."""
    samples = read("cxr-contrabench-chexpert", "chexpert_presence", "validation", str(phantom_build))
    write_ids(tmp_path / "rows.csv", [{"id": row_id} for row_id in samples["id"][:12]])
    command = [
        *("eval", *scenes("contrabench"), "--rows", str(tmp_path / "rows.csv"), "--tasks", PRESENCE),
        *("--model", "medfaith-hf-vlm", "--model_args", f"pretrained={vlms['llava']},dtype=float32"),
        *("--apply_chat_template", "--gen_kwargs", "max_gen_toks=4", "--batch_size", "1", "--device", "cpu"),
    ]
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "-m", "medfaith"]
    for number in "12":
        more = ["--shard", f"{number}/2", "--output_path", str(tmp_path / "shards" / number), "--log_samples"]
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
        result = subprocess.run(
            [*launch, *command, *more], env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr[-3000:]
    assert ask(command[1:], tmp_path / "whole") == 0
    assert main(["merge", str(tmp_path / "shards"), "--out", str(tmp_path / "merged")]) == 0
    assert read_logs(tmp_path / "merged") == read_logs(tmp_path / "whole")
    assert read_results(tmp_path / "merged")["results"] == read_results(tmp_path / "whole")["results"]
