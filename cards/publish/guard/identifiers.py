"""Identifiers of rows, studies, patients and images that a licence restricts to the holders of the source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, dropwhile
from pathlib import Path
from typing import Any, NamedTuple

from ...publication import Publication
from . import columns
from .found import Found, shorten

LARGE = 10_000_000  # counts are smaller
EXPECTED = "no identifier of a source whose licence withholds them"
NAMES = ("id", "original_id", "study_id", "patient_id", "key")  # columns, or fields of a struct
LENGTH = 6
_TOKEN = re.compile(r"[A-Za-z0-9]+")


class Withheld(NamedTuple):
    """The identifiers of a build that must not be published.

    Attributes:
        parts: Words that identify.
        wholes: Sequences of words that identify together.
        lengths: The lengths of these sequences.
    """

    parts: set[str]
    wholes: set[tuple[str, ...]]
    lengths: list[int]


def collect_withheld(publication: Publication) -> Withheld:
    """Collect the identifying parts of a build's ids and image paths, in lower case.

    These have LENGTH characters or more and a digit; for `p10000032`, also `10000032`. Names of the release's own
    files, configs and splits are excluded, although ids contain them. An identifier without such a part counts as a
    sequence, also without these names: `test_00028` for `rexvqa/test/test_00028`.

    Args:
        publication: The build.

    Returns:
        The identifiers.
    """
    record = publication.record
    release_words = {token.lower() for name in _iterate_vocabulary(record) for token in _TOKEN.findall(name)}
    tokens: set[str] = set()
    sequences: set[tuple[str, ...]] = set()
    for _, _, table in publication.tables():
        for path, values in columns.iterate_distinct(table):
            if path.split(".")[-1] in NAMES:
                for text, _ in values:
                    text_tokens = {token for token, _ in _iterate_tokens(text)} - release_words
                    tokens |= text_tokens
                    if not text_tokens:
                        sequences.update(_iterate_sequences(text, release_words))
    return Withheld(tokens, sequences, sorted(set(map(len, sequences))))


def find(text: str, identifiers: Withheld, figures: Collection[str]) -> Found | None:
    """Find the first identifier in a text.

    Args:
        text: The text.
        identifiers: The withheld identifiers.
        figures: Numbers with another meaning, such as a file's size.

    Returns:
        The leak, or None.
    """
    for token, start in _iterate_tokens(text):
        if token in identifiers.parts and token not in figures:
            return Found(f"holds the identifier {shorten(text[start : start + len(token)])}", start, EXPECTED)
    tokens = [(word[0].lower(), *word.span()) for word in _TOKEN.finditer(text)] if identifiers.wholes else []
    for length in identifiers.lengths:
        for i in range(len(tokens) - length + 1):
            if tuple(word for word, _, _ in tokens[i : i + length]) in identifiers.wholes:
                start, end = tokens[i][1], tokens[i + length - 1][2]
                return Found(f"holds the identifier {shorten(text[start:end])}", start, EXPECTED)
    return None


def find_key(text: str, keys: Collection[str]) -> Found | None:
    """Find the first of a build's keys in a text: its owner can test which rows the hashes of a manifest belong to.

    Args:
        text: The text.
        keys: The keys.

    Returns:
        The leak, or None.
    """
    lower = text.lower()
    start = next((start for key in keys if (start := lower.find(key)) >= 0), None)
    return None if start is None else Found("holds a key of the hashes", start, "locked keys")


def collect_figures(staged: Path, record: Mapping[str, Any]) -> set[str]:
    """Collect numbers that a card may state and that may equal an identifier by chance.

    Args:
        staged: The staged folder; sizes of files in bytes count.
        record: The content of build.json; its numbers count.

    Returns:
        The numbers as texts.
    """
    sizes = [path.stat().st_size for path in staged.rglob("*") if path.is_file()]
    parquet = [path.stat().st_size for path in staged.rglob("*.parquet")]
    counts = [number for number in _iterate_numbers(record) if number < LARGE]
    return {str(number) for number in (*counts, *sizes, sum(sizes), sum(parquet))}


def _iterate_vocabulary(record: Mapping[str, Any]) -> Iterator[str]:
    yield from (record["benchmark"], record["source"], *record["sources"], *record["splits"])


def _iterate_sequences(text: str, release_words: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Yield the words of an identifier, with and without leading names of the release, if several with a digit."""
    steps = [tuple(_TOKEN.findall(step)) for step in text.lower().split("/")]
    below = dropwhile(lambda tokens: all(word in release_words for word in tokens), steps)
    for path in (steps, below):
        tokens = tuple(chain.from_iterable(path))
        joined = "".join(tokens)
        if len(tokens) > 1 and len(joined) >= LENGTH and any(c.isdigit() for c in joined):
            yield tokens


def _iterate_tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        token = match[0].lower()
        if len(token) >= LENGTH and any(c.isdigit() for c in token):
            yield token, match.start()
            number = token.lstrip("abcdefghijklmnopqrstuvwxyz")
            if number != token and number.isdigit() and len(number) >= LENGTH:
                yield number, match.end() - len(number)


def _iterate_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _iterate_numbers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
