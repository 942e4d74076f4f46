"""Synthetic MIMIC-CXR reports alone: files/p1x/p1xxxxxxx/s5xxxxxxx.txt, for the studies that `mimic_cxr` draws.

Every sentence was written for this phantom. Findings that a report states are drawn; those that it denies, doubts or
only asks for are not. One study has no report, and one report has no FINDINGS.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .cases import Finding, Radiograph, any_size, deal, sub_seed

N_STUDIES = 40
VIEWS = {3: ("PA", "LATERAL"), 4: ("AP", "AP"), 9: ("PA", "LL")}  # by the study's number modulo 10; one AP otherwise
ONLY_LATERAL, WITHOUT_REPORT, WITHOUT_FINDINGS = 13, 7, 11  # numbers of studies
# {where} becomes "left upper lung", {side} left or right.
STATED = {
    "Aortic enlargement": ("Aortic enlargement is present.", "The shadow of the aorta shows aortic enlargement."),
    "Atelectasis": ("Plate-like atelectasis crosses the {side} base.", "There is atelectasis at the {side} base."),
    "Calcification": ("There is calcification of the aorta.", "Coarse calcification lines the aortic wall."),
    "Cardiomegaly": ("There is cardiomegaly.", "The wide heart shadow is in keeping with marked cardiomegaly."),
    "Consolidation": ("Dense consolidation occupies the {where}.", "There is consolidation in the {where}."),
    "Emphysema": ("Emphysema makes the {where} unusually dark.", "There is emphysema in the {where}."),
    "Lung Opacity": ("A hazy lung opacity covers the {where}.", "There is a lung opacity in the {where}."),
    "Nodule/Mass": ("A round mass of several centimetres lies in the {where}.", "There is a mass in the {where}."),
    "Other lesion": ("The trachea is narrowed.", "A soft tissue lesion narrows the trachea."),
    "Pleural effusion": (
        "A {side} pleural effusion hides the costophrenic angle.",
        "There is a {side} pleural effusion.",
    ),
    "Pleural thickening": (
        "There is pleural thickening on the {side}.",
        "The {side} chest wall has pleural thickening.",
    ),
    "Pneumothorax": (
        "There is a {side} pneumothorax.",
        "A {side} pneumothorax with a visible pleural line is present.",
    ),
    "Rib fracture": ("A displaced {side} rib fracture is seen.", "There is a {side} rib fracture."),
}
NOUNS = {
    "Atelectasis": "atelectasis",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Emphysema": "emphysema",
    "Nodule/Mass": "mass",
    "Pleural effusion": "pleural effusion",
    "Pleural thickening": "pleural thickening",
    "Pneumothorax": "pneumothorax",
    "Rib fracture": "rib fracture",
}
DENIED = (
    "No {one} or {two}.",
    "There is no evidence of {one} or {two}.",
    "The lungs and pleura show neither {one} nor {two}.",
    "The chest is free of {one}, and no {two} is identified.",
)
DOUBTED = ("Possible {one}, which further views could settle.", "Early {one} cannot be excluded.")
NORMAL = (
    "The trachea runs in the midline.",
    "The mediastinal contours are smooth.",
    "The soft tissues are unremarkable.",
)


@dataclass(frozen=True)
class Study:
    """One study.

    Attributes:
        number: Its number.
        subject: The patient.
        id: Its id.
        findings: The findings that all images show.
        denied: Classes that the report denies; not drawn.
        doubted: Classes that the report doubts; not drawn.
        asked: A class that the indication mentions.
        images: (view position, radiograph) pairs.
    """

    number: int
    subject: int
    id: int
    findings: tuple[Finding, ...]
    denied: tuple[str, ...]
    doubted: tuple[str, ...]
    asked: str
    images: tuple[tuple[str, Radiograph], ...]

    @property
    def folder(self) -> str:
        """The folder of its images: files/p1x/p1xxxxxxx/s5xxxxxxx. Its report is the file with this name and .txt."""
        return f"files/p{self.subject // 10**6}/p{self.subject}/s{self.id}"

    @property
    def has_report(self) -> bool:
        """Whether the study has a report."""
        return self.number != WITHOUT_REPORT


@dataclass(frozen=True)
class Sentence:
    """One sentence of a report.

    Attributes:
        text: The sentence.
        kind: "stated", "doubted", "denied" or "normal".
        labels: The classes that it names.
        finding: The finding that it states.
    """

    text: str
    kind: str
    labels: tuple[str, ...] = ()
    finding: Finding | None = None


def studies(seed: int, n: int = N_STUDIES) -> list[Study]:
    """Draw studies. Three of five have one to three findings; every fourth patient has two studies.

    Args:
        seed: The seed.
        n: The number of studies.

    Returns:
        The studies.
    """
    rng = np.random.default_rng(seed)
    hands = deal([int(rng.integers(1, 4)) if number % 5 < 3 else 0 for number in range(n)], rng)
    subjects = np.sort(rng.choice(10**7, n, replace=False)) + 10**7
    ids = rng.choice(10**7, n, replace=False) + 5 * 10**7
    result: list[Study] = []
    for number, findings in enumerate(hands):
        is_follow_up = number % 5 == 4  # the same patient, some time later
        subject = result[-1].subject if is_follow_up else int(subjects[number])
        present = {finding.label for finding in findings}
        absent = [str(name) for name in rng.permutation(sorted(set(NOUNS) - present))]
        views = ("LATERAL",) if number == ONLY_LATERAL else VIEWS.get(number % 10, ("AP",))
        images = []
        for index, view in enumerate(views):
            name = "-".join(rng.bytes(4).hex() for _ in range(5))
            own_seed = sub_seed(seed, subject, number, index)
            images.append((view, Radiograph(name, own_seed, any_size(rng), findings)))
        doubted = (absent[4],) if number % 6 == 4 else ()
        who = (number, subject, int(ids[number]))
        result.append(Study(*who, findings, tuple(absent[:4]), doubted, absent[5], tuple(images)))
    return result


def write(root: Path, *, seed: int, n: int = N_STUDIES) -> Path:
    """Write a text file for each study that has a report.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of studies.

    Returns:
        `root`.
    """
    for study in studies(seed, n):
        if study.has_report:
            path = root / f"{study.folder}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(report(study, seed), encoding="utf-8")
    return root


def sentences(study: Study, seed: int) -> list[Sentence]:
    """List the sentences on the image, in the report's order; the IMPRESSION repeats the first statement.

    Args:
        study: The study.
        seed: The seed.

    Returns:
        The sentences.
    """
    statements = _told(study, np.random.default_rng([seed, study.number]))
    return statements if study.number == WITHOUT_FINDINGS else [*statements, *_impression(statements)]


def report(study: Study, seed: int) -> str:
    """Format a report: headings in capitals, lines broken in the middle of sentences.

    Args:
        study: The study.
        seed: The seed.

    Returns:
        The text.
    """
    rng = np.random.default_rng([seed, study.number])
    statements = _told(study, rng)
    findings = [sentence.text for sentence in statements]
    impression = [sentence.text for sentence in _impression(statements)]
    sections = {
        "EXAMINATION": "Chest radiograph.",
        "INDICATION": f"___ year old patient with cough, to look for {NOUNS[study.asked]}.",
        "COMPARISON": "Chest radiographs of ___." if rng.random() < 0.5 else "None.",
    }
    if study.number == WITHOUT_FINDINGS:
        sections["IMPRESSION"] = " ".join(findings)
    else:
        sections |= {"FINDINGS": " ".join(findings), "IMPRESSION": " ".join(impression)}
    blocks = [
        textwrap.fill(f"{name}:  {text}", 72, initial_indent=" ", subsequent_indent=" ")
        for name, text in sections.items()
    ]
    return "\n \n".join([" " * 33 + "FINAL REPORT", *blocks]) + "\n"


def _told(study: Study, rng: np.random.Generator) -> list[Sentence]:
    stated = [Sentence(_stated(finding, rng), "stated", (finding.label,), finding) for finding in study.findings]
    doubted = [
        Sentence(str(rng.choice(DOUBTED)).format(one=NOUNS[label]), "doubted", (label,)) for label in study.doubted
    ]
    pairs = zip(study.denied[::2], study.denied[1::2], strict=True)
    denied = [
        Sentence(str(template).format(one=NOUNS[one], two=NOUNS[two]), "denied", (one, two))
        for template, (one, two) in zip(rng.choice(DENIED, 2, replace=False), pairs, strict=True)
    ]
    return [*stated, *doubted, *denied, Sentence(str(rng.choice(NORMAL)), "normal")]


def _impression(statements: list[Sentence]) -> list[Sentence]:
    stated = [sentence for sentence in statements if sentence.kind == "stated"]
    return stated[:1] or [Sentence("No acute abnormality of the chest.", "normal")]


def _stated(finding: Finding, rng: np.random.Generator) -> str:
    where = finding.anatomies[0]
    return str(rng.choice(STATED[finding.label])).format(where=where, side=where.split()[0])
