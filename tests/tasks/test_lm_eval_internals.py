"""The one door to lm-eval: each part that medfaith relies upon, checked alone, and no other way in."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lm_eval.tasks
import pytest

from medfaith.tasks import lm_eval_internals
from medfaith.tasks.lm_eval_internals import collect_less_garbage, skip_lm_evals_tasks

ROOT = Path(__file__).parents[2]
DOOR = "tasks/lm_eval_internals.py"
ROOMS = ("loaders", "builders", "evaluate_metrics", "tasks", "cards", "medfaith")
# The interface that lm-eval documents for Python, for tasks and for plug-in models.
DOCUMENTED = (
    "lm_eval.api", "lm_eval.loggers", "lm_eval.models", "lm_eval.models.hf_vlms", "lm_eval.models.utils",
    "lm_eval.tasks",
)  # fmt: skip

# Function or method -> the parameters that `lm_eval_internals` names, or that a replacement takes.
SIGNATURES = {
    "lm_eval.config.evaluate_config:EvaluatorConfig.from_cli": ["namespace"],
    "lm_eval.evaluator_utils:_process_results": ["eval_results_acc", "groups", "bootstrap_iters"],
    "lm_eval.tasks._yaml_loader:load_yaml": ["path", "resolve_func"],
    "lm_eval.tasks:TaskManager": ["include_path", "include_defaults", "metadata"],
    "lm_eval.api.group:Group": ["name", "alias", "metadata"],
    "lm_eval.api.task:Task.doc_iterator": ["rank", "limit", "world_size", "samples"],
    "lm_eval.evaluator:evaluate": [],
    "lm_eval.evaluator:hash_dict_images": [],
    "lm_eval.loggers:EvaluationTracker.save_results_aggregated": ["results", "samples"],
    "lm_eval.loggers:EvaluationTracker.save_results_samples": ["task_name", "samples"],
    "lm_eval.utils:make_table": ["result_dict"],
    "lm_eval.utils:handle_non_serializable": [],
    "lm_eval.utils:setup_logging": [],
    "lm_eval.config.task:getsource": [],
    "lm_eval.config.task:TaskConfig": ["task", "metric_list", "metadata"],
    "lm_eval.models.hf_vlms:HFMultimodalLM.generate_until": ["requests"],
}


@pytest.mark.parametrize("target", SIGNATURES)
def test_lm_eval_has_what_the_door_uses(target: str):
    module, _, path = target.partition(":")
    attribute: Any = importlib.import_module(module)
    for name in path.split("."):
        assert hasattr(attribute, name), f"lm-eval {lm_eval.__version__} has no {name} in {module}"
        attribute = getattr(attribute, name)
    parameters = inspect.signature(attribute).parameters
    missing = [name for name in SIGNATURES[target] if name not in parameters]
    assert not missing, f"{target} of lm-eval {lm_eval.__version__} takes {[*parameters]}"


def iterate_imports(path: Path) -> set[str]:
    """Find the modules that a file imports, and the attributes of `sys` that it sets."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {ast.unparse(target) for target in node.targets}
    return names


def is_inside(name: str) -> bool:
    """Whether a module of lm-eval is not in its documented interface."""
    parts = name.split(".")
    modules = {".".join(parts[:n]) for n in range(2, len(parts) + 1)} - {"lm_eval.evaluate"}
    is_private = any(part.startswith("_") for part in parts)
    return parts[0] == "lm_eval" and bool(modules) and (is_private or not modules & {*DOCUMENTED})


def test_no_other_file_reaches_into_lm_eval():
    """Private modules, patches and `sys.argv` are in one file."""
    reaching = {}
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        if not re.search(r"\blm_eval\b|\bargv\b", path.read_text(encoding="utf-8")):
            continue
        names = iterate_imports(path)
        inside = {name for name in names if is_inside(name)} | names & {"sys.argv"}
        if any(name.partition(".")[0] == "lm_eval" for name in names):
            inside |= names & {"unittest.mock"}
        if inside:
            reaching[path.relative_to(ROOT).as_posix()] = sorted(inside)
    assert [*reaching] == [DOOR], reaching


def test_options_are_parsed_without_the_arguments_of_this_process(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest", "--nothing", "of", "lm-eval"])
    options = lm_eval_internals.parse_options(["--model", "m", "--model_args", "a=1", "--tasks", "t", "--limit", "3"])
    config = lm_eval_internals.read_config(options)
    assert (config.model, config.model_args, config.tasks, config.limit) == ("m", {"a": 1}, ["t"], 3)
    assert lm_eval_internals.read_config(options).model_args == {"a": 1}, "the options stay as they are"
    assert callable(options.func)
    with pytest.raises(SystemExit):
        lm_eval_internals.parse_options(["--no-such-option"])


def test_the_command_calls_what_is_wrapped(monkeypatch):
    """The table, the evaluation and the task manager are looked up when the command runs."""
    calls = []
    evaluate = lm_eval_internals.wrap_evaluate(lambda evaluate, *_, **__: calls.append("evaluate") or {"results": {}})
    table = lm_eval_internals.replace_table(lambda results: calls.append("table") or "")
    task = "medfaith_heal_vindr_closed"
    monkeypatch.setattr(lm_eval.tasks.TaskManager, "load", lambda *_, **__: {"tasks": {}, "groups": {}})
    options = lm_eval_internals.parse_options(
        ["--model", "dummy", "--tasks", task, "--include_path", str(ROOT / "tasks" / "heal")]
    )
    with evaluate, table, skip_lm_evals_tasks():
        lm_eval_internals.run_command(options)
    assert calls == ["evaluate", "table"]


def test_lm_evalsskip_lm_evals_tasks_are_left_out(monkeypatch):
    calls = []
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **options: calls.append(options))
    before = lm_eval.tasks.TaskManager
    with skip_lm_evals_tasks():
        lm_eval.tasks.TaskManager(include_path="ours")
    assert calls == [{"include_path": "ours", "include_defaults": False}]
    assert lm_eval.tasks.TaskManager is before


def test_what_is_there_before_the_first_batch_is_left_out_of_lm_evals_collections(monkeypatch):
    """lm-eval collects garbage after each batch, which takes 0.25 s without gc.freeze, and 1 s with 135,754 rows."""
    counts = []

    class Asked:
        def generate_until(self, requests):
            counts.append(gc.get_freeze_count())
            return requests

    monkeypatch.setitem(sys.modules, "lm_eval.models.hf_vlms", SimpleNamespace(HFMultimodalLM=Asked))
    with collect_less_garbage():
        assert [Asked().generate_until(["A"]) for _ in range(2)] == [["A"]] * 2
    Asked().generate_until([])
    assert min(counts[:2]) > 10_000
    assert counts[2] == gc.get_freeze_count() == 0
    gc.freeze()
    with collect_less_garbage():
        Asked().generate_until([])
    assert gc.get_freeze_count(), "what another has frozen stays"
    gc.unfreeze()
    monkeypatch.delitem(sys.modules, "lm_eval.models.hf_vlms")
    with collect_less_garbage():
        assert Asked().generate_until(["A"]) == ["A"]
    assert not gc.get_freeze_count()
