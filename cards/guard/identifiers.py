"""Identifiers that a licence keeps with those who hold the source: of rows, studies, patients and images."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..publication import Publication
from . import columns
from .files import LARGE
from .found import Found, shortened

EXPECTED = "no identifier of a source whose licence withholds them"
NAMES = ("id", "original_id", "study_id", "patient_id", "key")  # columns, or fields of a struct
LENGTH = 6
_TOKEN = re.compile(r"[A-Za-z0-9]+")


def withheld(publication: Publication) -> set[str]:
    """The identifying parts of a build's ids and image paths, in lower case.

    Those of LENGTH characters or more with a digit; of `p10000032`, `10000032` too. Names of the release's own files,
    configs and splits are none, although they stand in ids.
    """
    record = publication.record
    own = {token.lower() for name in _vocabulary(record) for token in _TOKEN.findall(name)}
    found: set[str] = set()
    for _, _, table in publication.tables():
        for path, values in columns.distinct(table):
            if path.split(".")[-1] in NAMES:
                for text, _ in values:
                    found.update(token for token, _ in _tokens(text))
    return found - own


def find(text: str, identifiers: Collection[str], figures: Collection[str]) -> Found | None:
    """The first identifier in a text. figures: numbers that stand there for something else, as a file's size."""
    for token, start in _tokens(text):
        if token in identifiers and token not in figures:
            return Found(f"holds the identifier {shortened(text[start : start + len(token)])}", start, EXPECTED)
    return None


def figures(staged: Path, record: Mapping[str, Any]) -> set[str]:
    """Numbers that a card may state and that an identifier may equal by chance: of build.json, and sizes in bytes."""
    sizes = [path.stat().st_size for path in staged.rglob("*") if path.is_file()]
    parquet = [path.stat().st_size for path in staged.rglob("*.parquet")]
    counts = [number for number in _numbers(record) if number < LARGE]
    return {str(number) for number in (*counts, *sizes, sum(sizes), sum(parquet))}


def _vocabulary(record: Mapping[str, Any]) -> Iterator[str]:
    yield from (record["benchmark"], record["source"], *record["sources"], *record["splits"])


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        token = match[0].lower()
        if len(token) >= LENGTH and any(c.isdigit() for c in token):
            yield token, match.start()
            number = token.lstrip("abcdefghijklmnopqrstuvwxyz")
            if number != token and number.isdigit() and len(number) >= LENGTH:
                yield number, match.end() - len(number)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
