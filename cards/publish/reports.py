"""The reports that a build was made from: what the guard looks for in everything that is to be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...builders.write import hash_files
from ...loaders import chest_imagenome, mimic_cxr, openi
from ...loaders.errors import InputError
from ...loaders.progress import Progress
from .. import policy
from ..publication import Publication
from .guard import Text


class Reader(NamedTuple):
    """Of one source's root: the files that build.json hashes, and the reports in them."""

    files: Callable[[Path], Sequence[Path]]
    texts: Callable[[Path], Iterator[Text]]


def texts(publication: Publication, roots: Mapping[str, Path]) -> Iterator[Text]:
    """Every report of every source whose text was read for these rows, and for a recipe those that are at hand.

    Raises InputError where a source of published rows has no root, or one with other reports: rows cannot be checked
    against reports that are not there.
    """
    if publication.policy == policy.RECIPE:
        for source in publication.all_sources:
            if source.id in AT_HAND and source.id in roots:
                yield from AT_HAND[source.id](roots)
        return
    for source in publication.sources:
        if source.id in READERS:
            if source.id not in roots:
                found = f"its reports ({source.title}) are needed to check that no row quotes them"
                raise InputError(publication.folder, found, action=f"name them: --root {source.id}=PATH")
            reader = READERS[source.id]
            if hash_files(reader.files(roots[source.id])) != publication.record["sources"][source.id]["files"]:
                found = f"holds other reports than those that {publication.name} was built from"
                action = f"name the same copy: --root {source.id}=PATH, or build it again from this one"
                raise InputError(roots[source.id], found, action=action)
            yield from reader.texts(roots[source.id])


def _openi(root: Path) -> Iterator[Text]:
    for report in openi.read_reports(root):
        sections = (report.findings, report.impression, report.indication, report.comparison)
        yield Text(f"report {report.uid} of openi", "\n".join(filter(None, sections)))


READERS: Mapping[str, Reader] = {"openi": Reader(openi.label_files, _openi)}


def _mimic(roots: Mapping[str, Path]) -> Iterator[Text]:
    """Of each study with an image; there are 227,835, of which many may not be at hand."""
    images = mimic_cxr.read_images(roots["mimic_cxr"], None)
    studies = images.group_by(["subject_id", "study_id"]).aggregate([]).to_pylist()
    for study in Progress(studies, title="guard: reading reports of mimic_cxr", unit="reports"):
        if text := mimic_cxr.report_text(roots, study["subject_id"], study["study_id"]):
            yield Text(f"report {study['study_id']} of mimic_cxr", text)


def _gold(roots: Mapping[str, Path]) -> Iterator[Text]:
    for sentence in chest_imagenome.read_gold(roots["chest_imagenome"]):
        yield Text(f"sentence {sentence.id} of chest_imagenome", sentence.sentence)


AT_HAND: Mapping[str, Callable[[Mapping[str, Path]], Iterator[Text]]] = {"mimic_cxr": _mimic, "chest_imagenome": _gold}
