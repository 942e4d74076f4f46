"""The file of answers: JSON lines, each on the disk before the next question is asked.

A line is a choice ("kind": "choice"), the sentence that an annotator chose of an image before any heatmap was shown, a
judgement ("kind": "judgement") of one model's heatmap, or what is said of a failed answer ("kind": "error"). Lines are
only added: a second judgement of the same thing takes the place of the first when the file is read. A process that is
killed leaves at most one line cut short, at the end, which the next to write removes.
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

from medfaith.loaders.errors import InputError

from .wording import CATEGORIES, FIXES

POINTS = range(1, 6)
EXPECTED = "a line that medfaith annotate wrote"
_TEXT, _TEXT_OR_NULL = ((str,), "a text"), ((str, type(None)), "a text or null")
_POINTS = (int,), "a whole number from 1 to 5"
_FIELDS = {  # of a line; every other one is a text
    "row_id": _TEXT_OR_NULL, "heatmaps": _TEXT_OR_NULL, "custom": ((bool,), "true or false"),
    "recall": _POINTS, "precision": _POINTS, "intuitiveness": _POINTS,
    "seconds": ((int, float), "a number"), "seed": ((int, float), "a number"),
}  # fmt: skip


_NAMES = {"category": CATEGORIES, "fix": FIXES}


class Choice(NamedTuple):
    """The sentence that an annotator chose of an instance."""

    annotator: str
    instance: str
    row_id: str
    sentence: str
    version: str


class Judgement(NamedTuple):
    """What an annotator said of one model's heatmap.

    instance: key of the image. row_id: of the report's sentence, None for a custom prompt. model: its real name, alias
    the one that was shown. recall, precision: 1 to 5, bins of 20% (section 3.3, Figure 4); intuitiveness: 1 to 5.
    heatmaps: the reference in the store, None for a custom prompt. seconds: from the heatmap to the answer.
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
        """What was judged: two judgements of one annotator and item are the same question, answered twice."""
        return self.instance, self.sentence if self.row_id is None else self.row_id, self.custom, self.model


class ErrorJudgement(NamedTuple):
    """What an annotator said of a failed answer. category, fix: names in `errors.CATEGORIES` and `errors.FIXES`."""

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
        """Two of one key are the same question, answered twice."""
        return self.annotator, self.task, self.row_id, self.model


@dataclass
class Answers:
    """All answers of a file, and the file, open for more; made by `open_answers`.

    choices: by (annotator, instance). judgements: by (annotator, *item), errors: by their keys, the last of each.
    """

    path: Path
    choices: dict[tuple[str, str], Choice]
    judgements: dict[tuple[str, ...], Judgement]
    errors: dict[tuple[str, ...], ErrorJudgement]
    _file: BinaryIO

    def choose(self, choice: Choice) -> None:
        """Writes a choice. Raises OSError where the disk does not take it, and the file is as it was."""
        self._append({"kind": "choice", **choice._asdict()})
        self.choices[choice.annotator, choice.instance] = choice

    def judge(self, judgement: Judgement) -> None:
        """Writes a judgement. Raises OSError where the disk does not take it, and the file is as it was."""
        self._append({"kind": "judgement", **judgement._asdict()})
        self.judgements[_key(judgement)] = judgement

    def judge_error(self, judgement: ErrorJudgement) -> None:
        """Writes what is said of a failed answer. Raises as `judge`."""
        self._append({"kind": "error", **judgement._asdict()})
        self.errors[judgement.key] = judgement

    def judged(self, annotator: str, item: tuple[str, str, bool, str]) -> Judgement | None:
        """The annotator's last judgement of an item."""
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
    """The answers that a file has and a way to add to them, with notes on what was mended; the file is new if need be.

    Raises:
        InputError: another process has it open, or it holds something else than answers (and stays as it is).
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise InputError(path, "is a folder", action="name a file: --out annotations.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        action = "end the other medfaith annotate, or choose another --out"
        raise InputError(path, "another process writes answers to it", action=action) from None
    try:
        found = _read(path) if path.exists() else _Read({}, {}, {}, 0, [])
        with path.open("ab", buffering=0) as file:  # unbuffered: a line is one write
            file.truncate(found.n_whole)
            yield Answers(path, found.choices, found.judgements, found.errors, file), found.notes
    finally:
        empty = path.is_file() and not path.stat().st_size
        if empty:  # nothing was answered: what follows from a wrong argument leaves no file
            path.unlink()
        lock.release()
        if empty:
            Path(lock.lock_file).unlink(missing_ok=True)


def read_judgements(path: Path) -> tuple[list[Judgement], list[str]]:
    """The last judgement of each annotator and item in a file, and notes; the file may be written meanwhile.

    Raises InputError, which names the line, for a file that is missing or holds something else.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "no such file"
        raise InputError(path, found, expected="the file of answers that medfaith annotate wrote")
    found = _read(path)
    return list(found.judgements.values()), found.notes


def read_errors(paths: Sequence[Path]) -> list[ErrorJudgement]:
    """The last judgement of each annotator and failed answer in files of answers. Raises as `read_judgements`."""
    files = dict.fromkeys(Path(path).expanduser().resolve() for path in paths)
    return list({key: one for path in files for key, one in _read(path).errors.items()}.values())


def read_files(paths: Sequence[Path]) -> tuple[list[Judgement], list[str]]:
    """The judgements in files of answers, and notes on lines that do not count.

    Raises:
        InputError: a file that cannot be read, no judgement in any, or one annotator's answer to one question in two.
    """
    found: dict[tuple, tuple[Judgement, Path]] = {}
    notes = []
    for path in dict.fromkeys(Path(path).expanduser().resolve() for path in paths):
        judgements, of_file = read_judgements(path)
        notes += of_file
        for one in judgements:
            key = (one.annotator, *one.item)
            if key in found:
                raise InputError(
                    path,
                    f"{one.annotator!r} judges {one.instance} here and in {found[key][1]}",
                    action="give one file for each person; if two people share a name, give each another --annotator",
                )
            found[key] = one, path
    if not found and not read_errors(paths):
        where = ", ".join(map(str, paths)) or "no file"
        raise InputError(where, "has no judgement", action="judge some heatmaps with medfaith annotate")
    return [one for one, _ in found.values()], notes


class _Read(NamedTuple):
    """What a file has, as `Answers` keeps it. n_whole: bytes of whole lines."""

    choices: dict[tuple[str, str], Choice]
    judgements: dict[tuple[str, ...], Judgement]
    errors: dict[tuple[str, ...], ErrorJudgement]
    n_whole: int
    notes: list[str]


def _read(path: Path) -> _Read:
    choices: dict[tuple[str, str], Choice] = {}
    judgements: dict[tuple[str, ...], Judgement] = {}
    errors: dict[tuple[str, ...], ErrorJudgement] = {}
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        record = _record(path, number, line)
        if isinstance(record, Choice):
            choices[record.annotator, record.instance] = record
        elif isinstance(record, ErrorJudgement):
            errors[record.key] = record
        else:
            judgements[_key(record)] = record
    notes = []
    if whole < len(content):
        notes.append(f"{path}: the last line was cut short ({len(content) - whole} bytes) and does not count")
    return _Read(choices, judgements, errors, whole, notes)


def _key(judgement: Judgement) -> tuple[str, ...]:
    return judgement.annotator, *map(str, judgement.item)


def _record(path: Path, number: int, line: bytes) -> Choice | Judgement | ErrorJudgement:
    try:
        fields = json.loads(line)
        kind = {"choice": Choice, "judgement": Judgement, "error": ErrorJudgement}[fields.pop("kind")]
        record = kind(**fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        found = "is no answer"
        raise InputError(path, found, row=number, expected=EXPECTED, action="name another file, or mend it") from None
    for name, value in record._asdict().items():
        types, expected = field = _FIELDS.get(name, _TEXT)
        known = _NAMES.get(name)
        if type(value) not in types or (field is _POINTS and value not in POINTS):
            raise InputError(path, f"is {value!r:.200}", row=number, column=name, expected=expected)
        if known is not None and value not in known:
            raise InputError(path, f"is {value!r:.200}", row=number, column=name, expected=" or ".join(known))
    return record
