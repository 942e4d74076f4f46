"""The sheet of images of That's the Wrong Lung!: heatmaps with the boxes of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ..benchmark import ReportedBenchmark
from ..image_sheets import LARGEST, Panel, Strip, draw_strips
from ..page.cases import Case
from ..page.pictures import Picture, Pixels
from ..pictures import Drawn, short
from .runs import WrongLungRun

MOST_MODELS = 4  # maximum number of models in a row


def draw_heatmap_sheet(benchmark: ReportedBenchmark, runs: Sequence[WrongLungRun], pixels: Pixels) -> Drawn:
    """Draw the sheet of heatmaps.

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
    cases = benchmark.collect_sentence_cases(runs, pixels)
    name = benchmark.pixel_figures[0]
    return draw_strips(name, cases, _build_heatmap_strip, {benchmark: runs}, pixels._replace(most=LARGEST))


def _build_heatmap_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a sentence; None without a heatmap."""
    picture = case_pictures[0]
    attended_models = [model for model, url in picture.heat if url]
    reading_by_model = {answer.model: answer.read.partition(" of")[0] for answer in case.answers}
    panels = [Panel("the boxes", picture, ["boxes"])]
    panels += [
        Panel(f"{short(model, 30)}\n{reading_by_model.get(model, '')}", picture, ["boxes", model])
        for model in attended_models[:MOST_MODELS]
    ]
    return Strip(case.question, panels) if attended_models else None
