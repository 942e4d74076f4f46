"""The heatmaps of each model, from the sample logs of the annotated task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import LoggedRows, Rows, read_lines
from medfaith.reporting.registry import BENCHMARKS
from medfaith.tasks.explain.store import Store

BENCHMARK, TASK = next((known, known.annotated_task) for known in BENCHMARKS.values() if known.annotated_task)
RUN_IT = (
    f"run medfaith eval --tasks {TASK.name} --heatmaps DIR --output_path DIR --log_samples, with a model that aligns"
)


class Answer(NamedTuple):
    """A model's answer to one sentence.

    Attributes:
        id: The id of the row.
        sentence: The sentence.
        heatmaps: The reference of the model's attention in the store; None for an answer in words.
    """

    id: str
    sentence: str
    heatmaps: str | None


@dataclass(frozen=True, eq=False)
class AnswerRun(LoggedRows):
    """The answers of one model, sorted by row id."""

    rows: tuple[Answer, ...]


def read_models(paths: Sequence[Path], store: Store) -> tuple[dict[str, dict[str, Answer]], list[str]]:
    """Read the answers of each model.

    Args:
        paths: The folders of runs.
        store: The store of heatmaps.

    Returns:
        Model -> row id -> answer, and notes on files that were left out.

    Raises:
        InputError: There is no log of the task, a log cannot be read, two runs have the same model, or an answer has no
            heatmaps in the store.
    """
    files, notes = find_sample_files(paths)
    files = [file for file in files if file.task == TASK.name]
    if not files:
        raise InputError(", ".join(map(str, paths)), f"no sample log of {TASK.name}", action=RUN_IT)
    runs = [run for file in files for run in read_lines(file, _Lines, lambda n_bytes: None)]
    if not runs:
        raise InputError(files[0].path, "has no sentence", expected=f"a sample log of {TASK.name}", action=RUN_IT)
    for run in runs:
        _check(run, store)
    return {name: {row.id: row for row in run.rows} for name, run in zip(_build_names(runs), runs, strict=True)}, notes


def _build_names(runs: Sequence[AnswerRun]) -> list[str]:
    """Name the model of each run, with its other arguments if several runs share a model.

    Raise InputError if these are the same, too.
    """
    plain = [run.model_name for run in runs]
    shared = {name for name, n in Counter(plain).items() if n > 1}
    names = [
        f"{name} {run.source.arguments}" if name in shared else name for name, run in zip(plain, runs, strict=True)
    ]
    for number, name in enumerate(names):
        if name in names[:number]:
            problem = f"a second run of {name}, next to {runs[names.index(name)].source.path}"
            raise InputError(runs[number].source.path, problem, action="name one run of each model")
    return names


def _check(run: AnswerRun, store: Store) -> None:
    unnamed = [row.id for row in run.rows if row.heatmaps is None]
    if unnamed:
        problem = f"{len(unnamed)} of {len(run.rows)} answers name no heatmaps"
        raise InputError(run.source.path, problem, row=unnamed[0], action=RUN_IT)
    missing = [row.id for row in run.rows if not store.has(row.heatmaps or "", row.id)]
    if missing:
        problem = f"the heatmaps of {len(missing)} of {len(run.rows)} answers in {run.source.path} are not there"
        raise InputError(
            store.folder, problem, row=missing[0], action="name the folder that this run wrote with --heatmaps"
        )


@dataclass
class _Lines(Rows):
    columns = ("sentence", "boxes", "subsets", "patient_id")

    @staticmethod
    def setting(doc: Mapping[str, Any], task: str) -> str:
        return task

    @staticmethod
    def row(sample: Mapping[str, Any]) -> Answer:
        doc = sample["doc"]
        return Answer(str(doc["id"]), str(doc["sentence"]), BENCHMARK.read_heatmaps(sample["filtered_resps"][0]))

    def run(self, setting: str, file: SampleFile, *, single: bool) -> AnswerRun:
        return AnswerRun(setting=setting, **self.logged(file, single=single))
