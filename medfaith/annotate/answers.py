"""The file of answers: JSON lines, each synchronized to disk before the next question.

The kind of a line is "choice" (the sentence that an annotator chose for an image before seeing a heatmap), "judgement"
(of one model's heatmap) or "error" (the judgement of a failed answer). Lines are only appended. When the file is read,
a second judgement of the same item replaces the first. A killed process leaves at most one incomplete line at the end,
which the next writer removes.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from filelock import FileLock, Timeout

from medfaith.loaders.atomic import require_replaceable
from medfaith.loaders.errors import InputError

from .wording import CATEGORIES, FIXES

POINTS = range(1, 6)
EXPECTED = "a line that medfaith annotate wrote"
_TEXT, _TEXT_OR_NULL = ((str,), "a text"), ((str, type(None)), "a text or null")
_POINTS = (int,), "a whole number from 1 to 5"
_FIELDS = {  # field of a line -> its types and their description; other fields are texts
    "row_id": _TEXT_OR_NULL, "heatmaps": _TEXT_OR_NULL, "custom": ((bool,), "true or false"),
    "recall": _POINTS, "precision": _POINTS, "intuitiveness": _POINTS,
    "seconds": ((int, float), "a number"), "seed": ((int, float), "a number"),
}  # fmt: skip


_NAMES = {"category": CATEGORIES, "fix": FIXES}


class Choice(NamedTuple):
    """The sentence that an annotator chose for an instance."""

    annotator: str
    instance: str
    row_id: str
    sentence: str
    version: str


class Judgement(NamedTuple):
    """An annotator's judgement of one model's heatmap.

    Attributes:
        annotator: The name of the annotator.
        instance: The key of the image.
        patient_id: The patient of the image.
        row_id: The id of the report sentence; None for a custom prompt.
        sentence: The text of the prompt.
        custom: Whether the prompt is custom.
        model: The real name of the model.
        alias: The displayed name of the model.
        recall: 1 to 5, bins of 20% (section 3.3, Figure 4).
        precision: 1 to 5, bins of 20%.
        intuitiveness: 1 to 5.
        heatmaps: The reference in the store; None for a custom prompt.
        seconds: The time from the heatmap to the answer.
        seed: The seed of the session.
        version: The version of medfaith.
    """

    annotator: str
    instance: str
    patient_id: str
    row_id: str | None
    sentence: str
    custom: bool
    model: str
    alias: str
    recall: int
    precision: int
    intuitiveness: int
    heatmaps: str | None
    seconds: float
    seed: int
    version: str

    @property
    def item(self) -> tuple[str, str, bool, str]:
        """The judged item. Two judgements with one annotator and item answer the same question."""
        return self.instance, self.sentence if self.row_id is None else self.row_id, self.custom, self.model


class ErrorJudgement(NamedTuple):
    """An annotator's judgement of a failed answer.

    Attributes:
        annotator: The name of the annotator.
        task: The task of the answer.
        row_id: The id of the row.
        model: The name of the model.
        category: A name in `wording.CATEGORIES`.
        fix: A name in `wording.FIXES`.
        seconds: The time from the question to the judgement.
        version: The version of medfaith.
    """

    annotator: str
    task: str
    row_id: str
    model: str
    category: str
    fix: str
    seconds: float
    version: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the question. Two judgements with one key answer the same question."""
        return self.annotator, self.task, self.row_id, self.model


@dataclass
class Answers:
    """All answers of a file, which is open for more. `open_answers` creates it.

    Attributes:
        path: The file.
        choices: (annotator, instance) -> choice.
        judgements: (annotator, *item) -> last judgement.
        errors: Key -> last judgement of a failed answer.
    """

    path: Path
    choices: dict[tuple[str, str], Choice]
    judgements: dict[tuple[str, ...], Judgement]
    errors: dict[tuple[str, ...], ErrorJudgement]
    _file: BinaryIO

    def choose(self, choice: Choice) -> None:
        """Write a choice.

        Args:
            choice: The choice.

        Raises:
            OSError: The disk failed. The file is unchanged.
        """
        self._append({"kind": "choice", **choice._asdict()})
        self.choices[choice.annotator, choice.instance] = choice

    def judge(self, judgement: Judgement) -> None:
        """Write a judgement.

        Args:
            judgement: The judgement.

        Raises:
            OSError: The disk failed. The file is unchanged.
        """
        self._append({"kind": "judgement", **judgement._asdict()})
        self.judgements[_build_key(judgement)] = judgement

    def judge_error(self, judgement: ErrorJudgement) -> None:
        """Write the judgement of a failed answer.

        Args:
            judgement: The judgement.

        Raises:
            OSError: The disk failed. The file is unchanged.
        """
        self._append({"kind": "error", **judgement._asdict()})
        self.errors[judgement.key] = judgement

    def get_judgement(self, annotator: str, item: tuple[str, str, bool, str]) -> Judgement | None:
        """Return the annotator's last judgement of an item, or None.

        Args:
            annotator: The name of the annotator.
            item: The item.

        Returns:
            The judgement, or None.
        """
        return self.judgements.get((annotator, *map(str, item)))

    def _append(self, record: Mapping[str, Any]) -> None:
        end = self._file.seek(0, os.SEEK_END)
        try:
            line = json.dumps(record).encode() + b"\n"
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise


@contextmanager
def open_answers(path: Path) -> Iterator[tuple[Answers, list[str]]]:
    """Open a file of answers, which is created if it is missing.

    Args:
        path: The file.

    Yields:
        The answers, and notes on removed lines.

    Raises:
        InputError: Another process has opened the file, or it is a folder or a device, or holds something else. The
            file is unchanged.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise InputError(path, "is a folder", action="name a file: --out annotations.jsonl")
    require_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        action = "end the other medfaith annotate, or choose another --out"
        raise InputError(path, "another process writes answers to it", action=action) from None
    try:
        contents = _read_contents(path) if path.exists() else _Contents({}, {}, {}, 0, [])
        with path.open("ab", buffering=0) as file:  # unbuffered: each line is one write
            file.truncate(contents.n_complete)
            yield Answers(path, contents.choices, contents.judgements, contents.errors, file), contents.notes
    finally:
        empty = path.is_file() and not path.stat().st_size
        if empty:  # no answers: a run with a wrong argument leaves no file
            path.unlink()
        lock.release()
        if empty:
            Path(lock.lock_file).unlink(missing_ok=True)


def read_judgements(path: Path) -> tuple[list[Judgement], list[str]]:
    """Read the last judgement of each annotator and item. Another process may write the file at the same time.

    Args:
        path: The file of answers.

    Returns:
        The judgements, and notes on lines that do not count.

    Raises:
        InputError: The file is missing or holds something else. The error names the line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        result = "is a folder" if path.is_dir() else "no such file"
        raise InputError(path, result, expected="the file of answers that medfaith annotate wrote")
    result = _read_contents(path)
    return list(result.judgements.values()), result.notes


def read_errors(paths: Sequence[Path]) -> list[ErrorJudgement]:
    """Read the last judgement of each annotator and failed answer.

    Args:
        paths: Files of answers.

    Returns:
        The judgements. A file that is named twice counts once.

    Raises:
        InputError: As in `read_judgements`.
    """
    files = dict.fromkeys(Path(path).expanduser().resolve() for path in paths)
    return list({key: judgement for path in files for key, judgement in _read_contents(path).errors.items()}.values())


def read_files(paths: Sequence[Path]) -> tuple[list[Judgement], list[str]]:
    """Read the judgements of several files.

    Args:
        paths: Files of answers.

    Returns:
        The judgements, and notes on lines that do not count.

    Raises:
        InputError: A file cannot be read, no file has a judgement, or two files have one annotator's answer to one
            question.
    """
    sources_by_key: dict[tuple, tuple[Judgement, Path]] = {}
    notes = []
    for path in dict.fromkeys(Path(path).expanduser().resolve() for path in paths):
        judgements, file_notes = read_judgements(path)
        notes += file_notes
        for judgement in judgements:
            key = (judgement.annotator, *judgement.item)
            if key in sources_by_key:
                raise InputError(
                    path,
                    f"{judgement.annotator!r} judges {judgement.instance} here and in {sources_by_key[key][1]}",
                    action="give one file for each person; if two people share a name, give each another --annotator",
                )
            sources_by_key[key] = judgement, path
    if not sources_by_key and not read_errors(paths):
        where = ", ".join(map(str, paths)) or "no file"
        raise InputError(where, "has no judgement", action="judge some heatmaps with medfaith annotate")
    return [judgement for judgement, _ in sources_by_key.values()], notes


class _Contents(NamedTuple):
    """The contents of a file, as in `Answers`. `n_complete` is the number of bytes in complete lines."""

    choices: dict[tuple[str, str], Choice]
    judgements: dict[tuple[str, ...], Judgement]
    errors: dict[tuple[str, ...], ErrorJudgement]
    n_complete: int
    notes: list[str]


def _read_contents(path: Path) -> _Contents:
    choices: dict[tuple[str, str], Choice] = {}
    judgements: dict[tuple[str, ...], Judgement] = {}
    errors: dict[tuple[str, ...], ErrorJudgement] = {}
    content = path.read_bytes()
    n_complete = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:n_complete].splitlines(), start=1):
        record = _parse_record(path, number, line)
        if isinstance(record, Choice):
            choices[record.annotator, record.instance] = record
        elif isinstance(record, ErrorJudgement):
            errors[record.key] = record
        else:
            judgements[_build_key(record)] = record
    notes = []
    if n_complete < len(content):
        notes.append(f"{path}: the last line was cut short ({len(content) - n_complete} bytes) and does not count")
    return _Contents(choices, judgements, errors, n_complete, notes)


def _build_key(judgement: Judgement) -> tuple[str, ...]:
    return judgement.annotator, *map(str, judgement.item)


def _parse_record(path: Path, number: int, line: bytes) -> Choice | Judgement | ErrorJudgement:
    try:
        fields = json.loads(line)
        kind = {"choice": Choice, "judgement": Judgement, "error": ErrorJudgement}[fields.pop("kind")]
        record = kind(**fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        problem = "is no answer"
        raise InputError(path, problem, row=number, expected=EXPECTED, action="name another file, or fix it") from None
    for name, value in record._asdict().items():
        types, expected = field = _FIELDS.get(name, _TEXT)
        names = _NAMES.get(name)
        if type(value) not in types or (field is _POINTS and value not in POINTS):
            raise InputError(path, f"is {value!r:.200}", row=number, column=name, expected=expected)
        if names is not None and value not in names:
            raise InputError(path, f"is {value!r:.200}", row=number, column=name, expected=" or ".join(names))
    return record
