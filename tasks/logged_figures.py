"""lm-eval's figures, recomputed from scored answers in logs. No model, row or image is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..loaders.errors import InputError
from . import lm_eval_internals
from .index import task_index

Values = Mapping[tuple[str, str], Sequence[Any]]


class LoggedTask:
    """A task as lm-eval's aggregation needs it, made from the results of a run.

    Args:
        name: The name of the task.
        results: lm-eval results that include the task.
        n: The number of all its rows.
        index: The result of `index.task_index`.
    """

    def __init__(self, name: str, results: Mapping[str, Any], n: int, index: Mapping[str, Any]) -> None:
        self.task_name, self.VERSION, self.eval_docs = name, results["versions"][name], range(n)
        self._config, self._higher = results["configs"][name], results["higher_is_better"][name]
        self._aggregations = aggregations(name, index)

    def dump_config(self) -> dict[str, Any]:
        """Return the config of the task."""
        return dict(self._config)

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], Any]]:
        """Return the aggregation function of each metric."""
        return self._aggregations

    def higher_is_better(self) -> dict[str, bool]:
        """Return for each metric whether higher is better."""
        return dict(self._higher)


def figures(results: Mapping[str, Any], values: Mapping[str, Values], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Compute the figures of all tasks and groups, as `lm_eval.evaluate` returns them, without samples.

    Args:
        results: lm-eval results that include each task and group.
        values: Task -> (metric, filter) -> the values of `process_results` for each row, in the order of the rows.
        sizes: Task -> number of rows.

    Returns:
        The results as lm-eval saves them.
    """
    index = task_index()
    tasks = {name: LoggedTask(name, results, sizes[name], index) for name in values}
    groups = lm_eval_internals.make_groups(results.get("group_subtasks", {}), tasks, results)
    collected: Any = {
        name: {"task": task, "raw_metrics": values[name], "logged_samples": []} for name, task in tasks.items()
    }
    return lm_eval_internals.aggregate(collected, groups, results["config"]["bootstrap_iters"])


def aggregations(name: str, index: Mapping[str, Any]) -> dict[str, Callable[[Sequence[Any]], Any]]:
    """Build the aggregation function of each metric of a task of this package.

    Args:
        name: The name of the task.
        index: The result of `index.task_index`.

    Returns:
        Metric -> function of the values of all rows.

    Raises:
        InputError: The task is unknown.
    """
    from lm_eval.api.registry import get_aggregation

    group, _, member = name.partition("::")
    if group not in index or index[group].yaml_path is None:
        raise InputError(name, "is no task of this version of medfaith", action="merge with the version that asked it")
    config = lm_eval_internals.read_task_file(index[group].yaml_path)
    if member:
        config |= next(entry for entry in config["task"] if entry["task"] == member)
    functions: dict[str, Any] = {}
    for entry in config["metric_list"]:
        aggregation: Any = entry["aggregation"]
        functions[entry["metric"]] = get_aggregation(aggregation) if isinstance(aggregation, str) else aggregation
    return functions
