"""Scores as `.eval_results/*.yaml`, for models' repositories on the Hub.

The format: https://huggingface.co/docs/hub/eval-results. The value is the mean over rows in per cent, as on the
report's page; the notes hold its interval and the counts.
"""

from __future__ import annotations

import importlib.metadata
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.logs.files import safe_name
from medfaith.logs.lines import Logged
from medfaith.tasks import BASELINES
from medfaith.tasks.harnesses.results import LMMS_EVAL, VLMEVALKIT
from medfaith.tasks.listing import listed

from .answers import Answers
from .page.forest import forests
from .results import Results
from .tables import count, percent

INSPECT = "Inspect"
PLACE = ".eval_results"  # the folder in a model's repository


class HubResults(NamedTuple):
    """Entries for the Hub.

    Attributes:
        files: Model -> name of a file -> its entries.
        left_out: Reason, to follow the word "runs" -> number of runs.
    """

    files: Mapping[str, Mapping[str, list[EvalResultEntry]]]
    left_out: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """A note on the runs that are left out."""
        left_out = ", ".join(f"{count(n)} {which}" for which, n in self.left_out.items())
        return [f"runs that are not in the Hub's files: {left_out}"] if left_out else []


def collect_hub_results(results: Results, org: str) -> HubResults:
    """Collect an entry for each run over all rows with the image.

    Further runs of a model on the same task get files of their own.

    Args:
        results: The runs.
        org: The organisation on the Hub whose data sets hold the rows.

    Returns:
        The entries.

    Raises:
        MedfaithError: `org` is not a valid name on the Hub.
    """
    try:
        validate_repo_id(f"{org}/name")
    except HFValidationError as error:
        action = "name the organisation that medfaith publish got, such as --org my-group"
        raise MedfaithError(f"--org: {org!r} is not a valid name on the Hub\n  what to do: {action}") from error
    repositories = {task.name: task.rows["repository"] for entry in listed() for task in entry.tasks}
    files: dict[str, dict[str, list[EvalResultEntry]]] = defaultdict(lambda: defaultdict(list))
    left_out: Counter[str] = Counter()
    n_runs: Counter[tuple[str, str]] = Counter()
    for run, answers in _iterate_runs(results):
        repository = repositories.get(run.source.task)
        reason = _explain_exclusion(run, answers, repository)
        if reason or answers is None:
            left_out[reason] += 1
            continue
        key = run.model_name, run.source.task
        n_runs[key] += 1
        name = f"{repository}.yaml" if n_runs[key] == 1 else f"{repository}_{n_runs[key]}.yaml"
        files[run.model_name][name].append(_build_entry(run, answers, f"{org}/{repository}"))
    return HubResults(files, left_out)


def write_hub_results(results_on_hub: HubResults, folder: Path) -> list[str]:
    """Write FOLDER/<model>/.eval_results/<data set>.yaml for each model.

    Args:
        results_on_hub: The entries.
        folder: The folder.

    Returns:
        A line for each model that says where its files belong.

    Raises:
        InputError: The folder cannot be written.
    """
    lines = []
    for model, files in results_on_hub.files.items():
        model_folder = folder / safe_name(model) / PLACE
        for name, entries in files.items():
            content = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
            try:
                with atomic_file(model_folder / name) as partial:
                    partial.write_text(content, encoding="utf-8")
            except OSError as error:
                problem = f"cannot be written ({error.strerror or error})"
                raise InputError(model_folder, problem, action="choose another --results-yaml") from error
        lines.append(f"{model_folder}: for a pull request to {_format_repository(model)}")
    return lines


def _iterate_runs(results: Results) -> Iterator[tuple[Logged, Answers | None]]:
    """Iterate over the runs with their answers; None if a larger score is not better."""
    for benchmark, runs in results.runs.items():
        for run in runs:
            scored, _ = benchmark.collect_answers([run])
            yield run, scored[0] if scored else None


def _explain_exclusion(run: Logged, answers: Answers | None, repository: str | None) -> str:
    """Explain why a run is excluded, in words that follow "runs"; "" if it is included."""
    if run.model in BASELINES:
        return "of reference models, which have no repository"
    conditions = dict(run.source.told)
    if "control" in conditions or "wording" in conditions:
        return "under a control" if "control" in conditions else "in another wording"
    if answers is None or all(math.isnan(value) for value in answers.values):
        return "without a score in which more is better"
    if repository is None:
        return "of tasks that are not medfaith's"
    n: int = getattr(run, "n")  # noqa: B009 - of every kind of run
    if n < run.n_data or run.source.rows is not None:
        return "of some rows only (--limit, --rows, missing images)"
    return ""


def _build_entry(run: Logged, answers: Answers, dataset: str) -> EvalResultEntry:
    (plot,) = forests([answers])
    (line,) = plot.lines
    counts = Counter(answers.outcomes)
    notes = [
        f"{plot.metric} in %",
        f"95% interval {percent(line.low)} to {percent(line.high)} (of whole groups)",
        f"{count(line.n)} rows of {count(len({*map(str, answers.groups)}))} groups",
        *([] if counts[""] else [f"{outcome} answers: {count(counts[outcome])}" for outcome in (UNREAD, DECLINED)]),
        *_iterate_settings(run, answers),
        f"medfaith {importlib.metadata.version('medfaith')}, run by {_name_harness(run)}",
    ]
    return EvalResultEntry(
        dataset_id=dataset, task_id=run.source.task, value=round(100 * line.mean, 2), date=run.source.date[:10],
        notes="; ".join(notes),
    )  # fmt: skip


def _name_harness(run: Logged) -> str:
    """Name the harness that asked the model: for answers of other harnesses it is the type of the model."""
    harnesses = {name.lower(): name for name in (INSPECT, LMMS_EVAL, VLMEVALKIT)}
    return harnesses.get(run.adapter.lower(), "lm-evaluation-harness")


def _iterate_settings(run: Logged, answers: Answers) -> Iterator[str]:
    """Iterate over the settings of the task."""
    for name, default in answers.how.items():
        value: Any = getattr(run.setting, name, default)
        fields = value._asdict() if hasattr(value, "_asdict") else {name: value}
        yield from (
            f"{field_name.replace('_', ' ')}: {field_value}"
            for field_name, field_value in fields.items()
            if field_value
        )
    if answers.variant:
        yield answers.variant


def _format_repository(model: str) -> str:
    on_the_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    return f"https://huggingface.co/{model}" if on_the_hub else "the model's own repository"
