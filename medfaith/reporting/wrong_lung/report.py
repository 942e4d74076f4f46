"""Scores of That's the Wrong Lung! that tables and figures share: of attention, and of annotators' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from medfaith.annotate.answers import read_files

from ..benchmark import ReportSources
from ..tables import Table
from .abnormalities import AbnormalityScores, build_abnormality_tables, group_by_abnormality, read_affirmed
from .annotations import build_annotation_tables
from .correlations import build_annotation_correlations
from .runs import WrongLungRun
from .scores import ModelScores, score_models


class Scores(NamedTuple):
    """The scores of a report.

    Attributes:
        models: Scores of each model's attention.
        annotation_tables: Tables of annotators' answers about heatmaps.
        annotation_notes: Notes on them.
        abnormalities: Annotators' scores by abnormality; none unless the data have the labels.
    """

    models: list[ModelScores]
    annotation_tables: list[Table]
    annotation_notes: list[str]
    abnormalities: list[AbnormalityScores]


def score(runs: Sequence[WrongLungRun], sources: ReportSources) -> Scores:
    """Score the attention of each model and the answers of annotators.

    Args:
        runs: The runs.
        sources: Files of annotations, and the build with the labels of the annotated sentences.

    Returns:
        The scores.

    Raises:
        InputError: As `annotate.answers.read_files` and `abnormalities.read_affirmed`.
    """
    models = score_models(runs)
    if not sources.annotations:
        return Scores(models, [], [], [])
    judgements, file_notes = read_files(sources.annotations)
    correlation_tables, notes = build_annotation_correlations(models, judgements)
    tables = build_annotation_tables(judgements, file_notes) + correlation_tables
    if sources.data is None:
        note = "Wrong Lung Figure 16 needs the labels of the judged sentences: --data"
        return Scores(models, tables, [*notes, note], [])
    affirmed, unknown = read_affirmed(sources.data, judgements)
    abnormalities = group_by_abnormality(judgements, affirmed)
    return Scores(models, tables + build_abnormality_tables(abnormalities), [*notes, *unknown], abnormalities)
