"""Findings of the synthetic VinDr-CXR, MIMIC-CXR and ChestX-ray14, with the class that names each, and its anatomy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .chest import Outlines, box
from .frontal import SIDES, ZONES

# A copy, not an import: a phantom that shares the reader's mistakes would hide them.
CLASSES = (
    "Aortic enlargement", "Atelectasis", "Calcification", "Cardiomegaly", "Clavicle fracture", "Consolidation", "Edema",
    "Emphysema", "Enlarged PA", "ILD", "Infiltration", "Lung Opacity", "Lung cavity", "Lung cyst", "Mediastinal shift",
    "Nodule/Mass", "Pleural effusion", "Pleural thickening", "Pneumothorax", "Pulmonary fibrosis", "Rib fracture",
    "Other lesion",
)  # fmt: skip
ANATOMIES = (*(f"{side} {zone} lung" for side in SIDES for zone in ZONES), "heart", "aorta", "trachea")

Box = tuple[float, float, float, float]  # x, y, width, height in pixels


@dataclass(frozen=True)
class Finding:
    """A finding that can be drawn.

    Attributes:
        label: One of CLASSES, or a label of ChestX-ray14.
        drawn: Its name for `chest.chest`.
        anatomies: The members of ANATOMIES that it occupies; in ChestX-ray14 also the lung around them.
    """

    label: str
    drawn: str
    anatomies: tuple[str, ...]


@dataclass(frozen=True)
class Radiograph:
    """One image before it is drawn.

    Attributes:
        name: Its id.
        seed: Its seed.
        size: (height, width) in pixels.
        findings: Its findings.
    """

    name: str
    seed: int
    size: tuple[int, int]
    findings: tuple[Finding, ...]

    @property
    def drawn(self) -> list[str]:
        """Names of the findings as they are drawn."""
        return [finding.drawn for finding in self.findings]


IN_ANY_ZONE = {
    "Consolidation": "consolidation",
    "Emphysema": "emphysema",
    "Lung Opacity": "opacity",
    "Nodule/Mass": "mass",
}
ON_A_SIDE = {
    "Atelectasis": ("atelectasis", ("lower",)),
    "Pleural effusion": ("pleural effusion", ("lower",)),
    "Pleural thickening": ("pleural other", ("middle", "lower")),
    "Pneumothorax": ("pneumothorax", ("upper", "middle")),
    "Rib fracture": ("fracture", ("middle",)),
}
FINDINGS = (
    *(
        Finding(label, f"{side} {zone} {name}", (f"{side} {zone} lung",))
        for label, name in IN_ANY_ZONE.items()
        for side in SIDES
        for zone in ZONES
    ),
    *(
        Finding(label, f"{side} {name}", tuple(f"{side} {zone} lung" for zone in zones))
        for label, (name, zones) in ON_A_SIDE.items()
        for side in SIDES
    ),
    Finding("Cardiomegaly", "enlarged heart", ("heart",)),
    Finding("Aortic enlargement", "aortic enlargement", ("aorta",)),
    Finding("Calcification", "aortic calcification", ("aorta",)),
    Finding("Other lesion", "tracheal narrowing", ("trachea",)),
)


# Class -> its label in NIH ChestX-ray14. A mass in a lower zone is called a nodule there, so that all eight labels with
# boxes occur.
NIH_LABELS = {
    "Atelectasis": "Atelectasis",
    "Cardiomegaly": "Cardiomegaly",
    "Consolidation": "Pneumonia",
    "Lung Opacity": "Infiltration",
    "Nodule/Mass": "Mass",
    "Pleural effusion": "Effusion",
    "Pneumothorax": "Pneumothorax",
}


def _list_nih_findings() -> Iterator[Finding]:
    """Yield the findings of the synthetic ChestX-ray14. They occupy a whole lung, too, which is an anatomy there."""
    for finding in FINDINGS:
        if finding.label not in NIH_LABELS:
            continue
        label = "Nodule" if finding.drawn.endswith("lower mass") else NIH_LABELS[finding.label]
        lungs = dict.fromkeys(f"{side} lung" for side in SIDES for name in finding.anatomies if name.startswith(side))
        yield Finding(label, finding.drawn, (*finding.anatomies, *lungs))


NIH_FINDINGS = tuple(_list_nih_findings())


def deal(
    counts: Iterable[int], rng: np.random.Generator, findings: Sequence[Finding] = FINDINGS
) -> list[tuple[Finding, ...]]:
    """Deal findings to images, no two in one anatomy.

    They come from a shuffled deck: every finding occurs before one occurs twice, except that a finding that does not
    fit waits.

    Args:
        counts: The number of findings of each image.
        rng: The random numbers.
        findings: The findings of the deck.

    Returns:
        The findings of each image.
    """
    deck: list[Finding] = []
    hands = []
    for count in counts:
        hand: list[Finding] = []
        while len(hand) < count:
            occupied = {anatomy for finding in hand for anatomy in finding.anatomies}
            fitting = next((card for card in deck if occupied.isdisjoint(card.anatomies)), None)
            if fitting is None:
                deck.extend(findings[i] for i in rng.permutation(len(findings)))
                continue
            deck.remove(fitting)
            hand.append(fitting)
        hands.append(tuple(hand))
    return hands


def boxes(findings: Collection[Finding], picture: Outlines) -> list[tuple[str, Box]]:
    """Compute the box of each finding, where it was drawn.

    Args:
        findings: The findings.
        picture: The chest's masks.

    Returns:
        (label, box) pairs.
    """
    return [(finding.label, box(picture.findings[finding.drawn])) for finding in findings]


def jittered(xywh: Box, share: float, rng: np.random.Generator) -> Box:
    """Move each edge of a box by at most `share` of the box's width or height.

    Args:
        xywh: The box.
        share: The largest share.
        rng: The random numbers.

    Returns:
        The moved box.
    """
    x, y, width, height = xywh
    x_shift, x2_shift = (share * width * rng.uniform(-1, 1, 2)).tolist()
    y_shift, y2_shift = (share * height * rng.uniform(-1, 1, 2)).tolist()
    return x + x_shift, y + y_shift, width - x_shift + x2_shift, height - y_shift + y2_shift


def clipped(xywh: Box, size: tuple[int, int]) -> Box:
    """Clip a box to an image.

    Args:
        xywh: The box.
        size: (height, width) of the image.

    Returns:
        The part of the box inside the image.
    """
    x, y, width, height = xywh
    x_min, y_min = max(x, 0.0), max(y, 0.0)
    return x_min, y_min, min(x + width, size[1]) - x_min, min(y + height, size[0]) - y_min


def false_box(region: np.ndarray, rng: np.random.Generator) -> Box:
    """Draw a box of no finding inside the extent of an anatomy.

    Args:
        region: The anatomy's mask (h, w).
        rng: The random numbers.

    Returns:
        The box.
    """
    x, y, width, height = box(region)
    share = rng.uniform(0.5, 0.8, 2).tolist()
    return x + 0.5 * (1 - share[0]) * width, y + 0.5 * (1 - share[1]) * height, share[0] * width, share[1] * height


def sub_seed(*numbers: int) -> int:
    """Derive a seed for one image.

    Args:
        numbers: The numbers that identify the image.

    Returns:
        The seed.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def any_size(rng: np.random.Generator) -> tuple[int, int]:
    """Draw an image size; images of one source differ.

    Args:
        rng: The random numbers.

    Returns:
        (height, width) in pixels.
    """
    return int(rng.integers(208, 241)), int(rng.integers(176, 209))
