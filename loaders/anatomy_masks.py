"""Masks of the anatomy that the user provides: from CXAS, from radiologists, or from any other segmenter.

HEAL-MedVQA (section 3.2) takes the anatomy of its training images from a model trained on PAX-Ray++, and of its test
images from radiologists; neither is published. Each folder has one of four layouts, at its top or in a tree of folders:

- COCO JSON with RLEs or polygons, one file for all images (the stem of `file_name` is the image's id) or one file an
  image, `<image>.json`; both also as written by CXAS, which leaves empty masks out;
- `<image>.npz` (its first array) or `<image>.npy` with the 159 masks of CXAS, bool or uint8 (159, h, w);
- `<image>/<label>.png`, 1-bit or grey with 0 and one other level.

anatomies.toml defines the labels of each anatomy. A mask covers the full image, at its size or at another one. It is
scaled by nearest neighbour. A square mask fits any image, since CXAS works at 512 x 512. Any other mask must have the
image's aspect ratio within ASPECT_TOLERANCE.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from . import rle
from .coco import normalize_label
from .errors import InputError
from .mask_layouts import Layout, Size, open_layout
from .rle import Rle

ANATOMIES = (
    "right upper lung",
    "right middle lung",
    "right lower lung",
    "left upper lung",
    "left middle lung",
    "left lower lung",
    "heart",
    "aorta",
    "trachea",
)
WHOLE_LUNGS = ("right lung", "left lung")
NO_MASK, EMPTY_MASK = "no mask: {}", "empty mask: {}"  # problems of an anatomy
ASPECT_TOLERANCE = 0.02  # a mask of 100 pixels is already 1% off by rounding its sides
CXAS_SIZE = (512, 512)


class AnatomyMasks:
    """The masks below one root, opened image by image.

    Attributes:
        problems: Number of masks, over the reads to date, that were missing ("no mask: heart") or empty ("empty mask:
            heart").
    """

    def __init__(self, layout: Layout, anatomies: Sequence[str]) -> None:
        self._layout, self._anatomies = layout, tuple(anatomies)
        self.problems: Counter[str] = Counter()

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._layout.places

    def __len__(self) -> int:
        return len(self._layout.places)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._layout.places))

    def subset(self, image_ids: Iterable[str]) -> AnatomyMasks:
        """Select the masks of some images, with a new count of problems: small enough to send to another process.

        Args:
            image_ids: The images.

        Returns:
            The masks of these images.
        """
        return AnatomyMasks(self._layout.select(image_ids), self._anatomies)

    @property
    def files(self) -> list[Path]:
        """All files with masks of these anatomies, sorted."""
        return sorted({path for image_id in self for path in self._layout.list_files(image_id)})

    def get_declared_size(self, image_id: str) -> Size | None:
        """Return the size of the image itself, if a COCO file states it.

        512 x 512 counts as not stated: it is the size that CXAS works at, for images of any size.

        Args:
            image_id: The image.

        Returns:
            (width, height) in pixels; None if it is not stated or the image has no masks.
        """
        size = self._layout.get_declared_size(image_id) if image_id in self else None
        return None if size == CXAS_SIZE else size

    def read(self, image_id: str, size: Size | None = None) -> dict[str, Rle]:
        """Read the masks of an image. Missing and empty masks are left out and counted in `problems`.

        Args:
            image_id: The image.
            size: (height, width) of the result; by default the declared size, else each mask's own size.

        Returns:
            The masks by anatomy; empty if the image has no file.

        Raises:
            InputError: A file is damaged, or a mask has another aspect ratio than the image.
        """
        stored = self._layout.read(image_id) if image_id in self else {}
        if size is None and (declared := self.get_declared_size(image_id)):
            size = (declared[1], declared[0])
        masks = {}
        for anatomy in self._anatomies:
            mask = _select_anatomy(anatomy, stored)
            if mask is None:
                self.problems[NO_MASK.format(anatomy)] += 1
                continue
            if size is not None:
                self._check_aspect(image_id, anatomy, rle.get_size(mask), size)
                mask = rle.resize_mask(mask, size)
            if rle.area(mask):
                masks[anatomy] = mask
            else:
                self.problems[EMPTY_MASK.format(anatomy)] += 1
        return masks

    def _check_aspect(self, image_id: str, anatomy: str, mask: Size, image: Size) -> None:
        (h, w), (height, width) = mask, image
        if h != w and abs(w * height / (h * width) - 1) > ASPECT_TOLERANCE:
            raise InputError(
                self._layout.places[image_id],
                f"the mask of {anatomy!r} is {w} x {h}, the image {image_id} {width} x {height} (width x height)",
                expected="a mask of the whole image: its aspect ratio, or a square",
                action="check that the masks were made from this image, neither cropped nor turned",
            )


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the paths that a key may have below the root.

    Masks do not count as images. Rows that are made from them refer to the images of their source.

    Args:
        key: The key.

    Returns:
        Paths relative to the root, the key alone.
    """
    return (key,)


def open_masks(root: Path, anatomies: Sequence[str] = ANATOMIES) -> AnatomyMasks:
    """Open the masks below a folder or in one COCO JSON file. Only names are listed; a common COCO file is parsed once.

    Args:
        root: The folder, or the COCO file.
        anatomies: The anatomies to read.

    Returns:
        The masks, to be read image by image.

    Raises:
        InputError: anatomies.toml does not define an anatomy, or `root` has no layout or several ones.
    """
    structures, thirds = _load_definitions()
    for anatomy in anatomies:
        if anatomy not in structures and anatomy not in thirds:
            defined = ", ".join([*thirds, *structures])
            raise InputError(f"anatomy {anatomy!r}", "not defined", expected=f"one of {defined}")
    required = {*anatomies, *(thirds[anatomy]["of"] for anatomy in anatomies if anatomy in thirds)}
    labels = {label: name for name in sorted(required) for label in structures.get(name, {}).get("labels", ())}
    names = labels | {normalize_label(name): name for name in required}
    indices = {name: structures[name]["index"] for name in sorted(required) if name in structures}
    return AnatomyMasks(open_layout(root, names, indices), anatomies)


@cache
def _load_definitions() -> tuple[dict[str, dict], dict[str, dict]]:
    """Load anatomies.toml: structures and thirds by name."""
    tables = tomllib.loads(Path(__file__).with_name("anatomies.toml").read_text(encoding="utf-8"))
    return tables["structures"], tables["thirds"]


def _select_anatomy(anatomy: str, stored: Mapping[str, Rle]) -> Rle | None:
    """Select the stored mask of an anatomy, or cut its third out of the stored mask of a structure, such as a lung.

    The thirds are of equal height. Return None if neither mask is stored.
    """
    _, thirds = _load_definitions()
    rule = thirds.get(anatomy)
    if anatomy in stored or rule is None:
        return stored.get(anatomy)
    structure = stored.get(rule["of"])
    if structure is None or not rle.area(structure):
        return structure
    _, top, _, height = rle.compute_bounding_box(structure)
    cuts = np.linspace(top, top + height, 4).round().astype(int)
    return rle.mask_rows(structure, int(cuts[rule["third"] - 1]), int(cuts[rule["third"]]))
