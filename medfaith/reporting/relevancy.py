"""The relevancy of image tokens and text tokens (HEAL-MedVQA, Figure 1b) as a table, for all benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.logs.lines import SampleError
from medfaith.tasks.explain.token_relevancy import Relevancy, parse_relevancy

from .tables import MODEL, SEED, Column, Table, count_of

_ENDS = ("", "_ci_low", "_ci_high")
_NOTE = (
    "Relevancy: of each token before a yes or no, by gradient-weighted attention rollout over the layers of the "
    "language model; shares of an answer sum to 1. Text: all other tokens than the image's, also of the chat template. "
    "Text token first: answers in which a text token has more relevancy than any image token. n: answers with "
    "relevancy; those without a yes or no have none. The paper's figure shows an example and has no numbers."
)


class RelevancyRun(NamedTuple):
    """The relevancies of one run.

    Attributes:
        name: Name of the run.
        task: Name of the task.
        relevancies: The relevancy of each row; None for a row without.
        groups: The image or patient of each row, which the intervals draw.
    """

    name: str
    task: str
    relevancies: Sequence[Relevancy | None]
    groups: Sequence[str]


def read_relevancy(entry: Any) -> Relevancy | None:
    """Read the relevancy of a logged reply.

    Args:
        entry: The entry `relevancy` of the reply; None without one.

    Returns:
        The relevancy; None without an entry.

    Raises:
        SampleError: The entry has another form.
    """
    try:
        return parse_relevancy(entry)
    except ValueError as error:
        raise SampleError("filtered_resps", str(error)) from error


def build_relevancy_table(
    name: str, title: str, runs: Sequence[RelevancyRun], show: Callable[..., str], intervals: str
) -> list[Table]:
    """Build the table of relevancy by model and task.

    Args:
        name: Name of the table.
        title: Title of the table.
        runs: The runs; those without relevancy have no row.
        show: Formats a share with its interval.
        intervals: Note on the intervals.

    Returns:
        One table; none without relevancy.
    """
    rows = [_build_row(run) for run in runs if any(relevancy is not None for relevancy in run.relevancies)]
    titles = {"image": "Image [95% CI]", "text": "Text [95% CI]", "text_first": "Text token first [95% CI]"}
    columns = [
        MODEL,
        Column("Task", ("task",)),
        Column("n", ("n", "n_data"), count_of),
        *(Column(title, tuple(f"{share}{end}" for end in _ENDS), show) for share, title in titles.items()),
    ]
    return [Table(name, title, columns, rows, [_NOTE, intervals])] if rows else []


def _build_row(run: RelevancyRun) -> list[Any]:
    pairs = [(relevancy, group) for relevancy, group in zip(run.relevancies, run.groups, strict=True) if relevancy]
    groups = [group for _, group in pairs]
    shares = (
        [relevancy.image for relevancy, _ in pairs],
        [relevancy.text for relevancy, _ in pairs],
        [relevancy.text_peak > relevancy.image_peak for relevancy, _ in pairs],
    )
    estimates = [bootstrap_mean(values, groups=groups, seed=SEED, bounds=(0, 1)) for values in shares]
    ends = [number for estimate in estimates for number in (estimate.mean, estimate.low, estimate.high)]
    return [run.name, run.task, len(pairs), len(run.relevancies), *ends]
