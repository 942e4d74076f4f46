"""Tasks for lmms-eval, read and run by its rules (the package is too large to install here)."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import yaml

from medfaith.tasks.contrabench import prompts
from medfaith.tasks.harnesses import lmms_eval, questions
from tests.support.builders.files import root_words
from tests.support.tasks.evaluating import ANSWERS, by_filter

# Fields of lmms_eval.api.task.TaskConfig (0.7.3); it raises TypeError for any other.
FIELDS = {
    "task", "dataset_path", "dataset_kwargs", "test_split", "output_type", "doc_to_visual", "doc_to_text",
    "doc_to_target", "process_results", "generation_kwargs", "lmms_eval_specific_kwargs", "filter_list", "metric_list",
    "metadata",
}  # fmt: skip
HEAL = [f"medfaith_heal_vindr_{ask}" for ask in ("closed", "open", "tpt", "vpt")]
PRESENCE, COT = "medfaith_contrabench_chexpert_presence", "medfaith_contrabench_cot_chexpert_absence"


class Loader(yaml.FullLoader):
    """Resolve `!function` by import, like lmms-eval if the YAML file's folder has no such module."""


def _resolve_function(loader: yaml.FullLoader, node: yaml.ScalarNode) -> Any:
    module, name = loader.construct_scalar(node).rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


Loader.add_constructor("!function", _resolve_function)


@pytest.fixture(scope="module")
def write(places, tmp_path_factory):
    """Runs the command for one task or group; returns its folder."""

    def run(task: str, *options: str) -> Path:
        out = tmp_path_factory.mktemp("lmms") / "tasks"
        data, roots = places(task)
        arguments = ["--task", task, *options, "--data", str(data), *root_words(roots), "--out", str(out)]
        assert lmms_eval.main(arguments) == 0
        return out

    return run


@pytest.fixture(scope="module")
def tasks(write) -> dict[tuple[str, str], dict[str, Any]]:
    """(name, filter) -> the task as lmms-eval loads it."""
    folders = (
        write("medfaith_heal_vindr"),
        write(PRESENCE, "--task", "medfaith_contrabench_cot"),
        write(PRESENCE, "--filter", "m1"),
    )
    loaded = {}
    for path in (path for folder in folders for path in folder.glob("*.yaml")):
        task = yaml.load(path.read_text(encoding="utf-8"), Loader)
        assert path.stem == task["task"]
        loaded[path.stem, task["filter_list"][0]["name"]] = task
    return loaded


def read_rows(task: dict[str, Any]) -> datasets.Dataset:
    assert task["dataset_kwargs"] == {"load_from_disk": True}
    saved: Any = datasets.load_from_disk(task["dataset_path"])
    return saved[task["test_split"]]


@pytest.mark.parametrize("key", [*((name, "none") for name in HEAL), (PRESENCE, "b0"), (PRESENCE, "m1"), (COT, "b0")])
def test_the_figures_are_lm_evals(key, tasks, places):
    """Equal answers, read and aggregated by lmms-eval's rules, give every figure and interval to the last bit."""
    name, reading = key
    task = tasks[key]
    rows = read_rows(task).to_list()
    answers = itertools.islice(itertools.cycle(ANSWERS), len(rows))
    results = [task["process_results"](row, [text]) for row, text in zip(rows, answers, strict=True)]
    aggregations = {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]}
    scores = {}
    for metric in {metric for result in results for metric in result}:
        values = [result[metric] for result in results]
        scores[metric] = np.mean(values) if aggregations[metric] == "mean" else aggregations[metric](values)
    name = name.replace("cot_", "cot::")
    expected = by_filter(name, *places(name))[reading]
    assert set(scores) == set(expected)
    assert len(scores) > 5
    for metric, value in expected.items():
        assert scores[metric] == pytest.approx(value, rel=1e-12) or (math.isnan(scores[metric]) and math.isnan(value))


@pytest.mark.parametrize(("name", "reading"), [(HEAL[1], "none"), (HEAL[3], "none"), (PRESENCE, "b0"), (COT, "b0")])
def test_the_model_gets_the_same_images_and_prompt(name, reading, tasks, places):
    """VPT sends the edited images."""
    task = tasks[name, reading]
    assert set(task) == FIELDS
    # lmms-eval hands its keyword arguments only to a function of two parameters.
    assert len(inspect.signature(task["doc_to_visual"]).parameters) == 2
    data, roots = places(name)
    source = questions.load_one(name.replace("cot_", "cot::"), str(data), roots)
    settings = source.config.generation_kwargs
    assert task["generation_kwargs"].pop("max_new_tokens") == settings["max_gen_toks"]
    assert task["generation_kwargs"] == {"until": [], "do_sample": False, "temperature": 0.0}
    rows = read_rows(task)
    assert len(rows) == len(source.test_docs())
    assert not any(isinstance(feature, datasets.Image) for feature in rows.features.values())
    for row, doc in itertools.islice(zip(rows, source.test_docs(), strict=True), 6):
        visuals = task["doc_to_visual"](row, task["lmms_eval_specific_kwargs"]["default"])
        assert [image.tobytes() for image in visuals] == [image.tobytes() for image in doc["images"]]
        assert row[task["doc_to_text"]] == source.doc_to_text(doc).replace("<image>", "").strip()
        assert task["doc_to_target"](row) == source.doc_to_target(doc)
        if name == PRESENCE:
            assert "<image>" * len(visuals) + "\n" + row[task["doc_to_text"]] == prompts.b0(doc)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "nothing", "--data", "BUILD", "--out", "OUT"], "no such task"),
        (["--task", PRESENCE, "--data", "BUILD", "--out", "BUILD/tasks"], "is in the build"),
        (["--task", PRESENCE, "--data", "BUILD", "--out", "BUILD/../."], "exists"),
        (["--task", PRESENCE, "--data", "BUILD", "--out", "OUT"], "how to get it"),
        (["--task", "medfaith_contrabench_rexvqa", "--data", "BUILD", "--out", "OUT"], "holds no"),
        (["--task", PRESENCE, "--data", "BUILD", "--root", "chexpert", "--out", "OUT"], "SOURCE=PATH"),
        (["--task", PRESENCE, "--filter", "m2", "--data", "BUILD", "--root", "ROOT", "--out", "OUT"], "one of b0, m1"),
    ],
)
def test_what_is_wrong_is_named_and_writes_nothing(arguments, message, phantom_build, phantom_roots, tmp_path, capsys):
    root = f"chexpert={phantom_roots['chexpert']}"
    places = {"BUILD": str(phantom_build), "OUT": str(tmp_path / "out"), "ROOT": root}
    resolved_arguments = [places.get(a, a.replace("BUILD", places["BUILD"])) for a in arguments]
    assert lmms_eval.main(resolved_arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert not (phantom_build / "tasks").exists()


@pytest.mark.parametrize(
    ("change", "message"), [("text", "has text before an image"), ("handle", "rows holds: heatmaps")]
)
def test_what_lmms_eval_cannot_ask_is_refused(change, message, places, monkeypatch, tmp_path, capsys):
    """Refuse text before an image (three-shot prompts) and SurgXBench columns that are not stored in a file."""
    load = questions.load

    def load_changed(*arguments: Any) -> dict[str, Any]:
        tasks = load(*arguments)
        for task in tasks.values():
            if change == "text":
                task.config.doc_to_text = lambda doc: "First: <image>"
            else:
                rows = task.test_docs().with_transform(lambda batch: batch | {"heatmaps": [None] * len(batch["id"])})
                task.dataset = {"test": rows}
        return tasks

    monkeypatch.setattr(questions, "load", load_changed)
    data, roots = places(PRESENCE)
    command = ["--task", PRESENCE, "--data", str(data), *root_words(roots), "--out", str(tmp_path / "out")]
    assert lmms_eval.main(command) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
