"""The final check of a staged repository: it must hold nothing that a licence restricts to its holders.

Only known content may pass. Every file is generated again from the build and compared (`again`). build.json has the
entries that medfaith writes (`record`), and the texts of published rows come from their templates (`words`).
As a second line of defence, searches look for content that no published text may hold, whatever its origin.
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
from .found import Found, Value, build_refusal
from .quotes import Quotable, Text

__all__ = ["Machine", "Text", "check"]

Rule = Callable[[str], Found | None]
COMMON = {"root", "user", "users", "admin", "ubuntu", "runner", "home", "test", "localhost", "data", "work", "docker"}
# Sizes in a card's YAML header are numbers that an identifier may equal by chance.
_FIGURE = re.compile(r"^([ -]*(?:num_bytes|num_examples|download_size|dataset_size): )[0-9]+$", re.MULTILINE)


@dataclass(frozen=True)
class Machine:
    """Texts of a machine that no published file may hold.

    Attributes:
        secrets: Name of a variable -> its value.
        names: Description -> the name.
    """

    secrets: Mapping[str, str]
    names: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        """Collect the secrets of the environment, and the names of user and machine that are not common words."""
        names = {"the name of the machine": socket.gethostname()}
        with suppress(KeyError, OSError):  # a user of a container may have no name
            names["the name of the user"] = getpass.getuser()
        rare = {
            description: name for description, name in names.items() if len(name) > 3 and name.lower() not in COMMON
        }
        return cls(secrets.select_secrets(os.environ), rare)


def check(
    staged: Path,
    publication: Publication,
    texts: Iterable[Text],
    generate: again.Generate,
    machine: Machine | None = None,
) -> None:
    """Raise an error unless a staged folder may be uploaded.

    Args:
        staged: The folder.
        publication: The build.
        texts: Reports that no published file may quote; read once, one at a time.
        generate: Generates all files of the repository in a folder.
        machine: The machine; by default, the current one.

    Raises:
        InputError: There is a leak, or rows of a benchmark have no vocabulary. The error names the first leak, and the
            number of the others.
    """
    leaks = list(_find_leaks(staged, publication, texts, generate, machine or Machine.here()))
    if leaks:
        leak, more = leaks[0], len(leaks) - 1
        problem = f"{leak.found} (and {more} more)" if more else leak.found
        raise InputError(
            leak.where, problem, expected=leak.expected, action=leak.action, row=leak.row, column=leak.column
        )


def _find_leaks(
    staged: Path, publication: Publication, texts: Iterable[Text], generate: again.Generate, machine: Machine
) -> Iterator[InputError]:
    unexpected = list(again.find_differences(staged, publication.name, generate))
    yield from unexpected
    if unexpected:  # their content is unknown
        return
    rules, quotable = _build_rules(staged, publication, machine), Quotable(short=publication.policy == policy.RECIPE)
    name_rules = [partial(secrets.find_name, names=machine.names)]  # an author on a card may have the user's name
    for value in Progress(
        list(_iterate_values(staged, publication)), title=f"guard: reading {publication.name}", unit="texts"
    ):
        applicable = [*rules, *(name_rules if value.where.endswith(RECORD) else [])]
        if leak := next((leak for rule in applicable if (leak := rule(value.text))), None):
            yield build_refusal(value, leak)
        quotable.add(value)
    yield from record.find_leaks(publication)  # after the searches, whose messages quote no secret
    yield from words.find_leaks(publication)
    yield from quotable.find_quoted(chain(texts, quotes.iterate_source_texts(publication)))


def _build_rules(staged: Path, publication: Publication, machine: Machine) -> list[Rule]:
    rules: list[Rule] = [
        partial(identifiers.find_key, keys=[key.secret.hex() for key in publication.split_keys.values()]),
        secrets.find,
        partial(secrets.find_value, values=machine.secrets),
        pixels.find,
        paths.find,
    ]
    if publication.withholds_ids:
        withheld_ids, figures = (
            identifiers.collect_withheld(publication),
            identifiers.collect_figures(staged, publication.record),
        )
        rules.append(partial(identifiers.find, identifiers=withheld_ids, figures=figures))
    return rules


def _iterate_values(staged: Path, publication: Publication) -> Iterator[Value]:
    """Yield the texts of a card and of JSON files, and the ids that a manifest shows unchanged."""
    for path in sorted(path for path in staged.rglob("*") if path.is_file()):
        where = f"{publication.name}/{path.relative_to(staged).as_posix()}"
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8", errors="surrogateescape")
            yield Value(where, _remove_examples(_FIGURE.sub(r"\1", text), publication))
        elif path.suffix == ".json":
            yield from (
                Value(where, text, column=column) for column, text in _iterate_strings(json.loads(path.read_bytes()))
            )
        elif path.parent.name == MANIFEST and not publication.withholds_ids:
            ids = pq.ParquetFile(path).read(["id"])
            yield Value(
                where, "\n".join(text for _, values in columns.iterate_distinct(ids) for text, _ in values), column="id"
            )


def _remove_examples(text: str, publication: Publication) -> str:
    """Replace the committed example rows in a recipe's card, which are synthetic, by blank lines."""
    for row in examples.load_examples(publication.name).values() if publication.policy == policy.RECIPE else ():
        example = examples.format_row(row)
        text = text.replace(example, "\n" * example.count("\n"))
    return text


def _iterate_strings(document: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every name and value of a JSON document as a text, with its dotted path."""
    if isinstance(document, dict):
        for name, inner in document.items():
            yield path or name, name
            yield from _iterate_strings(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(document, list):
        if document and all(isinstance(item, int | float) for item in document):
            yield path, ", ".join(map(str, document))
        else:
            for inner in document:
                yield from _iterate_strings(inner, path)
    elif document is not None and not isinstance(document, bool):
        yield path, str(document)
