"""Finished runs on a user's own questions: samples and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..benchmark import ReportedBenchmark

if TYPE_CHECKING:
    from medfaith.logs.files import SampleFile

    from ..answers import Answers
    from ..page.cases import CaseReading
    from ..pictures import Drawn
    from ..tables import Table
    from .runs import OwnRun


class _OwnQuestions(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[OwnRun]:
        from .runs import read_own_runs

        return read_own_runs(file, progress)

    def collect_answers(self, runs: Iterable[OwnRun]) -> tuple[list[Answers], list[str]]:
        from .answers import read_answers

        return [read_answers(run) for run in runs], []

    def build_tables(self, scores: Sequence[OwnRun]) -> tuple[list[Table], list[str]]:
        from .tables import build_own_tables

        return build_own_tables(scores), []

    def draw_figures(self, scores: Sequence[OwnRun]) -> Drawn:
        return {}, []

    def read_cases(self, run: OwnRun) -> Iterator[tuple[str, CaseReading]]:
        from .cases import read_cases

        return read_cases(run)


_TASKS = ("medfaith_own_yes_no", "medfaith_own_choice", "medfaith_own_open")
BENCHMARK = _OwnQuestions(
    name="own",
    title="Own questions",
    score_note=(
        "Accuracy, F1, exact match and recall are fractions; an answer that could not be read or declines is wrong, "
        "and both are counted (unread, declined)."
    ),
    has_paper=False,
    task_prefix="medfaith_own",
    task_group="medfaith_own",
    table_files=r"own_(runs|yes_no|choice|open)",
    figure_prefix="figure_own",
    audited_tasks=_TASKS,
    quickstart_runs={},
    quickstart_tasks=(),
)
