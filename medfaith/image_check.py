"""A check after a build: whether the images of the rows exist, and have the size that the rows state.

The build itself needs no image. An evaluation does, and often runs later and on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medfaith.loaders import images
from medfaith.loaders.errors import ImageError
from medfaith.loaders.layouts import SEARCHED_FOLDERS

CHECKED = 100  # images of each source: a network drive may need a second for them, and hours for all


def find_image_problems(folder: Path, roots: Mapping[str, Path]) -> list[str]:
    """Find missing, unreadable and resized images among CHECKED images of each source, spread over all rows.

    Args:
        folder: The folder of a repository.
        roots: The root of each source, by source id.

    Returns:
        At most two texts for each source, with the number of such images and the first of them.
    """
    problems = []
    for source_id, stated_sizes in _collect_sizes(folder).items():
        if source_id not in roots:
            continue
        keys = sorted(stated_sizes)
        chosen = keys if len(keys) <= CHECKED else [keys[n * len(keys) // CHECKED] for n in range(CHECKED)]
        unusable, resized = [], []
        for key in chosen:
            reference = {"source": source_id, "key": key, "view": ""}
            try:
                size = images.read_image_size(reference, roots)
            except ImageError as error:
                advice = "" if unusable else _advise_on_root(reference, roots)
                unusable.append(f"{str(error).splitlines()[0]}{advice}")
                continue
            stated = stated_sizes[key]
            if stated is not None and size != stated:
                resized.append(f"{key} has {size[0]} x {size[1]} pixels, in the rows {stated[0]} x {stated[1]}")
        total = f"{len(chosen)} images of {source_id} that were looked for"
        if unusable:
            problems.append(
                f"{len(unusable)} of {total} are missing or broken; build and verify need none, an evaluation all; "
                f"first: {unusable[0]}"
            )
        if resized:
            problems.append(
                f"{len(resized)} of {total} have another size than in the rows; models can be asked about resized "
                "copies, but edited images (VPT, control occluded) need the original ones; if these are the original "
                f"ones, the sizes in the tables are wrong, and boxes misplaced; first: {resized[0]}"
            )
    return problems


def _advise_on_root(reference: Mapping[str, str], roots: Mapping[str, Path]) -> str:
    """Name the folder near the root that has a missing image, if there is any."""
    with suppress(ImageError):
        images.locate(reference, roots)
        return ""  # it is broken
    root = roots[reference["source"]]
    try:
        below = islice((path for path in sorted(root.iterdir()) if path.is_dir()), SEARCHED_FOLDERS)
    except OSError:  # a label file, or a folder without permission
        below = iter(())
    for folder in (*below, *root.parents[:2]):
        with suppress(ImageError):
            images.locate(reference, {reference["source"]: folder})
            return f"; it is there with --root {reference['source']}={folder}"
    return ""


def _collect_sizes(folder: Path) -> dict[str, dict[str, tuple[int, int] | None]]:
    """Collect the images of all rows: source -> key -> (width, height) as the rows state it, or None."""
    tables = [table for path in sorted(folder.glob("*/*.parquet")) if (table := _read_images(path)) is not None]
    if not tables:
        return {}
    images_once = pa.concat_tables(tables).group_by(["source", "key"]).aggregate([("width", "max"), ("height", "max")])
    sizes: dict[str, dict[str, tuple[int, int] | None]] = {}
    for row in images_once.to_pylist():
        size = None if row["width_max"] is None else (row["width_max"], row["height_max"])
        sizes.setdefault(row["source"], {})[row["key"]] = size
    return sizes


def _read_images(path: Path) -> pa.Table | None:
    """Read source, key, width and height of all images in a file; a row states the size of its first image."""
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    column = next((name for name in ("image", "images") if name in names), None)
    if column is None:
        return None
    sides = [name for name in ("width", "height") if name in names]
    table = file.read([column, *sides])
    references = table[column].combine_chunks()
    rows = np.arange(len(references))
    if pa.types.is_list(references.type):
        rows = pc.call_function("list_parent_indices", [references]).to_numpy()
        references = references.flatten()
    is_first = pa.array(np.diff(rows, prepend=-1) != 0)
    columns = {name: references.field(name) for name in ("source", "key")}
    for name in ("width", "height"):
        stated = table[name].combine_chunks().take(pa.array(rows)) if name in sides else pa.nulls(len(rows), pa.int32())
        columns[name] = pc.if_else(is_first, stated, pa.scalar(None, stated.type))
    return pa.table(columns)
