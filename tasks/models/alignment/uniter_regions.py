"""Regions of an image as UNITER takes them (That's the Wrong Lung!, A.2), and their attention on the view's pixels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from PIL import Image

from ....evaluate_metrics.localization.input_view import SIDE, mask
from ....loaders import chest_imagenome
from ....loaders.chest_imagenome import Corners
from ....loaders.errors import InputError

CROP = 45  # pixels along each side of a resized box
N_FEATURES = 2048  # of a region, as the object detector of UNITER gives them
N_PLACE = 7
MEAN, STD = 0.5, 0.5  # of pixels from 0 to 1, as in GLoRIA; without them, most of a feature is the same in all images
PREPROCESSING = {"crop": [CROP, CROP], "resampling": "bilinear", "features": N_FEATURES, "mean": MEAN, "std": STD}


class Regions(NamedTuple):
    """The regions of one image.

    Attributes:
        boxes: k boxes [x, y, width, height] in the image's pixels.
        crops: uint8 (k, 2025), the grey pixels of each box at 45 x 45.
        places: float32 (k, 7), x1, y1, x2, y2, width, height and area of each box, as shares of the image.
    """

    boxes: list[list[float]]
    crops: np.ndarray
    places: np.ndarray


class GoldBoxes:
    """The boxes of all anatomies of Chest ImaGenome's gold images.

    Args:
        root: The folder of Chest ImaGenome.

    Raises:
        InputError: The folder has no gold dataset, or a cell is malformed.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).expanduser()
        self._anatomy = chest_imagenome.read_anatomy(self._root)

    @property
    def digest(self) -> str:
        """A hexadecimal digest of 128 bits over all boxes."""
        return blake2b(json.dumps(self._anatomy, sort_keys=True).encode(), digest_size=16).hexdigest()

    def find(self, image_id: str) -> Mapping[str, Corners]:
        """Find the boxes of an image.

        Args:
            image_id: The image's key in MIMIC-CXR-JPG, or its DICOM id.

        Returns:
            Name of the anatomy -> corners.

        Raises:
            InputError: The image has no box.
        """
        return require_boxes(self._anatomy.get(get_dicom_id(image_id)), image_id, self._root)


def get_dicom_id(image_id: str) -> str:
    """Get the DICOM id from the key of an image in MIMIC-CXR-JPG.

    Args:
        image_id: The key.

    Returns:
        The id.

    >>> get_dicom_id("files/p10/p10000001/s50000001/0a-1b.jpg")
    '0a-1b'
    """
    return PurePosixPath(image_id).stem


def require_boxes(boxes: Mapping[str, Corners] | None, image_id: str, root: Path) -> Mapping[str, Corners]:
    """Require boxes of an image.

    Args:
        boxes: The boxes, if there are any.
        image_id: The image, for the message.
        root: The folder of Chest ImaGenome, for the message.

    Returns:
        The boxes.

    Raises:
        InputError: There are none.
    """
    if not boxes:
        action = "name the Chest ImaGenome that the rows were built from"
        raise InputError(root, f"has no boxes of the image {image_id}", expected="boxes of every image", action=action)
    return boxes


def cut_regions(image: Image.Image, corners: Mapping[str, Corners], image_id: str) -> Regions:
    """Cut the regions out of an image.

    Args:
        image: The image.
        corners: Name of the anatomy -> corners in the image's pixels. Parts outside of the image are cut off.
        image_id: The image, for the message.

    Returns:
        The regions, in the order of the boxes, without those that lie outside of the image.

    Raises:
        InputError: All boxes lie outside of the image.
    """
    size = image.height, image.width
    boxes = [box for four in corners.values() if (box := chest_imagenome.convert_corners(four, size)) is not None]
    if not boxes:
        action = "use the original images of MIMIC-CXR-JPG: boxes are in their pixels"
        raise InputError(image_id, "all boxes lie outside of the image", expected="a box in the image", action=action)
    grey = image.convert("L")
    crops = [
        grey.resize((CROP, CROP), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
        for x, y, width, height in boxes
    ]
    return Regions(boxes, np.stack([np.asarray(crop).ravel() for crop in crops]), compute_places(boxes, size))


def compute_places(boxes: Sequence[Sequence[float]], size: tuple[int, int]) -> np.ndarray:
    """Compute the location features of UNITER (Chen et al., ECCV 2020, section 3.1).

    Args:
        boxes: k boxes [x, y, width, height] in pixels.
        size: Height and width of the image.

    Returns:
        float32 (k, 7): x1, y1, x2, y2, width, height and width * height, where the image is 1 x 1.

    >>> [round(value, 3) for value in compute_places([[10, 20, 40, 20]], (80, 100))[0].tolist()]
    [0.1, 0.25, 0.5, 0.5, 0.4, 0.25, 0.1]
    """
    x, y, width, height = (np.asarray(boxes, dtype=np.float64) / [size[1], size[0], size[1], size[0]]).T
    return np.stack([x, y, x + width, y + height, width, height, width * height], axis=1).astype(np.float32)


def build_features(crops: np.ndarray) -> np.ndarray:
    """Build the features of regions: their pixels from -1 to 1, and zeros up to 2,048 numbers.

    Args:
        crops: uint8 (k, 2025).

    Returns:
        float32 (k, 2048).
    """
    features = np.zeros((len(crops), N_FEATURES), dtype=np.float32)
    features[:, : crops.shape[1]] = (crops / np.float32(255) - MEAN) / STD
    return features


def draw_attention(attention: np.ndarray, boxes: Sequence[Sequence[float]], size: tuple[int, int]) -> np.ndarray:
    """Draw the attention of boxes on the input view: a pixel has the highest of its boxes (section 2.3).

    Args:
        attention: Shape (k,), at least 0.
        boxes: k boxes [x, y, width, height] in the image's pixels.
        size: Height and width of the image.

    Returns:
        float64 (224, 224), divided by its sum; 0 outside of all boxes.
    """
    pixels = np.zeros((SIDE, SIDE))
    for value, box in zip(attention.tolist(), boxes, strict=True):
        inside = mask([box], size)
        pixels[inside] = np.maximum(pixels[inside], value)
    return pixels / (pixels.sum() or 1)
