"""lm-eval's own figures of answers that come from a list, which the figures of other harnesses are held against."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.tasks.evaluating import Says, evaluate, load

# Each kind of task finds right, wrong and unreadable answers here, of multiple choice the attracted one too: in the
# published layout the target is the first option, then on the presence side its negation.
ANSWERS = (
    "A", "No.", "Yes", "The answer is (B).", "Yes, the lung shows pleural thickening.", "I see.", "C", "Yes", "No",
)  # fmt: skip


def figures(name: str, data: Path, roots: Mapping[str, Path], limit: int | None = None) -> dict[str, dict[str, Any]]:
    """Filter -> metric -> figure, by `lm_eval.evaluate`."""
    task = load([name.split("::", maxsplit=1)[0]], data, roots)["tasks"][name]
    answers = itertools.cycle(ANSWERS)
    alone = {"tasks": {name: task}, "groups": {}, "group_map": {}}
    found: dict[str, dict[str, Any]] = {}
    for key, value in evaluate(Says(lambda _: next(answers)), alone, limit, plain=True)[name]["scores"].items():
        metric, _, filter_name = key.partition(",")
        if filter_name and not metric.endswith("_stderr"):
            found.setdefault(filter_name, {})[metric] = value
    return found
