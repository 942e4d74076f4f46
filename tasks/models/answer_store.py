"""Answers of a model in one SQLite file, each written as it comes: a run that was killed asks nothing twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from lm_eval.api.instance import Instance

from ...loaders.errors import InputError
from ..outcomes import UNANSWERED
from .chat_form import Reply

_WAIT_S = 60
"""How long a process waits for others that write the same file."""


def key_of(**facts: Any) -> str:
    """The key of an answer: a SHA-256 of all that it depends on, given as what JSON can write."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def with_repeats(requests: Sequence[Instance]) -> Iterator[tuple[Instance, int]]:
    """Each request with its number among its copies: lm-eval's `repeats` want an answer for each."""
    seen: Counter[int] = Counter()
    for request in requests:
        yield request, seen[id(request)]
        seen[id(request)] += 1


class Kept(NamedTuple):
    """A reply with its key, and the row of a task that it answers."""

    key: str
    reply: Reply
    task: str
    row: str


class Tokens(NamedTuple):
    """Mean tokens of a prompt and of its answer, over n replies of which a server counted them; 0 over none."""

    prompt: float
    answer: float
    n: int


class AnswerStore:
    """Replies by key. The file also says of each reply which row of which task it answers, for whoever looks into it.

    What is put together is one transaction, so that whoever is killed loses only the answers that have not come yet.
    Several processes may write one file.

    Args:
        path: of the file, which is made with the folders above it; None keeps nothing.

    Raises InputError for a file that is no such store, or cannot be written; `put` and `put_all` do so, too.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._database = _opened(path) if path is not None else None

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def keeps(self) -> bool:
        """Whether there is a file."""
        return self._database is not None

    def get(self, key: str) -> Reply | None:
        """The reply under a key; None where there is none, or only the reason why the question was not answered."""
        if self._database is None:
            return None
        row = self._one("SELECT reply FROM answers WHERE key = ? AND outcome != ?", key, UNANSWERED)
        return Reply(**json.loads(row[0])) if row else None

    @property
    def n_answers(self) -> int:
        """How many questions have one."""
        return self._one("SELECT count(*) FROM answers WHERE outcome != ?", UNANSWERED)[0]

    def mean_tokens(self) -> Tokens:
        """As servers counted them in the replies that are kept."""
        of = "json_extract(reply, '$.prompt_tokens')", "json_extract(reply, '$.answer_tokens')"
        query = f"SELECT avg({of[0]}), avg({of[1]}), count(*) FROM answers WHERE {of[0]} + {of[1]} IS NOT NULL"  # noqa: S608
        prompt, answer, n = self._one(query)
        return Tokens(prompt or 0.0, answer or 0.0, n)

    def _one(self, query: str, *given: str) -> Any:
        if self._database is None:
            return 0, 0, 0
        with _told_of(self._path):
            return self._database.execute(query, given).fetchone()

    def put(self, key: str, reply: Reply, task: str, row: str) -> None:
        """Keeps a reply in the place of an earlier one."""
        self.put_all([Kept(key, reply, task, row)])

    def put_all(self, batch: Iterable[Kept]) -> None:
        """Keeps the replies of a batch, all or, where the process is killed, none."""
        if self._database is not None:
            values = [
                (key, task, row, reply.outcome, json.dumps(reply._asdict(), ensure_ascii=False))
                for key, reply, task, row in batch
            ]
            with _told_of(self._path), self._database:
                self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", values)


def _opened(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _told_of(path), contextlib.ExitStack() as failed:
        database = failed.enter_context(contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)))
        _log_ahead(database)
        database.execute("PRAGMA synchronous = NORMAL")
        with database:
            columns = "key TEXT PRIMARY KEY, task TEXT, row TEXT, outcome TEXT NOT NULL, reply TEXT NOT NULL"
            database.execute(f"CREATE TABLE IF NOT EXISTS answers ({columns})")
        database.execute("SELECT key, task, row, outcome, reply FROM answers LIMIT 1")
        failed.pop_all()
        return database


@contextlib.contextmanager
def _told_of(path: Path | None) -> Iterator[None]:
    """SQLite's errors as InputErrors: a full disk, say, a folder that may not be written, or a file that is damaged."""
    try:
        yield
    except sqlite3.OperationalError as error:
        action = "make space, or let the folder be written, and run it again; answers that are in it are not asked for"
        raise InputError(str(path), f"cannot be used ({error})", action=f"{action} again") from error
    except sqlite3.DatabaseError as error:
        action = "move it away, and its answers are asked for again; or name another with answers=FILE in --model_args"
        raise InputError(str(path), f"is no store of answers ({error})", action=action) from error


def _log_ahead(database: sqlite3.Connection) -> None:
    """A write-ahead log leaves a whole file where a process is killed.

    SQLite does not wait for other processes while it changes the journal: so this does.
    """
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
