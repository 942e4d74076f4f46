"""build.json of a publication: names and values that medfaith knows; free text only for the name of a tool."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ....builders.benchmark import NO_FILE, NO_ROWS
from ....builders.options import declared, groups
from ....builders.registry import BENCHMARKS
from ....builders.write import RECORD
from ....loaders import sources
from ....loaders.errors import InputError
from ... import file_names, policy
from ...publication import Publication
from ...row_keys import LOCKS, is_lock
from ...small_counts import SIGNS
from . import quotes
from .found import REBUILD, shorten

LONGEST_TEXT, LONGEST_TERM = 100, 40
FORMS = {
    "medfaith": r"\d+(\.\d+)*[\w.+-]{0,20}", "seed": r"-?\d+", "benchmark": r"[\w-]+", "source": r"\w+",
    "arguments": "", "sources": "", "splits": "", "skipped": "", "exports": "", "absent": "",
    "key_locks": "",
}  # fmt: skip
COUNTED = ("rows", "studies", "images", "multi_image")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def find_leaks(publication: Publication) -> Iterator[InputError]:
    """Find every entry of the published build.json that `medfaith build` does not write, or that reveals too much.

    Args:
        publication: The build.

    Yields:
        An error for each entry.
    """
    record = publication.published_record
    for column, problem, expected in _iterate_faults(publication, record):
        where = f"{publication.name}/{RECORD}"
        yield InputError(where, problem, column=column, expected=expected, action=REBUILD)


def _iterate_faults(publication: Publication, record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield path, problem and expected content."""
    for name, value in ({name: None for name, form in FORMS.items() if form} | dict(record)).items():
        if name not in FORMS:
            yield name, "is an entry that medfaith build does not write", ", ".join(FORMS)
        elif FORMS[name] and not re.fullmatch(FORMS[name], str(value)):
            yield name, f"is {shorten(str(value))}", f"as in {FORMS[name]}"
    yield from _check_arguments(record)
    for source_id, source_entry in record["sources"].items():
        yield from _check_source(source_id, source_entry)
    yield from _check_digests("exports", record.get("exports", {}))
    for name, lock in record.get(LOCKS, {}).items():
        if name not in record["splits"] or not is_lock(lock):
            yield f"{LOCKS}.{shorten(name)}", f"is {shorten(str(lock))}", "the locked key of a split"
    for name, count in record.get("skipped", {}).items():
        if not _is_count(count) or len(name) > LONGEST_TEXT:
            yield f"skipped.{shorten(name)}", f"counts {shorten(str(count))}", "a reason and a count"
    for name, reason in record.get("absent", {}).items():
        if reason not in (NO_FILE, NO_ROWS) or not re.fullmatch(r"(\w{1,40}/)?(train|validation|test)", name):
            yield f"absent.{shorten(name)}", f"is {shorten(str(reason))}", f"a split, and {NO_FILE!r} or {NO_ROWS!r}"
    for name, split in record["splits"].items():
        yield from _check_split(publication, name, split)


def _check_arguments(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    options = BENCHMARKS[record["benchmark"]].options
    declared_options = declared(options)
    for name, value in record["arguments"].items():
        column = f"arguments.{name}"
        if name in groups(options):
            inside = declared(groups(options)[name])
            for key, item in value.items() if isinstance(value, Mapping) else ():
                if key not in inside or not _is_plain(item, ()):
                    yield (
                        f"{column}.{key}",
                        f"is {shorten(str(item))}",
                        f"one of {', '.join(inside)}, with a short value",
                    )
        elif name not in declared_options:
            yield column, "is no option of medfaith build", ", ".join(declared_options)
        elif not all(
            _is_plain(item, declared_options[name].choices) for item in (value if isinstance(value, list) else [value])
        ):
            expected = (
                f"one of {', '.join(declared_options[name].choices)}"
                if declared_options[name].choices
                else "a short value"
            )
            yield column, f"is {shorten(str(value))}", expected


def _is_plain(value: Any, choices: Collection[str]) -> bool:
    """Return whether a value is a number, None, one of the choices or, without choices, a short text on one line."""
    if isinstance(value, str):
        return value in choices if choices else len(value) <= LONGEST_TEXT and value.isprintable()
    return value is None or isinstance(value, int | float)


def _check_source(source_id: str, entry: Any) -> Iterator[tuple[str, str, str]]:
    column = f"sources.{shorten(source_id)}"
    try:
        source = sources.source(source_id)
    except InputError:
        yield column, "is no source that medfaith knows", "one of `medfaith sources`"
        return
    if not isinstance(entry, dict) or entry.keys() - {"version", "files"}:
        yield column, f"has {', '.join(entry)}", "version and files"
        return
    if entry.get("version") != source.version:
        yield f"{column}.version", f"is {shorten(str(entry.get('version')))}", source.version
    unknown_names = file_names.find_unknown(source, entry["files"])
    if unknown_names:
        yield (
            f"{column}.files",
            f"names {shorten(unknown_names[0])}",
            "files of the release by name, others by their number",
        )
    yield from _check_digests(f"{column}.files", entry["files"])


def _check_digests(column: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, digest in entries.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            yield f"{column}.{shorten(name)}", f"is {shorten(str(digest))}", "a SHA-256, 64 hexadecimal digits"


def _check_split(publication: Publication, name: str, split: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    benchmark, column = BENCHMARKS[publication.record["benchmark"]], f"splits.{name}"
    counted = benchmark.family(name.split("/", maxsplit=1)[0]).counted
    if split.keys() - {*COUNTED, "counts", "sha256"}:
        yield column, f"has {', '.join(split)}", ", ".join((*COUNTED, "counts", "sha256"))
    yield from _check_digests(column, {"sha256": split.get("sha256")})
    for measure in COUNTED:
        if measure in split and not _is_count(split[measure]):
            yield f"{column}.{measure}", f"is {shorten(str(split[measure]))}", "a count"
    source_terms = {
        _normalize(text.text) for text in quotes.iterate_source_texts(publication) if len(text.text) <= LONGEST_TERM
    }
    source_terms = {text for text in source_terms if " " in text}  # a single word like "other" may be an option
    for measure, counts in split["counts"].items():
        terms = [term for term in counts if len(term) > LONGEST_TERM or _normalize(term) in source_terms]
        if measure not in counted or measure in quotes.list_quoted_columns(publication):
            yield f"{column}.counts.{shorten(measure)}", "is a column that is not counted", ", ".join(counted)
        elif terms or not all(map(_is_count, counts.values())):
            problem = f"counts {shorten(terms[0])}, words of the source" if terms else "has a count that is none"
            yield f"{column}.counts.{measure}", problem, "terms that the benchmark declares"
    if publication.policy == policy.RECIPE and any(
        _is_few(n) for measure in split["counts"].values() for n in measure.values()
    ):
        yield f"{column}.counts", "has a count of a few rows", "none below 5"


def _is_count(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or value in SIGNS


def _is_few(value: Any) -> bool:
    return isinstance(value, int) and value < 5


def _normalize(text: str) -> str:
    return " ".join(text.lower().split())
