"""Which disease lies at which anatomy (HEAL-MedVQA, section 3.2): the overlap of disease boxes and anatomy masks.

The paper relates a disease to an anatomy where their IoU exceeds a threshold, and does not print the threshold. The box
of a nodule in a third of a lung has a small IoU however central it lies, so the share of the box that lies in the
anatomy (`box`) is offered as another measure. A box that touches an anatomy below the threshold is neither: the pair is
not asked for as present, nor as absent, and the anatomy is not called normal. So it is with a box that too few readers
drew.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np

from ...loaders import rle

MEASURES = ("iou", "box")
PLACES = ("any", "anatomical")
_LUNGS = tuple(f"{side} {zone} lung" for side in ("right", "left") for zone in ("upper", "middle", "lower"))
# Where a class can lie; classes of the lungs and the pleura: in the lungs.
_ELSEWHERE = {
    "Aortic enlargement": ("aorta",),
    "Calcification": (*_LUNGS, "heart", "aorta", "trachea"),
    "Cardiomegaly": ("heart",),
    "Clavicle fracture": ("right upper lung", "left upper lung"),
    "Enlarged PA": ("heart",),
    "Mediastinal shift": ("heart", "aorta", "trachea"),
}
# Class -> wider or neighbouring readings of the same shadow: where it lies, they are not asked for as absent.
_ALSO = {
    "Atelectasis": ("Lung Opacity",),
    "Consolidation": ("Infiltration", "Lung Opacity"),
    "Edema": ("Lung Opacity",),
    "ILD": ("Lung Opacity", "Pulmonary fibrosis"),
    "Infiltration": ("Consolidation", "Lung Opacity"),
    "Nodule/Mass": ("Lung Opacity",),
    "Pulmonary fibrosis": ("ILD", "Lung Opacity"),
}
Pair = tuple[str, str]  # anatomy, disease
Names = TypeVar("Names", bound=tuple[str, ...])


@lru_cache(maxsize=4096)
def _one(names: Names) -> Names:
    """Names that are equal are one: there are many images, and few sets of anatomies and pairs."""
    return names


@dataclass(frozen=True, slots=True)
class Boxes:
    """Disease boxes of one image. xywh: float64, shape (n, 4), pixels, top-left origin, all within the image."""

    labels: tuple[str, ...]
    xywh: np.ndarray

    def select(self, which: Sequence[int]) -> Boxes:
        """Some of the boxes, by their indices."""
        if not which:
            return NO_BOXES
        return Boxes(tuple(self.labels[i] for i in which), self.xywh[list(which)])


NO_BOXES = Boxes((), np.empty((0, 4)))


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of a source and what is known of it before any mask is read.

    source, key, view: its ImageRef. patient: what a donor image must differ in. size: (width, height), None where only
    the masks say it. unlocated: diseases that are there, one does not know where. contested: boxes that are no
    relation, but no reason either to call the disease absent where they lie.
    """

    image_id: str
    source: str
    key: str
    view: str
    patient: str
    size: tuple[int, int] | None
    boxes: Boxes
    unlocated: tuple[str, ...] = ()
    contested: Boxes = NO_BOXES

    @property
    def diseases(self) -> frozenset[str]:
        """All that the image may show, wherever: what a box of any reader, another reading of it or the report says."""
        drawn = (*self.boxes.labels, *self.contested.labels)
        return frozenset((*drawn, *self.unlocated, *(also for label in drawn for also in _ALSO.get(label, ()))))


@dataclass(frozen=True, slots=True)
class Rule:
    """When a disease lies at an anatomy: its `measure` is at least `threshold`.

    places: "any", the published rule, by which an enlarged heart also lies at the lung that its box overlaps; or
    "anatomical", only where a class can lie (a pair elsewhere is neither present nor absent).
    """

    measure: str = "iou"
    threshold: float = 0.05
    places: str = "any"


class Regions(Mapping[str, rle.Rle]):
    """Anatomy -> COCO RLE of one image, packed: the text of a scaled mask repeats itself.

    >>> Regions({"heart": {"size": [2, 3], "counts": "06"}})["heart"]
    {'size': [2, 3], 'counts': '06'}
    """

    __slots__ = ("_parts", "names", "size")

    def __init__(self, regions: Mapping[str, rle.Rle]) -> None:
        self.names = _one(tuple(regions))
        height, width = next((region["size"] for region in regions.values()), (0, 0))
        self.size = (height, width)
        self._parts = [zlib.compress(region["counts"].encode("ascii"), 1) for region in regions.values()]

    def part(self, number: int) -> bytes:
        """The packed counts of the region of this number."""
        return self._parts[number]

    def __getitem__(self, name: str) -> rle.Rle:
        if name not in self.names:
            raise KeyError(name)
        counts = zlib.decompress(self.part(self.names.index(name)))
        return {"size": [*self.size], "counts": counts.decode("ascii")}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Extents(Mapping[str, tuple[float, float]]):
    """Anatomy -> (width, height), packed: those of all images are in memory at once.

    >>> Extents(("heart",), [0.25, 0.5])["heart"]
    (0.25, 0.5)
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: tuple[str, ...], numbers: Iterable[float]) -> None:
        self._names, self._numbers = names, array("d", numbers)

    def __getitem__(self, name: str) -> tuple[float, float]:
        if name not in self._names:
            raise KeyError(name)
        at = 2 * self._names.index(name)
        return self._numbers[at], self._numbers[at + 1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class Scene:
    """One image with its regions and relations.

    regions: anatomy -> COCO RLE of the image's size. extents: anatomy -> (width, height) of the region's box as shares
    of the image's. related: pairs above the threshold, with the boxes (indices) that make them. touched: pairs whose
    boxes, contested ones too, and regions have a pixel in common, the related ones among them.
    """

    picture: Picture
    width: int
    height: int
    regions: Mapping[str, rle.Rle]
    extents: Mapping[str, tuple[float, float]]
    related: Mapping[Pair, tuple[int, ...]] = field(default_factory=dict)
    touched: frozenset[Pair] = frozenset()


def locate(picture: Picture, size: tuple[int, int], regions: Mapping[str, rle.Rle], rule: Rule) -> Scene:
    """The scene of a picture of (width, height) `size` with these regions."""
    width, height = size
    packed = Regions(regions)
    names = list(packed.names)
    sides = (rle.compute_bounding_box(regions[name])[2:] for name in names)
    extents = Extents(packed.names, (share for w, h in sides for share in (w / width, h / height)))
    n_boxes = len(picture.boxes.labels)
    labels = (*picture.boxes.labels, *picture.contested.labels)
    related: dict[Pair, tuple[int, ...]] = {}
    touched: set[Pair] = set()
    if labels and names:
        shapes = rle.encode_boxes(np.vstack([picture.boxes.xywh, picture.contested.xywh]), (height, width))
        common = rle.count_shared_pixels(shapes, [regions[name] for name in names])
        box_area = np.array([rle.area(shape) for shape in shapes], dtype=np.float64)[:, None]
        region_area = np.array([rle.area(regions[name]) for name in names], dtype=np.float64)
        whole = box_area if rule.measure == "box" else box_area + region_area - common
        related = _related(labels, names, ((common > 0) & (common >= rule.threshold * whole))[:n_boxes])
        if rule.places == "anatomical":
            related = {pair: boxes for pair, boxes in related.items() if pair[0] in _ELSEWHERE.get(pair[1], _LUNGS)}
        touched = set(_related(labels, names, common > 0))
        touched |= {_one((name, also)) for name, disease in touched for also in _ALSO.get(disease, ())}
    touched |= {_one((name, disease)) for name in names for disease in picture.unlocated}
    return Scene(picture, width, height, packed, extents, related, frozenset(touched))


def _related(labels: Sequence[str], names: Sequence[str], holds: np.ndarray) -> dict[Pair, tuple[int, ...]]:
    pairs: dict[Pair, list[int]] = {}
    for box, region in np.argwhere(holds).tolist():
        pairs.setdefault(_one((names[region], labels[box])), []).append(box)
    return {pair: tuple(boxes) for pair, boxes in sorted(pairs.items())}
