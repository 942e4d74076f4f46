"""Choices read twice, by words and by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import compare_closed_readings
from medfaith.extractor import Extractor
from medfaith.logs.lines import responses

from ..second_readings import COUNTED, COUNTS, KAPPA, TASK, format_reading_note
from ..tables import MODEL, PROMPT, PROTOCOL, SIZE, Column, Table, percent
from .names import format_base_name, protocol_name
from .runs import Run


def build_choice_table(runs: Sequence[Run], extractor: Extractor) -> Table:
    """Build the table of choices that are read twice.

    Args:
        runs: The runs.
        extractor: The language model.

    Returns:
        The table.
    """
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
                     run.n, run.n_data, *(agreement_scores[name] for name in ("same", "kappa", *COUNTS)),
                     *(np.mean(reading.correct()) for reading in (run, second_run)), run.source.task])  # fmt: skip
    columns = [
        MODEL, PROMPT, PROTOCOL, Column("Changed wording", ("forms",)), SIZE,
        Column("Same choice %", ("same_choice",), percent), KAPPA, *COUNTED,
        Column("Base acc. by words", ("words_accuracy",), percent),
        Column("Base acc. by the model", ("model_accuracy",), percent), TASK,
    ]  # fmt: skip
    title = "Choices read twice: by words and by a language model"
    return Table("contrabench_readings", title, columns, rows, [format_reading_note(extractor, "choices")])
