"""The heatmaps of each model, from the sample logs of `medfaith_wrong_lung_gold`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.loaders.errors import InputError
from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import Logged, Rows, read_lines
from medfaith.tasks.explain.store import Store
from medfaith.tasks.wrong_lung.adapter import read_reply

TASK = "medfaith_wrong_lung_gold"
RUN_IT = f"run medfaith eval --tasks {TASK} --heatmaps DIR --output_path DIR --log_samples, with a model that aligns"


class Answer(NamedTuple):
    """heatmaps: where the store has the model's attention; None of an answer in words."""

    id: str
    sentence: str
    heatmaps: str | None


@dataclass(frozen=True, eq=False)
class AnswerRun(Logged):
    """One model's answers, ordered by the rows' ids."""

    rows: tuple[Answer, ...]


def read_models(paths: Sequence[Path], store: Store) -> tuple[dict[str, dict[str, Answer]], list[str]]:
    """Model -> id of a row -> its answer, and notes on what was left out.

    Raises:
        InputError: no log of the task, one that cannot be read, two runs of one model, an answer without heatmaps or
            whose heatmaps are not in the store.
    """
    files, notes = find_sample_files(paths)
    files = [file for file in files if file.task == TASK]
    if not files:
        raise InputError(", ".join(map(str, paths)), f"no sample log of {TASK}", action=RUN_IT)
    runs = [run for file in files for run in read_lines(file, _Lines, lambda n_bytes: None)]
    if not runs:
        raise InputError(files[0].path, "has no sentence", expected=f"a sample log of {TASK}", action=RUN_IT)
    for run in runs:
        _check(run, store)
    return {name: {row.id: row for row in run.rows} for name, run in zip(_names(runs), runs, strict=True)}, notes


def _names(runs: Sequence[AnswerRun]) -> list[str]:
    """Of each run its model's name, with the other arguments where several share one."""
    plain = [run.model_name for run in runs]
    shared = {name for name, n in Counter(plain).items() if n > 1}
    names = [
        f"{name} {run.source.arguments}" if name in shared else name for name, run in zip(plain, runs, strict=True)
    ]
    for number, name in enumerate(names):
        if name in names[:number]:
            found = f"a second run of {name}, beside {runs[names.index(name)].source.path}"
            raise InputError(runs[number].source.path, found, action="name one run of each model")
    return names


def _check(run: AnswerRun, store: Store) -> None:
    lacking = [row.id for row in run.rows if row.heatmaps is None]
    if lacking:
        found = f"{len(lacking)} of {len(run.rows)} answers name no heatmaps"
        raise InputError(run.source.path, found, row=lacking[0], action=RUN_IT)
    missing = [row.id for row in run.rows if not store.has(row.heatmaps or "", row.id)]
    if missing:
        found = f"the heatmaps of {len(missing)} of {len(run.rows)} answers in {run.source.path} are not there"
        raise InputError(
            store.folder, found, row=missing[0], action="name the folder that this run wrote with --heatmaps"
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
        return Answer(str(doc["id"]), str(doc["sentence"]), read_reply(sample["filtered_resps"][0]).heatmaps)

    def run(self, setting: str, file: SampleFile, *, single: bool) -> AnswerRun:
        return AnswerRun(setting=setting, **self.logged(file, single=single))
