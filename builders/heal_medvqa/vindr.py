"""VinDr-CXR for HEAL-MedVQA (section 3.2): doctors' boxes on which several readers agree."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...loaders import vindr_cxr
from .relations import NO_BOXES, Boxes, Picture

SOURCE = "vindr_cxr"
MASKS = "vindr_cxr_anatomy"


def pictures(root: Path, split: str, *, agreement: str) -> list[Picture]:
    """Read every image of a split with its boxes, in the order of the label file.

    Each image counts as a separate patient. Boxes without agreement are contested.

    Args:
        root: The folder of VinDr-CXR.
        split: The name of the split.
        agreement: majority, any or all (`loaders.vindr_cxr.agree`).

    Returns:
        The images.
    """
    annotations = vindr_cxr.read_annotations(vindr_cxr.find_label_files(root)[split], split)
    agreed = vindr_cxr.agree(annotations, rule=agreement)
    sizes = vindr_cxr.read_declared_sizes(root)
    agreed_by_image, drawn_by_image = (group_boxes_by_image(a.boxes, len(a.image_ids)) for a in (agreed, annotations))
    return [
        Picture(
            image_id=image_id,
            source=SOURCE,
            key=vindr_cxr.key(split, image_id),
            view="frontal",
            patient=image_id,
            size=sizes.get(image_id),
            boxes=boxes,
            contested=NO_BOXES if agreed is annotations else drawn_boxes,
        )
        for image_id, boxes, drawn_boxes in zip(agreed.image_ids, agreed_by_image, drawn_by_image, strict=True)
    ]


def group_boxes_by_image(table, n_images: int) -> list[Boxes]:
    """Group boxes by image.

    Args:
        table: The columns image, label, x, y, width, height.
        n_images: Number of images.

    Returns:
        The boxes of each image.
    """
    image = table["image"].to_numpy()
    order = np.argsort(image, kind="stable")
    bounds = np.searchsorted(image[order], np.arange(n_images + 1))
    labels = list(map(sys.intern, table["label"].to_pylist()))
    xywh = np.column_stack([table[name].to_numpy() for name in ("x", "y", "width", "height")]).reshape(-1, 4)
    return [
        Boxes(tuple(labels[i] for i in order[start:end]), xywh[order[start:end]]) for start, end in pairwise(bounds)
    ]
