"""Results as files that a model's repository on the Hub may hold: `.eval_results/*.yaml`.

The format: https://huggingface.co/docs/hub/eval-results. The value is the mean of the rows' figures in per cent, as on
the report's page; the notes have its interval and the counts.
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

from medfaith.compare.answers import Answers, all_answers
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.logs.files import safe_name
from medfaith.logs.lines import Logged
from medfaith.tasks import BASELINES
from medfaith.tasks.listing import listed

from .page.forest import forests
from .results import Results
from .tables import count, percent

PLACE = ".eval_results"  # the folder in a model's repository


class HubResults(NamedTuple):
    """files: model -> name of a file -> its entries. left_out: words that follow "runs", and say why -> how many."""

    files: Mapping[str, Mapping[str, list[EvalResultEntry]]]
    left_out: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        left_out = ", ".join(f"{count(n)} {which}" for which, n in self.left_out.items())
        return [f"runs that are not in the Hub's files: {left_out}"] if left_out else []


def hub_results(results: Results, org: str) -> HubResults:
    """An entry for each run of all rows with the image; further runs of a model's task are in files of their own.

    org: the organisation on the Hub whose data sets hold the rows.

    Raises:
        MedfaithError: the Hub has no such names of organisations.
    """
    try:
        validate_repo_id(f"{org}/name")
    except HFValidationError as error:
        action = "name the organisation that medfaith publish got, such as --org my-group"
        raise MedfaithError(f"--org: {org!r} is no name on the Hub\n  what to do: {action}") from error
    repositories = {task.name: task.rows["repository"] for entry in listed() for task in entry.tasks}
    files: dict[str, dict[str, list[EvalResultEntry]]] = defaultdict(lambda: defaultdict(list))
    left_out: Counter[str] = Counter()
    seen: Counter[tuple[str, str]] = Counter()
    for run, answers in _answered(results):
        repository = repositories.get(run.source.task)
        why = _why_not(run, answers, repository)
        if why or answers is None:
            left_out[why] += 1
            continue
        key = run.model_name, run.source.task
        seen[key] += 1
        name = f"{repository}.yaml" if seen[key] == 1 else f"{repository}_{seen[key]}.yaml"
        files[run.model_name][name].append(_entry(run, answers, f"{org}/{repository}"))
    return HubResults(files, left_out)


def write_hub_results(found: HubResults, folder: Path) -> list[str]:
    """Writes FOLDER/<model>/.eval_results/<data set>.yaml; returns a line for each model that says where it belongs.

    Raises InputError for a folder that cannot be written.
    """
    lines = []
    for model, files in found.files.items():
        place = folder / safe_name(model) / PLACE
        for name, entries in files.items():
            content = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
            try:
                with atomic_file(place / name) as partial:
                    partial.write_text(content, encoding="utf-8")
            except OSError as error:
                found_ = f"cannot be written ({error.strerror or error})"
                raise InputError(place, found_, action="choose another --results-yaml") from error
        lines.append(f"{place}: for a pull request to {_home(model)}")
    return lines


def _answered(results: Results) -> Iterator[tuple[Logged, Answers | None]]:
    """Each run with its figures; None where more is not better."""
    empty = Results([], [], [], [], [], [])
    for kind in Results._fields[:-1]:
        for run in getattr(results, kind):
            found, _ = all_answers(empty._replace(**{kind: [run]}))
            yield run, found[0] if found else None


def _why_not(run: Logged, answers: Answers | None, repository: str | None) -> str:
    """Which runs a run is one of that are no result of a model on a data set; "" if it is a result."""
    if run.model in BASELINES:
        return "of reference models, which have no repository"
    told = dict(run.source.told)
    if "control" in told or "wording" in told:
        return "under a control" if "control" in told else "in another wording"
    if answers is None or all(math.isnan(value) for value in answers.values):
        return "without a score in which more is better"
    if repository is None:
        return "of tasks that are not medfaith's"
    n: int = getattr(run, "n")  # noqa: B009 - of every kind of run
    if n < run.n_data or run.source.rows is not None:
        return "of some rows only (--limit, --rows, missing images)"
    return ""


def _entry(run: Logged, answers: Answers, dataset: str) -> EvalResultEntry:
    (plot,) = forests([answers])
    (line,) = plot.lines
    counts = Counter(answers.outcomes)
    notes = [
        f"{plot.metric} in %",
        f"95% interval {percent(line.low)} to {percent(line.high)} (of whole groups)",
        f"{count(line.n)} rows of {count(len({*map(str, answers.groups)}))} groups",
        *([] if counts[""] else [f"{of} answers: {count(counts[of])}" for of in (UNREAD, DECLINED)]),
        *_how(run, answers),
        f"medfaith {importlib.metadata.version('medfaith')}",
    ]
    return EvalResultEntry(
        dataset_id=dataset, task_id=run.source.task, value=round(100 * line.mean, 2), date=run.source.date[:10],
        notes="; ".join(notes),
    )  # fmt: skip


def _how(run: Logged, answers: Answers) -> Iterator[str]:
    """How the task was put."""
    for name, told in answers.how.items():
        value: Any = getattr(run.setting, name, told)
        parts = value._asdict() if hasattr(value, "_asdict") else {name: value}
        yield from (f"{part.replace('_', ' ')}: {of_part}" for part, of_part in parts.items() if of_part)
    if answers.variant:
        yield answers.variant


def _home(model: str) -> str:
    on_the_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    return f"https://huggingface.co/{model}" if on_the_hub else "the model's own repository"
