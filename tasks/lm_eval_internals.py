"""Everything that medfaith uses of lm-eval beyond its documented Python interface.

Another release of lm-eval may change any of it. `tests/tasks/test_lm_eval_internals.py` checks each part alone, so that
a failure says what changed. The documented interface is used where it is needed: `lm_eval.evaluate`, `lm_eval.api`,
`lm_eval.tasks.TaskManager`, `lm_eval.loggers.EvaluationTracker` and, as base classes, `lm_eval.models`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

Save = Callable[..., None]  # a method of lm-eval's EvaluationTracker


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of `lm_eval run`.

    lm-eval has no Python function for its command, and its parser reads `sys.argv` unless its own is asked.

    Args:
        arguments: The arguments.

    Returns:
        The options.

    Raises:
        SystemExit: As argparse.
    """
    from lm_eval._cli import HarnessCLI

    return HarnessCLI()._parser.parse_args(["run", *arguments])


def read_config(options: argparse.Namespace) -> Any:
    """Read lm-eval's configuration from its options.

    Args:
        options: The options.

    Returns:
        The `EvaluatorConfig`.

    Raises:
        ValueError: The options contradict each other; KeyError and TypeError likewise.
        FileNotFoundError: The file of --config does not exist.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    return EvaluatorConfig.from_cli(argparse.Namespace(**vars(options)))


def run_command(options: argparse.Namespace) -> None:
    """Run `lm_eval run` in this process.

    Args:
        options: The result of `parse_options`.

    Raises:
        ValueError: There is no such task.
    """
    from lm_eval.utils import setup_logging

    setup_logging()
    options.func(options)


def read_task_file(path: Path | str, *, resolve_functions: bool = True) -> dict[str, Any]:
    """Read the YAML file of a task or group, with the files that it includes.

    Args:
        path: The file.
        resolve_functions: Whether names of functions become the functions.

    Returns:
        The content.
    """
    from lm_eval.tasks._yaml_loader import load_yaml

    return load_yaml(path, resolve_func=resolve_functions)


def make_task_config(recipe: Mapping[str, Any]) -> Any:
    """Make the configuration of a task without its rows.

    Args:
        recipe: The content of its file.

    Returns:
        lm-eval's `TaskConfig`.
    """
    from lm_eval.config.task import TaskConfig

    return TaskConfig(**recipe)


def make_groups(members: Mapping[str, Sequence[str]], tasks: Mapping[str, Any], results: Mapping[str, Any]) -> dict:
    """Make the groups of finished tasks.

    Args:
        members: Group -> names of its tasks and groups.
        tasks: Task by name.
        results: lm-eval results that include each group.

    Returns:
        Group by name.
    """
    from lm_eval.api.group import Group

    groups: dict[str, Any] = {}
    for name, names in members.items():
        groups[name] = Group(name, results["results"][name]["alias"], metadata={"version": results["versions"][name]})
        groups[name]._children = {member: tasks.get(member) or groups.get(member) for member in names}
    return groups


def aggregate(
    collected: Mapping[str, Any], groups: Mapping[str, Any], bootstrap_iters: int | None = None, **options: Any
) -> Any:
    """Aggregate the scored answers of tasks and groups, as `lm_eval.evaluate` does.

    Args:
        collected: Task -> "task", "raw_metrics" and "logged_samples".
        groups: Group by name.
        bootstrap_iters: Number of resamples of lm-eval's standard errors; None for its default.
        options: Arguments of lm-eval's conversion into results, such as `samples`.

    Returns:
        The results as `lm_eval.evaluate` returns them.
    """
    from lm_eval.evaluator_utils import _process_results

    arguments: Any = (collected, groups) if bootstrap_iters is None else (collected, groups, bootstrap_iters)
    return _process_results(*arguments)._to_eval_results(**options)


def encode_value(value: Any) -> Any:
    """Encode a value that JSON does not know, as lm-eval does in its results files.

    Args:
        value: The value.

    Returns:
        A number, list or text.
    """
    from lm_eval.utils import handle_non_serializable

    return handle_non_serializable(value)


@contextlib.contextmanager
def skip_lm_evals_tasks() -> Iterator[None]:
    """Skip lm-eval's own 14,000 task files, which its command would read for seconds."""
    import lm_eval.evaluator  # first, because it keeps the TaskManager of its import
    import lm_eval.tasks

    with mock.patch.object(lm_eval.tasks, "TaskManager", partial(lm_eval.tasks.TaskManager, include_defaults=False)):
        yield


@contextlib.contextmanager
def replace_table(format_results: Callable[[Mapping[str, Any]], str]) -> Iterator[None]:
    """Replace lm-eval's table, which has a line for each metric, interval end and filter, and N/A in most cells.

    Args:
        format_results: Formats lm-eval's results.

    Yields:
        Nothing; the table is replaced in the block.
    """
    import lm_eval.utils

    def format_table(results: dict[str, Any]) -> str:
        results.pop("groups", None)  # the groups are saved already, and would be printed as a second table
        return format_results(results)

    with mock.patch.object(lm_eval.utils, "make_table", format_table):
        yield


@contextlib.contextmanager
def collect_less_garbage() -> Iterator[None]:
    """Exclude existing objects from garbage collection while hf-multimodal answers.

    hf-multimodal collects garbage after each batch, over all objects: modules, rows and requests. Each collection takes
    a quarter of a second or more with many rows.
    """
    vlms = sys.modules.get("lm_eval.models.hf_vlms")  # other model types do not collect garbage
    if vlms is None:
        yield
        return
    generate_until = vlms.HFMultimodalLM.generate_until
    freeze = cache(gc.freeze)  # once, although a model may answer in several steps
    n_frozen = gc.get_freeze_count()

    def generate(*args: Any, **kwargs: Any) -> list[str]:
        freeze()
        return generate_until(*args, **kwargs)

    with mock.patch.object(vlms.HFMultimodalLM, "generate_until", generate):
        try:
            yield
        finally:
            if not n_frozen:
                gc.unfreeze()


@contextlib.contextmanager
def wrap_rows(wrap: Callable[..., Any]) -> Iterator[None]:
    """Wrap the rows that lm-eval iterates over while it reads and scores them, and read them in batches.

    Args:
        wrap: Called with the rows, and by name `task` (its name), `activity` ("reading" or "scoring"), `total` (number
            of rows) and `rank` (number of the process); returns the rows.

    Yields:
        Nothing; the rows are wrapped in the block.
    """
    from datasets import Dataset
    from lm_eval.api.task import Task

    from .row_iteration import iterate_rows

    iterate_docs = Task.doc_iterator

    def iterate_documents(task: Any, *, rank: int = 0, world_size: int = 1, **kwargs: Any) -> Any:
        activity = "scoring" if getattr(task, "_instances", None) else "reading"
        rows = task.eval_docs
        n = len(kwargs.get("samples") or rows)
        limit = int(kwargs.get("limit") or n)
        total = len(range(rank, min(n, limit), world_size))
        if kwargs.get("samples") or not isinstance(rows, Dataset):
            docs = iterate_docs(task, rank=rank, world_size=world_size, **kwargs)
        else:
            docs = islice(enumerate(iterate_rows(rows)), rank, limit, world_size)
        return wrap(docs, task=task.config.task, activity=activity, total=total, rank=rank)

    with mock.patch.object(Task, "doc_iterator", iterate_documents):
        yield


@contextlib.contextmanager
def cache_function_sources() -> Iterator[None]:
    """Let lm-eval find the source of a task's functions once, not again for each model, for its record of the task."""
    from lm_eval.config import task

    with mock.patch.object(task, "getsource", _get_source):
        yield


@contextlib.contextmanager
def keep_samples() -> Iterator[None]:
    """Let lm-eval return the samples themselves, not a copy with hashes for images: medfaith's samples hold none."""
    import lm_eval.evaluator

    with mock.patch.object(lm_eval.evaluator, "hash_dict_images", lambda samples: samples):
        yield


@lru_cache(maxsize=256)
def _get_source(function: Any) -> str:
    return inspect.getsource(function)


@contextlib.contextmanager
def wrap_evaluate(wrap: Callable[..., Any]) -> Iterator[None]:
    """Wrap the `evaluate` that lm-eval's command calls.

    Args:
        wrap: Called with lm-eval's function and the arguments of the call.

    Yields:
        Nothing; the function is wrapped in the block.
    """
    import lm_eval.evaluator

    with mock.patch.object(lm_eval.evaluator, "evaluate", partial(wrap, lm_eval.evaluator.evaluate)):
        yield


def restrict_rows(task: Any, places: Sequence[int]) -> None:
    """Restrict a task to some of its rows, which keep their numbers.

    Args:
        task: The task of lm-eval.
        places: Numbers of the rows.
    """
    docs = task.eval_docs

    def iterate_docs(*, rank: int = 0, world_size: int = 1, **_: Any) -> Iterator[tuple[int, Any]]:
        return ((place, docs[place]) for place in islice(places, rank, None, world_size))

    task.doc_iterator = iterate_docs


@contextlib.contextmanager
def wrap_saves(wrap: Callable[[Save], Save]) -> Iterator[None]:
    """Wrap the methods with which lm-eval's tracker saves results and samples; results come first.

    Args:
        wrap: Called with each method.

    Yields:
        Nothing; the methods are wrapped in the block.
    """
    from lm_eval.loggers import EvaluationTracker

    with contextlib.ExitStack() as patches:
        for name in ("save_results_aggregated", "save_results_samples"):
            patches.enter_context(mock.patch.object(EvaluationTracker, name, wrap(getattr(EvaluationTracker, name))))
        yield
