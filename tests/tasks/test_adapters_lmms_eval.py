"""Tasks for lmms-eval, which is too heavy to install here: its YAML read as it reads it, the functions on real rows."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from medfaith.evaluate_metrics.polarity.score import score_predictions
from medfaith.loaders import images
from medfaith.tasks.adapters import lmms_eval
from medfaith.tasks.contrabench import prompts

# Fields of lmms_eval.api.task.TaskConfig (0.7.3); it raises TypeError for any other.
FIELDS = {
    "task", "tag", "dataset_path", "dataset_name", "test_split", "output_type", "doc_to_visual", "doc_to_text",
    "doc_to_target", "process_results", "cluster_key", "generation_kwargs", "lmms_eval_specific_kwargs",
    "metric_list", "metadata",
}  # fmt: skip


class Loader(yaml.SafeLoader):
    """Resolves `!function` as lmms-eval does where no file of that name lies beside the YAML: by import."""


def _function(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    module, name = loader.construct_scalar(node).rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


Loader.add_constructor("!function", _function)


@pytest.fixture(scope="module")
def tasks(phantom_build, phantom_roots, tmp_path_factory) -> dict[str, dict[str, Any]]:
    out = tmp_path_factory.mktemp("lmms") / "tasks"
    roots = [part for source, path in phantom_roots.items() for part in ("--root", f"{source}={path}")]
    assert lmms_eval.main(["--data", str(phantom_build), *roots, "--out", str(out)]) == 0
    files = sorted(out.iterdir())
    assert [path.stem for path in files] == sorted(f"medfaith_contrabench_{c}" for c in lmms_eval.CONFIGS)
    return {path.stem: yaml.load(path.read_text(encoding="utf-8"), Loader) for path in files}


@pytest.mark.parametrize("config", lmms_eval.CONFIGS)
def test_a_task_runs_on_its_rows(config, tasks, phantom_roots):
    task = tasks[f"medfaith_contrabench_{config}"]
    assert set(task) == FIELDS
    assert task["task"] == f"medfaith_contrabench_{config}"
    assert (task["tag"], task["output_type"]) == ("medfaith_contrabench", "generate_until")
    # lmms-eval hands its keyword arguments only to a function of two parameters.
    assert len(inspect.signature(task["doc_to_visual"]).parameters) == 2
    rows = datasets.load_dataset(task["dataset_path"], task["dataset_name"])[task["test_split"]].to_list()
    given = task["lmms_eval_specific_kwargs"]["default"]
    for row in rows[:3]:
        shown = task["doc_to_visual"](row, given)
        expected = [images.open_image(reference, phantom_roots) for reference in row["images"]]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(shown, expected, strict=True))
        assert task["doc_to_text"](row, lmms_eval_specific_kwargs=given) == prompts.b0({**row, "images": []}).strip()
        assert row["options"]["ABC".index(task["doc_to_target"](row))] == row["options"][row["answer"]]
    answers = (["A", "B", "C", "?"] * len(rows))[: len(rows)]
    results = [task["process_results"](row, [text]) for row, text in zip(rows, answers, strict=True)]
    ours = score_predictions(answers, rows)
    aggregations = {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]}
    emitted = {name for result in results for name in result}
    assert emitted <= set(aggregations)
    for name in emitted:
        items = [result[name] for result in results]
        assert aggregations[name](items) == pytest.approx(ours[name])
        assert [item[task["cluster_key"]] for item in items] == [row["study_id"] for row in rows]
    errors = {"chexpert_presence": "reversal_rate", "chexpert_positive_only": None}.get(config, "contradiction_rate")
    assert emitted == {"accuracy", "parse_failure_rate"} | ({errors} - {None})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "BUILD", "--config", "nothing", "--out", "OUT"], "no such config"),
        (["--data", "BUILD", "--out", "BUILD/tasks"], "lies in the build"),
        (["--data", "BUILD", "--config", "rexvqa_1k", "--out", "OUT"], "cannot be loaded"),
        (["--data", "BUILD", "--root", "chexpert", "--out", "OUT"], "SOURCE=PATH"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(arguments, words, phantom_build, tmp_path: Path, capsys):
    places = {"BUILD": str(phantom_build), "OUT": str(tmp_path / "out")}
    named = [places.get(a, a.replace("BUILD", places["BUILD"])) for a in arguments]
    assert lmms_eval.main(named) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert not (phantom_build / "tasks").exists()
