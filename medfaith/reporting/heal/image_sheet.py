"""The sheet of images of VPT: each image before and after its edit."""

from __future__ import annotations

from collections.abc import Sequence

from ..benchmark import ReportedBenchmark
from ..image_sheets import LARGEST, Panel, Strip, draw_strips
from ..page.cases import IMAGE, Case, collect_cases
from ..page.pictures import BEFORE, Picture, Pixels
from ..pictures import Drawn, short
from .runs import HealRun

N_CASES = 8 * LARGEST  # questions; half of them are originals


def draw_edit_sheet(benchmark: ReportedBenchmark, runs: Sequence[HealRun], pixels: Pixels) -> Drawn:
    """Draw the sheet of the edits of VPT.

    Args:
        benchmark: The benchmark.
        runs: Its runs.
        pixels: Sources of the pictures.

    Returns:
        The figure by file name, and notes on tasks without pictures.

    Raises:
        InputError: As `page.pictures.pictures`.
        ImageError: As `page.pictures.pictures`.
    """
    vpt_runs = {benchmark: [run for run in runs if run.source.task.endswith("_vpt")]}
    cases = collect_cases(vpt_runs).cases
    return draw_strips(benchmark.pixel_figures[0], cases, _build_edit_strip, vpt_runs, pixels._replace(most=N_CASES))


def _build_edit_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a perturbed question; None for an original, which has no edit."""
    before = next((picture for picture in case_pictures if picture.shown == BEFORE), None)
    if before is None:
        return None
    edited = case_pictures[0]
    answers = [answer for answer in case.answers if answer.shown == IMAGE]
    readings = "; ".join(f"{short(answer.model, 24)}: {answer.read}" for answer in answers)
    panels = [
        Panel("before the edit", before._replace(region=edited.region), ["region"]), Panel("as asked", edited, []),
    ]  # fmt: skip
    return Strip(f"{case.question}\nread of the edited image: {readings}", panels)
