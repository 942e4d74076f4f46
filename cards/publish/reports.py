"""The reports that a build was made from; the guard searches for quotations of them in the staged files."""

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
    """The reader of one source.

    Attributes:
        files: Returns the files that build.json hashes, given the root.
        texts: Returns the reports, given the root.
    """

    files: Callable[[Path], Sequence[Path]]
    texts: Callable[[Path], Iterator[Text]]


def texts(publication: Publication, roots: Mapping[str, Path]) -> Iterator[Text]:
    """Iterate over the reports of every source of the rows; for a recipe, over those that are available.

    Args:
        publication: The build.
        roots: The root of each source.

    Yields:
        The reports.

    Raises:
        InputError: A source of published rows has no root, or one with other reports: rows cannot be checked against
            missing reports.
    """
    if publication.policy == policy.RECIPE:
        for source in publication.all_sources:
            if source.id in AT_HAND and source.id in roots:
                yield from AT_HAND[source.id](roots)
        return
    for source in publication.sources:
        if source.id in READERS:
            if source.id not in roots:
                problem = f"its reports ({source.title}) are needed to check that no row quotes them"
                raise InputError(publication.folder, problem, action=f"name them: --root {source.id}=PATH")
            reader = READERS[source.id]
            if hash_files(reader.files(roots[source.id])) != publication.record["sources"][source.id]["files"]:
                problem = f"holds other reports than those that {publication.name} was built from"
                action = f"name the same copy: --root {source.id}=PATH, or build it again from this one"
                raise InputError(roots[source.id], problem, action=action)
            yield from reader.texts(roots[source.id])


def _iterate_openi(root: Path) -> Iterator[Text]:
    for report in openi.read_reports(root):
        sections = (report.findings, report.impression, report.indication, report.comparison)
        yield Text(f"report {report.uid} of openi", "\n".join(filter(None, sections)))


READERS: Mapping[str, Reader] = {"openi": Reader(openi.find_label_files, _iterate_openi)}


def _iterate_mimic(roots: Mapping[str, Path]) -> Iterator[Text]:
    """Yield the report of each study with an image. Many of the 227,835 may be missing on this machine."""
    images = mimic_cxr.read_images(roots["mimic_cxr"], None)
    studies = images.group_by(["subject_id", "study_id"]).aggregate([]).to_pylist()
    for study in Progress(studies, title="guard: reading reports of mimic_cxr", unit="reports"):
        if text := mimic_cxr.read_report(roots, study["subject_id"], study["study_id"]):
            yield Text(f"report {study['study_id']} of mimic_cxr", text)


def _iterate_gold(roots: Mapping[str, Path]) -> Iterator[Text]:
    for sentence in chest_imagenome.read_gold(roots["chest_imagenome"]):
        yield Text(f"sentence {sentence.id} of chest_imagenome", sentence.sentence)


AT_HAND: Mapping[str, Callable[[Mapping[str, Path]], Iterator[Text]]] = {
    "mimic_cxr": _iterate_mimic,
    "chest_imagenome": _iterate_gold,
}
