"""A synthetic Open-i (NLMCXR) collection: report XML, png images, and DICOM for some, in the official layout.

Every sentence was written for this phantom. Findings that a report states are drawn and indexed; those that it negates,
doubts or remembers are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image

from . import dicom
from .chest import draw_chest

REPORTS, PNG, DICOM = "ecgen-radiology", "NLMCXR_png", "NLMCXR_dcm"
DICOM_LEVELS = 2048  # grey levels of the VOI table that every other DICOM carries
DICOM_FIRST = 256


@dataclass(frozen=True)
class _Finding:
    """A finding with its noun in negations, its statements, and its index terms. {side} becomes left or right."""

    drawn: str
    noun: str
    stated: tuple[str, ...]
    major: str
    automatic: str


FINDINGS = (
    _Finding(
        "cardiomegaly",
        "cardiomegaly",
        (
            "Moderate cardiomegaly widens the heart shadow.",
            "The heart is too wide for the chest, in keeping with cardiomegaly.",
        ),
        "Cardiomegaly/moderate",
        "Cardiomegaly",
    ),
    _Finding(
        "{side} pleural effusion",
        "pleural effusion",
        (
            "A {side} pleural effusion fills the costophrenic angle.",
            "There is a {side} pleural effusion with a meniscus.",
        ),
        "Pleural Effusion/{side}",
        "Pleural Effusion",
    ),
    _Finding(
        "{side} atelectasis",
        "atelectasis",
        ("Plate-like atelectasis crosses the {side} base.", "Atelectasis is present at the {side} base."),
        "Pulmonary Atelectasis/base/{side}",
        "Atelectasis",
    ),
    _Finding(
        "{side} consolidation",
        "consolidation",
        (
            "A dense consolidation occupies part of the {side} lung.",
            "Consolidation of the {side} lung with air bronchograms.",
        ),
        "Consolidation/lung/{side}",
        "consolidation",
    ),
    _Finding(
        "edema",
        "pulmonary edema",
        ("Perihilar haze on both sides shows pulmonary edema.", "There is pulmonary edema of both lungs."),
        "Pulmonary Edema",
        "Pulmonary Edema",
    ),
    _Finding(
        "{side} pneumothorax",
        "pneumothorax",
        ("A {side} apical pneumothorax is present.", "There is a {side} pneumothorax with a visible pleural line."),
        "Pneumothorax/{side}",
        "Pneumothorax",
    ),
)
# {one}, {two} and {three} become nouns: all of those that a sentence names are negated.
NEGATIONS = (
    "No {one}.",
    "There is no evidence of {one}.",
    "The chest is without {one}.",
    "The examination is negative for {one}.",
    "The chest is free of {one}.",
    "The chest is clear of {one}.",
    "{One} is not seen.",
    "No {one} or {two}.",
    "No evidence of {one} or {two} is found.",
    "Neither {one} nor {two} is identified.",
    "There is no {one}, {two} or {three}.",
)
UNCERTAIN = ("Possible {one}.", "{One} cannot be excluded.", "The appearance may represent early {one}.")
HISTORICAL = ("History of {one}.", "The patient was treated for {one} in the past.")
NORMAL = ("The trachea runs down the midline.", "The mediastinum is not widened.", "The bones are intact for age.")
INDICATIONS = ("Cough for two weeks.", "Chest pain, XXXX-year-old patient.", "Short of breath since yesterday.", "")
COMPARISONS = ("None.", "Chest radiographs dated XXXX.", "")
UNSATISFACTORY = "Technical Quality of Image Unsatisfactory "  # the trailing blank is the original's


@dataclass(frozen=True)
class _Report:
    number: int
    sections: dict[str, str]
    major: list[str]
    automatic: list[str]
    findings: list[str]  # for the drawing
    images: list[tuple[str, str]]  # (id, view)
    as_dicom: bool


def write(root: Path, *, seed: int, n: int = 70) -> Path:
    """Write the reports as XML, and none to three images of each.

    Most images are png, `NLMCXR_png/{id}.png`; every eighth report's are DICOM, `NLMCXR_dcm/{number}/{id}.dcm`.

    Args:
        root: The folder to write to.
        seed: The seed.
        n: The number of reports.

    Returns:
        `root`.
    """
    numbers = [number for number in range(1, 2 * n + 1) if number % 23][:n]  # the original's numbers have gaps too
    (root / REPORTS).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        report = _report(number, np.random.default_rng([seed, number]))
        (root / REPORTS / f"{number}.xml").write_bytes(_xml(report))
        for index, (image_id, view) in enumerate(report.images):
            own_seed = int(np.random.SeedSequence([seed, number, index]).generate_state(1)[0])
            _write_image(root, report, image_id, draw_chest(report.findings, seed=own_seed, view=view))
    return root


def _report(number: int, rng: np.random.Generator) -> _Report:
    """Draw one report. `number` decides its kind, so even a small collection has each kind; the rest is random."""
    normal = number % 5 == 0
    order = list(rng.permutation(len(FINDINGS)))
    present = [FINDINGS[i] for i in order[: 0 if normal else int(rng.integers(1, 3))]]
    absent = [FINDINGS[i] for i in order[len(present) :]]
    sides = [str(rng.choice(["left", "right"])) for _ in present]
    stated = [str(rng.choice(f.stated)).format(side=side) for f, side in zip(present, sides, strict=True)]
    body = [*stated, str(rng.choice(NORMAL)), *_other_mentions(absent, number, rng)]
    rng.shuffle(body)
    summary = "No acute disease of the chest." if normal else stated[0]
    if number % 9 == 4:  # without findings, the impression has all sentences
        body, summary = [], " ".join(body)
    elif number % 13 == 6:
        summary = ""
    indexed = number % 17 != 7
    major = [f.major.format(side=side) for f, side in zip(present, sides, strict=True)] or ["normal"]
    if not indexed:
        major = ["No Indexing"]
    elif number % 19 == 9:
        major.append(UNSATISFACTORY)
    return _Report(
        number=number,
        sections={
            "COMPARISON": str(rng.choice(COMPARISONS)),
            "INDICATION": str(rng.choice(INDICATIONS)),
            "FINDINGS": " ".join(body),
            "IMPRESSION": summary,
        },
        major=major,
        automatic=[f.automatic for f in present] if indexed and number % 3 else [],
        findings=[f.drawn.format(side=side) for f, side in zip(present, sides, strict=True)],
        images=_image_ids(number, (2, 2, 2, 1, 2, 2, 0, 3, 2, 1)[number % 10], rng),
        as_dicom=number % 8 == 1,
    )


def _other_mentions(absent: list[_Finding], number: int, rng: np.random.Generator) -> Iterator[str]:
    """Yield sentences on absent findings: negated ones, and now and then a doubtful or an old one."""
    nouns = [f.noun for f in absent]
    template = NEGATIONS[number % len(NEGATIONS)]
    used = sum(f"{{{slot}}}" in template.lower() for slot in ("one", "two", "three"))
    yield _fill(template, nouns[:used])
    remaining = nouns[used:]
    if remaining and rng.random() < 0.5:
        yield _fill(str(rng.choice(NEGATIONS[:7])), remaining[:1])
        remaining = remaining[1:]
    if remaining and number % 4 == 1:
        yield _fill(str(rng.choice(UNCERTAIN)), remaining[:1])
    elif remaining and number % 4 == 2:
        yield _fill(str(rng.choice(HISTORICAL)), remaining[:1])


def _fill(template: str, nouns: list[str]) -> str:
    slots = dict(zip(("one", "two", "three"), nouns, strict=False))
    return template.format(**slots, One=nouns[0].capitalize())


def _image_ids(number: int, count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    views = ("frontal", "lateral", "frontal")[:count]
    if number == 1:  # the one report whose ids repeat its number
        return [(f"CXR1_1_IM-0001-{last}", view) for last, view in zip(("3001", "4001"), views, strict=False)]
    series = int(rng.integers(1, 3000))
    ends = ("0001-0001", "0001-0002", "0001-0003") if number % 11 == 2 else ("1001", "2001", "3001")
    return [(f"CXR{number}_IM-{series:04d}-{end}", view) for end, view in zip(ends, views, strict=False)]


def _xml(report: _Report) -> bytes:
    """Format the report with the elements of the official files, in their order, without texts that nobody reads."""
    root = ElementTree.Element("eCitation")

    def add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
        element = ElementTree.SubElement(parent, tag, attributes)
        element.text = text or None
        return element

    add(root, "meta", type="rr")
    add(root, "uId", id=f"CXR{report.number}")
    add(root, "pmcId", id=str(report.number))
    add(root, "docSource", "CXR")
    add(root, "IUXRId", id=str(report.number))
    add(root, "note", "Synthetic: no patient, no radiologist, no hospital.")
    add(root, "specialty", "pulmonary diseases")
    add(root, "subset", "CXR")
    article = add(
        add(root, "MedlineCitation", Owner="medfaith phantom", Status="synthetic"), "Article", PubModel="Electronic"
    )
    add(article, "ArticleTitle", "Synthetic chest X-ray collection")
    abstract = add(article, "Abstract")
    for label, text in report.sections.items():
        add(abstract, "AbstractText", text, Label=label)
    mesh = add(root, "MeSH")
    for term in report.major:
        add(mesh, "major", term)
    for term in report.automatic:
        add(mesh, "automatic", term)
    for number, (image_id, _) in enumerate(report.images, start=1):
        image = add(root, "parentImage", id=image_id)
        add(image, "figureId", f"F{number}")
        add(image, "caption", "Chest, XXXX")
        panel = add(image, "panel", type="single")
        add(panel, "url", f"{image_id}.jpg")
        add(panel, "imgModality", "7")
    ElementTree.indent(root, "   ")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _write_image(root: Path, report: _Report, image_id: str, pixels: np.ndarray) -> None:
    if not report.as_dicom:
        path = root / PNG / f"{image_id}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
        return
    name = image_id.removeprefix("CXR1_" if report.number == 1 else "CXR")
    path = root / DICOM / str(report.number) / f"{name}.dcm"
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_dicom(path, pixels, image_id, by_table=report.number % 16 == 1)


def _write_dicom(path: Path, pixels: np.ndarray, image_id: str, *, by_table: bool) -> None:
    """Write 12 bits in 16, MONOCHROME1, with a VOI table or a window: the two kinds of the official collection.

    Displayed as its header asks, the file gives `pixels` (uint8 (h, w)).
    """
    from pydicom.dataset import Dataset

    darkness = 1 - pixels / 255
    if by_table:
        table = Dataset()
        table.add_new("LUTDescriptor", "US", [DICOM_LEVELS, DICOM_FIRST, 16])
        table.add_new("LUTData", "US", np.rint(np.linspace(0, 65535, DICOM_LEVELS)).astype(int).tolist())
        elements = {"VOILUTSequence": [table]}
        stored = DICOM_FIRST + np.rint(darkness * (DICOM_LEVELS - 1))
    else:
        elements = {"WindowCenter": 2048, "WindowWidth": 4096}
        stored = np.rint(darkness * 4095)
    dicom.write(path, stored, image_id, modality="CR", bits=12, inverted=True, **elements)
