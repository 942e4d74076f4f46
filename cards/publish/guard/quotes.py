"""Quotations of reports in published texts: RUN consecutive words; in a recipe also a short sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ....builders.registry import BENCHMARKS
from ....loaders.errors import InputError
from ... import policy
from ...publication import Publication
from . import columns
from .found import Found, Value, build_refusal, shorten

RUN = 8
SHORT = 4  # words of the shortest sentence to search for
_WORD = re.compile(r"[^\W_]+")
_END = re.compile(r"[.!?;:](?=\s|$)|\n")


class Text(NamedTuple):
    """A report that no published file may quote.

    Attributes:
        where: Its name in an error.
        text: The report.
    """

    where: str
    text: str


class Quotable:
    """The runs of words of the published texts, to be found in reports.

    Memory grows with the distinct published texts, not with the reports, which are read once.
    """

    def __init__(self, *, short: bool = False) -> None:
        """Create an empty index.

        Args:
            short: Whether to search for complete sentences of SHORT words or more, and not only for RUN consecutive
                words.
        """
        self._lengths = range(SHORT if short else RUN, RUN + 1)
        self._runs: dict[str, tuple[Value, int]] = {}

    def add(self, value: Value) -> None:
        """Add the runs of words of a published text.

        Args:
            value: The text.
        """
        for length in self._lengths:
            for run, start in _iterate_runs(value.text, length):
                self._runs.setdefault(run, (value, start))

    def find_quoted(self, texts: Iterable[Text]) -> Iterator[InputError]:
        """Find quotations.

        Args:
            texts: The reports.

        Yields:
            One refusal for each report that is quoted.
        """
        if not self._runs:
            return
        for text in texts:
            run = next((run for run in self._iterate_phrases(text.text) if run in self._runs), None)
            if run:
                value, start = self._runs[run]
                problem = f"quotes {text.where}: {shorten(run)}"
                yield build_refusal(value, Found(problem, start, f"nothing of a report: {self._describe_limit()}"))

    def _iterate_phrases(self, text: str) -> Iterator[str]:
        yield from (run for run, _ in _iterate_runs(text, RUN))
        for sentence in _END.split(text):
            tokens = _WORD.findall(sentence.lower())
            if len(tokens) in self._lengths[:-1]:
                yield " ".join(tokens)

    def _describe_limit(self) -> str:
        sentence_limit = f"no whole sentence of {SHORT} words or more, and " if len(self._lengths) > 1 else ""
        return f"{sentence_limit}no {RUN} words in a row"


def iterate_source_texts(publication: Publication) -> Iterator[Text]:
    """Iterate over the texts of a recipe's rows that are in the source's own words; none if the rows are published.

    Args:
        publication: The build.

    Yields:
        The texts.
    """
    column_names = list_quoted_columns(publication)
    if publication.policy == policy.RECIPE and column_names:
        for config, split, table in publication.tables():
            for column, values in columns.iterate_distinct(table.select(column_names)):
                yield from (Text(f"{config}/{split}, {column} of row {row}", text) for text, row in values)


def list_quoted_columns(publication: Publication) -> list[str]:
    """List the columns in the source's own words, which the benchmark declares for the source of this build.

    Args:
        publication: The build.

    Returns:
        The names.
    """
    return list(BENCHMARKS[publication.record["benchmark"]].quoted.get(publication.record["source"], ()))


def _iterate_runs(text: str, length: int) -> Iterator[tuple[str, int]]:
    """Yield every `length` consecutive words, in lower case with a space between them, and their position."""
    matches = list(_WORD.finditer(text))
    names = [word[0].lower() for word in matches]
    for i in range(len(matches) - length + 1):
        yield " ".join(names[i : i + length]), matches[i].start()
