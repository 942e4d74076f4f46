"""Where the region that a question asks about comes from: one function of a document, from several sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from ...loaders.anatomy_masks import open_masks
from ...loaders.errors import InputError
from ...loaders.rle import Rle

GOLD = "gold"
Size = tuple[int, int]
Find = Callable[[Mapping[str, Any], Size | None], Rle | None]


def source_of(name: str) -> Find:
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
