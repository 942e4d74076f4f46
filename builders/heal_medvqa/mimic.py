"""MIMIC-CXR as HEAL-MedVQA reads it (section 3.2): a detector's boxes, of which the report confirms the disease.

Labels come first, text second: where the labeler knows a class, its label 1.0 confirms it and every other value
(negative, uncertain, not mentioned) drops the box; for other classes, and for studies without labels, a mention in the
report that is neither denied, uncertain nor historical confirms it, outside of the paragraphs that give the indication,
the history and the like. The paper's filter says no more than "absent on that patient".

A disease that the report confirms or leaves open, and of which no box is left, may lie anywhere: no question asks for
it as absent in that image, and none of its anatomies is called normal. Where a box lies that the report does not
confirm, the disease is not asked for as absent either, unless the report denies it. Boxes of UNASKED classes, which no
report can confirm, are kept, since they keep an anatomy from being called normal.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...loaders import detections, mimic_cxr
from ...loaders.errors import InputError
from ...loaders.vindr_cxr import CLASSES
from ..negation import FINDINGS, find_mentions
from ..parallel import HERE, Workers, pieces
from .questions import UNASKED
from .relations import Picture
from .vindr import boxes_by_image

SOURCE = "mimic_cxr"
MASKS = "mimic_cxr_anatomy"
DETECTIONS = "mimic_cxr_detections"
REPORTS = "mimic_cxr_reports"
STUDIES_A_TASK = 500

# Class -> the label of CheXpert and NegBio that covers it.
LABELS = {
    "Atelectasis": "Atelectasis",
    "Cardiomegaly": "Cardiomegaly",
    "Clavicle fracture": "Fracture",
    "Consolidation": "Consolidation",
    "Edema": "Edema",
    "Lung Opacity": "Lung Opacity",
    "Nodule/Mass": "Lung Lesion",
    "Pleural effusion": "Pleural Effusion",
    "Pneumothorax": "Pneumothorax",
    "Rib fracture": "Fracture",
}
_BY = r"(?:(?:again|mildly|moderately|markedly|slightly|somewhat|severely|significantly|diffusely) )*"
_BE = r"(?:(?:is|are|appears?|remains?) )?"
_WIDE = r"(?:enlarg(?:ed|ement)|dilat(?:ed|ion|ation)|ectatic|ectasia|aneurysm(?:al)?)"
_WIDENING = r"(?:enlarged|dilated|ectatic|aneurysmal|(?:enlargement|dilat(?:ion|ation)|ectasia) of the)"
FRACTURES = {name for name, label in LABELS.items() if label == "Fracture"}
# Class -> how reports name it: lower-case regular expressions, the longest first where phrases begin alike. Decoys ("")
# take words that mean something else.
PHRASES = {
    "": (
        *FINDINGS[""],
        r"(?:soft tissue|chest wall) emphysema",
        r"(?:pleural|thoracic|chest|abdominal|peritoneal|oral|nasal) cavit(?:y|ies)",
        r"(?:renal|kidney|hepatic|liver|splenic|pancreatic|bone|breast|thyroid|pericardial|ovarian) cysts?",
        r"(?:cystic|mediastinal|hepatic) fibrosis",
    ),
    "Aortic enlargement": (
        rf"{_WIDENING} (?:(?:thoracic|ascending|descending|and|tortuous) )*aort(?:a|ic)",
        rf"aort(?:a|ic) (?:(?:arch|knob|root) )?{_BE}{_BY}{_WIDE}",
    ),
    "Atelectasis": FINDINGS["atelectasis"],
    "Calcification": (r"calcifi(?:cations?|ed)",),
    "Cardiomegaly": FINDINGS["cardiomegaly"],
    "Clavicle fracture": (
        r"(?:clavicle|clavicular) fractures?",
        r"fractured? (?:of the )?(?:(?:left|right|distal|mid|proximal) )*clavicle",
    ),
    "Consolidation": FINDINGS["focal consolidation"],
    "Edema": FINDINGS["pulmonary edema"],
    "Emphysema": (r"(?:bullous )?emphysema(?:tous)?(?: changes?)?",),
    "Enlarged PA": (
        rf"(?:prominent|{_WIDENING}) (?:(?:left|right|main|central) )*pulmonary arter(?:y|ies)",
        rf"pulmonary arter(?:y|ies|ial) {_BE}{_BY}{_WIDE}",
    ),
    "ILD": (r"interstitial lung diseases?", r"ild"),
    "Infiltration": (r"infiltrat(?:es?|ions?)",),
    "Lung Opacity": (r"opacit(?:y|ies)", r"opacifications?"),
    "Lung cavity": (r"cavit(?:y|ies|ations?|ary lesions?)",),
    "Lung cyst": (r"(?:lung |pulmonary )?cysts?",),
    "Mediastinal shift": (
        rf"mediastin(?:al|um) (?:structures )?{_BE}{_BY}shift(?:ed)?",
        r"shift of (?:the )?(?:mediastin(?:um|al structures)|midline structures)",
    ),
    "Nodule/Mass": (r"nodules?", r"mass(?:es)?"),
    "Pleural effusion": FINDINGS["pleural effusion"],
    "Pleural thickening": (
        r"(?:pleural|pleuroparenchymal) thickening",
        r"thickening of the pleura",
        r"thickened pleura",
    ),
    "Pneumothorax": FINDINGS["pneumothorax"],
    "Pulmonary fibrosis": (r"(?:(?:pulmonary|lung|interstitial) )?fibro(?:sis|tic changes?)",),
    "Rib fracture": (r"rib fractures?", r"fractured? ribs?", r"fractures? of the (?:\w+ ){0,4}ribs?"),
}
# Paragraphs on why and how the image was taken, and on what was known before: they ask for a disease, or remember it.
ASIDES = re.compile(
    r"^[ \t]*(?i:examinations?|exam|study|procedure|(?:clinical )?indications?|techniques?|comparisons?|"
    r"(?:(?:clinical|patient) )?(?:history|information|data)|reason for (?:the )?(?:exam(?:ination)?|study))[ \t]*:"
    r"(?:.|\n(?![ \t]*(?:\n|[A-Z][A-Z ]+:|(?i:findings?|impressions?|conclusions?)[ \t]*:)))*",
    re.MULTILINE,
)


def confirmed(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str] | None:
    """The classes that a study's labels or report confirm; None where the study has neither.

    labels: one row of the labeler, by its label names.

    >>> sorted(confirmed({"Edema": 1.0, "Pneumothorax": 0.0}, "No effusion. There is interstitial lung disease."))
    ['Edema', 'ILD']
    """
    return None if labels is None and report is None else _classes(labels, report, 1.0, "present")


def denied(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str]:
    """The classes that a study's labels or report call absent, by the same order of precedence.

    >>> sorted(denied({"Edema": 0.0, "Pneumothorax": None}, "No emphysema."))
    ['Edema', 'Emphysema']
    """
    return _classes(labels, report, 0.0, "absent")


def doubtful(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str]:
    """The classes that a study's labels or report call uncertain, by the same order of precedence.

    >>> sorted(doubtful({"Edema": -1.0}, "Possible rib fracture. Cannot exclude emphysema."))
    ['Edema', 'Emphysema']
    """
    return _classes(labels, report, -1.0, "uncertain")


def _classes(
    labels: Mapping[str, float | None] | None, report: str | None, value: float, status: str
) -> frozenset[str]:
    """The classes whose label has this value; where no label covers them, those mentioned with this status."""
    stated = {finding for finding, its_status in _stated(report or "") if its_status == status}
    found = {
        name
        for name in CLASSES
        if (labels.get(LABELS[name]) == value if labels is not None and name in LABELS else name in stated)
    }
    # One label stands for both: where the text tells which bone is broken, the other is not.
    return frozenset(found - FRACTURES | FRACTURES & stated if found >= FRACTURES and FRACTURES & stated else found)


@lru_cache(maxsize=1)  # three questions are asked of each report
def _stated(report: str) -> frozenset[tuple[str, str]]:
    """Findings with the status of each of their mentions."""
    return frozenset((mention.finding, mention.status) for mention in find_mentions(ASIDES.sub("", report), PHRASES))


class Study(NamedTuple):
    """What is known of a study. digest: of its report, None where it has none. The others: see their functions."""

    digest: str | None
    confirmed: frozenset[str] | None
    doubtful: frozenset[str]
    denied: frozenset[str]


def _studies(
    some: Sequence[tuple[str, str, Mapping[str, float | None] | None]], *, roots: Mapping[str, Path]
) -> list[Study]:
    """Of studies, each by its patient's id, its own, and its labels."""
    found = []
    for subject, study, labels in some:
        report = mimic_cxr.read_report(roots, subject, study)
        digest = None if report is None else sha256(report.encode()).hexdigest()
        found.append(Study(digest, confirmed(labels, report), doubtful(labels, report), denied(labels, report)))
    return found


def pictures(
    roots: Mapping[str, Path],
    *,
    views: Collection[str],
    labeler: str,
    detection_threshold: float,
    workers: Workers = HERE,
) -> tuple[dict[str, list[Picture]], Counter[str], dict[str, str]]:
    """Images by split with the boxes that their reports confirm; how many of what was left out; a hash of the reports.

    The hash (by the number of reports) is SHA-256 over study and SHA-256 of its text, in the order of the studies.
    Raises InputError where no study has a report.
    """
    images = mimic_cxr.read_images(roots[SOURCE], views)
    if not images.num_rows:
        raise InputError(
            f"--view {', '.join(views)}", "no image has this ViewPosition", expected="values such as AP, PA"
        )
    image_ids = images["dicom_id"].to_pylist()
    width_height = zip(images["width"].to_pylist(), images["height"].to_pylist(), strict=True)
    sizes = dict(zip(image_ids, width_height, strict=True))
    found = detections.read_detections(
        roots[DETECTIONS], image_ids, CLASSES, threshold=detection_threshold, sizes=sizes
    )
    skipped = Counter({f"detected boxes: {reason.replace('_', ' ')}": n for reason, n in found.skipped.items()})
    of_split: dict[str, list[Picture]] = {}
    asked = dict(zip(images["study_id"].to_pylist(), images["subject_id"].to_pylist(), strict=True))
    labels = _labels(mimic_cxr.read_labels(roots[SOURCE], labeler), list(asked))
    tasks = ([(asked[study], study, next(labels)) for study in some] for some in pieces(list(asked), STUDIES_A_TASK))
    places = [roots[source] for source in mimic_cxr.REPORT_SOURCES if source in roots]
    with workers.each(
        partial(_studies, roots=roots), tasks, title="reading reports", unit="studies", total=len(asked), reads=places
    ) as read:
        known = dict(zip(asked, _alike(study for of_task in read for study in of_task), strict=True))
    digests = {study: of.digest for study, of in known.items() if of.digest is not None}
    skipped["studies without a report"] += len(known) - len(digests)
    for row, boxes in zip(_rows(images), boxes_by_image(found.boxes, len(image_ids)), strict=True):
        _, stated, open_, absent = known[row["study_id"]]
        if stated is None:
            skipped["images without labels and report"] += 1
            continue
        contested = [i for i, label in enumerate(boxes.labels) if label not in stated and label not in absent]
        kept = [i for i, label in enumerate(boxes.labels) if label in stated or label in UNASKED]
        skipped["detected boxes that no report confirms"] += len(boxes.labels) - len(kept)
        located = {boxes.labels[i] for i in kept}
        of_split.setdefault(row["split"], []).append(
            Picture(
                image_id=row["dicom_id"],
                source=SOURCE,
                key=row["key"],
                view=sys.intern(row["view"]),
                patient=row["subject_id"],
                size=(row["width"], row["height"]),
                boxes=boxes.select(kept),
                contested=boxes.select(contested),
                unlocated=tuple(sorted((stated | open_) - located)),
            )
        )
    if not digests:
        found, action = f"none of its {len(known)} studies has a report", f"name their folder: --root {REPORTS}=PATH"
        raise InputError(roots.get(REPORTS, roots[SOURCE]), found, expected="files/p10/.../s*.txt", action=action)
    listing = "".join(f"{digest}  {study}\n" for study, digest in sorted(digests.items()))
    return of_split, +skipped, {f"{len(digests)} reports": sha256(listing.encode()).hexdigest()}


def _rows(table: pa.Table) -> Iterator[dict]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _labels(table: pa.Table, studies: Sequence[str]) -> Iterator[dict[str, float | None] | None]:
    """The labels of each study, None of one that has none."""
    rows = table.take(pc.index_in(pa.array(studies, pa.string()), value_set=table["study_id"].combine_chunks()))
    return (None if row["study_id"] is None else row for row in _rows(rows))


def _alike(studies: Iterable[Study]) -> Iterator[Study]:
    """The same studies. Sets that are equal are one: there are many studies and few sets."""
    known: dict[frozenset[str], frozenset[str]] = {}
    for study in studies:
        stated = None if study.confirmed is None else known.setdefault(study.confirmed, study.confirmed)
        open_, absent = (known.setdefault(one, one) for one in (study.doubtful, study.denied))
        yield Study(study.digest, stated, open_, absent)
