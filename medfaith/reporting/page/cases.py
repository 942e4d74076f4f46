"""Each question with the answers of all models under all controls, as the page lists them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from medfaith.logs.lines import Logged, responses

from ..benchmark import Heatmap, ReportedBenchmark

RunsByBenchmark = Mapping[ReportedBenchmark, Sequence[Any]]
_Key = tuple[str, str, str]  # title of the benchmark, task, id of the row
MOST = 10_000  # questions on a page
RIGHT, WRONG, DECLINED, UNREAD = "right", "wrong", "declined", "unread"
SEED = 0
IMAGE = "image"  # the condition of a row without a control and in its own wording


class Answer(NamedTuple):
    """One model's answer to a question under one condition.

    Attributes:
        model: The model, with its prompt or arguments.
        shown: The control and the wording, or IMAGE.
        raw: The response.
        read: What was read from it; "" if nothing.
        why: What it was read from, or why it could not be read.
        ended: The answer after a deterministic verifier; "" without one.
        outcome: RIGHT, WRONG, DECLINED or UNREAD.
    """

    model: str
    shown: str
    raw: str
    read: str
    why: str
    ended: str
    outcome: str


class Case(NamedTuple):
    """One question of one task.

    Attributes:
        benchmark: Title of the benchmark.
        task: Name of the task.
        id: Id of the row.
        question: The question.
        options: The options with their letters.
        gold: The right answer.
        finding: The finding or kind of question, to filter by.
        answers: The answers of all models.
    """

    benchmark: str
    task: str
    id: str
    question: str
    options: tuple[str, ...]
    gold: str
    finding: str
    answers: tuple[Answer, ...]


class Cases(NamedTuple):
    """The listed questions.

    Attributes:
        cases: In the order of tasks and ids.
        n: Number of all questions; more than `cases` if these are a sample.
    """

    cases: list[Case]
    n: int


class CaseReading(NamedTuple):
    """A question of a run, and its answer without the response itself.

    Attributes:
        question: Question, options, right answer and finding, as in `Case`.
        read: As in `Answer`.
        why: As in `Answer`.
        ended: As in `Answer`.
        outcome: As in `Answer`.
    """

    question: tuple[str, tuple[str, ...], str, str]
    read: str
    why: str
    ended: str
    outcome: str


def collect_cases(runs: RunsByBenchmark, most: int = MOST) -> Cases:
    """Collect the questions with answers in words.

    Args:
        runs: The runs of each benchmark.
        most: Maximum number of questions; above it, a sample of each task and outcome in proportion is taken.

    Returns:
        The questions, sorted by benchmark, task and id.
    """
    answers_by_key: dict[_Key, list[tuple[Logged, CaseReading]]] = defaultdict(list)
    for benchmark, benchmark_runs in runs.items():
        for run in (run for run in benchmark_runs if run.in_words):
            for row_id, answer in benchmark.read_cases(run):
                answers_by_key[benchmark.title, _get_task(run), row_id].append((run, answer))
    keys = _sample(answers_by_key, most)
    benchmarks = {benchmark.title: benchmark for benchmark in runs}
    raw: dict[tuple[Any, str], str] = {}
    for title, benchmark in benchmarks.items():
        of_benchmark = [key for key in keys if key[0] == title]
        listed_runs = [run for key in of_benchmark for run, _ in answers_by_key[key]]
        raw |= _read_raw_answers(benchmark, listed_runs, {key[2] for key in of_benchmark})
    cases = [_build_case(benchmarks[key[0]], key, answers_by_key[key], raw) for key in sorted(keys)]
    return Cases(cases, len(answers_by_key))


def _get_task(run: Logged) -> str:
    """Get the task without its prompt, so that the answers to one question in several prompts are listed together."""
    return run.source.task


def _build_case(
    benchmark: ReportedBenchmark,
    key: _Key,
    answers: Sequence[tuple[Logged, CaseReading]],
    raw: Mapping[tuple[Any, str], str],
) -> Case:
    title, task, row_id = key
    question, options, gold, finding = answers[0][1].question
    model_answers = [
        Answer(
            format_run_name(benchmark, run),
            format_condition(run),
            raw.get((run.source.path, row_id), ""),
            reading.read,
            _format_reason(reading, question),
            *reading[3:],
        )
        for run, reading in answers
    ]
    model_answers.sort(key=lambda answer: (answer.model, answer.shown != IMAGE, answer.shown))
    return Case(title, task, row_id, question, options, gold, finding, tuple(model_answers))


def _format_reason(answer: CaseReading, question: str) -> str:
    """Join the reason of a reading and, if it differs, the wording that this model got."""
    wording = f"asked “{answer.question[0]}”" if answer.question[0] != question else ""
    return "; ".join(filter(None, [answer.why, wording]))


def strip_wording(condition: str) -> str:
    """Strip the wording from a condition.

    >>> strip_wording("blank, wording 2"), strip_wording("wording 2")
    ('blank', 'image')

    Args:
        condition: Control and wording.

    Returns:
        The control, or IMAGE.
    """
    return ", ".join(name for name in condition.split(", ") if not name.startswith("wording ")) or IMAGE


def format_run_name(benchmark: ReportedBenchmark, run: Logged) -> str:
    """Format the model with its prompt or its distinctive arguments, without the control.

    Args:
        benchmark: The benchmark of the run.
        run: The run.

    Returns:
        The name.
    """
    return benchmark.name_run(replace(run, setting=run.setting._replace(prompt=run.setting.prompt.partition(", ")[0])))


def format_condition(run: Logged) -> str:
    """Format the condition of a run.

    Args:
        run: Any run.

    Returns:
        The control and the wording, or IMAGE.
    """
    return run.setting.prompt.partition(", ")[2] or IMAGE


def score_outcome(reading: str, is_right: bool) -> str:
    """Score a reading; a declined or unread answer keeps its outcome.

    Args:
        reading: The outcome of reading the answer, or the reading itself.
        is_right: Whether the reading is the right answer.

    Returns:
        RIGHT, WRONG, DECLINED or UNREAD.
    """
    return reading if reading in (DECLINED, UNREAD) else RIGHT if is_right else WRONG


def _sample(answers_by_key: Mapping[_Key, Sequence[tuple[Logged, CaseReading]]], most: int) -> set[_Key]:
    """Draw `most` questions: from each task and outcome of the first answer its share."""
    if len(answers_by_key) <= most:
        return {*answers_by_key}
    strata: dict[tuple[str, str], list[_Key]] = defaultdict(list)
    for key, answers in answers_by_key.items():
        strata[key[1], answers[0][1].outcome].append(key)
    rng, sample = np.random.default_rng(SEED), []
    for stratum in sorted(strata):
        keys = sorted(strata[stratum])
        n = max(1, int(most * len(keys) / len(answers_by_key)))
        sample += [keys[place] for place in rng.choice(len(keys), n, replace=False)]
    return {*sample}


def _read_raw_answers(
    benchmark: ReportedBenchmark, runs: Sequence[Logged], ids: set[str]
) -> dict[tuple[Any, str], str]:
    """Read the responses by sample log and row."""
    raw: dict[tuple[Any, str], str] = {}
    for path in {run.source.path: run for run in runs}:
        for row_id, response in responses(path):
            if row_id in ids and (path, row_id) not in raw:
                raw[path, row_id] = benchmark.get_text(response)
    return raw


def find_logged_heatmaps(
    benchmark: ReportedBenchmark, runs: Sequence[Logged], ids: Collection[str]
) -> Iterator[Heatmap]:
    """Find the references to heatmaps in the logged responses.

    Args:
        benchmark: The benchmark of the runs.
        runs: The runs.
        ids: Ids of rows.

    Yields:
        The references of answers to these rows.
    """
    for run in runs:
        name, condition = format_run_name(benchmark, run), format_condition(run)
        for row_id, response in responses(run.source.path):
            reference = benchmark.read_heatmaps(response) if row_id in ids else None
            if reference is not None:
                yield Heatmap(run.source.task, condition, row_id, name, reference)
