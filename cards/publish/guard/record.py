"""build.json of a publication: names and values that medfaith knows; free text only where a user names a tool."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....builders.options import declared, groups
from ....builders.registry import BENCHMARKS
from ....builders.write import RECORD
from ....loaders import sources
from ....loaders.errors import InputError
from ... import file_names, policy
from ...publication import Publication
from . import quotes
from .found import REBUILD, shortened

LONGEST_TEXT, LONGEST_TERM = 100, 40
FORMS = {
    "medfaith": r"\d+(\.\d+)*[\w.+-]{0,20}", "seed": r"-?\d+", "benchmark": r"[\w-]+", "source": r"\w+",
    "arguments": "", "sources": "", "splits": "", "skipped": "", "exports": "", "key_fingerprints": "",
}  # fmt: skip
COUNTED = ("rows", "studies", "images", "multi_image")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def leaks(publication: Publication) -> Iterator[InputError]:
    """Every entry of a publication's build.json that medfaith build does not write, or that says more than it may."""
    record = publication.published_record
    for column, found, expected in _faults(publication, record):
        where = f"{publication.name}/{RECORD}"
        yield InputError(where, found, column=column, expected=expected, action=REBUILD)


def _faults(publication: Publication, record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Path, what is wrong there, and what was expected."""
    for name, value in ({name: None for name, form in FORMS.items() if form} | dict(record)).items():
        if name not in FORMS:
            yield name, "is an entry that medfaith build does not write", ", ".join(FORMS)
        elif FORMS[name] and not re.fullmatch(FORMS[name], str(value)):
            yield name, f"is {shortened(str(value))}", f"as in {FORMS[name]}"
    yield from _arguments(record)
    for source_id, of_source in record["sources"].items():
        yield from _source(source_id, of_source)
    for name in ("exports", "key_fingerprints"):
        yield from _digests(name, record.get(name, {}))
    for name, count in record.get("skipped", {}).items():
        if not _is_count(count) or len(name) > LONGEST_TEXT:
            yield f"skipped.{shortened(name)}", f"counts {shortened(str(count))}", "a reason and a count"
    for name, split in record["splits"].items():
        yield from _split(publication, name, split)


def _arguments(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    of = BENCHMARKS[record["benchmark"]].options
    known = declared(of)
    for name, value in record["arguments"].items():
        column = f"arguments.{name}"
        if name in groups(of):
            inside = declared(groups(of)[name])
            for key, one in value.items() if isinstance(value, Mapping) else ():
                if key not in inside or not _is_plain(one, ()):
                    yield (
                        f"{column}.{key}",
                        f"is {shortened(str(one))}",
                        f"one of {', '.join(inside)}, with a short value",
                    )
        elif name not in known:
            yield column, "is no option of medfaith build", ", ".join(known)
        elif not all(_is_plain(one, known[name].choices) for one in (value if isinstance(value, list) else [value])):
            expected = f"one of {', '.join(known[name].choices)}" if known[name].choices else "a short value"
            yield column, f"is {shortened(str(value))}", expected


def _is_plain(value: Any, choices: Collection[str]) -> bool:
    """A number, nothing, a text of the choices or, without any, a short one on one line."""
    if isinstance(value, str):
        return value in choices if choices else len(value) <= LONGEST_TEXT and value.isprintable()
    return value is None or isinstance(value, int | float)


def _source(source_id: str, of_source: Any) -> Iterator[tuple[str, str, str]]:
    column = f"sources.{shortened(source_id)}"
    try:
        source = sources.source(source_id)
    except InputError:
        yield column, "is no source that medfaith knows", "one of `medfaith sources`"
        return
    if not isinstance(of_source, dict) or of_source.keys() - {"version", "files"}:
        yield column, f"has {', '.join(of_source)}", "version and files"
        return
    if of_source.get("version") != source.version:
        yield f"{column}.version", f"is {shortened(str(of_source.get('version')))}", source.version
    others = file_names.find_unknown(source, of_source["files"])
    if others:
        yield f"{column}.files", f"names {shortened(others[0])}", "files of the release by name, others by their number"
    yield from _digests(f"{column}.files", of_source["files"])


def _digests(column: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, digest in entries.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            yield f"{column}.{shortened(name)}", f"is {shortened(str(digest))}", "a SHA-256, 64 hexadecimal digits"


def _split(publication: Publication, name: str, split: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    benchmark, column = BENCHMARKS[publication.record["benchmark"]], f"splits.{name}"
    counted = benchmark.family(name.split("/", maxsplit=1)[0]).counted
    if split.keys() - {*COUNTED, "counts", "sha256"}:
        yield column, f"has {', '.join(split)}", ", ".join((*COUNTED, "counts", "sha256"))
    yield from _digests(column, {"sha256": split.get("sha256")})
    for of in COUNTED:
        if of in split and not _is_count(split[of]):
            yield f"{column}.{of}", f"is {shortened(str(split[of]))}", "a count"
    of_source = {_plain(text.text) for text in quotes.of_build(publication) if len(text.text) <= LONGEST_TERM}
    of_source = {text for text in of_source if " " in text}  # "other" may be an option and is a kind of question
    for of, counts in split["counts"].items():
        terms = [term for term in counts if len(term) > LONGEST_TERM or _plain(term) in of_source]
        if of not in counted or of in quotes.quoted_columns(publication):
            yield f"{column}.counts.{shortened(of)}", "is a column that is not counted", ", ".join(counted)
        elif terms or not all(map(_is_count, counts.values())):
            found = f"counts {shortened(terms[0])}, words of the source" if terms else "has a count that is none"
            yield f"{column}.counts.{of}", found, "terms that the benchmark declares"
    if publication.policy == policy.RECIPE and any(_is_few(n) for of in split["counts"].values() for n in of.values()):
        yield f"{column}.counts", "has a count of a few rows", "none below 5"


def _is_count(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or value in ("<5", "≥5")


def _is_few(value: Any) -> bool:
    return isinstance(value, int) and value < 5


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
