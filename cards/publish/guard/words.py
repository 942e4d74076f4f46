"""Verify that the templates and the vocabulary of a benchmark can make each text of a published row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ....builders.registry import BENCHMARKS
from ....builders.write import Words
from ....loaders.errors import InputError
from ... import policy
from ...publication import Publication
from . import columns
from .found import REBUILD, shorten


def find_leaks(publication: Publication) -> Iterator[InputError]:
    """Find the first invalid text of each column of each published split.

    Args:
        publication: The build.

    Yields:
        An error for each column.

    Raises:
        InputError: The benchmark has no vocabulary.
    """
    if publication.policy == policy.RECIPE:
        return
    vocabulary = BENCHMARKS[publication.record["benchmark"]].vocabulary
    if vocabulary is None:
        problem = f"rows of {publication.record['benchmark']} have no vocabulary"
        raise InputError(publication.name, problem, action="publish only rows of a benchmark that has one")
    vocabulary_by_column = vocabulary()
    for config, split, rows in publication.tables():
        where = f"{publication.name}/{config}/{split}"
        yield from _find_binary_columns(rows, where)
        for column, values in columns.iterate_distinct(rows):
            wrong = next(
                ((text, row) for text, row in values if not is_allowed(text, vocabulary_by_column.get(column))), None
            )
            if wrong:
                problem = f"is {shorten(wrong[0])}, which no template makes"
                yield InputError(
                    where,
                    problem,
                    row=wrong[1],
                    column=column,
                    expected=describe_vocabulary(vocabulary_by_column.get(column)),
                    action=REBUILD,
                )


def _find_binary_columns(rows: pa.Table, where: str) -> Iterator[InputError]:
    """Yield an error for each column that could hold images."""
    for field in rows.schema:
        if "binary" in str(field.type):
            yield InputError(where, f"is of type {field.type}", column=field.name, expected="no bytes", action=REBUILD)


def is_allowed(text: str, vocabulary: Words | None) -> bool:
    """Tell whether a vocabulary has a text.

    Args:
        text: The text.
        vocabulary: All allowed texts, or a pattern; None allows no text.

    Returns:
        Whether it does.
    """
    if vocabulary is None:
        return False
    return text in vocabulary if isinstance(vocabulary, frozenset) else vocabulary.fullmatch(text) is not None


def describe_vocabulary(vocabulary: Words | None) -> str:
    """Describe the texts of a vocabulary for a message.

    Args:
        vocabulary: All allowed texts, or a pattern; None allows no text.

    Returns:
        The description.
    """
    if vocabulary is None:
        return "no text"
    if isinstance(vocabulary, frozenset):
        return "one of " + ", ".join(sorted(map(repr, vocabulary))[:3]) + ", ..."
    return "a text of its template"
