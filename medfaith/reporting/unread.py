"""Warnings about runs: many unread, declined or cut answers, rows without an answer, equal answers, missing images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from medfaith.evaluate_metrics.reading.reasoning import LIMIT as READ
from medfaith.logs.files import SampleFile
from medfaith.logs.lines import responses
from medfaith.tasks import BASELINES
from medfaith.tasks.controls import BLIND
from medfaith.tasks.models.advice import FEW, IF_SAME, IF_UNREAD, MORE_TOKENS, join_lines, shortened
from medfaith.tasks.outcomes import IF_DECLINED

LIMIT = 0.02  # a report warns above this share of unread, declined or cut answers
SHOWN = 3  # answers quoted in a warning


class ReadRun(Protocol):
    """A run whose answers are words (`logs.lines.Logged.in_words`)."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def model_name(self) -> str:
        """Name of the model, with its adapter."""
        ...

    @property
    def source(self) -> SampleFile:
        """The log."""
        ...

    @property
    def n(self) -> int:
        """Number of questions."""
        ...

    @property
    def unread(self) -> Collection[str]:
        """Ids of the questions whose answers could not be read."""
        ...

    @property
    def declined(self) -> Collection[str]:
        """Ids of the questions that the model declined to answer."""
        ...


def compute_unread_share(run: ReadRun) -> float:
    """Compute the share of answers that could not be read.

    Args:
        run: A run.

    Returns:
        The share.
    """
    return len(run.unread) / run.n


def compute_outcome_shares(run: ReadRun) -> dict[str, float]:
    """Compute the shares of unread and declined answers.

    Args:
        run: A run.

    Returns:
        The shares under the names of `tables.OUTCOMES`.
    """
    return {"parse_failure_rate": compute_unread_share(run), "declined_rate": len(run.declined) / run.n}


def collect_run_notes(runs: Sequence[ReadRun]) -> list[str]:
    """Collect all warnings about the runs.

    Args:
        runs: The runs.

    Returns:
        The warnings.
    """
    return [
        *_warn_missing_images(runs), *_warn_unanswered(runs), *_warn_cut(runs), *_warn_too_long(runs),
        *_warn_same(runs), *warn_unread(runs), *_warn_declined(runs),
    ]  # fmt: skip


def _warn_missing_images(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each log whose model did not get all images."""
    logs = {run.source.path: run for run in runs if run.source.n_images_missing}
    return [
        f"WARNING: {run.model_name} was not given {run.source.n_images_missing:,} of the images in {path.name}. "
        "What to do: run it again with medfaith eval, which refuses models and settings that cut images, or with "
        "--images first"
        for path, run in logs.items()
    ]


def _warn_unanswered(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each run with rows that a server left unanswered."""
    return [
        f"WARNING: {n:,} of {run.n:,} rows of {run.model_name} in {run.source.path.name} have no answer, and count as "
        "unread. What to do: run the same command again, which asks only these"
        for run in runs
        if (n := run.source.n_unanswered)
    ]


def _warn_cut(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each run with a share of answers above `LIMIT` that were cut at the token limit."""
    return [
        f"WARNING: {n:,} of {run.n:,} answers ({n / run.n:.1%}) of {run.model_name} in {run.source.path.name} were cut "
        f"at the limit of tokens. What to do: {MORE_TOKENS}"
        for run in runs
        if (n := run.source.n_cut) > LIMIT * run.n
    ]


def _warn_too_long(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each run with answers longer than the part that is read."""
    return [
        f"WARNING: {n:,} of {run.n:,} answers of {run.model_name} in {run.source.path.name} are longer than "
        f"{READ:,} characters, and what follows was not read. Such a model mostly repeats itself. What to do: look at "
        "these answers, and set a lower limit of tokens: --gen_kwargs max_gen_toks=N"
        for run in runs
        if (n := run.source.n_too_long)
    ]


def _warn_same(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each log whose answers are all the same.

    Reference models and runs under a control are excluded, because equal answers are plausible there.
    """
    model_runs = [run for run in runs if run.model not in BASELINES and "control" not in dict(run.source.told)]
    logs = {run.source.path: run for run in model_runs if run.n >= FEW}
    notes = []
    for path, run in logs.items():
        answers = (join_lines(response) for _, response in responses(path))
        first_answer = next(answers)
        if all(answer == first_answer for answer in answers):
            summary = f"“{shortened(first_answer)}”" if first_answer else "empty"
            notes.append(
                f"WARNING: all answers of {run.model_name} in {path.name} are {summary}. What to do: {IF_SAME}"
            )
    return notes


def warn_unread(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each run with a share of unread answers above `LIMIT`, and quote up to `SHOWN` of them.

    Args:
        runs: The runs.

    Returns:
        The warnings.
    """
    notes = []
    for run in runs:
        unread = {*run.unread}
        if compute_unread_share(run) > LIMIT:
            quotes = " ".join(f"“{answer}”" for answer in _collect_answers(run.source, unread))
            notes.append(
                f"WARNING: {len(unread):,} of {run.n:,} answers ({compute_unread_share(run):.1%}) of {run.model_name} "
                f"in {run.source.path.name} could not be read, such as {quotes}. What to do: {IF_UNREAD}"
            )
    return notes


def _warn_declined(runs: Sequence[ReadRun]) -> list[str]:
    """Warn of each run with a share of declined answers above `LIMIT`, and quote up to `SHOWN` of them.

    Runs under a blind control are excluded: without an image a model should decline.
    """
    notes = []
    for run in runs:
        if is_blind(run):
            continue
        declined = {*run.declined}
        if len(declined) > LIMIT * run.n:
            quotes = " ".join(f"“{answer}”" for answer in _collect_answers(run.source, declined))
            notes.append(
                f"WARNING: {len(declined):,} of {run.n:,} answers ({len(declined) / run.n:.1%}) of {run.model_name} in "
                f"{run.source.path.name} decline to answer, such as {quotes}. They count as wrong "
                f"in the tables, and are in no score of medfaith audit. What to do: {IF_DECLINED}"
            )
    return notes


def is_blind(run: ReadRun) -> bool:
    """Whether the run is without an image, or with an image that shows nothing.

    Args:
        run: A run.

    Returns:
        True under a blind control.
    """
    return dict(run.source.told).get("control") in BLIND


def _collect_answers(file: SampleFile, ids: Collection[str]) -> list[str]:
    """Collect up to `SHOWN` different answers of these rows: the end of each response, in one line."""
    quotes: dict[str, None] = {}
    for row_id, response in responses(file.path):
        if row_id in ids:
            quotes[shortened(join_lines(response))] = None
        if len(quotes) == SHOWN:
            break
    return list(quotes)
