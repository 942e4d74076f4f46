"""The sheets of images: heatmaps of sentences with their boxes, of a sentence under each perturbation, of "No Attn"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from ..benchmark import ReportedBenchmark
from ..image_sheets import LARGEST, MOST_MODELS, Panel, Strip, draw_strips
from ..page.cases import Case
from ..page.pictures import Picture, Pixels
from ..pictures import Drawn, shorten_names
from .cases import build_sentence_cases
from .runs import GOLD, SWAPPED, SYNTHETIC, WrongLungRun
from .scores import PERTURBATIONS

Row = tuple[str, str]  # task, id of the row
_LAYERS = (
    f"Orange: the attention of up to {MOST_MODELS} models. A heatmap fades by the share on no region; the square "
    "“No Attn” has this opacity. Green: the boxes."
)
_SENTENCES = f"Up to {LARGEST} sentences, taken at equal steps of all with a heatmap. {_LAYERS}"
_PERTURBED = f"The sentence with the most perturbations, of several the first by its id. {_LAYERS}"
_NO_ATTN = f"Of each model with attention on no region the sentence that has the most. {_LAYERS}"


def draw_heatmap_sheets(benchmark: ReportedBenchmark, runs: Sequence[WrongLungRun], pixels: Pixels) -> Drawn:
    """Draw the sheets of heatmaps.

    Args:
        benchmark: The benchmark.
        runs: Its runs.
        pixels: Sources of the pictures.

    Returns:
        The figures by file name, and notes on tasks without pictures.

    Raises:
        InputError: As `page.pictures.pictures`.
        ImageError: As `page.pictures.pictures`.
    """
    runs = [run for run in runs if "control" not in dict(run.source.told)]
    plain, perturbed, no_attn = benchmark.pixel_figures
    shares = {
        (run.source.task, row["id"], run.name): row["values"]["no_attn"] or 0.0 for run in runs for row in run.rows
    }
    attended = {(run.source.task, row["id"]) for run in runs for row in run.rows if row["heatmaps"] is not None}
    cases = [case for case in benchmark.collect_sentence_cases(runs, pixels) if (case.task, case.id) in attended]
    sheets = [(plain, runs, cases, _SENTENCES)]
    if pixels.heatmaps is not None:
        labels = select_perturbed_rows(runs)
        perturbed_cases = build_sentence_cases(benchmark.title, runs, [*labels], pixels)
        perturbed_cases = [case._replace(question=f"{labels[case.task, case.id]}: {case.question}")
                           for case in perturbed_cases]  # fmt: skip
        no_attn_runs, no_attn_rows = select_no_attn_rows(runs)
        no_attn_cases = build_sentence_cases(benchmark.title, no_attn_runs, no_attn_rows, pixels)
        sheets += [(perturbed, runs, perturbed_cases, _PERTURBED), (no_attn, no_attn_runs, no_attn_cases, _NO_ATTN)]
    figures, notes = {}, []
    build_strip = partial(_build_heatmap_strip, shares=shares)
    for name, sheet_runs, cases, choice in sheets:
        drawn, sheet_notes = draw_strips(
            name, cases, build_strip, {benchmark: sheet_runs}, pixels._replace(most=LARGEST), choice
        )
        figures |= drawn
        notes += [note for note in sheet_notes if note not in notes]
    return figures, notes


def select_perturbed_rows(runs: Sequence[WrongLungRun]) -> dict[Row, str]:
    """Select the rows of the sentence that has heatmaps under the most perturbations; of several the first by its id.

    Args:
        runs: The runs.

    Returns:
        Row -> name of its perturbation, the original first; none without a perturbation.
    """
    names = {GOLD: "Original", **{config: name for config, (name, _) in PERTURBATIONS.items()}}
    rows_by_sentence: dict[str, dict[str, Row]] = defaultdict(dict)  # sentence -> config -> row
    for run in sorted(runs, key=lambda run: run.setting.config != GOLD):
        if run.setting.config in names:
            for row in run.rows:
                config = row["perturbation"] or GOLD
                if row["heatmaps"] is not None and (run.setting.config != SWAPPED or config == SWAPPED):
                    # The original of a swapped condition is the synthetic sentence of the original.
                    sentence = (row["original_id"] or row["id"]).removesuffix(f":{SYNTHETIC}")
                    rows_by_sentence[sentence].setdefault(config, (run.source.task, row["id"]))
    if not rows_by_sentence:
        return {}
    sentence = min(rows_by_sentence, key=lambda sentence: (-len(rows_by_sentence[sentence]), sentence))
    rows = rows_by_sentence[sentence]
    return {rows[config]: name for config, name in names.items() if config in rows} if len(rows) > 1 else {}


def select_no_attn_rows(runs: Sequence[WrongLungRun]) -> tuple[list[WrongLungRun], list[Row]]:
    """Select the runs with attention on no region, and the original sentence of each that has the most.

    Args:
        runs: The runs.

    Returns:
        The first runs, as many as a row of a sheet shows; and their different rows, of several the first by its id.
    """
    rows: dict[WrongLungRun, Row] = {}
    for run in (run for run in runs if run.setting.config == GOLD):
        shares = {row["id"]: row["values"]["no_attn"] or 0.0 for row in run.originals if row["heatmaps"] is not None}
        row_id = min(shares, key=lambda row_id: (-shares[row_id], row_id), default=None)
        if row_id is not None and shares[row_id] > 0 and len(rows) < MOST_MODELS:
            rows[run] = run.source.task, row_id
    return [*rows], [*dict.fromkeys(rows.values())]


def _build_heatmap_strip(
    case: Case, case_pictures: Sequence[Picture], shares: Mapping[tuple[str, str, str], float]
) -> Strip | None:
    """Build the strip of a sentence; None without a heatmap. `shares` has the attention on no region."""
    picture = case_pictures[0]
    attended_models = [model for model, url in picture.heat if url]
    reading_by_model = {answer.model: answer.read.partition(" of")[0] for answer in case.answers}
    labels = shorten_names(attended_models, 30)
    panels = [Panel("the boxes", picture, ["boxes"])]
    for model in attended_models[:MOST_MODELS]:
        share = shares.get((case.task, case.id, model), 0.0)
        reading = reading_by_model.get(model, "") + (f", No Attn {share:.0%}" if share else "")
        panels.append(Panel(f"{labels[model]}\n{reading}", picture, ["boxes", model], share))
    return Strip(case.question, panels) if attended_models else None
