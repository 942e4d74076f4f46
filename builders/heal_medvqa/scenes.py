"""Scenes from pictures: sizes, boxes within the image, masks, relations. Several workers share the images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ...loaders import images
from ...loaders.anatomy_masks import AnatomyMasks
from ...loaders.detections import FEWEST_ENDS, UPPER_LEFT
from ...loaders.errors import ImageError, InputError
from ..parallel import HERE, Workers, pieces
from .reasons import CUT, NO_MASKS, NO_SIZE, OUTSIDE, UNREADABLE
from .relations import Boxes, Picture, Rule, Scene, locate
from .spool import Spool

PICTURES_A_TASK = 250
SHARE_ASTRAY, FEWEST_ASTRAY = 0.05, 10
WHOLE, FEWEST_MASKS = 0.99, 20  # share of an image's width and height
ROUNDING = 1.0  # pixels: sources often write the end of a box at the image's edge one pixel beyond it


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
    """Build the scenes of all pictures that have a size and a mask.

    The size of an image comes from the source's tables, otherwise from the header of its file if the file exists,
    otherwise from the masks.

    Args:
        pictures: The images.
        masks: The anatomy masks.
        rule: The rule for relations.
        roots: Folder of each source, by source id.
        spool: Stores the regions on disk; None keeps them in memory.
        title: The title of the progress bar.
        workers: The workers that build the scenes.

    Returns:
        The scenes, in the order of the pictures, and the counts of skipped items by reason.

    Raises:
        InputError: Too many boxes reach beyond their images, all are in the upper left, or masks seem to be inverted.
    """
    built: list[Scene] = []
    skipped: Counter[str] = Counter()
    tasks = (
        (piece, masks.subset([picture.image_id for picture in piece])) for piece in pieces(pictures, PICTURES_A_TASK)
    )
    with workers.map(
        partial(_build_scenes, rule=rule, roots=roots), tasks, reads=[*roots.values()],
        title=title, unit="images", total=len(pictures), length=lambda task: len(task[0]),
    ) as results:  # fmt: skip
        for task_scenes, task_skipped in results:
            stored = (
                (replace(scene, regions=spool.keep(scene.regions)) for scene in task_scenes) if spool else task_scenes
            )
            built += stored
            skipped += task_skipped
    _check_fit(built, skipped, roots)
    _check_masks(built, masks)
    return built, skipped


def _check_fit(built: Sequence[Scene], skipped: Counter[str], roots: Mapping[str, Path]) -> None:
    """Check that boxes rarely reach beyond their images, and that not all are in the upper left of them.

    Raises:
        InputError: Many reach beyond, or all are in the upper left, so they were drawn on images of another size: in a
            scaled-down copy all boxes would be wrong.
    """
    astray = skipped[OUTSIDE] + skipped[CUT]
    n_boxes = sum(len(scene.picture.boxes.labels) for scene in built) + skipped[OUTSIDE]
    if astray >= FEWEST_ASTRAY and astray > SHARE_ASTRAY * n_boxes:
        problem = f"{astray} of {n_boxes} boxes reach beyond their images"
    elif not astray and n_boxes >= FEWEST_ENDS and (end := max(map(_compute_end, built))) < UPPER_LEFT:
        problem = f"all {n_boxes} boxes end within the first {end:.0%} of their images' width and height"
    else:
        return
    source = built[0].picture.source
    raise InputError(
        roots.get(source, source),
        f"{problem}, which seem not to be those they were drawn on",
        expected="images of the original size",
        action="use the original images; or put a train_meta.csv of the original sizes next to a scaled-down copy "
        "(image_id,dim0,dim1)",
    )


def _check_masks(built: Sequence[Scene], masks: AnatomyMasks) -> None:
    """Raise InputError if most masks reach from edge to edge of their images, as inverted masks do."""
    extents = [extent for scene in built for extent in scene.extents.values()]
    n_full = sum(min(extent) >= WHOLE for extent in extents)
    if len(extents) >= FEWEST_MASKS and n_full > len(extents) / 2:
        problem = f"{n_full} of {len(extents)} masks reach from edge to edge of their images"
        action = "invert the masks, if the pixels of the anatomy are 0"
        raise InputError(masks.files[0].parent, problem, expected="masks of anatomies", action=action)


def _compute_end(scene: Scene) -> float:
    """Compute how far the boxes of a scene reach, as the larger share of the width and the height; 0 without boxes."""
    xywh = scene.picture.boxes.xywh.reshape(-1, 4)
    return float(((xywh[:, :2] + xywh[:, 2:]) / (scene.width, scene.height)).max(initial=0))


def _build_scenes(
    task: tuple[Sequence[Picture], AnatomyMasks], *, rule: Rule, roots: Mapping[str, Path]
) -> tuple[list[Scene], Counter[str]]:
    """Build the scenes of some pictures from their masks, with the counts of skipped items."""
    pictures, masks = task
    built, skipped = [], Counter()
    for picture in pictures:
        if picture.image_id not in masks:
            skipped[NO_MASKS] += 1
            continue
        try:
            size = _find_size(picture, masks, roots)
        except ImageError:
            skipped[UNREADABLE] += 1
            continue
        if size is None:
            skipped[NO_SIZE] += 1
            continue
        regions = masks.read(picture.image_id, (size[1], size[0]))
        if not regions:
            skipped[NO_MASKS] += 1
            continue
        boxes = within(picture.boxes, size, skipped)
        contested = within(picture.contested, size, Counter())
        built.append(locate(replace(picture, boxes=boxes, contested=contested), size, regions, rule))
    return built, +(skipped + masks.problems)


def within(boxes: Boxes, size: tuple[int, int], skipped: Counter[str]) -> Boxes:
    """Clip boxes to an image and drop boxes that lie outside.

    Args:
        boxes: The boxes.
        size: Width and height of the image in pixels.
        skipped: Counts the clipped and the dropped boxes.

    Returns:
        The boxes within the image.
    """
    if not len(boxes.labels):
        return boxes
    corners = np.hstack([boxes.xywh[:, :2], boxes.xywh[:, :2] + boxes.xywh[:, 2:]])
    limits = np.array([*size, *size], dtype=np.float64)
    cut = np.clip(corners, 0, limits)
    is_inside = (cut[:, 2] > cut[:, 0]) & (cut[:, 3] > cut[:, 1])
    is_cut = (np.abs(cut - corners) > ROUNDING).any(1)
    skipped[OUTSIDE] += int((~is_inside).sum())
    skipped[CUT] += int((is_inside & is_cut).sum())
    xywh = np.hstack([cut[:, :2], cut[:, 2:] - cut[:, :2]])[is_inside]
    return Boxes(tuple(label for label, is_kept in zip(boxes.labels, is_inside, strict=True) if is_kept), xywh)


def _find_size(picture: Picture, masks: AnatomyMasks, roots: Mapping[str, Path]) -> tuple[int, int] | None:
    if picture.size is not None:
        return picture.size
    reference = {"source": picture.source, "key": picture.key, "view": picture.view}
    try:
        images.locate(reference, roots)
    except ImageError:  # the build needs no image files
        return masks.get_declared_size(picture.image_id)
    return images.read_image_size(reference, roots)
