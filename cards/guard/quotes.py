"""Text of a report in what is to be published: RUN words in a row that both have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...loaders.errors import InputError
from .found import Found, Value, refusal, shortened

RUN = 8
_WORD = re.compile(r"[^\W_]+")


class Text(NamedTuple):
    """A report that nothing published may quote. where: what an error calls it."""

    where: str
    text: str


class Quotable:
    """The runs of words of what is to be published, to be looked up in reports.

    Memory grows with the distinct texts that are published, not with the reports, which are read once.
    """

    def __init__(self) -> None:
        self._runs: dict[str, tuple[Value, int]] = {}

    def add(self, value: Value) -> None:
        for run, start in _runs(value.text):
            self._runs.setdefault(run, (value, start))

    def quoted(self, texts: Iterable[Text]) -> Iterator[InputError]:
        """One refusal for each text that is quoted."""
        if not self._runs:
            return
        for text in texts:
            for run, _ in _runs(text.text):
                if run in self._runs:
                    value, start = self._runs[run]
                    what = f"quotes {text.where}: {shortened(run)}"
                    expected = f"nothing of a report: no {RUN} words in a row that it has, too"
                    yield refusal(value, Found(what, start, expected))
                    break


def _runs(text: str) -> Iterator[tuple[str, int]]:
    """Every RUN words in a row, in lower case with a space between them, and where they begin."""
    words = list(_WORD.finditer(text))
    names = [word[0].lower() for word in words]
    for i in range(len(words) - RUN + 1):
        yield " ".join(names[i : i + RUN]), words[i].start()
