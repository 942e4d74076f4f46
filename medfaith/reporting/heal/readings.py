"""Yes/no answers and diseases read twice, by words and by a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import agreement, compare_closed_readings
from medfaith.evaluate_metrics.reading.disease_names import list_classes
from medfaith.extractor import Extractor

from ..second_readings import COUNTED, COUNTS, KAPPA, TASK, format_reading_note
from ..tables import MODEL, SIZE, Column, Table, fraction, fraction_interval
from .runs import SOURCES, HealRun
from .tables import ASKED, INTERVALS, OPEN_COLUMNS, get_sort_key

_HEADLINE = {"closed": ("F1", "yes_no_f1"), "tpt": ("TPT", "tpt"), "vpt": ("VPT", "vpt")}  # name and key of the score
_CI = ("", "_ci_low", "_ci_high")


def build_reading_tables(runs: Sequence[HealRun], extractor: Extractor) -> list[Table]:
    """Build the tables of yes/no answers and of diseases that are read twice.

    Args:
        runs: The runs.
        extractor: The language model.

    Returns:
        The tables of the answers that exist.
    """
    closed = sorted((run for run in runs if run.setting.ask in _HEADLINE), key=get_sort_key)
    opened = sorted((run for run in runs if run.setting.ask == "open"), key=get_sort_key)
    return [
        *([_build_yes_no_table(closed, extractor)] if closed else []),
        *([_build_disease_table(opened, extractor)] if opened else []),
    ]


def _build_yes_no_table(runs: Sequence[HealRun], extractor: Extractor) -> Table:
    answers = [row for run in runs for row in run.rows]
    texts, questions = [row.response for row in answers], [row.question for row in answers]
    model_readings = iter(language_model.yes_no(texts, questions, extractor.ask))
    rows = []
    for run in runs:
        readings = [run.said, [next(model_readings) for _ in run.rows]]
        agreement_scores = compare_closed_readings(
            *([reading if reading in ("yes", "no") else None for reading in side] for side in readings)
        )
        gold = [row.answer for row in run.rows]
        accuracies = [
            np.mean([reading == right for reading, right in zip(side, gold, strict=True)]) for side in readings
        ]
        title, key = _HEADLINE[run.setting.ask]
        scores = [run_scores[f"{key}{end}"] for run_scores in map(run.closed_scores, readings) for end in _CI]
        rows.append([run.name, SOURCES[run.setting.config], ASKED[run.setting.ask], run.n, run.n_data,
                     *(agreement_scores[name] for name in ("same", "kappa", *COUNTS)), *accuracies, title, *scores,
                     run.source.task])  # fmt: skip
    columns = [
        MODEL, Column("Source", ("source",)), Column("Questions", ("questions",)), SIZE,
        Column("Same answer", ("same_answer",), fraction), KAPPA, *COUNTED,
        Column("Accuracy by words", ("words_accuracy",), fraction),
        Column("Accuracy by the model", ("model_accuracy",), fraction), Column("Score", ("score",)),
        *(Column(f"by {run_scores} [95% CI]", tuple(f"{name}_score{end}" for end in _CI), fraction_interval)
          for run_scores, name in (("words", "words"), ("the model", "model"))), TASK,
    ]  # fmt: skip
    title = "HEAL yes/no answers read twice: by words and by a language model"
    score_note = (
        "Accuracy: share of all answers that are right, perturbed ones among them. Score: that of Tables 2 to 4."
    )
    return Table(
        "heal_readings", title, columns, rows, [f"{format_reading_note(extractor, 'answers')} {score_note} {INTERVALS}"]
    )


def _build_disease_table(runs: Sequence[HealRun], extractor: Extractor) -> Table:
    vocabularies = [list_classes(run.rows[0].id) for run in runs]
    responses: dict[tuple[str, ...], list[str]] = {}
    for run, classes in zip(runs, vocabularies, strict=True):
        responses.setdefault(classes, []).extend(row.response for row in run.rows)
    model_readings = {
        classes: iter(language_model.diseases(texts, extractor.ask, classes)) for classes, texts in responses.items()
    }
    rows = []
    for run, classes in zip(runs, vocabularies, strict=True):
        readings = [run.named, [next(model_readings[classes]) for _ in run.rows]]
        agreement_scores = agreement(readings[0], readings[1], classes)
        cells = [scores[name] for scores in map(run.open_scores, readings) for c in OPEN_COLUMNS for name in c.names]
        rows.append([run.name, SOURCES[run.setting.config], run.n, run.n_data, *cells,
                     *(agreement_scores[name] for name in ("exact", "jaccard", "kappa", *COUNTS[2:])),
                     run.source.task])  # fmt: skip
    columns = [MODEL, Column("Source", ("source",)), SIZE]
    for title, name in (("By words", "words"), ("By the model", "model")):
        columns += [
            column._replace(title=f"{title}: {column.title}", names=tuple(f"{name}_{n}" for n in column.names))
            for column in OPEN_COLUMNS
        ]
    columns += [
        Column("Same labels", ("same_labels",), fraction), Column("Jaccard", ("jaccard",), fraction), KAPPA,
        *COUNTED[2:], TASK,
    ]  # fmt: skip
    notes = [
        f"By the model: labels read by {extractor.name}, asked with this package's prompt (the paper names Llama 3.1 "
        "8B and prints none). By words: the scores of Table 2. Same labels: share of answers with equal label sets; "
        "Jaccard: labels in both over labels in either; κ: Cohen's, over every answer and label. An answer that is "
        f"unread has no label. {INTERVALS}"
    ]
    return Table("heal_extractors", "HEAL open-ended labels: two extractors", columns, rows, notes)
