"""Annotators' intuitiveness scores by abnormality: Figure 16 as a table (section B.9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from medfaith.annotate.agreement import ModelScores, compute_model_scores
from medfaith.annotate.answers import Judgement
from medfaith.loaders.errors import InputError

from ..tables import MODEL, SEED, Column, Table, count, format_interval_note
from . import ANNOTATED
from .annotations import format_mean_interval

MOST = 10  # abnormalities in the figure
QUESTION = "intuitiveness"
_SUMMARIES = {"normal", "abnormal"}  # labels of a whole sentence
_NOTE = (
    f"The {MOST} abnormalities that most of the judged report sentences affirm, by the labels of the rows; what is "
    "denied, and the labels normal and abnormal, are none. A sentence counts for each of its abnormalities. Sentences: "
    "those with the abnormality that were judged of any model. n: judgements, the last of each annotator and heatmap. "
    f"Means of 1 to 5 points. {format_interval_note('patients')}"
)


class AbnormalityScores(NamedTuple):
    """Annotators' judgements of sentences that affirm an abnormality.

    Attributes:
        name: The abnormality.
        n_sentences: Number of sentences over all models.
        models: Scores of each model.
    """

    name: str
    n_sentences: int
    models: Sequence[ModelScores]


def read_affirmed(data: str, judgements: Sequence[Judgement]) -> tuple[dict[str, frozenset[str]], list[str]]:
    """Read the abnormalities that each judged sentence of a report affirms.

    Args:
        data: The build behind the heatmaps, or a Hub organisation.
        judgements: Annotators' judgements.

    Returns:
        Row id -> abnormalities; and a note on sentences that are not in the data.

    Raises:
        InputError: As `tasks.row_store.read`; or the sentence of a row differs from the judged sentence.
    """
    from medfaith.tasks.row_store import read

    sentence_by_id = {
        judgement.row_id: judgement.sentence
        for judgement in judgements
        if not judgement.custom and judgement.row_id is not None
    }
    rows = read(ANNOTATED.repository, ANNOTATED.config, ANNOTATED.split, data)
    stored = rows.select_columns(["id", "sentence", "labels"])
    affirmed_by_id = {}
    for row in cast(Any, stored):
        if row["id"] not in sentence_by_id:
            continue
        if row["sentence"] != sentence_by_id[row["id"]]:
            problem = f"{row['sentence']!r:.80} is not the sentence that was judged"
            raise InputError(data, problem, row=row["id"], action="name the build that the runs were made on")
        affirmed = (label["name"] for label in row["labels"] if label["context"] == "yes")
        affirmed_by_id[row["id"]] = frozenset(affirmed) - _SUMMARIES
    n_lost = len(sentence_by_id.keys() - affirmed_by_id.keys())
    note = f"{n_lost:,} of {len(sentence_by_id):,} judged sentences are not in {data}; left out of Wrong Lung Figure 16"
    return affirmed_by_id, [note] if n_lost else []


def group_by_abnormality(
    judgements: Sequence[Judgement], affirmed: Mapping[str, Collection[str]]
) -> list[AbnormalityScores]:
    """Group judgements by the `MOST` most frequent abnormalities.

    Args:
        judgements: Annotators' judgements.
        affirmed: Row id -> its abnormalities, from `read_affirmed`.

    Returns:
        The scores, the most frequent abnormality first, equally frequent ones by name.
    """
    report_judgements = [judgement for judgement in judgements if not judgement.custom and judgement.row_id in affirmed]
    n_by_abnormality = Counter(
        name for row_id in {judgement.row_id for judgement in report_judgements} for name in affirmed[str(row_id)]
    )
    most_frequent = sorted(n_by_abnormality.items(), key=lambda item: (-item[1], item[0]))[:MOST]
    return [
        AbnormalityScores(
            name,
            n,
            compute_model_scores(
                [judgement for judgement in report_judgements if name in affirmed[str(judgement.row_id)]], SEED
            ),
        )
        for name, n in most_frequent
    ]


def build_abnormality_tables(scores: Sequence[AbnormalityScores]) -> list[Table]:
    """Build the table of Figure 16.

    Args:
        scores: Scores by abnormality.

    Returns:
        One table; none without an abnormality.
    """
    columns = [
        Column("Abnormality", ("abnormality",)), Column("Sentences", ("n_sentences",), count), MODEL,
        Column("n", ("n",), count),
        Column("Intuitiveness [95% CI]", (QUESTION, f"{QUESTION}_ci_low", f"{QUESTION}_ci_high"), format_mean_interval),
    ]  # fmt: skip
    rows = [
        [abnormality.name, abnormality.n_sentences, model.model, model.n, *model.means[QUESTION][:3]]
        for abnormality in scores
        for model in abnormality.models
    ]
    title = "Wrong Lung Figure 16: intuitiveness by abnormality"
    return [Table("wrong_lung_figure_16_abnormalities", title, columns, rows, [_NOTE])] if rows else []
