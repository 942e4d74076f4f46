"""Each question with the answers of all models under all controls, as the page lists them."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.logs.lines import Logged, responses
from medfaith.tasks.heal.localization import read_reply as read_localized

from ..contrabench.names import format_base_name
from ..contrabench.runs import Run
from ..heal.runs import HealRun
from ..results import Results
from ..surgx.runs import SurgXRun

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


class _Read(NamedTuple):
    """A question of a run, and its answer without the response itself."""

    question: tuple[str, tuple[str, ...], str, str]  # question, options, gold, finding
    read: str
    why: str
    ended: str
    outcome: str


def cases(results: Results, most: int = MOST) -> Cases:
    """Collect the questions with answers in words.

    That's the Wrong Lung! is left out: its questions are sentences of reports, and attention has no words.

    Args:
        results: The runs.
        most: Maximum number of questions; above it, a sample of each task and outcome in proportion is taken.

    Returns:
        The questions, sorted by benchmark, task and id.
    """
    answers_by_key: dict[tuple[str, str, str], list[tuple[Logged, _Read]]] = defaultdict(list)
    runs: list[tuple[str, Logged, Iterator[tuple[str, _Read]]]] = [
        *(("CXR-ContraBench", run, _read_contrabench(run)) for run in results.runs),
        *(("HEAL-MedVQA", run, _read_heal(run)) for run in results.heal),
        *(("SurgXBench", run, _read_surgx(run)) for run in results.surgx),
    ]
    for benchmark, run, rows in runs:
        for row_id, answer in rows:
            answers_by_key[benchmark, _get_task(run), row_id].append((run, answer))
    keys = _sample(answers_by_key, most)
    raw = _read_raw_answers([run for key in keys for run, _ in answers_by_key[key]], {key[2] for key in keys})
    return Cases([_build_case(key, answers_by_key[key], raw) for key in sorted(keys)], len(answers_by_key))


def _get_task(run: Logged) -> str:
    """Get the task without its prompt, so that the answers to one question in several prompts are listed together."""
    return run.source.task


def _build_case(
    key: tuple[str, str, str], answers: Sequence[tuple[Logged, _Read]], raw: Mapping[tuple[Any, str], str]
) -> Case:
    benchmark, task, row_id = key
    question, options, gold, finding = answers[0][1].question
    model_answers = [
        Answer(
            format_run_name(run),
            format_condition(run),
            raw.get((run.source.path, row_id), ""),
            reading.read,
            _format_reason(reading, question),
            *reading[3:],
        )
        for run, reading in answers
    ]
    model_answers.sort(key=lambda answer: (answer.model, answer.shown != IMAGE, answer.shown))
    return Case(benchmark, task, row_id, question, options, gold, finding, tuple(model_answers))


def _format_reason(answer: _Read, question: str) -> str:
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


def format_run_name(run: Logged) -> str:
    """Format the model with its prompt or its distinctive arguments, without the control.

    Args:
        run: Any run.

    Returns:
        The name.
    """
    plain = replace(run, setting=run.setting._replace(prompt=run.setting.prompt.partition(", ")[0]))
    if isinstance(plain, Run):
        prompt = format_base_name(plain.setting)
        return run.model_name + (f" ({prompt})" if prompt != "B0" else "")
    return getattr(plain, "name", run.model_name)


def format_condition(run: Logged) -> str:
    """Format the condition of a run.

    Args:
        run: Any run.

    Returns:
        The control and the wording, or IMAGE.
    """
    return run.setting.prompt.partition(", ")[2] or IMAGE


def _read_contrabench(run: Run) -> Iterator[tuple[str, _Read]]:
    verified, reasons = run.choice.get("m1"), run.reason.get("m1")
    for row in range(run.n):
        question, texts = run.wordings[run.wording[row]]
        options = tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, texts, strict=False))
        base = int(run.base[row])
        outcome = _score_outcome(run.outcome[row], base == run.answer[row])
        why = f"read from {run.evidence[row]}" if run.evidence[row] else run.unread_reason[row]
        ended = ""
        if verified is not None and reasons is not None and verified[row] != base:
            ended = f"{options[verified[row]]} ({reasons[row]})"
        case = question, options, options[run.answer[row]], run.finding[row]
        yield run.id[row], _Read(case, options[base] if base >= 0 else "", why, ended, outcome)


def _read_heal(run: HealRun) -> Iterator[tuple[str, _Read]]:
    if run.setting.ask == "open":
        for row, extraction in zip(run.rows, run.named, strict=True):
            outcome = _score_outcome(extraction.outcome, {*extraction.labels} == {*row.diseases})
            names = "" if outcome in (DECLINED, UNREAD) else ", ".join(sorted(extraction.labels)) or "none"
            gold = ", ".join(row.diseases) or "none"
            case = row.question, (), gold, row.kind
            yield row.id, _Read(case, names, "", "", outcome)
        return
    for row, reading in zip(run.rows, run.said, strict=True):
        outcome = _score_outcome(reading, reading == row.answer)
        case = row.question, (), row.answer, row.kind
        yield row.id, _Read(case, "" if outcome in (DECLINED, UNREAD) else reading, "", "", outcome)


def _read_surgx(run: SurgXRun) -> Iterator[tuple[str, _Read]]:
    question = {
        "instruments": "Which instruments are in this frame?",
        "triplets": "Which instruments act on which tissue in this frame?",
        "occlusion": "Which triplet is left when the place that the model looked at is painted black?",
    }[run.setting.ask]
    for row in run.rows:
        reading = DECLINED if row.declined else UNREAD if row.predicted is None else ""
        outcome = _score_outcome(reading, {*(row.predicted or ())} == {*row.gold})
        case = question, (), "; ".join(row.gold) or "none", "video " + row.id.split("/")[1]
        yield row.id, _Read(case, "; ".join((row.predicted or ())[:10]) or ("" if reading else "none"), "", "", outcome)


def _score_outcome(reading: str, is_right: bool) -> str:
    """Score a reading; a declined or unread answer keeps its outcome."""
    return reading if reading in (DECLINED, UNREAD) else RIGHT if is_right else WRONG


def _sample(
    answers_by_key: Mapping[tuple[str, str, str], Sequence[tuple[Logged, _Read]]], most: int
) -> set[tuple[str, str, str]]:
    """Draw `most` questions: from each task and outcome of the first answer its share."""
    if len(answers_by_key) <= most:
        return {*answers_by_key}
    strata: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for key, answers in answers_by_key.items():
        strata[key[1], answers[0][1].outcome].append(key)
    rng, sample = np.random.default_rng(SEED), []
    for stratum in sorted(strata):
        keys = sorted(strata[stratum])
        n = max(1, int(most * len(keys) / len(answers_by_key)))
        sample += [keys[place] for place in rng.choice(len(keys), n, replace=False)]
    return {*sample}


def _read_raw_answers(runs: Sequence[Logged], ids: set[str]) -> dict[tuple[Any, str], str]:
    """Read the responses by sample log and row."""
    raw: dict[tuple[Any, str], str] = {}
    for path, run in {run.source.path: run for run in runs}.items():
        read_text = _TEXT_READERS.get(type(run), str)
        for row_id, response in responses(path):
            if row_id in ids and (path, row_id) not in raw:
                raw[path, row_id] = read_text(response)
    return raw


_TEXT_READERS: dict[type, Callable[[str], str]] = {
    HealRun: lambda response: read_localized(response).text,
    SurgXRun: lambda response: read_reply(response).text or "",
}
