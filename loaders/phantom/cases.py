"""What the synthetic VinDr-CXR and MIMIC-CXR show: findings, the class that names each, and the anatomy it lies in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from .chest import Chest, box
from .frontal import SIDES, ZONES

# Written out and not taken from a reader: a phantom that shares the reader's mistakes would hide them.
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
    """label: one of CLASSES. drawn: its name for `chest.chest`. anatomies: those of ANATOMIES that it occupies."""

    label: str
    drawn: str
    anatomies: tuple[str, ...]


@dataclass(frozen=True)
class Radiograph:
    """One image before it is drawn. size: (height, width)."""

    name: str
    seed: int
    size: tuple[int, int]
    findings: tuple[Finding, ...]

    @property
    def drawn(self) -> list[str]:
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


def deal(counts: Iterable[int], rng: np.random.Generator) -> list[tuple[Finding, ...]]:
    """As many findings as each of `counts` says, no two in one anatomy.

    They are dealt from a shuffled deck, so that every finding occurs before one occurs twice (nearly: one that does
    not fit waits).
    """
    deck: list[Finding] = []
    hands = []
    for count in counts:
        hand: list[Finding] = []
        while len(hand) < count:
            taken = {anatomy for finding in hand for anatomy in finding.anatomies}
            fitting = next((card for card in deck if taken.isdisjoint(card.anatomies)), None)
            if fitting is None:
                deck.extend(FINDINGS[i] for i in rng.permutation(len(FINDINGS)))
                continue
            deck.remove(fitting)
            hand.append(fitting)
        hands.append(tuple(hand))
    return hands


def boxes(findings: Collection[Finding], picture: Chest) -> list[tuple[str, Box]]:
    """(label, box) of each finding, where it was drawn."""
    return [(finding.label, box(picture.findings[finding.drawn])) for finding in findings]


def jittered(xywh: Box, share: float, rng: np.random.Generator) -> Box:
    """A box each of whose edges has moved by at most `share` of the box's width or height."""
    x, y, width, height = xywh
    left, right = (share * width * rng.uniform(-1, 1, 2)).tolist()
    top, bottom = (share * height * rng.uniform(-1, 1, 2)).tolist()
    return x + left, y + top, width - left + right, height - top + bottom


def clipped(xywh: Box, size: tuple[int, int]) -> Box:
    """The part of a box inside an image of `size` = (height, width)."""
    x, y, width, height = xywh
    left, top = max(x, 0.0), max(y, 0.0)
    return left, top, min(x + width, size[1]) - left, min(y + height, size[0]) - top


def false_box(region: np.ndarray, rng: np.random.Generator) -> Box:
    """A box of no finding inside the extent of an anatomy's mask (h, w)."""
    x, y, width, height = box(region)
    share = rng.uniform(0.5, 0.8, 2).tolist()
    return x + 0.5 * (1 - share[0]) * width, y + 0.5 * (1 - share[1]) * height, share[0] * width, share[1] * height


def sub_seed(*numbers: int) -> int:
    """A seed for one image, by the numbers that name it."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def any_size(rng: np.random.Generator) -> tuple[int, int]:
    """A (height, width) in pixels; images of one source differ."""
    return int(rng.integers(208, 241)), int(rng.integers(176, 209))
