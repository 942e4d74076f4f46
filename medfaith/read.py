"""`medfaith read`: how well medfaith's reading of answers suits a model, on answers that a person has read."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.reading.choice import parse_answer
from medfaith.evaluate_metrics.reading.yes_no import explain_yes_no
from medfaith.loaders import json_text
from medfaith.loaders.errors import InputError
from medfaith.loaders.whole import whole_file
from medfaith.printing import percent, table

LEFT_OUT = ("borderline", "implied", "picked")  # answers of which a rate would say nothing
VERDICTS = ("right", "wrong", "unread")
UNCLEAR = "unclear"
_EXPECTED = 'one JSON object a line, with "id", "kind", "question", "text" and "gold", and "options" for kind "choice"'
_AGAIN = "correct the line, or leave it out"


class Row(NamedTuple):
    """One answer with a person's reading of it. gold: an option's index, "yes", "no" or "unclear"."""

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
    """A row and what the reader makes of it. verdict: "right", "wrong" (another answer, or one where none is clear) or
    "unread" (none, where one is clear); why: the stage of the reader that decided.
    """

    row: Row
    read: int | str
    why: str
    verdict: str


def add_jobs(jobs: Any) -> None:
    """Adds `read` to the command's jobs."""
    text = "compare medfaith's reading of answers with a person's reading of them"
    job = jobs.add_parser(
        "read",
        help=text,
        description="Reads a file of answers that a person has read too, and prints how often medfaith reads them "
        "rightly, wrongly or not at all. It tells whether medfaith's reading suits your model.",
        epilog='Example line: {"id": "1", "kind": "yes_no", "question": "Is there edema?", "text": "None.", '
        '"gold": "no"}. Of kind "choice", "options" is a list and "gold" the place of one in it, from 0. "gold" may be '
        '"unclear". "source" and "model" are optional. Lines with "borderline", "implied" or "picked" true are not '
        "counted.",
    )
    job.add_argument("file", type=Path, metavar="FILE.jsonl", help="file of answers, one JSON object a line")
    job.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for failures.jsonl: every answer that is not read rightly, and why (default: none is written)",
    )
    job.add_argument("--json", action="store_true", help="print only the counts of each kind, as one JSON object")
    job.set_defaults(job=_read)


def _read(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    results = [read_row(row) for row in read_rows(arguments.file)]
    if arguments.out:
        write_failures(arguments.out, results)
    print(json.dumps(counts(results)) if arguments.json else tables(results))
    if arguments.out and not arguments.json:
        print(f"\nfailures: {arguments.out / 'failures.jsonl'}")
    return 0


def read_rows(path: Path) -> list[Row]:
    """The answers in a file.

    Raises InputError naming the file, the line and the field for what is missing or of another type.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: a JSON text may hold other ends of line
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read ({error})", expected=_EXPECTED, action="name such a file") from None
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError(path, "holds no answer", expected=_EXPECTED, action="name a file with answers")
    return rows


def _row(path: Path, number: int, line: str) -> Row:
    def fault(found: str, expected: str, column: str | None = None) -> InputError:
        return InputError(path, found, expected=expected, action=_AGAIN, row=number, column=column)

    try:
        fields = json_text.parse(line)
    except ValueError as error:
        raise fault(f"is no JSON ({error})", _EXPECTED) from None
    if not isinstance(fields, dict):
        raise fault("is no JSON object", _EXPECTED)
    for name in ("id", "kind", "question", "text"):
        if not isinstance(fields.get(name), str):
            raise fault(f"{fields.get(name)!r}", "a text", name)
    kind, options = fields["kind"], fields.get("options")
    gold: Any = fields.get("gold")
    if kind == "choice":
        if not isinstance(options, list) or not options or not all(isinstance(one, str) for one in options):
            raise fault(f"{options!r}", "a list of texts", "options")
        known: Sequence[Any] = [*range(len(options)), UNCLEAR]
    elif kind == "yes_no":
        options, known = [], ["yes", "no", UNCLEAR]
    else:
        raise fault(f"{kind!r}", '"choice" or "yes_no"', "kind")
    if isinstance(gold, bool) or gold not in known:
        raise fault(f"{gold!r}", f"one of {', '.join(map(str, known))}", "gold")
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
    """What the reader makes of one answer.

    >>> row = Row("1", "yes_no", "Is there edema?", (), "None.", "no", "–", "–", True)
    >>> read_row(row)[1:]
    ('no', 'short', 'right')
    """
    read: int | str | None
    if row.kind == "choice":
        answer = parse_answer(row.text, row.options, row.question)
        read, why = answer.choice, answer.why or answer.outcome
    else:
        said = explain_yes_no(row.text, row.question)
        read, why = said.outcome if said.outcome in ("yes", "no") else None, said.why or said.outcome
    found = UNCLEAR if read is None else read
    verdict = "right" if found == row.gold else "unread" if found == UNCLEAR else "wrong"
    return Result(row, found, why, verdict)


def counts(results: Sequence[Result]) -> dict[str, dict[str, int]]:
    """{kind: {n, right, wrong, unread}} of the rows that count."""
    return {kind: _counted(found) for kind, found in _grouped(results, "kind").items()}


def tables(results: Sequence[Result]) -> str:
    """The counts and shares by kind, by source and by model, for the terminal."""
    parts = []
    for name in ("kind", "source", "model"):
        rows = []
        for label, found in _grouped(results, name).items():
            n = _counted(found)
            rows.append([label, f"{n['n']:,}", *(percent(n[verdict] / n["n"]) for verdict in VERDICTS)])
        parts.append(table([name, "answers", *(f"{verdict} %" for verdict in VERDICTS)], rows))
    left_out = sum(not result.row.counted for result in results)
    parts.append(
        "right: as the person reads it; wrong: as another answer, or as one where the person finds none clear;\n"
        f"unread: as none, where one is clear. Not counted: {left_out:,} answers that are {', '.join(LEFT_OUT)}."
    )
    return "\n\n".join(parts)


def write_failures(folder: Path, results: Sequence[Result]) -> None:
    """Writes failures.jsonl: each answer that counts and is not read rightly, with what was read, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / "failures.jsonl") as path, path.open("w", encoding="utf-8") as file:
        for row, read, why, verdict in results:
            if row.counted and verdict != "right":
                shown = {**row._asdict(), "read": read, "why": why, "verdict": verdict}
                del shown["counted"]
                file.write(json.dumps(shown, ensure_ascii=False) + "\n")


def _grouped(results: Sequence[Result], name: str) -> Mapping[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.row.counted:
            label = f"{result.row.model} ({result.row.kind})" if name == "model" else getattr(result.row, name)
            groups.setdefault(label, []).append(result)
    return dict(sorted(groups.items()))


def _counted(results: Sequence[Result]) -> dict[str, int]:
    verdicts = Counter(result.verdict for result in results)
    return {"n": len(results), **{verdict: verdicts[verdict] for verdict in VERDICTS}}
