"""`medfaith read`: how well medfaith's reading of answers suits a model, on answers that a person has read."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith import extractor
from medfaith.evaluate_metrics.reading import language_model
from medfaith.evaluate_metrics.reading.agreement import compare_closed_readings
from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.outcome import ANSWERED, DECLINED, EVIDENCE, UNREAD
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no
from medfaith.loaders import json_text, limits
from medfaith.loaders.atomic import atomic_file
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.printing import percent, table
from medfaith.reporting.tables import fraction

LEFT_OUT = ("borderline", "implied", "picked")  # flags of answers that no rate may count
VERDICTS = ("right", "wrong", "unread")
WAYS = (*EVIDENCE, DECLINED, UNREAD)  # evidence of answered rows, and the other outcomes
UNCLEAR = "unclear"
_EXPECTED = 'one JSON object a line, with "id", "kind", "question", "text" and "gold", and "options" for kind "choice"'
_AGAIN = "correct the line, or leave it out"


class Row(NamedTuple):
    """One answer with a person's reading of it.

    Attributes:
        id: The id of the answer.
        kind: "yes_no" or "choice".
        question: The question.
        options: The options; empty for "yes_no".
        text: The answer of the model.
        gold: The person's reading: the index of an option, "yes", "no" or "unclear".
        source: The source of the answer, or "".
        model: The name of the model, or "".
        counted: Whether the answer is counted. Borderline, implied and picked answers are not.
    """

    id: str
    kind: str
    question: str
    options: tuple[str, ...]
    text: str
    gold: int | str
    source: str
    model: str
    counted: bool


class Result(NamedTuple):
    """A row with the result of the reader.

    Attributes:
        row: The answer and a person's reading.
        read: The option, "yes", "no", or `UNCLEAR` for a declined or unread answer.
        outcome: "answered", "declined" or "unread".
        stage: The deciding stage of the reader.
        reason: The reason why the answer is unread.
        evidence: The kind of evidence: "letter", "text" or "prose".
        verdict: "right", "wrong" (another answer, or none is clear) or "unread" (although one is clear).
        model_read: Reading of a language model, or None.
    """

    row: Row
    read: int | str
    outcome: str
    stage: str
    reason: str
    evidence: str
    verdict: str
    model_read: int | str | None = None


def add_jobs(jobs: Any) -> None:
    """Add `read` to the command's jobs.

    Args:
        jobs: The sub-parsers of the command.
    """
    text = "compare medfaith's reading of answers with a person's reading of them"
    job = jobs.add_parser(
        "read",
        help=text,
        description="Read a file of answers that a person has read, too, and print how often medfaith reads them "
        "rightly, wrongly or not at all. This shows whether medfaith's reading suits your model.",
        epilog='Example line: {"id": "1", "kind": "yes_no", "question": "Is there edema?", "text": "None.", '
        '"gold": "no"}. With the kind "choice", "options" is a list, and "gold" is the index of an option, from 0. '
        '"gold" may be "unclear". "source" and "model" are optional. Lines with "borderline", "implied" or "picked" '
        "true are not counted.",
    )
    job.add_argument("file", type=Path, metavar="FILE", help="file of answers, one JSON object a line (JSONL)")
    job.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for failures.jsonl: every answer that is not read rightly, and why (default: write no file)",
    )
    job.add_argument("--json", action="store_true", help="print only the counts of each kind, as one JSON object")
    extractor.add_options(job)
    job.set_defaults(job=_run_read)


def _run_read(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    rows = read_rows(arguments.file)
    results = [read_row(row) for row in Progress(rows, title="reading answers", unit="answers")]
    reader = extractor.from_options(arguments)
    if reader:
        second_readings = read_again([result.row for result in results], reader.ask)
        results = [
            result._replace(model_read=reading) for result, reading in zip(results, second_readings, strict=True)
        ]
    # First what may have taken a model hours: where the folder cannot be written, this is there.
    print(json.dumps(counts(results)) if arguments.json else tables(results, reader.name if reader else None))
    if arguments.out:
        write_failures(arguments.out, results)
        if not arguments.json:
            print(f"\nfailures: {arguments.out / 'failures.jsonl'}")
    return 0


def read_rows(path: Path) -> list[Row]:
    """Read the answers in a file.

    Args:
        path: File of JSON lines. Blank lines are skipped.

    Returns:
        The answers, at least one.

    Raises:
        InputError: The file cannot be read or has no answer, or a field is missing, of another type or not allowed.
    """
    try:
        text = limits.read_bytes(path, limits.JSON_BYTES).decode()
        lines = text.split("\n")  # not splitlines: a JSON text may hold other ends of line
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read ({error})", expected=_EXPECTED, action="name such a file") from None
    rows = [_parse_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError(path, "holds no answer", expected=_EXPECTED, action="name a file with answers")
    return rows


def _parse_row(path: Path, number: int, line: str) -> Row:
    def fault(problem: str, expected: str, column: str | None = None) -> InputError:
        return InputError(path, problem, expected=expected, action=_AGAIN, row=number, column=column)

    try:
        fields = json_text.parse(line)
    except ValueError as error:
        raise fault(f"is no JSON ({error})", _EXPECTED) from None
    if not isinstance(fields, dict):
        raise fault("is no JSON object", _EXPECTED)
    for name in ("id", "kind", "question", "text"):
        if not isinstance(fields.get(name), str):
            raise fault(f"{fields.get(name)!r:.200}", "a text", name)
    if len(fields["question"]) > limits.QUESTION_CHARACTERS:
        expected = f"at most {limits.QUESTION_CHARACTERS:,}"
        raise fault(f"has {len(fields['question']):,} characters", expected, "question")
    kind, options = fields["kind"], fields.get("options")
    gold: Any = fields.get("gold")
    if kind == "choice":
        if not isinstance(options, list) or not options or not all(isinstance(option, str) for option in options):
            raise fault(f"{options!r:.200}", "a list of texts", "options")
        if len(options) > limits.OPTIONS:
            raise fault(f"are {len(options):,}", f"at most {limits.OPTIONS}, lettered from A", "options")
        if (longest := max(map(len, options))) > limits.OPTION_CHARACTERS:
            expected = f"at most {limits.OPTION_CHARACTERS:,} characters each"
            raise fault(f"one has {longest:,} characters", expected, "options")
        allowed: Sequence[Any] = [*range(len(options)), UNCLEAR]
    elif kind == "yes_no":
        options, allowed = [], ["yes", "no", UNCLEAR]
    else:
        raise fault(f"{kind!r:.200}", '"choice" or "yes_no"', "kind")
    if isinstance(gold, bool) or gold not in allowed:
        raise fault(f"{gold!r:.200}", f"one of {', '.join(map(str, allowed))}", "gold")
    return Row(
        fields["id"],
        kind,
        fields["question"],
        tuple(options),
        fields["text"],
        gold,
        str(fields.get("source") or "–"),
        str(fields.get("model") or "–"),
        not any(fields.get(name) for name in LEFT_OUT),
    )


def read_row(row: Row) -> Result:
    """Read one answer.

    Args:
        row: The answer.

    Returns:
        The reading and its verdict.

    >>> row = Row("1", "yes_no", "Is there edema?", (), "None.", "no", "–", "–", True)
    >>> result = read_row(row)
    >>> result.read, result.outcome, result.evidence, result.verdict
    ('no', 'answered', 'prose', 'right')
    """
    if row.kind == "choice":
        answer = parse_answer(row.text, row.options, row.question)
        reading: int | str | None = answer.choice
    else:
        answer = explain_yes_no(row.text, row.question)
        reading = answer.answer
    known_reading = UNCLEAR if reading is None else reading
    return Result(
        row,
        known_reading,
        answer.outcome,
        answer.stage,
        answer.reason,
        answer.evidence,
        _judge_reading(row, known_reading),
    )


def read_again(rows: Sequence[Row], ask: language_model.Ask) -> list[int | str]:
    """Read each answer with a language model.

    Args:
        rows: The answers.
        ask: Sends a prompt to the model; its errors pass through.

    Returns:
        One reading for each answer, in the order of the rows; UNCLEAR if it is unread or declines.
    """
    rows_by_kind = {kind: [row for row in rows if row.kind == kind] for kind in ("choice", "yes_no")}
    texts = {kind: [row.text for row in kind_rows] for kind, kind_rows in rows_by_kind.items()}
    choices = language_model.choices(
        texts["choice"], [(row.question, row.options) for row in rows_by_kind["choice"]], ask
    )
    answers = language_model.yes_no(texts["yes_no"], [row.question for row in rows_by_kind["yes_no"]], ask)
    remaining: dict[str, Iterator[Any]] = {"choice": iter(choices), "yes_no": iter(answers)}
    readings = [next(remaining[row.kind]) for row in rows]
    return [UNCLEAR if reading in (None, "unread", "declined") else reading for reading in readings]


def _judge_reading(row: Row, reading: int | str) -> str:
    return "right" if reading == row.gold else "unread" if reading == UNCLEAR else "wrong"


def counts(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Count the verdicts of each kind, over the rows that count.

    Args:
        results: Rows with results.

    Returns:
        {kind: {n, right, wrong, unread, how}}; how is {evidence or outcome: n}. With a language model also "model"
        with its verdicts, and "kappa" of both readings, None if undefined.
    """
    return {kind: _count_group(group) for kind, group in _group_results(results, "kind").items()}


def tables(results: Sequence[Result], model: str | None = None) -> str:
    """Format counts and shares by kind, source and model, and by evidence.

    Args:
        results: Rows with results.
        model: Name of the language model, or None.

    Returns:
        The text.
    """
    shares = [f"{verdict} %" for verdict in VERDICTS]
    header = ["answers", *shares, *([*(f"LM {share}" for share in shares), "κ"] if model else [])]
    sections = []
    for name in ("kind", "source", "model"):
        rows = []
        for label, group in _group_results(results, name).items():
            n = _count_group(group)
            verdicts = [counted[verdict] for counted in ([n, n["model"]] if model else [n]) for verdict in VERDICTS]
            kappa = [fraction(n["kappa"])] if model else []
            rows.append([label, f"{n['n']:,}", *(percent(counted / n["n"]) for counted in verdicts), *kappa])
        sections.append(table([name, *header], rows))
    sections.append(_make_evidence_table(results))
    left_out = sum(not result.row.counted for result in results)
    sections.append(
        "right: as the person reads it; wrong: as another answer, or as one where the person finds none clear;\n"
        "unread: as none, where one is clear. How it was read: from a letter, from an option's text or the words yes\n"
        "and no, from sentences (prose); declined: the answer says that it cannot or will not tell.\n"
        f"Not counted: {left_out:,} answers that are {', '.join(LEFT_OUT)}."
    )
    if model:
        sections[-1] += (
            f"\nLM: as {model} reads it. κ: Cohen's, of both readings; unread is a reading of its own. It is undefined "
            "where\nanswers of two kinds are counted together, and where all readings are equal."
        )
    return "\n\n".join(sections)


def _make_evidence_table(results: Sequence[Result]) -> str:
    """Make the table of the ways in which the answers of each kind were read, as shares."""
    rows = []
    for kind, group in _group_results(results, "kind").items():
        ways = _count_evidence(group)
        rows.append([kind, f"{len(group):,}", *(percent(ways[way] / len(group)) for way in WAYS)])
    return table(["how it was read", "answers", *(f"{way} %" for way in WAYS)], rows)


def _count_evidence(results: Sequence[Result]) -> dict[str, int]:
    ways = Counter(result.evidence if result.outcome == ANSWERED else result.outcome for result in results)
    return {way: ways[way] for way in WAYS}


def write_failures(folder: Path, results: Sequence[Result]) -> None:
    """Write failures.jsonl: each counted answer that is not read rightly, with its reading and evidence.

    Args:
        folder: The folder, created if it is missing.
        results: The results of all answers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / "failures.jsonl") as path, path.open("w", encoding="utf-8") as file:
        for result in results:
            if result.row.counted and result.verdict != "right":
                record = {**result.row._asdict(), **result._asdict()}
                del record["row"], record["counted"]
                if result.model_read is None:
                    del record["model_read"]
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _group_results(results: Sequence[Result], name: str) -> Mapping[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.row.counted:
            label = f"{result.row.model} ({result.row.kind})" if name == "model" else getattr(result.row, name)
            groups.setdefault(label, []).append(result)
    return dict(sorted(groups.items()))


def _count_group(results: Sequence[Result]) -> dict[str, Any]:
    counted: dict[str, Any] = {"n": len(results), **_count_verdicts(result.verdict for result in results)}
    counted["how"] = _count_evidence(results)
    theirs = [(result.row, result.model_read) for result in results if result.model_read is not None]
    if not theirs:
        return counted
    agreed = compare_closed_readings([result.read for result in results], [reading for _, reading in theirs])
    comparable = len({row.kind for row, _ in theirs}) == 1 and not math.isnan(agreed["kappa"])
    model = _count_verdicts(_judge_reading(row, reading) for row, reading in theirs)
    return counted | {"model": model, "kappa": agreed["kappa"] if comparable else None}


def _count_verdicts(verdicts: Iterable[str]) -> dict[str, int]:
    numbers = Counter(verdicts)
    return {verdict: numbers[verdict] for verdict in VERDICTS}
