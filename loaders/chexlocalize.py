"""CheXlocalize: masks of ten findings, drawn by radiologists, on CheXpert's validation and test images.

Source: Saporta et al., "Benchmarking saliency methods for chest X-ray interpretation" (Nature Machine Intelligence,
2022). The download has the folders CheXlocalize (masks) and CheXpert (images and labels, read by `chexpert`). A file
of masks is one JSON object: image -> finding -> mask in COCO's run-length encoding, of the size of the original image.
An image without a finding has an empty mask of it. The masks of "Lung Opacity" are named "Airspace Opacity".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import chexpert, json_text, layouts, rle
from .errors import InputError
from .rle import Rle

FINDINGS = (
    "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Lesion", "Lung Opacity", "Edema", "Consolidation",
    "Atelectasis", "Pneumothorax", "Pleural Effusion", "Support Devices",
)  # fmt: skip
OTHER_NAMES = {"Airspace Opacity": "Lung Opacity"}  # CheXlocalize's name -> CheXpert's
ASPECT_TOLERANCE = 0.02  # CheXpert-v1.0-small rounds sides of 320 pixels
ACTION = "use the official files of CheXlocalize, unchanged"
_IMAGE_ID = re.compile(r"(patient\d+)_(study\d+)_(view\d{1,3}_(?:frontal|lateral))", re.ASCII)


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root.

    Args:
        key: The key of a row's image, which is the key of CheXpert.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("chexlocalize", key)


def find_mask_files(root: Path) -> dict[str, Path]:
    """Find the files of masks.

    Args:
        root: The folder of the download, or the folder CheXlocalize in it.

    Returns:
        The existing files, by split.

    Raises:
        InputError: The root has no such file, or one of that name is no file.
    """
    paths = layouts.find_label_files("chexlocalize", root)
    if not paths:
        expected = "gt_segmentations_val.json or gt_segmentations_test.json, at its top or in CheXlocalize/"
        raise InputError(root, "holds no masks of CheXlocalize", expected=expected, action=ACTION)
    return paths


def read_masks(path: Path, split: str) -> dict[str, dict[str, Rle]]:
    """Read the masks of a split.

    Args:
        path: The JSON file.
        split: validation or test.

    Returns:
        Key of the image, without suffix, as in `valid/patient64541/study1/view1_frontal` -> CheXpert's name of the
        finding -> mask. Masks may be empty.

    Raises:
        InputError: The file is malformed; the error names image and finding.
    """
    expected = '{"patient64541_study1_view1_frontal": {"Edema": {"size": [h, w], "counts": "..."}, ...}, ...}'
    content = json_text.read(path, expected=expected, action=ACTION, repeats=False)
    if not isinstance(content, dict):
        raise InputError(path, f"holds a {type(content).__name__}", expected=expected, action=ACTION)
    masks = {}
    for image_id, entries in content.items():
        match = _IMAGE_ID.fullmatch(image_id)
        if match is None or not isinstance(entries, dict):
            raise InputError(path, "is no image with its masks", row=repr(image_id), expected=expected, action=ACTION)
        masks["/".join((chexpert.FOLDERS[split], *match.groups()))] = _read_image(path, image_id, entries)
    return masks


def _read_image(path: Path, image_id: str, entries: Mapping[str, Any]) -> dict[str, Rle]:
    """Read the masks of one image, which all have one size."""
    masks: dict[str, Rle] = {}
    for name, entry in entries.items():
        finding = OTHER_NAMES.get(name, name)
        try:
            if finding not in FINDINGS or finding in masks:
                raise ValueError(f"expected each of {', '.join((*FINDINGS, *OTHER_NAMES))} once at most")
            mask = rle.validate_rle(entry)
            if masks and mask["size"] != (size := next(iter(masks.values()))["size"]):
                raise ValueError(f"size {mask['size']}; another mask of the image has {size}")
        except ValueError as error:
            raise InputError(path, f"mask of {name!r}: {error}", row=repr(image_id), action=ACTION) from None
        masks[finding] = mask
    return masks


def fit_mask(mask: Rle, size: rle.Size, key: str) -> Rle:
    """Fit a mask to its image, which may be a smaller copy of the original.

    Args:
        mask: The mask.
        size: (height, width) of the image.
        key: The key of the image, for the error message.

    Returns:
        The mask, scaled by nearest neighbour if its size differs and its aspect ratio is the image's.

    Raises:
        InputError: The aspect ratios differ by more than ASPECT_TOLERANCE.
    """
    (h, w), (height, width) = rle.get_size(mask), size
    if abs(w * height / (h * width) - 1) > ASPECT_TOLERANCE:
        raise InputError(
            f"image {key}",
            f"has {width} x {height} pixels, its mask {w} x {h} (width x height)",
            expected="an image of the mask's aspect ratio",
            action="use CheXlocalize's images, neither cropped nor turned",
        )
    return rle.resize_mask(mask, size)
