"""Answers read twice, by words and by a language model: agreement of both readings, and the scores by each.

All other tables use the reading by words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import agreement, compare_closed_readings
from medfaith.extractor import Extractor
from medfaith.logs.lines import responses

from .contrabench.names import format_base_name, protocol_name
from .contrabench.runs import Run
from .contrabench.tables import build_for_each_layout
from .heal.runs import SOURCES, HealRun
from .heal.tables import ASKED, INTERVALS, OPEN_COLUMNS, get_sort_key
from .tables import MODEL, PROMPT, PROTOCOL, SIZE, Column, Table, count, fraction, fraction_interval, percent

_COUNTS = ("n_unread_ours", "n_unread_theirs", "n_only_ours", "n_only_theirs")
_TASK = Column(None, ("task",))
_KAPPA = Column("κ", ("kappa",), fraction)
_COUNTED = [
    Column("Unread by words", ("n_unread_words",), count),
    Column("Unread by the model", ("n_unread_model",), count),
    Column("Read by words only", ("n_only_words",), count),
    Column("Read by the model only", ("n_only_model",), count),
]
_HEADLINE = {"closed": ("F1", "yes_no_f1"), "tpt": ("TPT", "tpt"), "vpt": ("VPT", "vpt")}  # name and key of the score
_CI = ("", "_ci_low", "_ci_high")


def build_second_readings(
    runs: Sequence[Run], heal: Sequence[HealRun], extractor: Extractor
) -> tuple[list[Table], list[str]]:
    """Build a table each for choices, yes/no answers and diseases.

    Args:
        runs: Runs of CXR-ContraBench.
        heal: Runs of HEAL-MedVQA.
        extractor: The language model.

    Returns:
        The tables of the answers that exist, and a note if there are none.
    """
    closed = sorted((run for run in heal if run.setting.ask != "open"), key=get_sort_key)
    opened = sorted((run for run in heal if run.setting.ask == "open"), key=get_sort_key)
    tables = [
        *build_for_each_layout(
            runs, lambda layout_runs: [_build_choice_table(layout_runs, extractor)] if layout_runs else []
        ),
        *([_build_yes_no_table(closed, extractor)] if closed else []),
        *([_build_disease_table(opened, extractor)] if opened else []),
    ]
    note = f"there are no answers for a language model to read: the extractor {extractor.name} was not used"
    return tables, [] if tables else [note]


def _build_choice_table(runs: Sequence[Run], extractor: Extractor) -> Table:
    texts, wordings = [], []
    for run in runs:
        response_by_id = dict(responses(run.source.path))
        texts += [response_by_id[row_id] for row_id in run.id]
        wordings += [run.wordings[wording] for wording in run.wording]
    choices = iter(language_model.choices(texts, wordings, extractor.ask))
    rows = []
    for run in runs:
        model_choices = [next(choices) for _ in run.id]
        second_run = replace(
            run, base=np.array([-1 if choice is None else choice for choice in model_choices], dtype=np.int32)
        )
        agreement_scores = compare_closed_readings(
            [None if choice < 0 else int(choice) for choice in run.base], model_choices
        )
        rows.append([run.model_name, format_base_name(run.setting), protocol_name(run), run.changed_values,
                     run.n, run.n_data, *(agreement_scores[name] for name in ("same", "kappa", *_COUNTS)),
                     *(np.mean(reading.correct()) for reading in (run, second_run)), run.source.task])  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording", ("forms",)), SIZE,
        Column("Same choice %", ("same_choice",), percent), _KAPPA, *_COUNTED,
        Column("Base acc. by words", ("words_accuracy",), percent),
        Column("Base acc. by the model", ("model_accuracy",), percent), _TASK,
    ]  # fmt: skip
    title = "Choices read twice: by words and by a language model"
    return Table("contrabench_readings", title, columns, rows, [_format_note(extractor, "choices")])


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
                     *(agreement_scores[name] for name in ("same", "kappa", *_COUNTS)), *accuracies, title, *scores,
                     run.source.task])  # fmt: skip
    columns = [
        MODEL, Column("Source", ("source",)), Column("Questions", ("questions",)), SIZE,
        Column("Same answer", ("same_answer",), fraction), _KAPPA, *_COUNTED,
        Column("Accuracy by words", ("words_accuracy",), fraction),
        Column("Accuracy by the model", ("model_accuracy",), fraction), Column("Score", ("score",)),
        *(Column(f"by {run_scores} [95% CI]", tuple(f"{name}_score{end}" for end in _CI), fraction_interval)
          for run_scores, name in (("words", "words"), ("the model", "model"))), _TASK,
    ]  # fmt: skip
    title = "HEAL yes/no answers read twice: by words and by a language model"
    score_note = (
        "Accuracy: share of all answers that are right, perturbed ones among them. Score: that of Tables 2 to 4."
    )
    return Table(
        "heal_readings", title, columns, rows, [f"{_format_note(extractor, 'answers')} {score_note} {INTERVALS}"]
    )


def _build_disease_table(runs: Sequence[HealRun], extractor: Extractor) -> Table:
    model_readings = iter(language_model.diseases([row.response for run in runs for row in run.rows], extractor.ask))
    rows = []
    for run in runs:
        readings = [run.named, [next(model_readings) for _ in run.rows]]
        agreement_scores = agreement(readings[0], readings[1])
        cells = [scores[name] for scores in map(run.open_scores, readings) for c in OPEN_COLUMNS for name in c.names]
        rows.append([run.name, SOURCES[run.setting.config], run.n, run.n_data, *cells,
                     *(agreement_scores[name] for name in ("exact", "jaccard", "kappa", *_COUNTS[2:])),
                     run.source.task])  # fmt: skip
    columns = [MODEL, Column("Source", ("source",)), SIZE]
    for title, name in (("By words", "words"), ("By the model", "model")):
        columns += [
            column._replace(title=f"{title}: {column.title}", names=tuple(f"{name}_{n}" for n in column.names))
            for column in OPEN_COLUMNS
        ]
    columns += [
        Column("Same labels", ("same_labels",), fraction), Column("Jaccard", ("jaccard",), fraction), _KAPPA,
        *_COUNTED[2:], _TASK,
    ]  # fmt: skip
    notes = [
        f"By the model: labels read by {extractor.name}, asked with this package's prompt (the paper names Llama 3.1 "
        "8B and prints none). By words: the scores of Table 2. Same labels: share of answers with equal label sets; "
        "Jaccard: labels in both over labels in either; κ: Cohen's, over every answer and label. An answer that is "
        f"unread has no label. {INTERVALS}"
    ]
    return Table("heal_extractors", "HEAL open-ended labels: two extractors", columns, rows, notes)


def _format_note(extractor: Extractor, noun: str) -> str:
    return (
        f"By the model: {noun} read by {extractor.name}, asked with this package's prompt. κ: Cohen's. In both, unread "
        "is a reading of its own. Read by one only: the other could not read it."
    )
