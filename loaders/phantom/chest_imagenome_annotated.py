"""Chest ImaGenome's annotations of one drawn image: boxes around its anatomies, and the report's labels of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .cases import Radiograph
from .chest import box, outline
from .frontal import SIDES
from .mimic_cxr_reports import Sentence, Study, sentences

# Category and label in ImaGenome's terms of each class; a lesion of the trachea is only abnormal.
LABELS = {
    "Aortic enlargement": ("anatomicalfinding", "tortuous aorta"),
    "Atelectasis": ("anatomicalfinding", "atelectasis"),
    "Calcification": ("anatomicalfinding", "vascular calcification"),
    "Cardiomegaly": ("anatomicalfinding", "enlarged cardiac silhouette"),
    "Consolidation": ("anatomicalfinding", "consolidation"),
    "Emphysema": ("disease", "copd/emphysema"),
    "Lung Opacity": ("anatomicalfinding", "lung opacity"),
    "Nodule/Mass": ("anatomicalfinding", "mass/nodule (not otherwise specified)"),
    "Pleural effusion": ("anatomicalfinding", "pleural effusion"),
    "Pleural thickening": ("anatomicalfinding", "pleural/parenchymal scarring"),
    "Pneumothorax": ("anatomicalfinding", "pneumothorax"),
    "Rib fracture": ("anatomicalfinding", "rib fracture"),
}
MIDLINE = {
    "Aortic enlargement": "aortic arch",
    "Calcification": "aortic arch",
    "Cardiomegaly": "cardiac silhouette",
    "Other lesion": "trachea",
}
# Classes whose statement names a zone of the lung.
ZONED = ("Atelectasis", "Consolidation", "Emphysema", "Lung Opacity", "Nodule/Mass")
ZONES = {"upper": "upper", "middle": "mid", "lower": "lower"}
REGIONS = {
    "cardiac silhouette": "heart",
    "mediastinum": "mediastinum",
    "aortic arch": "aorta",
    "trachea": "trachea",
} | {f"{side} {name} lung zone": f"{side} {zone} lung" for side in SIDES for zone, name in ZONES.items()}
NORMAL = {
    "The trachea runs in the midline.": "trachea",
    "The mediastinal contours are smooth.": "mediastinum",
}

Corners = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, both ends included
Said = tuple[str, str, str, str]  # anatomy, category, label, context


@dataclass(frozen=True)
class Annotated:
    """One frontal image.

    Attributes:
        study: Its study.
        view: Its view position.
        image: The radiograph.
        boxes: Corners by anatomy.
        said: (number in the report, text, labels) of all sentences.
    """

    study: Study
    view: str
    image: Radiograph
    boxes: dict[str, Corners]
    said: tuple[tuple[int, str, tuple[Said, ...]], ...]


def annotated(study: Study, view: str, image: Radiograph, seed: int) -> Annotated:
    """Annotate one image of a study, and the sentences of its report.

    Args:
        study: The study.
        view: The view position.
        image: The radiograph.
        seed: The seed.

    Returns:
        The annotations.
    """
    numbered = enumerate(sentences(study, seed), start=1)
    sentence_labels = tuple((number, sentence.text, tuple(_said(sentence))) for number, sentence in numbered)
    return Annotated(study, view, image, _boxes(image), sentence_labels)


def _boxes(image: Radiograph) -> dict[str, Corners]:
    """Compute the box of every anatomy; fluid belongs to the lung that it fills."""
    picture = outline(image.drawn, seed=image.seed, size=image.size)
    boxes = {}
    for side in SIDES:
        lung = picture.regions[f"{side} lung"]
        x1, y1, x2, y2 = _corners(lung | picture.findings.get(f"{side} pleural effusion", lung))
        middle, low = (x1 + x2) // 2, y1 + 4 * (y2 - y1) // 5
        boxes[f"{side} lung"] = (x1, y1, x2, y2)
        boxes[f"{side} costophrenic angle"] = (middle, low, x2, y2) if SIDES[side] > 0 else (x1, low, middle, y2)
    return boxes | {name: _corners(picture.regions[region]) for name, region in REGIONS.items()}


def _corners(mask: Any) -> Corners:
    x, y, width, height = box(mask)
    return x, y, x + width - 1, y + height - 1


def _said(sentence: Sentence) -> Iterable[Said]:
    """Yield the labels that a sentence assigns to each anatomy."""
    if sentence.text in NORMAL:
        yield NORMAL[sentence.text], "nlp", "normal", "yes"
    for name in sentence.labels:
        for place in _places(name, sentence):
            if name in LABELS:
                yield place, *LABELS[name], "no" if sentence.kind == "denied" else "yes"
            if sentence.kind != "denied":
                yield place, "nlp", "abnormal", "yes"


def _places(name: str, sentence: Sentence) -> list[str]:
    """List the anatomies of a class: on the side and in the zone of the sentence, else on both sides."""
    if name in MIDLINE:
        return [MIDLINE[name]]
    side, zone = sentence.finding.anatomies[0].split()[:2] if sentence.finding else ("", "")
    places = []
    for lung_side in (side,) if side else SIDES:
        if name == "Rib fracture":
            places.append(f"{lung_side} chest wall")
            continue
        places.append(f"{lung_side} lung")
        if zone and name in ZONED:
            places.append(f"{lung_side} {ZONES[zone]} lung zone")
        if name == "Pleural effusion":
            places.append(f"{lung_side} costophrenic angle")
    return places
