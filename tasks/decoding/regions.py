"""Where the region that a question asks about comes from: one function of a document, from several sources."""

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
_ASKED = {  # how a model of each kind is asked for a place
    "paligemma": "<image>detect {what}",
    "florence2": "<image>Locate the {what} in the image.",
    "internvl": "<image>Please provide the bounding box of: <ref>{what}</ref>",
    "plain": "<image>Where is the {what}? Answer with its box as [x0, y0, x1, y1], in fractions of width and height.",
    "gemini": '<image>Detect the {what}. Answer with JSON: [{{"box_2d": [y0, x0, y1, x1], "label": "{what}"}}], with '
    "numbers from 0 to 1000.",
    "qwen2_vl": "<image>Detect the bounding box of the {what}.",
}
_JSON = '<image>Locate the {what}. Answer with JSON: [{{"bbox_2d": [x1, y1, x2, y2], "label": "{what}"}}].'
Size = tuple[int, int]
Find = Callable[[Mapping[str, Any], Size | None], Rle | None]


def check_kind(kind: str) -> None:
    """Raises InputError for a way to state boxes that is not known."""
    if kind not in KINDS:
        raise InputError(
            "--model_args regions", f"is 'stated:{kind}'", expected=f"stated: and one of {', '.join(KINDS)}"
        )


def format_location_prompt(kind: str, what: str) -> str:
    """The prompt that asks a model of this kind for a place; the sentences are ours, in each family's format."""
    return _ASKED.get(kind, _JSON).format(what=what)


def draw_mask(stated: Stated, size: Size) -> np.ndarray:
    """All regions together: bool (height, width). A pixel belongs to a box if its middle lies in it."""
    mask = np.zeros(size, dtype=bool)
    for shape in stated.shapes:
        if len(shape.corners) == 2:
            (left, top), (right, bottom) = shape.corners
            columns, rows = np.arange(size[1]) + 0.5, np.arange(size[0]) + 0.5
            mask |= ((rows >= top) & (rows < bottom))[:, None] & ((columns >= left) & (columns < right))
        else:
            drawn = Image.new("1", (size[1], size[0]))
            ImageDraw.Draw(drawn).polygon([*shape.corners], fill=1)
            mask |= np.asarray(drawn)
    return mask


def open_region_source(name: str) -> Find:
    """What finds the region of a document, at its image's (height, width) or, without, at its own: an RLE, or None.

    name: "gold", the masks of the rows themselves, which no model has (the upper bound); or a folder of masks that a
    segmenter wrote, in a layout of `loaders.anatomy_masks`, of which it is that of the row's `anatomy`.

    Raises:
        InputError: there is no such folder, or it holds no masks.
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
    read = lru_cache(maxsize=4)(masks.read)

    def find(doc: Mapping[str, Any], size: Size | None) -> Rle | None:
        if "anatomy" not in doc or "image_id" not in doc:
            return None
        return read(PurePosixPath(doc["image_id"]).stem, size).get(doc["anatomy"])

    return find
