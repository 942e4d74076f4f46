"""lm-eval's own figures of answers that come from a list, which the adapters' figures are held against."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from medfaith import tasks
from medfaith.tasks.models.baselines import Oracle

# Each kind of task finds right, wrong and unreadable answers here, of multiple choice the attracted one too: in the
# published layout the target stands first, then on the presence side its negation.
ANSWERS = (
    "A",
    "No.",
    "Yes",
    "The answer is (B).",
    "Yes, the lung shows pleural thickening.",
    "I see.",
    "C",
    "Yes",
    "No",
)


class Listed(Oracle):
    """Answers with ANSWERS in turn."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return list(itertools.islice(itertools.cycle(ANSWERS), len(requests)))


def figures(name: str, data: Path, roots: Mapping[str, Path], limit: int | None = None) -> dict[str, dict[str, Any]]:
    """Filter -> metric -> figure, by `lm_eval.evaluate`."""
    metadata = {"data": str(data), "roots": {source: str(path) for source, path in roots.items()}}
    manager = TaskManager(include_path=str(tasks.include_path()), include_defaults=False, metadata=metadata)
    evaluate: Any = lm_eval.evaluate
    task = manager.load([name.split("::", maxsplit=1)[0]])["tasks"][name]
    alone = {"tasks": {name: task}, "groups": {}, "group_map": {}}
    result = evaluate(Listed(), task_dict=alone, limit=limit, bootstrap_iters=0)
    found: dict[str, dict[str, Any]] = {}
    for key, value in result["results"][name].items():
        metric, _, filter_name = key.partition(",")
        if filter_name and not metric.endswith("_stderr"):
            found.setdefault(filter_name, {})[metric] = value
    return found
