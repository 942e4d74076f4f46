"""The runs of all benchmarks in lm-eval's sample logs, the newest of each model and setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.loaders.row_ids import read_ids
from medfaith.logs.files import SampleFile, find_sample_files
from medfaith.logs.lines import AGAIN, Logged, has_document

from .answers import Answers
from .benchmark import ReportedBenchmark, select_uncontrolled
from .registry import BENCHMARKS

_Newest = dict[tuple, Any]  # (class, model, adapter, setting) -> run


@dataclass(frozen=True)
class Results:
    """The newest run of each model and setting.

    Attributes:
        runs: The runs of each benchmark, in the order of the report.
        notes: Notes on logs and rows that are left out.
    """

    runs: Mapping[ReportedBenchmark, Sequence[Any]]
    notes: list[str]

    @property
    def all(self) -> list[Any]:
        """The runs of all benchmarks."""
        return [run for runs in self.runs.values() for run in runs]

    @property
    def in_words(self) -> list[Any]:
        """The runs whose answers are words."""
        return [run for run in self.all if run.in_words]

    @property
    def titles(self) -> list[str]:
        """The titles of the benchmarks with runs."""
        return [benchmark.title for benchmark, runs in self.runs.items() if runs]

    def select(self, select_runs: Callable[[Sequence[Any]], Sequence[Any]]) -> Results:
        """Select some of the runs.

        Args:
            select_runs: Selects the runs of one benchmark.

        Returns:
            These runs, with all notes.
        """
        return Results({benchmark: select_runs(runs) for benchmark, runs in self.runs.items()}, self.notes)

    def with_the_image(self) -> Results:
        """Select the runs without a control and with the published wording."""
        return self.select(select_uncontrolled)

    def collect_answers(self) -> tuple[list[Answers], list[str]]:
        """Collect the answers of all runs that have a figure in which more is better.

        Returns:
            The answers, and notes on the runs that are left out.
        """
        answers, notes = [], []
        for benchmark, runs in self.runs.items():
            benchmark_answers, left_out = benchmark.collect_answers(runs)
            answers += benchmark_answers
            notes += left_out
        return answers, notes


def read_results(paths: Sequence[Path], rows: Path | None = None) -> Results:
    """Read the runs of all sample logs.

    Args:
        paths: Folders, results files or sample files.
        rows: A file with the ids of the rows that count (loaders.row_ids); None for all rows.

    Returns:
        The newest run of each model and setting.

    Raises:
        InputError: No log belongs to these benchmarks, or no log has a row that `rows` names; also as
            `logs.files.find_sample_files`, `logs.lines.read_lines` and `benchmark.ReportedBenchmark.complete_runs`.
    """
    files, notes = find_sample_files([Path(path) for path in paths])
    if rows is not None:
        files = [file._replace(rows=read_ids(rows).keys()) for file in files]
    newest: dict[ReportedBenchmark, _Newest] = {benchmark: {} for benchmark in BENCHMARKS.values()}
    foreign: set[str] = set()
    n_foreign = 0
    n_bytes = sum(file.path.stat().st_size for file in files)
    with Progress(title="reading samples", total=n_bytes, unit="B") as bar:
        for file in files:
            read = _read_file(file, bar.update)
            if read is None:
                foreign.add(file.task)
                n_foreign += 1
                continue
            benchmark, file_runs = read
            for run in file_runs:
                _keep_newest(newest[benchmark], run, notes)
        runs_by_benchmark: dict[ReportedBenchmark, Sequence[Any]] = {}
        for benchmark, newest_runs in newest.items():
            runs_by_benchmark[benchmark], missing_notes = benchmark.complete_runs([*newest_runs.values()], bar)
            notes += missing_notes
    results = Results(runs_by_benchmark, notes)
    if foreign:
        noun = "tasks" if rows is None else "tasks or rows"
        notes.append(f"{n_foreign} sample logs of other {noun} are left out: {', '.join(sorted(foreign))}")
    if rows is not None:
        notes += _find_unknown_rows(rows, results.all)
    if not results.all:
        *titles, last_title = (benchmark.title for benchmark in BENCHMARKS.values())
        *groups, last_group = (benchmark.task_group for benchmark in BENCHMARKS.values())
        prefixes = [benchmark.task_prefix for benchmark in BENCHMARKS.values()]
        raise InputError(
            ", ".join(str(path) for path in paths),
            f"none of its {len(files)} sample logs is of {', '.join(titles)} or {last_title}",
            expected=" or ".join(f"samples_{prefix}_..._<date>.jsonl" for prefix in prefixes),
            action=f"run medfaith eval with --tasks {', '.join(groups)} or {last_group}, --output_path DIR and "
            "--log_samples",
        )
    notes.sort()
    return results


def _read_file(file: SampleFile, progress: Callable[[int], Any]) -> tuple[ReportedBenchmark, Sequence[Logged]] | None:
    """Read the benchmark and the runs of one sample log; None for a log of another task, or of other rows."""
    for benchmark in BENCHMARKS.values():
        if runs := benchmark.read_runs(file, progress):
            return benchmark, runs
    is_ours = any(file.task.startswith(benchmark.task_prefix) for benchmark in BENCHMARKS.values())
    if is_ours and (file.rows is None or not has_document(file.path)):
        problem, expected = f"holds no rows of {file.task}", "a sample as lm-eval writes it for this task"
        raise InputError(file.path, problem, row=1, expected=expected, action=AGAIN)
    return None


def _find_unknown_rows(rows: Path, runs: Iterable[Logged]) -> list[str]:
    """Find ids of the file that no run has; return a note on them, raise InputError if no run has any."""
    run_ids = {row_id for run in runs for row_id in run.ids}
    unknown = [row_id for row_id in read_ids(rows) if row_id not in run_ids]
    if not run_ids:
        action = "name the logs of its rows, or another file"
        raise InputError(rows, "names no row of these logs", column="id", expected="ids of their rows", action=action)
    return [f"{rows}: {len(unknown):,} of its rows are in no log, the first {unknown[0]}"] if unknown else []


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
