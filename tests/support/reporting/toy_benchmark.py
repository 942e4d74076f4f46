"""A toy benchmark for finished runs: is the picture red? It is all that a benchmark's folder must have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medfaith.logs.files import SampleFile
from medfaith.logs.lines import LoggedRows, Rows, read_lines
from medfaith.reporting.answers import Answers, build_answers
from medfaith.reporting.benchmark import ReportedBenchmark
from medfaith.reporting.page.cases import CaseReading, score_outcome
from medfaith.reporting.pictures import Drawn
from medfaith.reporting.tables import MODEL, Column, Table, percent


class ToySetting(NamedTuple):
    prompt: str = "b0"


class ToyRow(NamedTuple):
    id: str
    gold: str
    said: str


@dataclass(frozen=True, eq=False)
class ToyRun(LoggedRows):
    rows: tuple[ToyRow, ...]

    @property
    def unread(self) -> list[str]:
        return []

    @property
    def declined(self) -> list[str]:
        return []


class _Lines(Rows):
    columns = ("id", "toy")

    @staticmethod
    def setting(doc: Any, task: str) -> ToySetting:
        return ToySetting(str(doc.get("prompt") or "b0"))

    @staticmethod
    def row(sample: Any) -> ToyRow:
        return ToyRow(sample["doc"]["id"], sample["doc"]["toy"], sample["filtered_resps"][0])

    def run(self, setting: ToySetting, file: SampleFile, *, single: bool) -> ToyRun:
        return ToyRun(setting=setting, **self.logged(file, single=single))


class _Toy(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[ToyRun]:
        return read_lines(file, _Lines, progress)

    def collect_answers(self, runs: Iterable[ToyRun]) -> tuple[list[Answers], list[str]]:
        return [
            build_answers(
                run,
                task="Toy",
                metric="accuracy",
                ids=[row.id for row in run.rows],
                asked=[row.gold for row in run.rows],
                values=[row.said == row.gold for row in run.rows],
                said=[row.said for row in run.rows],
                outcomes=["answered"] * run.n,
                groups=[row.id for row in run.rows],
                about=[["red"]] * run.n,
                is_present=[True] * run.n,
                subjects=[["red"]] * run.n,
            )
            for run in runs
        ], []

    def build_tables(self, scores: Sequence[ToyRun]) -> tuple[list[Table], list[str]]:
        rows = [[run.name, sum(row.said == row.gold for row in run.rows) / run.n] for run in scores]
        return [Table("toy_accuracy", "Toy", [MODEL, Column("Acc.", ("accuracy",), percent)], rows)] if rows else [], []

    def draw_figures(self, scores: Sequence[ToyRun]) -> Drawn:
        return {}, []

    def read_cases(self, run: ToyRun) -> Iterator[tuple[str, CaseReading]]:
        for row in run.rows:
            case = "Is it red?", (), row.gold, "red"
            yield row.id, CaseReading(case, row.said, "", "", score_outcome(row.said, row.said == row.gold))


TOY = _Toy(
    name="toy",
    title="Toy",
    score_note="Accuracy is a percentage.",
    task_prefix="medfaith_toy",
    task_group="medfaith_toy",
    table_files=r"toy_\w+",
    figure_prefix="figure_toy",
    audited_tasks=(),
    quickstart_runs={},
    quickstart_tasks=(),
)
