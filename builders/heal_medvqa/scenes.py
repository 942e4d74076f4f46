"""From pictures to scenes: sizes, boxes within the image, masks, relations; image by image, by several workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ...loaders import images
from ...loaders.anatomy_masks import AnatomyMasks
from ...loaders.errors import ImageError, InputError
from ..parallel import HERE, Workers, pieces
from .relations import Boxes, Picture, Rule, Scene, locate
from .spool import Spool

PICTURES_A_TASK = 250
SHARE_ASTRAY, FEWEST_ASTRAY = 0.05, 10
OUTSIDE, CUT = "boxes outside the image", "boxes cut at the image's edge (kept)"
ROUNDING = 1.0  # pixels: a box that ends on the image's edge is often written one beyond it


def scenes(
    pictures: Sequence[Picture],
    masks: AnatomyMasks,
    rule: Rule,
    roots: Mapping[str, Path],
    *,
    spool: Spool | None = None,
    title: str = "",
    workers: Workers = HERE,
) -> tuple[list[Scene], Counter[str]]:
    """The scenes of all pictures that have a size and a mask, in their order, and how many of what was left out.

    An image's size is what the source's tables say, else that of its header where the file is there, else what the
    masks were made for. spool: where their regions go, which stay in memory
    otherwise.
    """
    found: list[Scene] = []
    skipped: Counter[str] = Counter()
    tasks = ((some, masks.subset([one.image_id for one in some])) for some in pieces(pictures, PICTURES_A_TASK))
    with workers.each(
        partial(_scenes, rule=rule, roots=roots), tasks, reads=[*roots.values()],
        title=title, unit="images", total=len(pictures), length=lambda task: len(task[0]),
    ) as results:  # fmt: skip
        for of_task, of_task_skipped in results:
            kept = (replace(scene, regions=spool.keep(scene.regions)) for scene in of_task) if spool else of_task
            found += kept
            skipped += of_task_skipped
    _check_fit(found, skipped, roots)
    return found, skipped


def _check_fit(found: Sequence[Scene], skipped: Counter[str], roots: Mapping[str, Path]) -> None:
    """Boxes that often reach beyond their images were drawn on others: a scaled-down copy would misplace them all."""
    astray = skipped[OUTSIDE] + skipped[CUT]
    n_boxes = sum(len(scene.picture.boxes.labels) for scene in found) + skipped[OUTSIDE]
    if astray >= FEWEST_ASTRAY and astray > SHARE_ASTRAY * n_boxes:
        source = found[0].picture.source
        raise InputError(
            roots.get(source, source),
            f"{astray} of {n_boxes} boxes reach beyond their images, which seem not to be those they were drawn on",
            expected="images of the original size",
            action="use the original images; or, beside a scaled-down copy, put a train_meta.csv of the original sizes "
            "(image_id,dim0,dim1)",
        )


def _scenes(
    task: tuple[Sequence[Picture], AnatomyMasks], *, rule: Rule, roots: Mapping[str, Path]
) -> tuple[list[Scene], Counter[str]]:
    """Of some pictures and their masks alone, and how many of what was left out."""
    pictures, masks = task
    found, skipped = [], Counter()
    for picture in pictures:
        if picture.image_id not in masks:
            skipped["images without masks"] += 1
            continue
        try:
            size = _size(picture, masks, roots)
        except ImageError:
            skipped["images whose file cannot be read"] += 1
            continue
        if size is None:
            skipped["images of unknown size (no file, no table, no size in the masks)"] += 1
            continue
        regions = masks.read(picture.image_id, (size[1], size[0]))
        if not regions:
            skipped["images without masks"] += 1
            continue
        boxes = within(picture.boxes, size, skipped)
        contested = within(picture.contested, size, Counter())
        found.append(locate(replace(picture, boxes=boxes, contested=contested), size, regions, rule))
    return found, +(skipped + masks.problems)


def within(boxes: Boxes, size: tuple[int, int], skipped: Counter[str]) -> Boxes:
    """The boxes cut to an image of (width, height) `size`; those wholly outside are left out. Both are counted."""
    if not len(boxes.labels):
        return boxes
    corners = np.hstack([boxes.xywh[:, :2], boxes.xywh[:, :2] + boxes.xywh[:, 2:]])
    limits = np.array([*size, *size], dtype=np.float64)
    cut = np.clip(corners, 0, limits)
    inside = (cut[:, 2] > cut[:, 0]) & (cut[:, 3] > cut[:, 1])
    changed = (np.abs(cut - corners) > ROUNDING).any(1)
    skipped[OUTSIDE] += int((~inside).sum())
    skipped[CUT] += int((inside & changed).sum())
    xywh = np.hstack([cut[:, :2], cut[:, 2:] - cut[:, :2]])[inside]
    return Boxes(tuple(label for label, kept in zip(boxes.labels, inside, strict=True) if kept), xywh)


def _size(picture: Picture, masks: AnatomyMasks, roots: Mapping[str, Path]) -> tuple[int, int] | None:
    if picture.size is not None:
        return picture.size
    reference = {"source": picture.source, "key": picture.key, "view": picture.view}
    try:
        images.locate(reference, roots)
    except ImageError:  # labels alone serve to build
        return masks.get_declared_size(picture.image_id)
    return images.read_image_size(reference, roots)
