"""Sources of the region that a question asks about: functions of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from ...evaluate_metrics.reading.stated_regions import KINDS, Stated
from ...loaders.anatomy_masks import open_masks
from ...loaders.errors import InputError
from ...loaders.rle import Rle

GOLD = "gold"
_PROMPTS = {  # prompts that ask each kind of model for a location
    "paligemma": "<image>detect {what}",
    "florence2": "<image>Locate the {what} in the image.",
    "internvl": "<image>Please provide the bounding box of: <ref>{what}</ref>",
    "plain": "<image>Where is the {what}? Answer with its box as [x0, y0, x1, y1], in fractions of width and height.",
    "gemini": '<image>Detect the {what}. Answer with JSON: [{{"box_2d": [y0, x0, y1, x1], "label": "{what}"}}], with '
    "numbers from 0 to 1000.",
    "qwen2_vl": "<image>Detect the bounding box of the {what}.",
    "molmo": "<image>Point to the {what}.",
}
_JSON = '<image>Locate the {what}. Answer with JSON: [{{"bbox_2d": [x1, y1, x2, y2], "label": "{what}"}}].'
Size = tuple[int, int]
Find = Callable[[Mapping[str, Any], Size | None], Rle | None]


def check_kind(kind: str) -> None:
    """Check the format in which a model states boxes.

    Args:
        kind: The format.

    Raises:
        InputError: The format is unknown.
    """
    with_extent = [name for name, form in KINDS.items() if not form.is_point]
    if kind not in with_extent:
        raise InputError(
            "--model_args regions", f"is 'stated:{kind}'", expected=f"stated: and one of {', '.join(with_extent)}"
        )


def format_location_prompt(kind: str, name: str) -> str:
    """Format the prompt that asks a model for a location: our sentences in each family's format.

    Args:
        kind: Format of the model's boxes.
        name: Name of the anatomy or the instrument.

    Returns:
        The prompt; an unknown format gives the prompt that asks for JSON.
    """
    return _PROMPTS.get(kind, _JSON).format(what=name)


def draw_mask(stated: Stated, size: Size) -> np.ndarray:
    """Draw all regions as one mask. A pixel belongs to a box if its centre is inside.

    Args:
        stated: The regions.
        size: (height, width) of the image.

    Returns:
        bool (height, width).
    """
    mask = np.zeros(size, dtype=bool)
    for shape in stated.shapes:
        if len(shape.corners) == 2:
            (x_min, y_min), (x_max, y_max) = shape.corners
            columns, rows = np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5
            mask |= ((rows >= y_min) & (rows < y_max))[:, None] & ((columns >= x_min) & (columns < x_max))
        else:
            polygon_image = Image.new("1", (size[1], size[0]))
            ImageDraw.Draw(polygon_image).polygon([*shape.corners], fill=1)
            mask |= np.asarray(polygon_image)
    return mask


def open_region_source(name: str) -> Find:
    """Open a source of regions.

    Args:
        name: "gold" for the masks of the rows, which models do not have (upper bound); or a folder of a segmenter's
            masks in a layout of `loaders.anatomy_masks`, where the row's `anatomy` selects the mask.

    Returns:
        Function that returns the region of a document as RLE or None, at the given (height, width) or at the original
        size.

    Raises:
        InputError: The folder is missing or has no masks.
    """
    if name == GOLD:
        return lambda doc, _: doc.get("region")
    folder = Path(name).expanduser()
    if not folder.exists():
        expected = f"{GOLD}, or a folder of masks that a segmenter wrote"
        raise InputError(
            "--model_args regions", f"is {name!r}, which is not there", expected=expected, action="name another one"
        )
    masks = open_masks(folder)
    read_masks = lru_cache(maxsize=4)(masks.read)

    def find(doc: Mapping[str, Any], size: Size | None) -> Rle | None:
        if "anatomy" not in doc or "image_id" not in doc:
            return None
        return read_masks(PurePosixPath(doc["image_id"]).stem, size).get(doc["anatomy"])

    return find
