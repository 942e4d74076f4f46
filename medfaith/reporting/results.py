"""The runs of all four benchmarks in lm-eval's sample logs, the newest of each model and setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.loaders.row_ids import read_ids
from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import Logged

from .contrabench.logs import read_runs
from .contrabench.names import sort_runs
from .contrabench.option_scores import (
    ScoredRun,
    add_states,
    find_states,
    has_scores,
    read_scored_runs,
    read_states,
)
from .contrabench.runs import Run
from .heal.runs import HealRun, read_heal_runs
from .surgx.runs import SurgXRun, read_surgx_runs
from .wrong_lung.runs import WrongLungRun, read_wrong_lung_runs

_READERS = (
    read_runs,
    read_heal_runs,
    read_surgx_runs,
    read_wrong_lung_runs,
)  # each returns [] for a log of another benchmark
_R = TypeVar("_R", bound=Logged)
_Newest = dict[tuple, Any]  # (class, model, adapter, setting) -> run


class Results(NamedTuple):
    """The newest run of each model and setting.

    Attributes:
        runs: Runs of CXR-ContraBench with answers, in the report's order.
        scored: Runs of CXR-ContraBench with option scores.
        heal: Runs of HEAL-MedVQA.
        surgx: Runs of SurgXBench.
        wrong_lung: Runs of That's the Wrong Lung!
        notes: Notes on logs and rows that are left out.
    """

    runs: list[Run]
    scored: list[ScoredRun]
    heal: list[HealRun]
    surgx: list[SurgXRun]
    wrong_lung: list[WrongLungRun]
    notes: list[str]

    @property
    def all(self) -> list[Logged]:
        """The runs of all benchmarks."""
        return [*self.runs, *self.scored, *self.heal, *self.surgx, *self.wrong_lung]

    def with_the_image(self) -> Results:
        """Select the runs without a control and with the published wording."""

        def select_uncontrolled(runs: list[_R]) -> list[_R]:
            return [run for run in runs if not {"control", "wording"} & dict(run.source.told).keys()]

        runs, scored, heal = (
            select_uncontrolled(self.runs),
            select_uncontrolled(self.scored),
            select_uncontrolled(self.heal),
        )
        return Results(
            runs, scored, heal, select_uncontrolled(self.surgx), select_uncontrolled(self.wrong_lung), self.notes
        )


def read_results(paths: Sequence[Path], rows: Path | None = None) -> Results:
    """Read the runs of all sample logs.

    Args:
        paths: Folders, results files or sample files.
        rows: A file with the ids of the rows that count (loaders.row_ids); None for all rows.

    Returns:
        The newest run of each model and setting.

    Raises:
        InputError: No log belongs to these benchmarks, or no log has a row that `rows` names; also as
            `logs.files.find_sample_files`, `logs.lines.read_lines` and `contrabench.option_scores.read_states`.
    """
    files, notes = find_sample_files([Path(path) for path in paths])
    if rows is not None:
        files = [file._replace(rows=read_ids(rows).keys()) for file in files]
    newest: _Newest = {}
    foreign: set[str] = set()
    n_foreign = 0
    n_bytes = sum(file.path.stat().st_size for file in files)
    with Progress(title="reading samples", total=n_bytes, unit="B") as bar:
        for file in files:
            file_runs = read_file(file, bar.update)
            for run in file_runs:
                _keep_newest(newest, run, notes)
            if not file_runs:
                foreign.add(file.task)
                n_foreign += 1
        scored = _add_states(_select_kind(ScoredRun, newest), bar, notes)
    if foreign:
        noun = "tasks" if rows is None else "tasks or rows"
        notes.append(f"{n_foreign} sample logs of other {noun} are left out: {', '.join(sorted(foreign))}")
    if rows is not None:
        notes += _find_unknown_rows(rows, newest.values())
    if not newest:
        raise InputError(
            ", ".join(str(path) for path in paths),
            f"none of its {len(files)} sample logs is of a CXR-ContraBench task, nor of HEAL-MedVQA, SurgXBench or "
            "That's the Wrong Lung!",
            expected="samples_medfaith_contrabench_..._<date>.jsonl, samples_medfaith_heal_..._<date>.jsonl, "
            "samples_medfaith_surgx_..._<date>.jsonl or samples_medfaith_wrong_lung_..._<date>.jsonl",
            action="run medfaith eval with --tasks medfaith_contrabench, medfaith_heal_vindr, medfaith_surgx or "
            "medfaith_wrong_lung, --output_path DIR and --log_samples",
        )
    runs = _select_kind(Run, newest)
    notes += [
        f"{run.model_name}, {run.source.task}: the filter m1 is missing from the log; scores after the verifier are "
        "undefined"
        for run in runs
        if "m1" not in run.choice
    ]
    other_runs = _select_kind(HealRun, newest), _select_kind(SurgXRun, newest), _select_kind(WrongLungRun, newest)
    return Results(sort_runs(runs), scored, *other_runs, sorted(notes))


def read_file(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> Sequence[Logged]:
    """Read the runs of one sample log.

    Args:
        file: The log.
        progress: Called with the number of bytes of each line read.

    Returns:
        The runs; [] for a log of another task.

    Raises:
        InputError: As `logs.lines.read_lines`.
    """
    if has_scores(file):
        return read_scored_runs(file, progress)
    for read_runs_of in _READERS:
        if runs := read_runs_of(file, progress):
            return runs
    return []


def _find_unknown_rows(rows: Path, runs: Iterable[Logged]) -> list[str]:
    """Find ids of the file that no run has; return a note on them, raise InputError if no run has any."""
    run_ids = {row_id for run in runs for row_id in _iterate_ids(run)}
    unknown = [row_id for row_id in read_ids(rows) if row_id not in run_ids]
    if not run_ids:
        action = "name the logs of its rows, or another file"
        raise InputError(rows, "names no row of these logs", column="id", expected="ids of their rows", action=action)
    return [f"{rows}: {len(unknown):,} of its rows are in no log, the first {unknown[0]}"] if unknown else []


def _iterate_ids(run: Any) -> Iterable[str]:
    if isinstance(run, Run):
        return run.id
    return (row["id"] if isinstance(row, Mapping) else row.id for row in run.rows)


def _select_kind(kind: type[_R], newest: Mapping[tuple, Any]) -> list[_R]:
    return [run for run in newest.values() if type(run) is kind]


def _keep_newest(newest: _Newest, run: Logged, notes: list[str]) -> None:
    key = (type(run), run.model, run.adapter, run.setting)
    previous = newest.get(key)
    if previous is None:
        newest[key] = run
        return
    newer, older = sorted((run, previous), key=lambda r: (r.source.date, str(r.source.path)), reverse=True)
    newest[key] = newer
    differs = "" if newer.source.arguments == older.source.arguments else ", whose model arguments differ"
    dates = f"the run of {newer.source.date} counts, not that of {older.source.date}{differs}"
    notes.append(f"{run.model_name}, {newer.source.task}: {dates}")


def _add_states(runs: list[ScoredRun], bar: Progress, notes: list[str]) -> list[ScoredRun]:
    """Add the hidden states to the runs with stored states; memory holds one file at a time."""
    files, missing_notes = find_states(runs)
    notes += missing_notes
    bar.total += sum(path.stat().st_size for path in files)
    without = [run for run in runs if not any(run in file_runs for file_runs in files.values())]
    complete = []
    for path, file_runs in files.items():
        states = read_states(path)
        complete += [add_states(run, states) for run in file_runs]
        bar.update(path.stat().st_size)
    return without + complete
