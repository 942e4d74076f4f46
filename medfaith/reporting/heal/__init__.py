"""Finished runs of HEAL-MedVQA: samples, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..benchmark import Heatmap, ReportedBenchmark, select_uncontrolled

if TYPE_CHECKING:
    from medfaith.extractor import Extractor
    from medfaith.logs.files import SampleFile

    from ..answers import Answers
    from ..page.cases import CaseReading
    from ..page.pictures import Pixels
    from ..pictures import Drawn
    from ..tables import Table
    from .runs import HealRun

_VINDR = "medfaith_heal_vindr"


class _HealMedVQA(ReportedBenchmark):
    def read_runs(self, file: SampleFile, progress: Callable[[int], Any]) -> Sequence[HealRun]:
        from .runs import read_heal_runs

        return read_heal_runs(file, progress)

    def collect_answers(self, runs: Iterable[HealRun]) -> tuple[list[Answers], list[str]]:
        from .answers import read_answers

        return [read_answers(run) for run in runs], []

    def build_tables(self, scores: Sequence[HealRun]) -> tuple[list[Table], list[str]]:
        from .tables import build_heal_tables

        return build_heal_tables(scores), []

    def draw_figures(self, scores: Sequence[HealRun]) -> Drawn:
        from .figures import draw_heal_figures

        return draw_heal_figures(select_uncontrolled(scores))

    def read_again(self, runs: Sequence[HealRun], extractor: Extractor) -> list[Table]:
        from .readings import build_reading_tables

        return build_reading_tables(runs, extractor)

    def read_cases(self, run: HealRun) -> Iterator[tuple[str, CaseReading]]:
        from .cases import read_cases

        return read_cases(run)

    def get_text(self, response: str) -> str:
        from medfaith.tasks.heal.localization import read_reply

        return read_reply(response).text

    def read_heatmaps(self, response: str) -> str | None:
        from medfaith.tasks.heal.localization import read_reply

        return read_reply(response).heatmaps

    def find_heatmaps(self, runs: Sequence[HealRun], ids: Collection[str]) -> Iterator[Heatmap]:
        from ..page.cases import find_logged_heatmaps

        return find_logged_heatmaps(self, runs, ids)

    def draw_sheets(self, runs: Sequence[HealRun], pixels: Pixels) -> Drawn:
        from .image_sheet import draw_attention_sheet, draw_edit_sheet

        (edits, edit_notes), (attention, notes) = (
            draw_sheet(self, runs, pixels) for draw_sheet in (draw_edit_sheet, draw_attention_sheet)
        )
        return edits | attention, edit_notes + notes


BENCHMARK = _HealMedVQA(
    name="heal-medvqa",
    title="HEAL-MedVQA",
    score_note=(
        "F1, precision, recall, TPT and VPT are fractions, as that paper prints them; responses that could not be "
        "read or decline to answer are wrong, and both are counted (unread, declined)."
    ),
    task_prefix="medfaith_heal",
    task_group=_VINDR,
    table_files=r"heal_extractors|heal_readings|heal_stated_boxes|heal_(runs|(table|figure)_\d\d_\w+)",
    figure_prefix="figure_heal",
    figure_titles={
        "figure_heal_01": "Relevancy of image tokens and text tokens",
        "figure_heal_f1": "F1 of yes/no and of open-ended questions",
        "figure_heal_tpt_vpt": "TPT and VPT",
        "figure_heal_07": "F1 by how well a model localizes",
    },
    pixel_figures=("figure_heal_vpt_images", "figure_heal_attention_images"),
    audited_tasks=(
        f"{_VINDR}_closed",
        f"{_VINDR}_open",
        "medfaith_heal_mimic_closed",
        "medfaith_heal_mimic_open",
        "medfaith_heal_nih_closed",
        "medfaith_heal_nih_open",
    ),
    quickstart_runs={_VINDR: None},
    quickstart_tasks=(f"{_VINDR}_closed", f"{_VINDR}_open", f"{_VINDR}_closed_train", f"{_VINDR}_open_train"),
)
