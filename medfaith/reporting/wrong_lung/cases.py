"""Sentences of That's the Wrong Lung! with the scores of attention, for a page with images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..page.cases import IMAGE, Answer, Case
from ..page.pictures import Pixels, explain_missing, load_rows
from .runs import GOLD, WrongLungRun


def collect_sentence_cases(title: str, runs: Sequence[WrongLungRun], pixels: Pixels) -> list[Case]:
    """Collect the sentences of reports (gold) that were asked with the image.

    Args:
        title: Title of the benchmark.
        runs: The runs.
        pixels: Sources of the pictures.

    Returns:
        The cases; none if the data do not have the sentences.
    """
    gold = [run for run in runs if run.setting.config == GOLD and "control" not in dict(run.source.told)]
    rows = {(run.source.task, row["id"]) for run in gold for row in run.originals}
    return build_sentence_cases(title, gold, sorted(rows), pixels)


def build_sentence_cases(
    title: str, runs: Sequence[WrongLungRun], rows: Sequence[tuple[str, str]], pixels: Pixels
) -> list[Case]:
    """Build the cases of rows, with the scores of all runs that asked about them.

    Args:
        title: Title of the benchmark.
        runs: Runs without a control.
        rows: Task and id of each row.
        pixels: Sources of the pictures.

    Returns:
        The cases in the order of `rows`, without those whose data do not have the sentences.
    """
    answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    findings: dict[tuple[str, str], str] = {}
    asked = {*rows}
    for run in runs:
        for row in run.rows:
            key, auroc = (run.source.task, row["id"]), row["values"]["auroc"]
            if key in asked:
                reading = row["state"] if auroc is None else f"AUROC {auroc:.3f} of the attention, against the boxes"
                outcome = "no score" if auroc is None else "scored"
                answers[key].append(Answer(run.name, IMAGE, "", reading, "", "", outcome))
                findings[key] = ", ".join(name for name, is_in in row["subsets"].items() if is_in)
    texts = {}
    for task in {task for task, _ in rows}:
        if not explain_missing(task, pixels):
            _, raw = load_rows(task, IMAGE, pixels)
            texts |= {(task, row_id): text for row_id, text in zip(raw["id"], raw["sentence"], strict=True)}
    return [
        Case(title, *key, texts[key], (), "where the boxes are", findings[key], tuple(answers[key]))
        for key in rows
        if key in texts
    ]
