"""lm-eval's figures of answers that were scored and logged before. They need no model, no rows and no images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..loaders.errors import InputError
from .index import task_index

Values = Mapping[tuple[str, str], Sequence[Any]]


class LoggedTask:
    """What lm-eval's aggregation asks of a task.

    told: results of lm-eval that have the task. n: all its rows. index: of `index.task_index`.
    """

    def __init__(self, name: str, told: Mapping[str, Any], n: int, index: Mapping[str, Any]) -> None:
        self.task_name, self.VERSION, self.eval_docs = name, told["versions"][name], range(n)
        self._config, self._higher = told["configs"][name], told["higher_is_better"][name]
        self._aggregations = aggregations(name, index)

    def dump_config(self) -> dict[str, Any]:
        return dict(self._config)

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], Any]]:
        return self._aggregations

    def higher_is_better(self) -> dict[str, bool]:
        return dict(self._higher)


def figures(told: Mapping[str, Any], values: Mapping[str, Values], sizes: Mapping[str, int]) -> dict[str, Any]:
    """What `lm_eval.evaluate` returns of all tasks, without their samples.

    Args:
        told: results of lm-eval that have each task and group.
        values: task -> (metric, filter) -> what `process_results` returned for each row, in the order of the rows.
        sizes: task -> how many rows it has.
    """
    from lm_eval.api.group import Group
    from lm_eval.evaluator_utils import _process_results

    index = task_index()
    tasks = {name: LoggedTask(name, told, sizes[name], index) for name in values}
    groups = {}
    for name, members in told.get("group_subtasks", {}).items():
        groups[name] = Group(name, told["results"][name]["alias"], metadata={"version": told["versions"][name]})
        groups[name]._children = {member: tasks.get(member) or groups.get(member) for member in members}
    collected: Any = {
        name: {"task": task, "raw_metrics": values[name], "logged_samples": []} for name, task in tasks.items()
    }
    found: Any = _process_results(collected, groups, told["config"]["bootstrap_iters"])
    return found._to_eval_results()


def aggregations(name: str, index: Mapping[str, Any]) -> dict[str, Callable[[Sequence[Any]], Any]]:
    """Metric -> function of the values of all rows, for a task of this package. index: of `index.task_index`.

    Raises InputError for a task that there is not.
    """
    from lm_eval.api.registry import get_aggregation
    from lm_eval.tasks._yaml_loader import load_yaml

    group, _, member = name.partition("::")
    if group not in index or index[group].yaml_path is None:
        raise InputError(name, "is no task of this version of medfaith", action="merge with the version that asked it")
    config = load_yaml(index[group].yaml_path, resolve_func=True)
    if member:
        config |= next(of for of in config["task"] if of["task"] == member)
    found = {}
    for of in config["metric_list"]:
        how: Any = of["aggregation"]
        found[of["metric"]] = get_aggregation(how) if isinstance(how, str) else how
    return found
