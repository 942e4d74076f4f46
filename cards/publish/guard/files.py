"""The files of a staged folder, by name; and the texts in those that are no Parquet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....builders.write import RECORD
from ....loaders.errors import InputError
from ... import examples, policy
from ...publication import Publication
from . import pixels, rows
from .found import REBUILD, Value, refusal, shortened
from .tables import PART

CARD, CROISSANT = "README.md", "croissant.json"
# Sizes in a card's YAML header are numbers that an identifier may equal by chance.
_FIGURE = re.compile(r"^([ -]*(?:num_bytes|num_examples|download_size|dataset_size): )[0-9]+$", re.MULTILINE)
_COUNTS = re.compile(r"splits\.[^.]+\.counts(\..+)?")  # in build.json; see `counts`
LARGE, MANY = 10_000_000, 64


def foreign(staged: Path, publication: Publication) -> Iterator[InputError]:
    """Everything that is not a file of this publication: other names, links, hidden files, other folders."""
    exported = exports(publication)
    folders = {config for config, _ in publication.splits} | {name.rpartition("/")[0] for name in exported}
    for path in sorted(staged.rglob("*")):
        name = path.relative_to(staged).as_posix()
        if path.is_symlink():
            found = "is a link"
        elif path.is_dir() and name in folders:
            continue
        elif path.is_file() and (name in (CARD, RECORD, CROISSANT, *exported) or _is_part(name, publication)):
            found = "" if name.endswith(".parquet") else _image(path)
        else:
            found = "is a folder of another name" if path.is_dir() else _image(path) or "is no file of this repository"
        if found:
            expected = f"{CARD}, {RECORD}, {CROISSANT}, and the Parquet of its configs"
            yield InputError(f"{publication.name}/{name}", found, expected=expected, action=REBUILD)


def exports(publication: Publication) -> dict[str, str]:
    """Files beside the Parquet that are published, and their SHA-256 by build.json: of rows only."""
    return dict(publication.record.get("exports", {})) if publication.policy == policy.ROWS else {}


def texts(path: Path, where: str, publication: Publication) -> tuple[list[InputError], list[Value]]:
    """The texts of a card, a JSON file, or an export, and what keeps them from being read."""
    data = path.read_bytes()
    text = data.decode("utf-8", "surrogateescape")
    name = where.removeprefix(f"{publication.name}/")
    if name == CARD:
        return [], [Value(where, _without_examples(_FIGURE.sub(r"\1", text), publication))]
    try:
        if name in (RECORD, CROISSANT):
            document = _json(text)
            leaks = list(_rows(document, where, publication))
            return leaks, [Value(where, found, column=column) for column, found in _texts(document)]
        if hashlib.sha256(data).hexdigest() != exports(publication)[name]:
            raise ValueError(f"its hash is not that of {RECORD}")
        lines = enumerate(text.splitlines(), 1)
        return [], [
            Value(where, str(found), row, column, limited=True)
            for row, line in lines
            for column, found in _scalars(_json(line))
        ]
    except (ValueError, RecursionError) as error:
        found = f"cannot be read ({shortened(str(error))})"
        return [InputError(where, found, expected="what medfaith publish writes", action=REBUILD)], []


def _without_examples(text: str, publication: Publication) -> str:
    """A recipe's card with lines of spaces in place of the committed example rows, which are synthetic."""
    for row in examples.examples(publication.name).values() if publication.policy == policy.RECIPE else ():
        shown = examples.pretty(row)
        text = text.replace(shown, re.sub(r"[^\n]", " ", shown))
    return text


def _rows(document: Any, where: str, publication: Publication) -> Iterator[InputError]:
    """Objects of a recipe's JSON with the columns of a row. Counts go by column, arguments by what they decide."""
    if publication.policy == policy.RECIPE:
        names = rows.columns(publication)
        for path, found in _objects(document):
            if not _COUNTS.fullmatch(path):
                known = publication.record["arguments"] if path == "arguments" else ()
                if leak := rows.of_names((name for name in found if name not in known), names):
                    yield refusal(Value(where, "", column=path or found[0]), leak)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs: a name that stands twice would hide a value."""


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_Pairs)


def _texts(document: Any) -> Iterator[tuple[str, str]]:
    """Every name, text, list of numbers and large number of a JSON document, with the dotted path to it.

    Numbers below LARGE are counts, and no identifier of a source is that short.
    """
    numbers: dict[str, list[str]] = {}
    for path, name in _names(document):
        yield path, name
    for path, value in _scalars(document):
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.setdefault(path, []).append(str(value))
    for path, of_path in numbers.items():
        yield path, ", ".join(n for n in of_path if len(of_path) >= MANY or float(n) >= LARGE)


def _names(document: Any) -> Iterator[tuple[str, str]]:
    for path, names in _objects(document):
        yield from ((path or name, name) for name in names)


def _objects(value: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every object of a JSON document: the dotted path to it, and its names."""
    if isinstance(value, _Pairs):
        yield path, [name for name, _ in value]
        for name, inner in value:
            yield from _objects(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner, path)


def _scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a JSON document that is no object or list; those of a list go by the list's path."""
    if isinstance(value, _Pairs):
        for name, inner in value:
            yield from _scalars(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _scalars(inner, path)
    elif value is not None:
        yield path, value


def _is_part(name: str, publication: Publication) -> bool:
    config, _, file = name.rpartition("/")
    match = PART.fullmatch(file)
    return match is not None and (config, match["split"]) in publication.splits


def _image(path: Path) -> str:
    if not path.is_file():
        return "is neither a file nor a folder"
    with path.open("rb") as file:
        kind = pixels.kind(file.read(1024))
    return f"is {kind} data" if kind else ""
