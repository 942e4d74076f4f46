"""The last look at a staged repository before it leaves: nothing in it that a licence keeps with its holders.

`check` reads the staged folder as it lies on disk and trusts no step before it: it refuses files, columns, metadata and
bytes that do not belong there, image data in any writing, paths of a machine, text longer than a template's, words of a
report, identifiers that a licence withholds, and keys of hashes; of a recipe also rows, and counts of anything but
declared terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path

from tqdm import tqdm

from ....loaders.errors import InputError
from ... import policy
from ...publication import Publication
from . import counts, files, identifiers, lengths, paths, pixels, quotes, rows, tables
from .found import Found, Value, refusal
from .quotes import Quotable, Text

__all__ = ["Text", "check"]

Rule = Callable[[str], Found | None]
CHUNK = 500
SEPARATOR = "\n" * 4  # no rule joins the texts on its two sides


def check(staged: Path, publication: Publication, texts: Iterable[Text]) -> None:
    """Returns where a staged folder may be uploaded.

    Args:
        texts: reports that nothing published may quote; read once, one at a time.

    Raises:
        InputError: the first leak, with how many more there are; for rows of a benchmark without limits to its texts.
    """
    leaks = list(_leaks(staged, publication, texts))
    if leaks:
        first, more = leaks[0], len(leaks) - 1
        found = f"{first.found} (and {more} more)" if more else first.found
        raise InputError(
            first.where, found, expected=first.expected, action=first.action, row=first.row, column=first.column
        )


def _leaks(staged: Path, publication: Publication, texts: Iterable[Text]) -> Iterator[InputError]:
    """Every leak; of each column of a file and of each report the first."""
    foreign = list(files.foreign(staged, publication))
    yield from foreign
    yield from tables.row_counts(staged, publication)
    known = {leak.where for leak in foreign}
    recipe = publication.policy == policy.RECIPE
    rules, quotable = _rules(staged, publication), Quotable(short=recipe)
    limit = partial(lengths.find, limit=lengths.limits(publication))
    hashed = lengths.hashed_columns(publication)
    present = sorted(path for path in staged.rglob("*") if path.is_file() and not path.is_symlink())
    for path in tqdm(present, desc=f"guard {publication.name}", disable=None, leave=False):
        where = f"{publication.name}/{path.relative_to(staged).as_posix()}"
        if where in known:
            continue
        if path.suffix == ".parquet":
            leaks, values = tables.inspect(path, where, publication.features[path.parent.name])
        else:
            leaks, values = files.texts(path, where, publication)
        yield from leaks
        for column, of_column in groupby(values, key=attrgetter("column")):
            if path.suffix == ".parquet" and column in hashed:  # nothing else fits into 64 hexadecimal digits
                yield from _first(list(of_column), [], lengths.no_hash)
            else:
                yield from _first(list(of_column), rules, limit)
        for value in values:
            quotable.add(value)
    yield from counts.leaks(staged, publication)
    yield from quotable.quoted(chain(texts, quotes.of_build(publication)))
    for config, features in publication.features.items():
        for path in sorted((staged / config).glob("*.parquet")):
            yield from tables.written_otherwise(path, f"{publication.name}/{config}/{path.name}", features)


def _rules(staged: Path, publication: Publication) -> list[Rule]:
    rules: list[Rule] = [partial(identifiers.find_key, keys=identifiers.keys(publication.record))]
    if publication.policy == policy.RECIPE:
        rules.append(partial(rows.find, names=rows.columns(publication)))
    rules += [pixels.find, paths.find]
    if publication.withholds_ids:
        kept, figures = identifiers.withheld(publication), identifiers.figures(staged, publication.record)
        rules.append(partial(identifiers.find, identifiers=kept, figures=figures))
    return rules


def _first(
    values: Sequence[Value], rules: Sequence[Rule], limit: Callable[[Value], Found | None]
) -> Iterator[InputError]:
    """The first leak of one column's values.

    Values are looked at one by one only if CHUNK of them together raise a suspicion. A rule that finds something in one
    text also finds it between others.
    """
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        together = SEPARATOR.join(value.text for value in chunk)
        suspicious = [rule for rule in rules if rule(together)]
        for value in chunk:
            found = next((found for rule in suspicious if (found := rule(value.text))), None) or limit(value)
            if found:
                yield refusal(value, found)
                return
