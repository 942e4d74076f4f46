"""Finished runs of That's the Wrong Lung!: samples, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..benchmark import AnnotatedTask, Heatmap, ReportedBenchmark, ReportSources

if TYPE_CHECKING:
    from medfaith.logs.files import SampleFile

    from ..answers import Answers
    from ..page.cases import Case
    from ..page.pictures import Pixels
    from ..pictures import Drawn
    from ..tables import Table
    from .report import Scores
    from .runs import WrongLungRun

_GOLD, _SWAPPED = "medfaith_wrong_lung_gold", "medfaith_wrong_lung_swap_left_right"
ANNOTATED = AnnotatedTask(_GOLD, "wrong-lung-chest_imagenome", "gold", "test", "attention")
_ATTENDING = {f"oracle, {kind}": ("oracle", {"heatmap": kind}) for kind in ("box", "mirror", "image_only", "uniform")}


class _WrongLung(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[WrongLungRun]:
        from .runs import read_wrong_lung_runs

        return read_wrong_lung_runs(file, progress)

    def collect_answers(self, runs: Iterable[WrongLungRun]) -> tuple[list[Answers], list[str]]:
        from .answers import SCORED, read_answers

        all_runs = [*runs]
        left_out = [run for run in all_runs if run.setting.config not in SCORED]
        answers = [read_answers(run) for run in all_runs if run.setting.config in SCORED]
        return answers, [f"{run.source.task} is left out: more is not better there" for run in left_out]

    def score(self, runs: Sequence[WrongLungRun], sources: ReportSources) -> Scores:
        from .report import score

        return score(runs, sources)

    def build_tables(self, scores: Scores) -> tuple[list[Table], list[str]]:
        from .tables import build_wrong_lung_tables

        tables, notes = build_wrong_lung_tables(scores.models)
        return tables + scores.annotation_tables, notes + scores.annotation_notes

    def draw_figures(self, scores: Scores) -> Drawn:
        from .figures import draw_wrong_lung_figures

        return draw_wrong_lung_figures(scores.models, scores.abnormalities)

    def read_heatmaps(self, response: str) -> str | None:
        from medfaith.tasks.wrong_lung.adapter import read_reply

        return read_reply(response).heatmaps

    def find_heatmaps(self, runs: Sequence[WrongLungRun], ids: Collection[str]) -> Iterator[Heatmap]:
        from ..page.cases import IMAGE

        for run in (run for run in runs if "control" not in dict(run.source.told)):
            for row in run.rows:
                if row["id"] in ids and row["heatmaps"] is not None:
                    yield Heatmap(run.source.task, IMAGE, row["id"], run.name, row["heatmaps"])

    def collect_sentence_cases(self, runs: Sequence[WrongLungRun], pixels: Pixels) -> list[Case]:
        from .cases import collect_sentence_cases

        return collect_sentence_cases(self.title, runs, pixels)

    def draw_sheets(self, runs: Sequence[WrongLungRun], pixels: Pixels) -> Drawn:
        from .image_sheet import draw_heatmap_sheets

        return draw_heatmap_sheets(self, runs, pixels)


BENCHMARK = _WrongLung(
    name="wrong-lung",
    title="That's the Wrong Lung!",
    score_note=(
        "AUROC, average precision, IOU, precision and candidate accuracy are percentages, as that paper prints them, "
        "entropy and divergence nats; a sentence without attention has no score and is counted."
    ),
    task_prefix="medfaith_wrong_lung",
    task_group="medfaith_wrong_lung",
    table_files=r"wrong_lung_\w+",
    figure_prefix="figure_wrong_lung",
    figure_titles={
        "figure_wrong_lung_05": "What changes with the sentence or the boxes",
        "figure_wrong_lung_16": "Annotators' judgement by abnormality",
    },
    pixel_figures=(
        "figure_wrong_lung_images",
        "figure_wrong_lung_perturbed_images",
        "figure_wrong_lung_no_attn_images",
    ),
    audited_tasks=(_GOLD,),
    quickstart_tasks=(_GOLD,),
    quickstart_rows=110,
    needs_heatmaps=True,
    quickstart_runs={_GOLD: _ATTENDING, _SWAPPED: _ATTENDING},
    has_sentences=True,
    annotated_task=ANNOTATED,
)
