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
from medfaith.printing import percent, table
from medfaith.report.tables import fraction

LEFT_OUT = ("borderline", "implied", "picked")  # answers of which a rate would say nothing
VERDICTS = ("right", "wrong", "unread")
WAYS = (*EVIDENCE, DECLINED, UNREAD)  # how an answer was read: what it was read from, or that it was not
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
    """A row and what the reader makes of it.

    Attributes:
        row: The answer and a person's reading of it.
        read: The option, "yes", "no", or `UNCLEAR` where the reader says declined or unread.
        outcome: "answered", "declined" or "unread".
        stage: The stage of the reader that decided.
        reason: Why the answer is unread.
        evidence: What it was read from: "letter", "text" or "prose".
        verdict: "right", "wrong" (another answer, or one where none is clear) or "unread" (none, where one is clear).
        model_read: What a language model makes of it, None where none was asked.
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
    extractor.add_options(job)
    job.set_defaults(job=_read)


def _read(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    results = [read_row(row) for row in read_rows(arguments.file)]
    reader = extractor.from_options(arguments)
    if reader:
        again = read_again([result.row for result in results], reader.ask)
        results = [result._replace(model_read=read) for result, read in zip(results, again, strict=True)]
    # First what may have taken a model hours: where the folder cannot be written, this is there.
    print(json.dumps(counts(results)) if arguments.json else tables(results, reader.name if reader else None))
    if arguments.out:
        write_failures(arguments.out, results)
        if not arguments.json:
            print(f"\nfailures: {arguments.out / 'failures.jsonl'}")
    return 0


def read_rows(path: Path) -> list[Row]:
    """The answers in a file.

    Raises InputError naming the file, the line and the field for what is missing or of another type.
    """
    try:
        text = limits.read_bytes(path, limits.JSON_BYTES).decode()
        lines = text.split("\n")  # not splitlines: a JSON text may hold other ends of line
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
    >>> result = read_row(row)
    >>> result.read, result.outcome, result.evidence, result.verdict
    ('no', 'answered', 'prose', 'right')
    """
    if row.kind == "choice":
        answer = parse_answer(row.text, row.options, row.question)
        read: int | str | None = answer.choice
    else:
        answer = explain_yes_no(row.text, row.question)
        read = answer.answer
    found = UNCLEAR if read is None else read
    return Result(row, found, answer.outcome, answer.stage, answer.reason, answer.evidence, _verdict(row, found))


def read_again(rows: Sequence[Row], ask: language_model.Ask) -> list[int | str]:
    """What a language model makes of each answer.

    Raises: as `ask`.
    """
    of = {kind: [row for row in rows if row.kind == kind] for kind in ("choice", "yes_no")}
    texts = {kind: [row.text for row in of_kind] for kind, of_kind in of.items()}
    choices = language_model.choices(texts["choice"], [(row.question, row.options) for row in of["choice"]], ask)
    said = language_model.yes_no(texts["yes_no"], [row.question for row in of["yes_no"]], ask)
    left: dict[str, Iterator[Any]] = {"choice": iter(choices), "yes_no": iter(said)}
    read = [next(left[row.kind]) for row in rows]
    return [UNCLEAR if one in (None, "unread", "declined") else one for one in read]


def _verdict(row: Row, read: int | str) -> str:
    return "right" if read == row.gold else "unread" if read == UNCLEAR else "wrong"


def counts(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """{kind: {n, right, wrong, unread, how}} of the rows that count; how: {way of reading: n} for `WAYS`.

    Where a language model read, too, also "model" with its right, wrong and unread, and "kappa" of both readings, None
    where undefined.
    """
    return {kind: _counted(found) for kind, found in _grouped(results, "kind").items()}


def tables(results: Sequence[Result], model: str | None = None) -> str:
    """The counts and shares by kind, by source and by model, and how the answers were read, for the terminal.

    model: the name of the language model that read, too; None where none did.
    """
    shares = [f"{verdict} %" for verdict in VERDICTS]
    header = ["answers", *shares, *([*(f"LM {share}" for share in shares), "κ"] if model else [])]
    parts = []
    for name in ("kind", "source", "model"):
        rows = []
        for label, found in _grouped(results, name).items():
            n = _counted(found)
            verdicts = [of[verdict] for of in ([n, n["model"]] if model else [n]) for verdict in VERDICTS]
            kappa = [fraction(n["kappa"])] if model else []
            rows.append([label, f"{n['n']:,}", *(percent(of / n["n"]) for of in verdicts), *kappa])
        parts.append(table([name, *header], rows))
    parts.append(_how_table(results))
    left_out = sum(not result.row.counted for result in results)
    parts.append(
        "right: as the person reads it; wrong: as another answer, or as one where the person finds none clear;\n"
        "unread: as none, where one is clear. How it was read: from a letter, from an option's text or the words yes\n"
        "and no, from sentences (prose); declined: the answer says that it cannot or will not tell.\n"
        f"Not counted: {left_out:,} answers that are {', '.join(LEFT_OUT)}."
    )
    if model:
        parts[-1] += (
            f"\nLM: as {model} reads it. κ: Cohen's, of both readings; unread is a reading of its own. It is undefined "
            "where\nanswers of two kinds stand together, and where all readings are the same one."
        )
    return "\n\n".join(parts)


def _how_table(results: Sequence[Result]) -> str:
    """How the answers of each kind were read, as shares."""
    rows = []
    for kind, found in _grouped(results, "kind").items():
        how = _how(found)
        rows.append([kind, f"{len(found):,}", *(percent(how[way] / len(found)) for way in WAYS)])
    return table(["how it was read", "answers", *(f"{way} %" for way in WAYS)], rows)


def _how(results: Sequence[Result]) -> dict[str, int]:
    ways = Counter(of.evidence if of.outcome == ANSWERED else of.outcome for of in results)
    return {way: ways[way] for way in WAYS}


def write_failures(folder: Path, results: Sequence[Result]) -> None:
    """Writes failures.jsonl: each answer that counts and is not read rightly, with what was read, and how."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / "failures.jsonl") as path, path.open("w", encoding="utf-8") as file:
        for result in results:
            if result.row.counted and result.verdict != "right":
                shown = {**result.row._asdict(), **result._asdict()}
                del shown["row"], shown["counted"]
                if result.model_read is None:
                    del shown["model_read"]
                file.write(json.dumps(shown, ensure_ascii=False) + "\n")


def _grouped(results: Sequence[Result], name: str) -> Mapping[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.row.counted:
            label = f"{result.row.model} ({result.row.kind})" if name == "model" else getattr(result.row, name)
            groups.setdefault(label, []).append(result)
    return dict(sorted(groups.items()))


def _counted(results: Sequence[Result]) -> dict[str, Any]:
    counted: dict[str, Any] = {"n": len(results), **_in_order(result.verdict for result in results)}
    counted["how"] = _how(results)
    theirs = [(result.row, result.model_read) for result in results if result.model_read is not None]
    if not theirs:
        return counted
    agreed = compare_closed_readings([result.read for result in results], [read for _, read in theirs])
    comparable = len({row.kind for row, _ in theirs}) == 1 and not math.isnan(agreed["kappa"])
    model = _in_order(_verdict(row, read) for row, read in theirs)
    return counted | {"model": model, "kappa": agreed["kappa"] if comparable else None}


def _in_order(verdicts: Iterable[str]) -> dict[str, int]:
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in VERDICTS}
