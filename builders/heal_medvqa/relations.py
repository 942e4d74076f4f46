"""Relations of diseases and anatomies (HEAL-MedVQA, section 3.2): the overlap of disease boxes and anatomy masks.

The paper relates a disease to an anatomy if their IoU exceeds a threshold, which it does not print. The box of a nodule
in a third of a lung has a small IoU even in the centre of the lung, so the share of the box within the anatomy
(`box`) is another measure. If a box touches an anatomy with an overlap below the threshold, the pair is not asked for
as present or as absent, and the anatomy is not called normal. The same applies to a box that too few readers drew.
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
_LUNGS = (
    *(f"{side} {zone} lung" for side in ("right", "left") for zone in ("upper", "middle", "lower")),
    "right lung",
    "left lung",
)
# The anatomies of each class. All other classes belong to the lungs and the pleura: the lungs.
_POSSIBLE_ANATOMIES = {
    "Aortic enlargement": ("aorta",),
    "Calcification": (*_LUNGS, "heart", "aorta", "trachea"),
    "Cardiomegaly": ("heart",),
    "Clavicle fracture": ("right upper lung", "left upper lung"),
    "Enlarged PA": ("heart",),
    "Mediastinal shift": ("heart", "aorta", "trachea"),
}
# Class -> wider or neighbouring readings of the same shadow. At its anatomies they are not asked for as absent.
RELATED_READINGS = {
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
def _intern(names: Names) -> Names:
    """Return one object for equal names, because many images have the same few sets of anatomies and pairs."""
    return names


@dataclass(frozen=True, slots=True)
class Boxes:
    """Disease boxes of one image.

    Attributes:
        labels: The class of each box.
        xywh: float64 (n, 4): x, y, width and height in pixels, from the top left, all within the image.
    """

    labels: tuple[str, ...]
    xywh: np.ndarray

    def select(self, indices: Sequence[int]) -> Boxes:
        """Select boxes.

        Args:
            indices: The indices of the boxes.

        Returns:
            These boxes.
        """
        if not indices:
            return NO_BOXES
        return Boxes(tuple(self.labels[i] for i in indices), self.xywh[list(indices)])


NO_BOXES = Boxes((), np.empty((0, 4)))


@dataclass(frozen=True, slots=True)
class Picture:
    """One image of a source, before masks are read.

    Attributes:
        image_id: The id of the image.
        source: Source of its ImageRef.
        key: Key of its ImageRef.
        view: View of its ImageRef.
        patient: The patient. A donor image must come from another patient.
        size: Width and height in pixels; None if only the masks have the size.
        boxes: The disease boxes.
        unlocated: Diseases that are present at an unknown position.
        contested: Boxes that make no relation. Their disease is not called absent at their position.
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
        """The diseases that the image may show anywhere, by any reader's box, its RELATED_READINGS or the report."""
        labels = (*self.boxes.labels, *self.contested.labels)
        return frozenset(
            (*labels, *self.unlocated, *(reading for label in labels for reading in RELATED_READINGS.get(label, ())))
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that relates a disease to an anatomy.

    Attributes:
        measure: The measure of overlap: "iou", or "box" for the share of the box within the anatomy.
        threshold: The lowest overlap.
        places: "any" is the published rule; it also relates an enlarged heart to a lung that its box overlaps.
            "anatomical" allows only the anatomies of the class; other pairs are neither present nor absent.
    """

    measure: str = "iou"
    threshold: float = 0.05
    places: str = "any"


class Regions(Mapping[str, rle.Rle]):
    """Anatomy -> COCO RLE of one image, compressed, because the text of a scaled mask repeats itself.

    Args:
        regions: The RLE of each anatomy.

    >>> Regions({"heart": {"size": [2, 3], "counts": "06"}})["heart"]
    {'size': [2, 3], 'counts': '06'}
    """

    __slots__ = ("_parts", "names", "size")

    def __init__(self, regions: Mapping[str, rle.Rle]) -> None:
        self.names = _intern(tuple(regions))
        height, width = next((region["size"] for region in regions.values()), (0, 0))
        self.size = (height, width)
        self._parts = [zlib.compress(region["counts"].encode("ascii"), 1) for region in regions.values()]

    def get_packed(self, number: int) -> bytes:
        """Get the compressed counts of a region.

        Args:
            number: The index of the region.

        Returns:
            The counts.
        """
        return self._parts[number]

    def __getitem__(self, name: str) -> rle.Rle:
        if name not in self.names:
            raise KeyError(name)
        counts = zlib.decompress(self.get_packed(self.names.index(name)))
        return {"size": [*self.size], "counts": counts.decode("ascii")}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Extents(Mapping[str, tuple[float, float]]):
    """Anatomy -> (width, height), as an array, because the extents of all images are in memory at once.

    Args:
        names: The anatomies.
        numbers: Width and height of each anatomy in turn.

    >>> Extents(("heart",), [0.25, 0.5])["heart"]
    (0.25, 0.5)
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: tuple[str, ...], numbers: Iterable[float]) -> None:
        self._names, self._numbers = names, array("d", numbers)

    def __getitem__(self, name: str) -> tuple[float, float]:
        if name not in self._names:
            raise KeyError(name)
        start = 2 * self._names.index(name)
        return self._numbers[start], self._numbers[start + 1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class Scene:
    """One image with its regions and relations.

    Attributes:
        picture: The image.
        width: Width in pixels.
        height: Height in pixels.
        regions: The COCO RLE of each anatomy, of the image's size.
        extents: Width and height of each region's bounding box as shares of the image's.
        related: The pairs above the threshold, with the indices of their boxes.
        touched: The pairs whose boxes (contested ones, too) share a pixel with the region, including the related pairs.
    """

    picture: Picture
    width: int
    height: int
    regions: Mapping[str, rle.Rle]
    extents: Mapping[str, tuple[float, float]]
    related: Mapping[Pair, tuple[int, ...]] = field(default_factory=dict)
    touched: frozenset[Pair] = frozenset()


def locate(picture: Picture, size: tuple[int, int], regions: Mapping[str, rle.Rle], rule: Rule) -> Scene:
    """Decide which diseases an image has at which anatomies, by the overlap of their boxes and masks.

    Args:
        picture: The image.
        size: Width and height in pixels.
        regions: The COCO RLE of each anatomy.
        rule: The rule for relations.

    Returns:
        The scene.
    """
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
        denominator = box_area if rule.measure == "box" else box_area + region_area - common
        related = _find_related(labels, names, ((common > 0) & (common >= rule.threshold * denominator))[:n_boxes])
        if rule.places == "anatomical":
            related = {
                pair: boxes for pair, boxes in related.items() if pair[0] in _POSSIBLE_ANATOMIES.get(pair[1], _LUNGS)
            }
        touched = set(_find_related(labels, names, common > 0))
        touched |= {
            _intern((name, reading)) for name, disease in touched for reading in RELATED_READINGS.get(disease, ())
        }
    touched |= {_intern((name, disease)) for name in names for disease in picture.unlocated}
    return Scene(picture, width, height, packed, extents, related, frozenset(touched))


def _find_related(labels: Sequence[str], names: Sequence[str], is_related: np.ndarray) -> dict[Pair, tuple[int, ...]]:
    pairs: dict[Pair, list[int]] = {}
    for box, region in np.argwhere(is_related).tolist():
        pairs.setdefault(_intern((names[region], labels[box])), []).append(box)
    return {pair: tuple(boxes) for pair, boxes in sorted(pairs.items())}
