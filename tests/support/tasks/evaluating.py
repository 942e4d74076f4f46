"""Run lm-eval on our tasks within the test process, with a model that gives scripted answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lm_eval
import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_aggregation, get_model
from lm_eval.tasks import TaskManager
from PIL import Image

from medfaith import tasks
from medfaith.tasks import lm_eval_internals
from medfaith.tasks.models.reference.baselines import Oracle

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog

# Right, wrong and unread answers for each kind of task, and the polarity reversal for multiple choice: in the
# published layout the first option is the target and, on the presence side, the second its negation.
ANSWERS = (
    "A", "No.", "Yes", "The answer is (B).", "Yes, the lung shows pleural thickening.", "I see.", "C", "Yes", "No",
)  # fmt: skip


class Says(Oracle):
    """A model that gives every request the same answer, or the result of a function of its document."""

    def __init__(self, reply: str | Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._reply = reply

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [self._reply(request.doc) if callable(self._reply) else self._reply for request in requests]


def baseline(name: str, **arguments: Any) -> Any:
    """Create a reference model by its name."""
    tasks.register_models()
    model: Any = get_model(name)
    return model(**arguments)


def load(names: Sequence[str], data: Path, roots: Mapping[str, Path] | None = None, **metadata: Any) -> Any:
    """Load tasks and groups with lm-eval's TaskManager."""
    run_metadata = {"data": str(data), "roots": {name: str(root) for name, root in (roots or {}).items()}}
    run_metadata |= {name: str(value) if isinstance(value, Path) else value for name, value in metadata.items()}
    manager = TaskManager(include_path=str(tasks.include_path()), include_defaults=False, metadata=run_metadata)
    return manager.load(list(names))


def evaluate(model: Any, loaded: Any, limit: int | None = None, **options: Any) -> dict[str, dict[str, Any]]:
    """Evaluate a model on loaded tasks, as `medfaith.tasks.run.answer` does.

    Args:
        model: A model, or the name of a reference model.
        loaded: Result of `load`.
        limit: Number of rows per task; default: all.
        **options: Options of `lm_eval.evaluate`.

    Returns:
        Scores, samples, documents and replies by task, in row order.
    """
    run: Any = lm_eval.evaluate
    model = baseline(model) if isinstance(model, str) else model
    with (
        lm_eval_internals.wrap_rows(lambda docs, **_: docs),
        lm_eval_internals.cache_function_sources(),
        lm_eval_internals.keep_samples(),
    ):
        result = run(model, task_dict=loaded, limit=limit, bootstrap_iters=0, **options)
    results_by_task = {}
    for name, task_samples in result["samples"].items():
        samples = sorted(task_samples, key=lambda sample: sample["doc_id"])
        results_by_task[name] = {
            "scores": {key.removesuffix(",none"): value for key, value in result["results"][name].items()},
            "samples": samples,
            "docs": [sample["doc"] for sample in samples],
            "replies": [sample["resps"][0][0] for sample in samples],
        }
    return results_by_task


@contextmanager
def record_images(lm: Any, placeholder: str) -> Iterator[dict[str, list[Image.Image]]]:
    """Record the images that a model passes to its processor.

    Args:
        lm: The model.
        placeholder: The processor's placeholder for an image.

    Yields:
        Images by prompt.
    """
    images_by_prompt: dict[str, list[Image.Image]] = {}
    process = type(lm.processor).__call__

    def call_and_record(self: Any, images: Sequence[Any], text: list[str], **options: Any) -> Any:
        flat = iter([image for entry in images for image in (entry if isinstance(entry, list) else [entry])])
        images_by_prompt.update({prompt: [next(flat) for _ in range(prompt.count(placeholder))] for prompt in text})
        return process(self, images=images, text=text, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lm.processor), "__call__", call_and_record)
        yield images_by_prompt


def by_filter(name: str, data: Path, roots: Mapping[str, Path], limit: int | None = None) -> dict[str, dict[str, Any]]:
    """Compute lm-eval's scores of `ANSWERS`, repeated over the rows: the reference for the other harnesses.

    Returns:
        Score by filter and metric.
    """
    task = load([name.split("::", maxsplit=1)[0]], data, roots)["tasks"][name]
    answers = itertools.cycle(ANSWERS)
    single_task = {"tasks": {name: task}, "groups": {}, "group_map": {}}
    scores_by_filter: dict[str, dict[str, Any]] = {}
    for key, value in evaluate(Says(lambda _: next(answers)), single_task, limit)[name]["scores"].items():
        metric, _, filter_name = key.partition(",")
        if not metric.endswith("_stderr") and key not in ("alias", "name", "sample_len"):
            scores_by_filter.setdefault(filter_name or "none", {})[metric] = value
    return scores_by_filter


def results_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the one results file below a folder: scores by task, metric and filter."""
    (file,) = folder.rglob("results_*.json")
    return json.loads(file.read_text(encoding="utf-8"))["results"]


def samples_of(folder: Path, task: str) -> list[dict[str, Any]]:
    """Read the newest sample log of a task below a folder."""
    log = max(folder.rglob(f"samples_*{task}_2*.jsonl"))
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def figures(metric_list: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Aggregate the results of `process_results` as lm-eval does: score by metric."""
    scores = {}
    for metric in metric_list:
        values = [row[metric["metric"]] for row in rows if metric["metric"] in row]
        aggregation = metric["aggregation"]
        function: Any = get_aggregation(aggregation) if isinstance(aggregation, str) else aggregation
        if values:
            scores[metric["metric"]] = function(values)
    return scores


def read_metrics(log: EvalLog) -> dict[str, float]:
    """Read the metrics of a log of Inspect: name -> value."""
    assert log.results
    (score,) = log.results.scores
    return {name: metric.value for name, metric in score.metrics.items()}
