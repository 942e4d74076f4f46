"""MIMIC-CXR for HEAL-MedVQA (section 3.2): a detector's boxes, if the report confirms the disease.

Labels have priority over the text. If the labeler knows a class, its label 1.0 confirms the class, and every other
value (negative, uncertain, not mentioned) drops the box. For other classes, and for studies without labels, a mention
in the report confirms the class if it is not denied, uncertain or historical. Paragraphs with the indication, the
history and the like do not count. The paper describes its filter only as "absent on that patient".

If the report confirms a disease or leaves it open and no box of it remains, the disease may lie anywhere: no question
asks for it as absent in that image, and none of its anatomies is called normal. If the report does not confirm a box,
the disease is not asked for as absent at its position either, unless the report denies it. Boxes of UNASKED classes,
which no report can confirm, remain, because their anatomies are not normal.
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
from .reasons import DETECTED, NO_REPORT, UNCONFIRMED, UNLABELLED
from .relations import Picture
from .vindr import group_boxes_by_image

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
# Class -> its phrases in reports: lower-case regular expressions, the longest first among phrases with the same
# beginning. Decoys ("") consume words with another meaning.
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
# Paragraphs on the reason and technique of the examination and on earlier findings. They do not describe the image.
CONTEXT_PARAGRAPHS = re.compile(
    r"^[ \t]*(?i:examinations?|exam|study|procedure|(?:clinical )?indications?|techniques?|comparisons?|"
    r"(?:(?:clinical|patient) )?(?:history|information|data)|reason for (?:the )?(?:exam(?:ination)?|study))[ \t]*:"
    r"(?:.|\n(?![ \t]*(?:\n|[A-Z][A-Z ]+:|(?i:findings?|impressions?|conclusions?)[ \t]*:)))*",
    re.MULTILINE,
)


def confirmed(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str] | None:
    """Select the classes that a study's labels call present, or its report for classes that no label covers.

    Args:
        labels: The row of the labeler, by its label names; None if the study has no labels.
        report: The text of the report; None if the study has no report.

    Returns:
        The classes; None without labels and report.

    >>> sorted(confirmed({"Edema": 1.0, "Pneumothorax": 0.0}, "No effusion. There is interstitial lung disease."))
    ['Edema', 'ILD']
    """
    return None if labels is None and report is None else _select_classes(labels, report, 1.0, "present")


def denied(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str]:
    """Select the classes that a study's labels call absent, or its report for classes that no label covers.

    Args:
        labels: The row of the labeler, by its label names; None if the study has no labels.
        report: The text of the report; None if the study has no report.

    Returns:
        The classes.

    >>> sorted(denied({"Edema": 0.0, "Pneumothorax": None}, "No emphysema."))
    ['Edema', 'Emphysema']
    """
    return _select_classes(labels, report, 0.0, "absent")


def doubtful(labels: Mapping[str, float | None] | None, report: str | None) -> frozenset[str]:
    """Select the classes that a study's labels call uncertain, or its report for classes that no label covers.

    Args:
        labels: The row of the labeler, by its label names; None if the study has no labels.
        report: The text of the report; None if the study has no report.

    Returns:
        The classes.

    >>> sorted(doubtful({"Edema": -1.0}, "Possible rib fracture. Cannot exclude emphysema."))
    ['Edema', 'Emphysema']
    """
    return _select_classes(labels, report, -1.0, "uncertain")


def _select_classes(
    labels: Mapping[str, float | None] | None, report: str | None, value: float, status: str
) -> frozenset[str]:
    """Select the classes whose label has a value; without a label, the classes that the report mentions with a status.

    The report decides for the classes without a label in LABELS, and for all classes if the study has no labels. One
    label covers both fractures: it selects both, or only those that the report mentions with the status, if any.
    """
    mentioned = {finding for finding, mention_status in _find_statements(report or "") if mention_status == status}
    classes = {
        name
        for name in CLASSES
        if (labels.get(LABELS[name]) == value if labels is not None and name in LABELS else name in mentioned)
    }
    # One label covers both fractures. If the text names the broken bone, the other class is not selected.
    return frozenset(
        classes - FRACTURES | FRACTURES & mentioned if classes >= FRACTURES and FRACTURES & mentioned else classes
    )


@lru_cache(maxsize=1)  # each report is needed three times
def _find_statements(report: str) -> frozenset[tuple[str, str]]:
    """Return (class, status) of the mentions in a report, except in paragraphs on the indication and the history."""
    return frozenset(
        (mention.finding, mention.status) for mention in find_mentions(CONTEXT_PARAGRAPHS.sub("", report), PHRASES)
    )


class Study(NamedTuple):
    """The classes of one study.

    Attributes:
        digest: SHA-256 of the report; None if the study has no report.
        confirmed: The result of `confirmed`.
        doubtful: The result of `doubtful`.
        denied: The result of `denied`.
    """

    digest: str | None
    confirmed: frozenset[str] | None
    doubtful: frozenset[str]
    denied: frozenset[str]


def _read_studies(
    task: Sequence[tuple[str, str, Mapping[str, float | None] | None]], *, roots: Mapping[str, Path]
) -> list[Study]:
    """Read the records of studies, each given by patient id, study id and labels."""
    records = []
    for subject, study, labels in task:
        report = mimic_cxr.read_report(roots, subject, study)
        digest = None if report is None else sha256(report.encode()).hexdigest()
        records.append(Study(digest, confirmed(labels, report), doubtful(labels, report), denied(labels, report)))
    return records


def pictures(
    roots: Mapping[str, Path],
    *,
    views: Collection[str],
    labeler: str,
    detection_threshold: float,
    workers: Workers = HERE,
) -> tuple[dict[str, list[Picture]], Counter[str], dict[str, str]]:
    """Read the images by split with the boxes that their reports confirm.

    The hash of the reports is SHA-256 over study and SHA-256 of its text, in the order of the studies.

    Args:
        roots: Folder of each source, by source id.
        views: The values of ViewPosition.
        labeler: The labeler of the reports.
        detection_threshold: The lowest score of a detected box.
        workers: The workers that read the reports.

    Returns:
        The images by split, the counts of skipped items by reason, and the hash of the reports by their number.

    Raises:
        InputError: No image has one of the views, or no study has a report.
    """
    images = mimic_cxr.read_images(roots[SOURCE], views)
    if not images.num_rows:
        raise InputError(
            f"--view {', '.join(views)}", "no image has this ViewPosition", expected="values such as AP, PA"
        )
    image_ids = images["dicom_id"].to_pylist()
    width_height = zip(images["width"].to_pylist(), images["height"].to_pylist(), strict=True)
    sizes = dict(zip(image_ids, width_height, strict=True))
    result = detections.read_detections(
        roots[DETECTIONS], image_ids, CLASSES, threshold=detection_threshold, sizes=sizes
    )
    skipped = Counter({DETECTED[reason]: n for reason, n in result.skipped.items()})
    pictures_by_split: dict[str, list[Picture]] = {}
    subjects = dict(zip(images["study_id"].to_pylist(), images["subject_id"].to_pylist(), strict=True))
    labels = _iterate_labels(mimic_cxr.read_labels(roots[SOURCE], labeler), list(subjects))
    tasks = (
        [(subjects[study], study, next(labels)) for study in study_ids]
        for study_ids in pieces(list(subjects), STUDIES_A_TASK)
    )
    report_roots = [roots[source] for source in mimic_cxr.REPORT_SOURCES if source in roots]
    with workers.map(
        partial(_read_studies, roots=roots),
        tasks,
        title="reading reports",
        unit="studies",
        total=len(subjects),
        reads=report_roots,
    ) as results:
        study_records = dict(
            zip(subjects, _share_equal_sets(study for task_records in results for study in task_records), strict=True)
        )
    digests = {
        study: study_record.digest for study, study_record in study_records.items() if study_record.digest is not None
    }
    skipped[NO_REPORT] += len(study_records) - len(digests)
    for row, boxes in zip(_iterate_rows(images), group_boxes_by_image(result.boxes, len(image_ids)), strict=True):
        _, confirmed_classes, doubtful_classes, denied_classes = study_records[row["study_id"]]
        if confirmed_classes is None:
            skipped[UNLABELLED] += 1
            continue
        contested_boxes = [
            i for i, label in enumerate(boxes.labels) if label not in confirmed_classes and label not in denied_classes
        ]
        confirmed_boxes = [i for i, label in enumerate(boxes.labels) if label in confirmed_classes or label in UNASKED]
        skipped[UNCONFIRMED] += len(boxes.labels) - len(confirmed_boxes)
        located_classes = {boxes.labels[i] for i in confirmed_boxes}
        pictures_by_split.setdefault(row["split"], []).append(
            Picture(
                image_id=row["dicom_id"],
                source=SOURCE,
                key=row["key"],
                view=sys.intern(row["view"]),
                patient=row["subject_id"],
                size=(row["width"], row["height"]),
                boxes=boxes.select(confirmed_boxes),
                contested=boxes.select(contested_boxes),
                unlocated=tuple(sorted((confirmed_classes | doubtful_classes) - located_classes)),
            )
        )
    if not digests:
        result, action = (
            f"none of its {len(study_records)} studies has a report",
            f"name their folder: --root {REPORTS}=PATH",
        )
        raise InputError(roots.get(REPORTS, roots[SOURCE]), result, expected="files/p10/.../s*.txt", action=action)
    listing = "".join(f"{digest}  {study}\n" for study, digest in sorted(digests.items()))
    return pictures_by_split, +skipped, {f"{len(digests)} reports": sha256(listing.encode()).hexdigest()}


def _iterate_rows(table: pa.Table) -> Iterator[dict]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _iterate_labels(table: pa.Table, studies: Sequence[str]) -> Iterator[dict[str, float | None] | None]:
    """Yield the labels of each study; None if the study has no labels."""
    rows = table.take(pc.index_in(pa.array(studies, pa.string()), value_set=table["study_id"].combine_chunks()))
    return (None if row["study_id"] is None else row for row in _iterate_rows(rows))


def _share_equal_sets(studies: Iterable[Study]) -> Iterator[Study]:
    """Yield the studies with equal sets as one object, because many studies have the same few sets."""
    shared_sets: dict[frozenset[str], frozenset[str]] = {}
    for study in studies:
        confirmed_classes = (
            None if study.confirmed is None else shared_sets.setdefault(study.confirmed, study.confirmed)
        )
        doubtful_classes, denied_classes = (
            shared_sets.setdefault(class_set, class_set) for class_set in (study.doubtful, study.denied)
        )
        yield Study(study.digest, confirmed_classes, doubtful_classes, denied_classes)
