"""Finished runs of SurgXBench: samples, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..benchmark import Heatmap, ReportedBenchmark, ReportSources, Sheet

if TYPE_CHECKING:
    from medfaith.logs.files import SampleFile

    from ..answers import Answers
    from ..page.cases import CaseReading
    from ..pictures import Drawn
    from ..tables import Table
    from .runs import SurgXRun


class Scores(NamedTuple):
    """Runs of a report.

    Attributes:
        runs: The runs.
        sheet: Sources of the contact sheet; None for no sheet.
    """

    runs: Sequence[SurgXRun]
    sheet: Sheet | None


class _SurgXBench(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[SurgXRun]:
        from .runs import read_surgx_runs

        return read_surgx_runs(file, progress)

    def collect_answers(self, runs: Iterable[SurgXRun]) -> tuple[list[Answers], list[str]]:
        from .answers import read_answers

        all_runs = [*runs]
        left_out = [run for run in all_runs if run.setting.ask == "occlusion"]
        answers = [read_answers(run) for run in all_runs if run.setting.ask != "occlusion"]
        return answers, [f"{run.source.task} is left out: more is not better there" for run in left_out]

    def warn(self, runs: Sequence[SurgXRun]) -> list[str]:
        from .tables import warn_tied

        return warn_tied(runs)

    def score(self, runs: Sequence[SurgXRun], sources: ReportSources) -> Scores:
        return Scores(runs, sources.sheet)

    def build_tables(self, scores: Scores) -> tuple[list[Table], list[str]]:
        from .tables import build_surgx_tables

        return build_surgx_tables(scores.runs), []

    def draw_figures(self, scores: Scores) -> Drawn:
        from .figures import draw_surgx_figures

        return draw_surgx_figures(scores.runs, scores.sheet)

    def read_cases(self, run: SurgXRun) -> Iterator[tuple[str, CaseReading]]:
        from .cases import read_cases

        return read_cases(run)

    def get_text(self, response: str) -> str:
        from medfaith.evaluate_metrics.reading.surgery import read_reply

        return read_reply(response).text or ""

    def read_heatmaps(self, response: str) -> str | None:
        from medfaith.evaluate_metrics.reading.surgery import read_reply

        return read_reply(response).heatmaps

    def find_heatmaps(self, runs: Sequence[SurgXRun], ids: Collection[str]) -> Iterator[Heatmap]:
        from ..page.cases import find_logged_heatmaps

        return find_logged_heatmaps(self, runs, ids)


BENCHMARK = _SurgXBench(
    name="surgxbench",
    title="SurgXBench",
    score_note=(
        "F1, precision and recall are fractions; AA, AC, RAS, shares and AP are percentages, as that paper prints "
        "them; an answer that could not be read or declines predicts nothing and is counted (unread, declined)."
    ),
    task_prefix="medfaith_surgx",
    task_group="medfaith_surgx",
    table_files=r"surgx_(runs|triplets|occlusion|stated_boxes|figure_\w+)",
    figure_prefix="figure_surgx",
    figure_titles={
        "figure_surgx_03": "Instruments, and where the model looks",
        "figure_surgx_03_seg8k": "Instruments of CholecSeg8k, and where the model looks",
        "figure_surgx_04": "Triplets, and where the model looks",
    },
    pixel_figures=("figure_surgx_overlays", "figure_surgx_05", "figure_surgx_06", "figure_surgx_09"),
    audited_tasks=("medfaith_surgx_instruments", "medfaith_surgx_triplets", "medfaith_surgx_instruments_seg8k"),
    quickstart_tasks=("medfaith_surgx_instruments", "medfaith_surgx_triplets"),
    quickstart_runs={
        "medfaith_surgx": {
            **{f"oracle, {kind}": ("oracle", {"heatmap": kind}) for kind in ("box", "centre", "corner", "uniform")},
            "always_yes": ("always_yes", {}),
            "random, box": ("random", {"heatmap": "box"}),
        }
    },
)
