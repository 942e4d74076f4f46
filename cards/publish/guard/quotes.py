"""Text of a report in what is to be published: RUN words in a row that both have; in a recipe also a short sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ....builders.registry import BENCHMARKS
from ....loaders.errors import InputError
from ... import policy
from ...publication import Publication
from . import columns
from .found import Found, Value, refusal, shortened

RUN = 8
SHORT = 4  # words of the shortest sentence that is looked for
_WORD = re.compile(r"[^\W_]+")
_END = re.compile(r"[.!?;:](?=\s|$)|\n")


class Text(NamedTuple):
    """A report that nothing published may quote. where: what an error calls it."""

    where: str
    text: str


class Quotable:
    """The runs of words of what is to be published, to be looked up in reports.

    Memory grows with the distinct texts that are published, not with the reports, which are read once.
    """

    def __init__(self, *, short: bool = False) -> None:
        """short: whether to look for whole sentences of SHORT words or more, and not only for RUN words in a row."""
        self._lengths = range(SHORT if short else RUN, RUN + 1)
        self._runs: dict[str, tuple[Value, int]] = {}

    def add(self, value: Value) -> None:
        for length in self._lengths:
            for run, start in _runs(value.text, length):
                self._runs.setdefault(run, (value, start))

    def quoted(self, texts: Iterable[Text]) -> Iterator[InputError]:
        """One refusal for each text that is quoted."""
        if not self._runs:
            return
        for text in texts:
            run = next((run for run in self._sought(text.text) if run in self._runs), None)
            if run:
                value, start = self._runs[run]
                what = f"quotes {text.where}: {shortened(run)}"
                yield refusal(value, Found(what, start, f"nothing of a report: {self._allowed()}"))

    def _sought(self, text: str) -> Iterator[str]:
        yield from (run for run, _ in _runs(text, RUN))
        for sentence in _END.split(text):
            words = _WORD.findall(sentence.lower())
            if len(words) in self._lengths[:-1]:
                yield " ".join(words)

    def _allowed(self) -> str:
        whole = f"no whole sentence of {SHORT} words or more, and " if len(self._lengths) > 1 else ""
        return f"{whole}no {RUN} words in a row"


def of_build(publication: Publication) -> Iterator[Text]:
    """Every text of a recipe's rows that is in the source's own words; none of rows that are published themselves."""
    named = quoted_columns(publication)
    if publication.policy == policy.RECIPE and named:
        for config, split, table in publication.tables():
            for column, values in columns.distinct(table.select(named)):
                yield from (Text(f"{config}/{split}, {column} of row {row}", text) for text, row in values)


def quoted_columns(publication: Publication) -> list[str]:
    """The columns in the source's own words that the benchmark names for the source of this build."""
    return list(BENCHMARKS[publication.record["benchmark"]].quoted.get(publication.record["source"], ()))


def _runs(text: str, length: int) -> Iterator[tuple[str, int]]:
    """Every `length` words in a row, in lower case with a space between them, and where they begin."""
    words = list(_WORD.finditer(text))
    names = [word[0].lower() for word in words]
    for i in range(len(words) - length + 1):
        yield " ".join(names[i : i + length]), words[i].start()
