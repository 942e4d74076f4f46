"""Annotators' intuitiveness by abnormality: Figure 16 as a table (section B.9); wrong_lung_figures draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from medfaith.annotate.agreement import ModelScores, model_scores
from medfaith.annotate.answers import Judgement
from medfaith.loaders.errors import InputError

from .tables import MODEL, SEED, Column, Table, count, format_interval_note
from .wrong_lung_annotations import mean_interval

MOST = 10  # abnormalities in the figure
QUESTION = "intuitiveness"
_SUMMARIES = {"normal", "abnormal"}  # labels that speak of a sentence as a whole
_NOTE = (
    f"The {MOST} abnormalities that most of the judged report sentences affirm, by the labels of the rows; what is "
    "denied, and the labels normal and abnormal, are none. A sentence counts for each of its abnormalities. Sentences: "
    "those with the abnormality that were judged of any model. n: judgements, the last of each annotator and heatmap. "
    f"Means of 1 to 5 points. {format_interval_note('patients')}"
)


class OfAbnormality(NamedTuple):
    """What annotators said where a sentence affirms an abnormality. n_sentences: of how many, whatever the model."""

    name: str
    n_sentences: int
    models: Sequence[ModelScores]


def read_affirmed(data: str, judgements: Sequence[Judgement]) -> tuple[dict[str, frozenset[str]], list[str]]:
    """The abnormalities that each judged sentence of a report affirms, by the id of its row; and notes.

    Args:
        data: the build on which the heatmaps were made, or a Hub organisation.

    Raises:
        InputError: as `tasks.row_store.read`; a row whose sentence is another than the judged one.
    """
    from medfaith.annotate.session_setup import CONFIG, REPOSITORY, SPLIT
    from medfaith.tasks.row_store import read

    asked = {one.row_id: one.sentence for one in judgements if not one.custom and one.row_id is not None}
    stored = read(REPOSITORY, CONFIG, SPLIT, data).select_columns(["id", "sentence", "labels"])
    found = {}
    for row in cast(Any, stored):
        if row["id"] not in asked:
            continue
        if row["sentence"] != asked[row["id"]]:
            said = f"{row['sentence']!r:.80} is not the sentence that was judged"
            raise InputError(data, said, row=row["id"], action="name the build that the runs were made on")
        affirmed = (label["name"] for label in row["labels"] if label["context"] == "yes")
        found[row["id"]] = frozenset(affirmed) - _SUMMARIES
    n_lost = len(asked.keys() - found.keys())
    lost = f"{n_lost:,} of {len(asked):,} judged sentences are not in {data}; left out of Wrong Lung Figure 16"
    return found, [lost] if n_lost else []


def by_abnormality(judgements: Sequence[Judgement], affirmed: Mapping[str, Collection[str]]) -> list[OfAbnormality]:
    """What was said of each of the `MOST` most frequent abnormalities, the most frequent first, equal ones by name.

    Args:
        affirmed: id of a row -> its abnormalities, as of `read_affirmed`.
    """
    of_report = [one for one in judgements if not one.custom and one.row_id in affirmed]
    named = Counter(name for row_id in {one.row_id for one in of_report} for name in affirmed[str(row_id)])
    most = sorted(named.items(), key=lambda item: (-item[1], item[0]))[:MOST]
    return [
        OfAbnormality(name, n, model_scores([one for one in of_report if name in affirmed[str(one.row_id)]], SEED))
        for name, n in most
    ]


def abnormality_tables(found: Sequence[OfAbnormality]) -> list[Table]:
    """Figure 16 as a table; none without an abnormality."""
    columns = [
        Column("Abnormality", ("abnormality",)), Column("Sentences", ("n_sentences",), count), MODEL,
        Column("n", ("n",), count),
        Column("Intuitiveness [95% CI]", (QUESTION, f"{QUESTION}_ci_low", f"{QUESTION}_ci_high"), mean_interval),
    ]  # fmt: skip
    rows = [
        [of.name, of.n_sentences, model.model, model.n, *model.means[QUESTION][:3]]
        for of in found
        for model in of.models
    ]
    title = "Wrong Lung Figure 16: intuitiveness by abnormality"
    return [Table("wrong_lung_figure_16_abnormalities", title, columns, rows, [_NOTE])] if rows else []
