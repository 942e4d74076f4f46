"""OpenI report-derived absence (CXR-ContraBench section 3.2): what a report denies, beside what it states.

A study *denies* a finding when FINDINGS and IMPRESSION mention it, every mention is absent, and no major MeSH term
indexes it. It *states* a finding when every mention is present and a major MeSH term indexes it, not as borderline.
There is one record for each denied target of a study with an image and at least one stated finding. Among several
stated findings, in alphabetical order, `hashing.pick` takes the distractor by the record's id and the seed. The
record keeps the negation cue of the first mention, never the sentence.

The paper gives the four targets and "co-mentioned present findings", not its rules, and these give more records than
its 359. Its distractors cannot have been the targets alone, although those of its casebook are: only 103 studies with
an image mention consolidation, edema or pneumothorax as present or are indexed with one, fewer than the paper's 114
effusion records, each of which needs such a study.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...loaders.openi import Report
from ..hashing import pick
from ..negation import Mention, find_mentions
from .questions import Wording, assemble
from .wording import slug

PROTOCOL = "openi_report_absence"
TARGETS = ("focal consolidation", "pleural effusion", "pneumothorax", "pulmonary edema")

# Every finding that can be a distractor (the targets among them) and the heads (first parts) of the major MeSH terms
# that index it. Left out are near-synonyms of a target, beside which its absence would be a matter of words: airspace
# disease, infiltrate and pneumonia (consolidation), vascular congestion (edema).
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
    """One record before wording. target, distractor: display names, lower case; cue: as the report words it."""

    id: str
    uid: str
    images: tuple[tuple[str, str], ...]  # (key, view)
    target: str
    distractor: str
    cue: str


def report_absence(reports: Iterable[Report], seed: int = 0) -> list[AbsenceItem]:
    """The records of each report, in order of reports and of TARGETS. No record depends on another report."""
    return [item for report in reports if report.images for item in _of_report(report, seed)]


def questions(items: Sequence[AbsenceItem], *, wording: Wording | None = None) -> pa.Table:
    """The items as rows in the schema QUESTION."""
    findings = tuple(MESH)
    number = {finding: i for i, finding in enumerate(findings)}
    references = [[{"source": "openi", "key": key, "view": view} for key, view in item.images] for item in items]
    image = pa.struct([("source", pa.string()), ("key", pa.string()), ("view", pa.string())])
    return assemble(
        protocol=PROTOCOL,
        polarity="absence",
        ids=pa.array([item.id for item in items], pa.string()),
        study_ids=pa.array([item.uid for item in items], pa.string()),
        images=pa.array(references, pa.list_(image)),
        findings=findings,
        target=np.array([number[item.target] for item in items], np.int64),
        distractors=np.array([[number[item.distractor]] for item in items], np.int64).reshape(-1, 1),
        with_negation=True,
        wording=wording or Wording(),
        cues=[item.cue for item in items],
    )


def _of_report(report: Report, seed: int) -> list[AbsenceItem]:
    mentions: dict[str, list[Mention]] = {}
    for mention in (*find_mentions(report.findings), *find_mentions(report.impression)):
        mentions.setdefault(mention.finding, []).append(mention)
    indexed = {term.split("/")[0] for term in report.mesh_major}
    clean = {term.split("/")[0] for term in report.mesh_major if "borderline" not in term.split("/")}
    stated = sorted(f for f, heads in MESH.items() if clean & set(heads) and _all(mentions.get(f), "present"))
    denied = [f for f in TARGETS if _all(mentions.get(f), "absent") and not indexed & set(MESH[f])]
    if not stated:
        return []
    images = tuple((image.key, image.view) for image in report.images)
    items = []
    for target in denied:
        row_id = f"openi/{report.uid}/report_absence/{slug(target)}"
        distractor = stated[pick(row_id, len(stated), seed)]
        items.append(AbsenceItem(row_id, report.uid, images, target, distractor, mentions[target][0].cue))
    return items


def _all(mentions: list[Mention] | None, status: str) -> bool:
    return bool(mentions) and all(mention.status == status for mention in mentions)
