"""OpenI report-derived absence (CXR-ContraBench section 3.2): findings that a report denies, with one that it states.

A study *denies* a finding if FINDINGS and IMPRESSION mention it, every mention is absent, and no major MeSH term
indexes it. It *states* a finding if every mention is present and a major MeSH term indexes it, not as borderline. There
is one record for each denied target of a study with an image and at least one stated finding. Among several stated
findings, in alphabetical order, `hashing.pick` chooses the distractor by the record's id and the seed. The record
contains the negation cue of the first mention, never the sentence.

The paper gives the four targets and "co-mentioned present findings" but not its rules. The rules here give more records
than its 359. Its distractors cannot be limited to the targets, although those of its casebook are targets: only 103
studies with an image mention consolidation, edema or pneumothorax as present or are indexed with one. The paper has 114
effusion records, and each needs such a study.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...loaders.openi import Report
from ..hashing import pick
from ..negation import Mention, find_mentions
from .questions import Items, Wording, build_question_table
from .wording import slug

PROTOCOL = "openi_report_absence"
TARGETS = ("focal consolidation", "pleural effusion", "pneumothorax", "pulmonary edema")

# Every finding that can be a distractor (including the targets) and the heads (first parts) of the major MeSH terms
# that index it. Near-synonyms of a target are excluded, because they would contradict its absence: airspace disease,
# infiltrate and pneumonia (consolidation), vascular congestion (edema).
MESH = {
    "atelectasis": ("Pulmonary Atelectasis",),
    "cardiomegaly": ("Cardiomegaly",),
    "emphysema": ("Emphysema", "Pulmonary Emphysema", "Bullous Emphysema"),
    "focal consolidation": ("Consolidation",),
    "fracture": ("Fractures, Bone",),
    "granuloma": ("Granuloma", "Calcified Granuloma"),
    "hiatal hernia": ("Hernia, Hiatal",),
    "mass": ("Mass",),
    "nodule": ("Nodule",),
    "opacity": ("Opacity",),
    "pleural effusion": ("Pleural Effusion", "Hydropneumothorax", "Hemothorax", "Hemopneumothorax"),
    "pneumothorax": ("Pneumothorax", "Hydropneumothorax", "Hemopneumothorax"),
    "pulmonary edema": ("Pulmonary Edema",),
    "scarring": ("Cicatrix",),
    "scoliosis": ("Scoliosis",),
}


@dataclass(frozen=True, slots=True)
class AbsenceItem:
    """One record before wording.

    Attributes:
        id: The id of the row.
        uid: The id of the report.
        images: The images of the study: (key, view).
        target: Display name of the target, in lower case.
        distractor: Display name of the distractor, in lower case.
        cue: The negation cue in the words of the report.
    """

    id: str
    uid: str
    images: tuple[tuple[str, str], ...]  # (key, view)
    target: str
    distractor: str
    cue: str


def find_report_absences(reports: Iterable[Report], seed: int = 0) -> list[AbsenceItem]:
    """Find the findings that reports deny, each with a finding that the same report states as its distractor.

    Reports without an image or without a stated finding give no record. The records are in the order of the reports
    and of TARGETS. No record depends on another report.

    Args:
        reports: The reports.
        seed: The seed of the build.

    Returns:
        The records.
    """
    return [item for report in reports if report.images for item in _find_absences(report, seed)]


def questions(items: Sequence[AbsenceItem], *, wording: Wording | None = None) -> pa.Table:
    """Build an absence question of each record of `find_report_absences`.

    Args:
        items: The records.
        wording: The wording and layout of the questions.

    Returns:
        Rows in the schema QUESTION.
    """
    findings = tuple(MESH)
    number = {finding: i for i, finding in enumerate(findings)}
    references = [[{"source": "openi", "key": key, "view": view} for key, view in item.images] for item in items]
    image = pa.struct([("source", pa.string()), ("key", pa.string()), ("view", pa.string())])
    columns = Items(
        ids=pa.array([item.id for item in items], pa.string()),
        study_ids=pa.array([item.uid for item in items], pa.string()),
        images=pa.array(references, pa.list_(image)),
        findings=findings,
        target=np.array([number[item.target] for item in items], np.int64),
        distractors=np.array([[number[item.distractor]] for item in items], np.int64).reshape(-1, 1),
        cues=[item.cue for item in items],
    )
    return build_question_table(columns, protocol=PROTOCOL, polarity="absence", wording=wording or Wording())


def _find_absences(report: Report, seed: int) -> list[AbsenceItem]:
    mentions: dict[str, list[Mention]] = {}
    for mention in (*find_mentions(report.findings), *find_mentions(report.impression)):
        mentions.setdefault(mention.finding, []).append(mention)
    indexed_heads = {term.split("/")[0] for term in report.mesh_major}
    certain_heads = {term.split("/")[0] for term in report.mesh_major if "borderline" not in term.split("/")}
    stated_findings = sorted(
        f for f, heads in MESH.items() if certain_heads & set(heads) and _has_only(mentions.get(f), "present")
    )
    denied_findings = [f for f in TARGETS if _has_only(mentions.get(f), "absent") and not indexed_heads & set(MESH[f])]
    if not stated_findings:
        return []
    images = tuple((image.key, image.view) for image in report.images)
    items = []
    for target in denied_findings:
        row_id = f"openi/{report.uid}/report_absence/{slug(target)}"
        distractor = stated_findings[pick(row_id, len(stated_findings), seed)]
        items.append(AbsenceItem(row_id, report.uid, images, target, distractor, mentions[target][0].cue))
    return items


def _has_only(mentions: list[Mention] | None, status: str) -> bool:
    return bool(mentions) and all(mention.status == status for mention in mentions)
