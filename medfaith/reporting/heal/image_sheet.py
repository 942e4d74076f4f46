"""The sheets of images: VPT's before and after their edit, and where models look (Figures 1a and 11)."""

from __future__ import annotations

from collections.abc import Sequence

from ..benchmark import ReportedBenchmark
from ..image_sheets import LARGEST, MOST_MODELS, Panel, Strip, draw_strips
from ..page.cases import IMAGE, Case, collect_cases
from ..page.pictures import BEFORE, Picture, Pixels
from ..pictures import Drawn, shorten_names
from .localization import select_localizing
from .runs import HealRun

N_CASES = 8 * LARGEST  # questions; half of them are originals
_EDITS = f"The first {LARGEST} edits of {N_CASES} questions of VPT, taken at equal steps."
_ATTENTION = (
    f"Up to {LARGEST} questions, taken at equal steps of all yes/no questions with a heatmap, with up to {MOST_MODELS} "
    "models. Orange: the heatmap of the yes or no. Green: outline of the anatomy in the question."
)


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
    return draw_strips(
        benchmark.pixel_figures[0], cases, _build_edit_strip, vpt_runs, pixels._replace(most=N_CASES), _EDITS
    )


def _build_edit_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a perturbed question; None for an original, which has no edit."""
    before = next((picture for picture in case_pictures if picture.shown == BEFORE), None)
    if before is None:
        return None
    edited = case_pictures[0]
    answers = [answer for answer in case.answers if answer.shown == IMAGE]
    labels = shorten_names([answer.model for answer in answers], 24)
    readings = "; ".join(f"{labels[answer.model]}: {answer.read}" for answer in answers)
    panels = [
        Panel("before the edit", before._replace(region=edited.region), ["region"]), Panel("as asked", edited, []),
    ]  # fmt: skip
    return Strip(f"{case.question}\nread of the edited image: {readings}", panels)


def draw_attention_sheet(benchmark: ReportedBenchmark, runs: Sequence[HealRun], pixels: Pixels) -> Drawn:
    """Draw the sheet of heatmaps with the mask of the anatomy.

    Args:
        benchmark: The benchmark.
        runs: Its runs.
        pixels: Sources of the pictures.

    Returns:
        The figure by file name, none without heatmaps; and notes on tasks without pictures.

    Raises:
        InputError: As `page.pictures.pictures`.
        ImageError: As `page.pictures.pictures`.
    """
    closed_runs = [run for run in select_localizing(runs) if run.setting.ask == "closed"]
    if pixels.heatmaps is None or not closed_runs:
        return {}, []
    ids = {row.id for run in closed_runs for row in run.rows if row.dice is not None}
    heatmaps = benchmark.find_heatmaps(closed_runs, ids)
    attended = {(heatmap.task, heatmap.row_id) for heatmap in heatmaps if heatmap.condition == IMAGE}
    runs_of_benchmark = {benchmark: closed_runs}
    cases = [case for case in collect_cases(runs_of_benchmark).cases if (case.task, case.id) in attended]
    return draw_strips(
        benchmark.pixel_figures[1], cases, _build_attention_strip, runs_of_benchmark, pixels._replace(most=LARGEST),
        _ATTENTION,
    )  # fmt: skip


def _build_attention_strip(case: Case, case_pictures: Sequence[Picture]) -> Strip | None:
    """Build the strip of a question; None without a heatmap."""
    picture = case_pictures[0]
    models = [model for model, url in picture.heat if url]
    reading_by_model = {answer.model: answer.read or answer.outcome for answer in case.answers}
    labels = shorten_names(models, 30)
    panels = [Panel("the anatomy", picture, ["region"])]
    panels += [
        Panel(f"{labels[model]}\nread: {reading_by_model.get(model, '')}", picture, ["region", model])
        for model in models[:MOST_MODELS]
    ]
    return Strip(f"{case.question}\nright answer: {case.gold}", panels) if models else None
