"""build.json of a publication: names and values that medfaith knows. No entry is free text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ....builders.benchmark import NO_FILE, NO_ROWS
from ....builders.options import VERSION, Option, declared, find_recorded_fault, groups
from ....builders.registry import BENCHMARKS
from ....builders.write import RECORD
from ....loaders import sources
from ....loaders.errors import InputError
from ... import file_names, policy
from ...publication import Publication
from ...row_keys import LOCKS, is_digest, is_lock
from ...small_counts import SIGNS
from . import quotes
from .found import REBUILD, shorten
from .words import describe_vocabulary, is_allowed

# Entries that are one value: the pattern of its text, and the pattern in words.
FORMS = {
    "medfaith": (rf"(?!.{{41}}){VERSION}", "a version by PEP 440, of at most 40 characters"),
    "seed": (r"-?\d{1,10}", "a whole number of at most ten digits"),
    "benchmark": ("|".join(map(re.escape, BENCHMARKS)), "a benchmark that medfaith knows"),
    "source": (r"\w{1,40}", "a source of the benchmark"),
}
ENTRIES = (*FORMS, "arguments", "sources", "splits", "skipped", "exports", "absent", LOCKS)
COUNTED = ("rows", "studies", "images", "multi_image")


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
    for name in record:
        if name not in ENTRIES:
            yield name, "is an entry that medfaith build does not write", ", ".join(ENTRIES)
    for name, (pattern, expected) in FORMS.items():
        value = record.get(name)
        if not isinstance(value, int if name == "seed" else str) or not re.fullmatch(pattern, str(value), re.ASCII):
            yield name, f"is {shorten(str(value))}", expected
    benchmark = BENCHMARKS[record["benchmark"]]
    if record["source"] not in {source_ids[0] for source_ids in benchmark.needs.values()}:
        yield "source", f"is {shorten(str(record['source']))}", FORMS["source"][1]
    yield from _check_arguments(record)
    for source_id, source_entry in record["sources"].items():
        yield from _check_source(source_id, source_entry)
    yield from _check_digests("exports", record.get("exports", {}))
    for name, lock in record.get(LOCKS, {}).items():
        if name not in record["splits"] or not is_lock(lock):
            yield f"{LOCKS}.{shorten(name)}", f"is {shorten(str(lock))}", "the locked key of a split"
    yield from _check_reasons(record)
    for name, split in record["splits"].items():
        yield from _check_split(publication, name, split)


def _check_reasons(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, count in record.get("skipped", {}).items():
        if name not in BENCHMARKS[record["benchmark"]].reasons:
            yield f"skipped.{shorten(name)}", "is no reason for which medfaith build counts items", "its own reasons"
        elif not _is_count(count):
            yield f"skipped.{shorten(name)}", f"counts {shorten(str(count))}", "a count"
    for name, reason in record.get("absent", {}).items():
        if reason not in (NO_FILE, NO_ROWS) or not re.fullmatch(r"(\w{1,40}/)?(train|validation|test)", name):
            yield f"absent.{shorten(name)}", f"is {shorten(str(reason))}", f"a split, and {NO_FILE!r} or {NO_ROWS!r}"


def _check_arguments(record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    options = BENCHMARKS[record["benchmark"]].options
    for name, value in record["arguments"].items():
        if name in groups(options):
            column = f"arguments.{name}"
            if isinstance(value, Mapping):
                yield from _check_values(f"{column}.", value, declared(groups(options)[name]))
            elif value is not None:
                yield column, f"is {shorten(str(value))}", "its options"
    ungrouped = {name: value for name, value in record["arguments"].items() if name not in groups(options)}
    yield from _check_values("arguments.", ungrouped, declared(options))


def _check_values(
    path: str, values: Mapping[str, Any], options: Mapping[str, Option]
) -> Iterator[tuple[str, str, str]]:
    for name, value in values.items():
        column = f"{path}{name}"
        if name not in options:
            yield column, "is no option of medfaith build", ", ".join(options)
            continue
        for item in value if options[name].repeatable and isinstance(value, list) else [value]:
            if fault := find_recorded_fault(options[name], item):
                problem, expected = fault
                yield column, f"is {shorten(str(item))}: {problem}", expected


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
        if not is_digest(digest):
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
    for measure, counts in split["counts"].items():
        if measure not in counted or measure in quotes.list_quoted_columns(publication):
            yield f"{column}.counts.{shorten(measure)}", "is a column that is not counted", ", ".join(counted)
            continue
        for term, count in counts.items():
            if not is_allowed(term, counted[measure]):
                yield f"{column}.counts.{measure}", f"counts {shorten(term)}", describe_vocabulary(counted[measure])
            elif not _is_count(count):
                yield f"{column}.counts.{measure}.{term}", f"is {shorten(str(count))}", "a count"
    if publication.policy == policy.RECIPE and any(
        _is_few(n) for measure in split["counts"].values() for n in measure.values()
    ):
        yield f"{column}.counts", "has a count of a few rows", "none below 5"


def _is_count(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or value in SIGNS


def _is_few(value: Any) -> bool:
    return isinstance(value, int) and value < 5
