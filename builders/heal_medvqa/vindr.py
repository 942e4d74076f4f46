"""VinDr-CXR as HEAL-MedVQA reads it (section 3.2): doctors' boxes, several readers' brought to agreement."""

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
    """Every image of a split with its boxes, in the label file's order. Each image is a patient of its own.

    agreement: majority, any or all (see `loaders.vindr_cxr.agree`). What a single reader drew is contested.
    """
    annotations = vindr_cxr.read_annotations(vindr_cxr.find_label_files(root)[split], split)
    agreed = vindr_cxr.agree(annotations, rule=agreement)
    sizes = vindr_cxr.read_declared_sizes(root)
    of_image, of_any = (boxes_by_image(a.boxes, len(a.image_ids)) for a in (agreed, annotations))
    return [
        Picture(
            image_id=image_id,
            source=SOURCE,
            key=vindr_cxr.key(split, image_id),
            view="frontal",
            patient=image_id,
            size=sizes.get(image_id),
            boxes=boxes,
            contested=NO_BOXES if agreed is annotations else drawn,
        )
        for image_id, boxes, drawn in zip(agreed.image_ids, of_image, of_any, strict=True)
    ]


def boxes_by_image(table, n_images: int) -> list[Boxes]:
    """Boxes as the loaders give them (columns image, label, x, y, width, height), one entry an image."""
    image = table["image"].to_numpy()
    order = np.argsort(image, kind="stable")
    bounds = np.searchsorted(image[order], np.arange(n_images + 1))
    labels = list(map(sys.intern, table["label"].to_pylist()))
    xywh = np.column_stack([table[name].to_numpy() for name in ("x", "y", "width", "height")]).reshape(-1, 4)
    return [
        Boxes(tuple(labels[i] for i in order[start:end]), xywh[order[start:end]]) for start, end in pairwise(bounds)
    ]
