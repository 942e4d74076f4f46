"""Answers of a model in one SQLite file. Each answer is written as it arrives, so an interrupted run can resume."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ...loaders.errors import InputError
from ..outcomes import UNANSWERED
from .chat_form import Reply

_COLUMNS = "key TEXT PRIMARY KEY, task TEXT, row TEXT, outcome TEXT NOT NULL, reply TEXT NOT NULL"
_WAIT_S = 60
"""Seconds that a process waits for other processes that write the same file."""


def hash_facts(**facts: Any) -> str:
    """Compute the key of an answer: a SHA-256 of everything that the answer depends on.

    Args:
        **facts: Values that JSON can encode.

    Returns:
        The hexadecimal digest; the order of the facts does not change it.
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class StoredReply(NamedTuple):
    """A reply with its key, and the task and row that it answers; both are for people who look into the file."""

    key: str
    reply: Reply
    task: str
    row: str = ""


class Tokens(NamedTuple):
    """Mean numbers of tokens of a prompt and its answer.

    Attributes:
        prompt: Mean tokens of a prompt, 0 without replies.
        answer: Mean tokens of an answer, 0 without replies.
        n: Number of replies with token counts.
    """

    prompt: float
    answer: float
    n: int


class AnswerStore:
    """Replies by key. The file also records the task and the row of each reply.

    Each call of `put` is one transaction, so an interrupted process loses only the answers that had not arrived yet.
    Several processes may write one file. `get` and `put` raise InputError if the file cannot be used.

    Args:
        path: Path of the file. It is created together with its parent folders; with None nothing is stored.
        option: The option that names the file, for messages.

    Raises:
        InputError: The file is not such a store, or it cannot be written.
    """

    def __init__(self, path: Path | None, option: str = "answers=FILE in --model_args") -> None:
        self._path, self._option = path, option
        self._database = None if path is None else self._open_database(path)

    def __enter__(self) -> AnswerStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def has_file(self) -> bool:
        """Whether replies are stored."""
        return self._database is not None

    def get(self, key: str) -> Reply | None:
        """Get the reply of a key.

        Args:
            key: Key of the answer (`hash_facts`).

        Returns:
            The reply, or None if the key is missing or its question was not answered.
        """
        if self._database is None:
            return None
        row = self._fetch_row("SELECT reply FROM answers WHERE key = ? AND outcome != ?", key, UNANSWERED)
        with self._raise_input_errors():
            return Reply(**json.loads(row[0])) if row else None

    @property
    def n_answers(self) -> int:
        """Number of answered questions."""
        return self._fetch_row("SELECT count(*) FROM answers WHERE outcome != ?", UNANSWERED)[0]

    def mean_tokens(self) -> Tokens:
        """Compute the mean numbers of tokens that servers counted in the stored replies."""
        names = "json_extract(reply, '$.prompt_tokens')", "json_extract(reply, '$.answer_tokens')"
        query = (
            f"SELECT avg({names[0]}), avg({names[1]}), count(*) FROM answers WHERE {names[0]} + {names[1]} IS NOT NULL"  # noqa: S608
        )
        prompt, answer, n = self._fetch_row(query)
        return Tokens(prompt or 0.0, answer or 0.0, n)

    def _fetch_row(self, query: str, *parameters: str) -> Any:
        if self._database is None:
            return 0, 0, 0
        with self._raise_input_errors():
            return self._database.execute(query, parameters).fetchone()

    def put(self, *replies: StoredReply) -> None:
        """Store replies in one transaction; each replaces an earlier one of its key.

        Args:
            *replies: The replies.
        """
        if self._database is not None:
            values = [
                (key, task, row, reply.outcome, json.dumps(reply._asdict(), ensure_ascii=False))
                for key, reply, task, row in replies
            ]
            with self._raise_input_errors(), self._database:
                self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", values)

    def _open_database(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._raise_input_errors(), contextlib.ExitStack() as failed:
            database = failed.enter_context(contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)))
            _check_tables(database)
            _set_write_ahead(database)
            database.execute("PRAGMA synchronous = NORMAL")
            with database:
                database.execute(f"CREATE TABLE IF NOT EXISTS answers ({_COLUMNS})")
            failed.pop_all()
            return database

    @contextlib.contextmanager
    def _raise_input_errors(self) -> Iterator[None]:
        """Convert SQLite's errors, such as a full disk, a read-only folder or a damaged file, to InputError."""
        where = str(self._path)
        try:
            yield
        except sqlite3.OperationalError as error:
            action = "make space, or let the folder be written, and run it again; answers in it are not asked for again"
            raise InputError(where, f"cannot be used ({error})", action=action) from error
        except (sqlite3.DatabaseError, RecursionError, TypeError, ValueError) as error:  # also of a reply in it
            action = f"move it away, and its answers are asked for again; or name another with {self._option}"
            expected = "a new file, or one in which this version of medfaith stored answers"
            raise InputError(where, f"is no store of answers ({error})", expected=expected, action=action) from error


def _check_tables(database: sqlite3.Connection) -> None:
    """Refuse a database of another program before it is changed."""
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    columns = database.execute("SELECT name FROM pragma_table_info('answers')").fetchall()
    if tables and [name for (name,) in columns] != [column.split()[0] for column in _COLUMNS.split(", ")]:
        raise sqlite3.DatabaseError(f"its tables are of another kind: {', '.join(name for (name,) in tables)}")


def _set_write_ahead(database: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, which keeps it consistent if a process is killed.

    SQLite does not wait for other processes while it changes the journal mode, so this function retries.
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
