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
    answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    findings: dict[tuple[str, str], str] = {}
    for run in gold:
        for row in run.originals:
            key, auroc = (run.source.task, row["id"]), row["values"]["auroc"]
            reading = row["state"] if auroc is None else f"AUROC {auroc:.3f} of the attention, against the boxes"
            answers[key].append(Answer(run.name, IMAGE, "", reading, "", "", "no score" if auroc is None else "scored"))
            findings[key] = ", ".join(name for name, is_in in row["subsets"].items() if is_in)
    texts = {}
    for task in {task for task, _ in answers}:
        if not explain_missing(task, pixels):
            _, raw = load_rows(task, IMAGE, pixels)
            texts |= {(task, row_id): text for row_id, text in zip(raw["id"], raw["sentence"], strict=True)}
    return [
        Case(title, *key, texts[key], (), "where the boxes are", findings[key], tuple(model_answers))
        for key, model_answers in sorted(answers.items())
        if key in texts
    ]
