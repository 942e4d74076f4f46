"""All runs of the four benchmarks that lm-eval's sample logs hold, the newest of each model and setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.loaders.row_ids import read_ids
from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import Logged

from .contrabench_logs import read_runs
from .contrabench_names import in_order
from .contrabench_option_scores import (
    ScoredRun,
    find_states,
    holds_scores,
    read_scored_runs,
    read_states,
    with_states,
)
from .contrabench_runs import Run
from .heal_runs import HealRun, read_heal_runs
from .surgx_runs import SurgXRun, read_surgx_runs
from .wrong_lung_runs import WrongLungRun, read_wrong_lung_runs

_READERS = (read_runs, read_heal_runs, read_surgx_runs, read_wrong_lung_runs)  # each finds nothing in another's log
_R = TypeVar("_R", bound=Logged)
_Newest = dict[tuple, Any]  # run by its class, model, adapter and setting


class Results(NamedTuple):
    """The newest run of every model and setting: CXR-ContraBench's in the report's order and those that score options,
    HEAL-MedVQA's, SurgXBench's and That's the Wrong Lung!'s; and notes on what was left out.
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
        """Without the runs under a control or in another wording."""

        def kept(runs: list[_R]) -> list[_R]:
            return [run for run in runs if not {"control", "wording"} & dict(run.source.told).keys()]

        runs, scored, heal = kept(self.runs), kept(self.scored), kept(self.heal)
        return Results(runs, scored, heal, kept(self.surgx), kept(self.wrong_lung), self.notes)


def read_results(paths: Sequence[Path], rows: Path | None = None) -> Results:
    """What the sample logs hold.

    rows: a file that names the rows that count (loaders.row_ids); None: all.

    Raises:
        InputError: no log is of these benchmarks; or see `logs.files.find_sample_files`, `logs.lines.read_lines`,
            `contrabench_option_scores.read_states`; or no log has a row that `rows` names.
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
            found = read_file(file, bar.update)
            for run in found:
                _keep_newest(newest, run, notes)
            if not found:
                foreign.add(file.task)
                n_foreign += 1
        scored = _with_states(_of(ScoredRun, newest), bar, notes)
    if foreign:
        other = "tasks" if rows is None else "tasks or rows"
        notes.append(f"{n_foreign} sample logs of other {other} are left out: {', '.join(sorted(foreign))}")
    if rows is not None:
        notes += _not_asked(rows, newest.values())
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
    runs = _of(Run, newest)
    notes += [
        f"{run.model_name}, {run.source.task}: the log lacks the filter m1; what is after the verifier is undefined"
        for run in runs
        if "m1" not in run.choice
    ]
    others = _of(HealRun, newest), _of(SurgXRun, newest), _of(WrongLungRun, newest)
    return Results(in_order(runs), scored, *others, sorted(notes))


def read_file(file: SampleFile, progress: Callable[[int], Any] = lambda n_bytes: None) -> Sequence[Logged]:
    """The runs in one sample log; none where it is of no benchmark of ours.

    Args and Raises: as `logs.lines.read_lines`.
    """
    if holds_scores(file):
        return read_scored_runs(file, progress)
    for read in _READERS:
        if found := read(file, progress):
            return found
    return []


def _not_asked(rows: Path, runs: Iterable[Logged]) -> list[str]:
    """A note on ids of the file that no run has; InputError where none of them is there."""
    found = {row_id for run in runs for row_id in _ids(run)}
    unknown = [row_id for row_id in read_ids(rows) if row_id not in found]
    if not found:
        action = "name the logs of its rows, or another file"
        raise InputError(rows, "names no row of these logs", column="id", expected="ids of their rows", action=action)
    return [f"{rows}: {len(unknown):,} of its rows are in no log, the first {unknown[0]}"] if unknown else []


def _ids(run: Any) -> Iterable[str]:
    if isinstance(run, Run):
        return run.id
    return (row["id"] if isinstance(row, Mapping) else row.id for row in run.rows)


def _of(kind: type[_R], newest: Mapping[tuple, Any]) -> list[_R]:
    return [run for run in newest.values() if type(run) is kind]


def _keep_newest(newest: _Newest, run: Logged, notes: list[str]) -> None:
    key = (type(run), run.model, run.adapter, run.setting)
    other = newest.get(key)
    if other is None:
        newest[key] = run
        return
    kept, dropped = sorted((run, other), key=lambda r: (r.source.date, str(r.source.path)), reverse=True)
    newest[key] = kept
    differs = "" if kept.source.arguments == dropped.source.arguments else ", whose model arguments differ"
    dates = f"the run of {kept.source.date} counts, not that of {dropped.source.date}{differs}"
    notes.append(f"{run.model_name}, {kept.source.task}: {dates}")


def _with_states(runs: list[ScoredRun], bar: Progress, notes: list[str]) -> list[ScoredRun]:
    """The runs, with their hidden states where these were kept; one file is held at a time."""
    files, missing = find_states(runs)
    notes += missing
    bar.total += sum(path.stat().st_size for path in files)
    without = [run for run in runs if not any(run in of_file for of_file in files.values())]
    complete = []
    for path, of_file in files.items():
        states = read_states(path)
        complete += [with_states(run, states) for run in of_file]
        bar.update(path.stat().st_size)
    return without + complete
