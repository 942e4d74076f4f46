"""The reports that a build was made from: what the guard looks for in everything that is to be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...builders.write import sha256_of_files
from ...loaders import openi
from ...loaders.errors import InputError
from .. import policy
from ..publication import Publication
from .guard import Text


class Reader(NamedTuple):
    """Of one source's root: the files that build.json hashes, and the reports in them."""

    files: Callable[[Path], Sequence[Path]]
    texts: Callable[[Path], Iterator[Text]]


def texts(publication: Publication, roots: Mapping[str, Path]) -> Iterator[Text]:
    """Every report of every source whose text was read for these rows; none for a recipe, which has no rows.

    Raises InputError where such a source has no root, or one with other reports: rows cannot be checked against reports
    that are not there.
    """
    if publication.policy == policy.RECIPE:
        return
    for source in publication.sources:
        if source.id in READERS:
            if source.id not in roots:
                found = f"its reports ({source.title}) are needed to check that no row quotes them"
                raise InputError(publication.folder, found, action=f"name them: --root {source.id}=PATH")
            reader = READERS[source.id]
            if sha256_of_files(reader.files(roots[source.id])) != publication.record["sources"][source.id]["files"]:
                found = f"holds other reports than those that {publication.name} was built from"
                action = f"name the same copy: --root {source.id}=PATH, or build it again from this one"
                raise InputError(roots[source.id], found, action=action)
            yield from reader.texts(roots[source.id])


def _openi(root: Path) -> Iterator[Text]:
    for report in openi.read_reports(root):
        sections = (report.findings, report.impression, report.indication, report.comparison)
        yield Text(f"report {report.uid} of openi", "\n".join(filter(None, sections)))


READERS: Mapping[str, Reader] = {"openi": Reader(openi.label_files, _openi)}
