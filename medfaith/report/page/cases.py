"""Every question with what each model answered under each control, as the page lists them."""

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

from ..contrabench_names import base_name
from ..contrabench_runs import Run
from ..heal_runs import HealRun
from ..results import Results
from ..surgx_runs import SurgXRun

MOST = 10_000  # questions on a page
RIGHT, WRONG, DECLINED, UNREAD = "right", "wrong", "declined", "unread"
SEED = 0
IMAGE = "image"  # how a row was shown without a control, in its own words


class Answer(NamedTuple):
    """What one model said.

    shown: the control and the wording, or "image". read: what was read of it, and why the reason; ended: what a
    deterministic verifier made of it, "" where there is none. outcome: RIGHT, WRONG, DECLINED or UNREAD.
    """

    model: str
    shown: str
    raw: str
    read: str
    why: str
    ended: str
    outcome: str


class Case(NamedTuple):
    """One question of one task. options: with their letters; finding: what it is about, to filter by."""

    benchmark: str
    task: str
    id: str
    question: str
    options: tuple[str, ...]
    gold: str
    finding: str
    answers: tuple[Answer, ...]


class Cases(NamedTuple):
    """cases: in the order of tasks and ids. n: how many there are; more than `cases` where these are a sample."""

    cases: list[Case]
    n: int


class _Read(NamedTuple):
    """A question of a run, and all of the answer but its own words."""

    question: tuple[str, tuple[str, ...], str, str]  # question, options, gold, finding
    read: str
    why: str
    ended: str
    outcome: str


def cases(results: Results, most: int = MOST) -> Cases:
    """The questions that are answered in words; of more than `most`, a sample of each task and outcome in proportion.

    That's the Wrong Lung! is left out: its questions are sentences of reports, and attention says nothing in words.
    """
    found: dict[tuple[str, str, str], list[tuple[Logged, _Read]]] = defaultdict(list)
    read: list[tuple[str, Logged, Iterator[tuple[str, _Read]]]] = [
        *(("CXR-ContraBench", run, _contrabench(run)) for run in results.runs),
        *(("HEAL-MedVQA", run, _heal(run)) for run in results.heal),
        *(("SurgXBench", run, _surgx(run)) for run in results.surgx),
    ]
    for benchmark, run, rows in read:
        for row_id, of_row in rows:
            found[benchmark, _asked(run), row_id].append((run, of_row))
    chosen = _sample(found, most)
    raw = _raw([run for key in chosen for run, _ in found[key]], {key[2] for key in chosen})
    return Cases([_case(key, found[key], raw) for key in sorted(chosen)], len(found))


def _asked(run: Logged) -> str:
    """The task, without the prompt: answers to one question in several prompts stand side by side."""
    return run.source.task


def _case(
    key: tuple[str, str, str], answers: Sequence[tuple[Logged, _Read]], raw: Mapping[tuple[Any, str], str]
) -> Case:
    benchmark, task, row_id = key
    question, options, gold, finding = answers[0][1].question
    said = [
        Answer(
            name_of(run), shown_of(run), raw.get((run.source.path, row_id), ""), of.read, _why(of, question), *of[3:]
        )
        for run, of in answers
    ]
    said.sort(key=lambda answer: (answer.model, answer.shown != IMAGE, answer.shown))
    return Case(benchmark, task, row_id, question, options, gold, finding, tuple(said))


def _why(of: _Read, question: str) -> str:
    """Why an answer was read as it was, and what was asked where that is another wording of the case's question."""
    asked = f"asked “{of.question[0]}”" if of.question[0] != question else ""
    return "; ".join(filter(None, [of.why, asked]))


def without_wording(shown: str) -> str:
    """How a row was shown, whatever its words: the control, or IMAGE.

    >>> without_wording("blank, wording 2"), without_wording("wording 2")
    ('blank', 'image')
    """
    return ", ".join(part for part in shown.split(", ") if not part.startswith("wording ")) or IMAGE


def name_of(run: Logged) -> str:
    """The model, with its prompt or telling arguments, without the control."""
    plain = replace(run, setting=run.setting._replace(prompt=run.setting.prompt.partition(", ")[0]))
    if isinstance(plain, Run):
        prompt = base_name(plain.setting)
        return run.model_name + (f" ({prompt})" if prompt != "B0" else "")
    return getattr(plain, "name", run.model_name)


def shown_of(run: Logged) -> str:
    """The control and the wording, or IMAGE."""
    return run.setting.prompt.partition(", ")[2] or IMAGE


def _contrabench(run: Run) -> Iterator[tuple[str, _Read]]:
    verified, reasons = run.choice.get("m1"), run.reason.get("m1")
    for row in range(run.n):
        question, texts = run.wordings[run.wording[row]]
        options = tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, texts, strict=False))
        base = int(run.base[row])
        outcome = _outcome(run.outcome[row], base == run.answer[row])
        why = f"read from {run.evidence[row]}" if run.evidence[row] else run.unread_reason[row]
        ended = ""
        if verified is not None and reasons is not None and verified[row] != base:
            ended = f"{options[verified[row]]} ({reasons[row]})"
        of = question, options, options[run.answer[row]], run.finding[row]
        yield run.id[row], _Read(of, options[base] if base >= 0 else "", why, ended, outcome)


def _heal(run: HealRun) -> Iterator[tuple[str, _Read]]:
    if run.setting.ask == "open":
        for row, named in zip(run.rows, run.named, strict=True):
            outcome = _outcome(named.outcome, {*named.labels} == {*row.diseases})
            read = "" if outcome in (DECLINED, UNREAD) else ", ".join(sorted(named.labels)) or "none"
            gold = ", ".join(row.diseases) or "none"
            of = row.question, (), gold, row.kind
            yield row.id, _Read(of, read, "", "", outcome)
        return
    for row, said in zip(run.rows, run.said, strict=True):
        outcome = _outcome(said, said == row.answer)
        of = row.question, (), row.answer, row.kind
        yield row.id, _Read(of, "" if outcome in (DECLINED, UNREAD) else said, "", "", outcome)


def _surgx(run: SurgXRun) -> Iterator[tuple[str, _Read]]:
    asked = {
        "instruments": "Which instruments are in this frame?",
        "triplets": "Which instruments act on which tissue in this frame?",
        "occlusion": "Which triplet is left when the place that the model looked at is painted black?",
    }[run.setting.ask]
    for row in run.rows:
        read = DECLINED if row.declined else UNREAD if row.predicted is None else ""
        outcome = _outcome(read, {*(row.predicted or ())} == {*row.gold})
        of = asked, (), "; ".join(row.gold) or "none", "video " + row.id.split("/")[1]
        yield row.id, _Read(of, "; ".join((row.predicted or ())[:10]) or ("" if read else "none"), "", "", outcome)


def _outcome(read: str, right: bool) -> str:
    """Of an answer. read: the outcome of reading it."""
    return read if read in (DECLINED, UNREAD) else RIGHT if right else WRONG


def _sample(
    found: Mapping[tuple[str, str, str], Sequence[tuple[Logged, _Read]]], most: int
) -> set[tuple[str, str, str]]:
    """`most` of the questions: of each task and outcome of the first answer as many as is its share."""
    if len(found) <= most:
        return {*found}
    strata: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    for key, answers in found.items():
        strata[key[1], answers[0][1].outcome].append(key)
    rng, chosen = np.random.default_rng(SEED), []
    for stratum in sorted(strata):
        of_one = sorted(strata[stratum])
        n = max(1, int(most * len(of_one) / len(found)))
        chosen += [of_one[place] for place in rng.choice(len(of_one), n, replace=False)]
    return {*chosen}


def _raw(runs: Sequence[Logged], ids: set[str]) -> dict[tuple[Any, str], str]:
    """What each model answered in its own words, by sample log and row."""
    raw: dict[tuple[Any, str], str] = {}
    for path, run in {run.source.path: run for run in runs}.items():
        words = _WORDS.get(type(run), str)
        for row_id, response in responses(path):
            if row_id in ids and (path, row_id) not in raw:
                raw[path, row_id] = words(response)
    return raw


_WORDS: dict[type, Callable[[str], str]] = {
    HealRun: lambda response: read_localized(response).text,
    SurgXRun: lambda response: read_reply(response).text or "",
}
