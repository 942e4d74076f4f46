"""The last look at a staged repository before it leaves: nothing in it that a licence keeps with its holders.

What may pass is known, and nothing else passes. Every file is made again from the build and compared (`again`);
build.json has the entries that medfaith writes (`record`), and published rows the words of their templates (`words`).
Behind that stands a second net: searches for what no text of a publication may hold, whatever made it.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ....builders.write import RECORD
from ....loaders.errors import InputError
from ....loaders.progress import Progress
from ... import examples, policy
from ...publication import MANIFEST, Publication
from . import again, columns, identifiers, paths, pixels, quotes, record, secrets, words
from .found import Found, Value, refusal
from .quotes import Quotable, Text

__all__ = ["Machine", "Text", "check"]

Rule = Callable[[str], Found | None]
COMMON = {"root", "user", "users", "admin", "ubuntu", "runner", "home", "test", "localhost", "data", "work", "docker"}
# Sizes in a card's YAML header are numbers that an identifier may equal by chance.
_FIGURE = re.compile(r"^([ -]*(?:num_bytes|num_examples|download_size|dataset_size): )[0-9]+$", re.MULTILINE)


@dataclass(frozen=True)
class Machine:
    """What nothing published may hold of a machine. secrets, names: what it is -> the text."""

    secrets: Mapping[str, str]
    names: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        """The secrets of the environment, and the names of the user and the machine that are no common words."""
        names = {"the name of the machine": socket.gethostname()}
        with suppress(KeyError, OSError):  # a user of a container may have no name
            names["the name of the user"] = getpass.getuser()
        rare = {what: name for what, name in names.items() if len(name) > 3 and name.lower() not in COMMON}
        return cls(secrets.of_environment(os.environ), rare)


def check(
    staged: Path,
    publication: Publication,
    texts: Iterable[Text],
    generate: again.Generate,
    machine: Machine | None = None,
) -> None:
    """Returns where a staged folder may be uploaded.

    Args:
        texts: reports that nothing published may quote; read once, one at a time. generate: makes all that may be
            staged in a folder. machine: None is this one.

    Raises:
        InputError: the first leak, with how many more there are; for rows of a benchmark without a vocabulary.
    """
    leaks = list(_leaks(staged, publication, texts, generate, machine or Machine.here()))
    if leaks:
        first, more = leaks[0], len(leaks) - 1
        found = f"{first.found} (and {more} more)" if more else first.found
        raise InputError(
            first.where, found, expected=first.expected, action=first.action, row=first.row, column=first.column
        )


def _leaks(
    staged: Path, publication: Publication, texts: Iterable[Text], generate: again.Generate, machine: Machine
) -> Iterator[InputError]:
    others = list(again.differences(staged, publication.name, generate))
    yield from others
    if others:  # nobody knows what these are
        return
    yield from record.leaks(publication)
    yield from words.leaks(publication)
    rules, quotable = _rules(staged, publication, machine), Quotable(short=publication.policy == policy.RECIPE)
    of_build = [partial(secrets.find_name, names=machine.names)]  # authors on a card may be called as its user is
    for value in Progress(list(_values(staged, publication)), title=f"guard: reading {publication.name}", unit="texts"):
        found_by = [*rules, *(of_build if value.where.endswith(RECORD) else [])]
        if found := next((found for rule in found_by if (found := rule(value.text))), None):
            yield refusal(value, found)
        quotable.add(value)
    yield from quotable.quoted(chain(texts, quotes.of_build(publication)))


def _rules(staged: Path, publication: Publication, machine: Machine) -> list[Rule]:
    rules: list[Rule] = [
        partial(identifiers.find_key, keys=identifiers.keys(publication.record)),
        secrets.find,
        partial(secrets.find_value, values=machine.secrets),
        pixels.find,
        paths.find,
    ]
    if publication.withholds_ids:
        kept, figures = identifiers.withheld(publication), identifiers.figures(staged, publication.record)
        rules.append(partial(identifiers.find, identifiers=kept, figures=figures))
    return rules


def _values(staged: Path, publication: Publication) -> Iterator[Value]:
    """The texts of a card and of JSON files, and the ids that a manifest shows as they are."""
    for path in sorted(path for path in staged.rglob("*") if path.is_file()):
        where = f"{publication.name}/{path.relative_to(staged).as_posix()}"
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            yield Value(where, _without_examples(_FIGURE.sub(r"\1", text), publication))
        elif path.suffix == ".json":
            yield from (Value(where, text, column=column) for column, text in _strings(json.loads(path.read_bytes())))
        elif path.parent.name == MANIFEST and not publication.withholds_ids:
            ids = pq.ParquetFile(path).read(["id"])
            yield Value(
                where, "\n".join(text for _, values in columns.distinct(ids) for text, _ in values), column="id"
            )


def _without_examples(text: str, publication: Publication) -> str:
    """A recipe's card with blank lines in place of the committed example rows, which are synthetic."""
    for row in examples.load_examples(publication.name).values() if publication.policy == policy.RECIPE else ():
        shown = examples.format_row(row)
        text = text.replace(shown, "\n" * shown.count("\n"))
    return text


def _strings(document: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every name and value of a JSON document as a text, with the dotted path to it."""
    if isinstance(document, dict):
        for name, inner in document.items():
            yield path or name, name
            yield from _strings(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(document, list):
        if document and all(isinstance(one, int | float) for one in document):
            yield path, ", ".join(map(str, document))
        else:
            for inner in document:
                yield from _strings(inner, path)
    elif document is not None and not isinstance(document, bool):
        yield path, str(document)
