"""Anatomy masks for the synthetic VinDr-CXR of the same seed: one COCO file, RLE at the size of each image.

One image has no masks at all (the second of train), and one has an empty mask (the trachea of the second of test).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools import mask as coco

from .cases import ANATOMIES, Radiograph
from .chest import regions
from .vindr_cxr import plan

FILE = "anatomy.json"
WITHOUT_MASKS = ("train", 1)
EMPTY = ("test", 1, "trachea")


def write(root: Path, *, seed: int, n_train: int = 60, n_test: int = 40) -> Path:
    """Write the COCO file of masks for the images of `vindr_cxr.write` with the same seed and numbers.

    Args:
        root: The folder to write to.
        seed: The seed of the images.
        n_train: The number of training images.
        n_test: The number of test images.

    Returns:
        `root`.
    """
    root.mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for split, radiographs in plan(seed, n_train, n_test).items():
        for number, radiograph in enumerate(radiographs):
            if (split, number) == WITHOUT_MASKS:
                continue
            height, width = radiograph.size
            entry = {"id": len(images) + 1, "file_name": f"{radiograph.name}.dicom", "height": height, "width": width}
            images.append(entry)
            emptied = EMPTY[2] if (split, number) == EMPTY[:2] else None
            for annotation in _annotations(radiograph, emptied):
                annotations.append({"id": len(annotations) + 1, "image_id": entry["id"], **annotation})
    categories = [{"id": code, "name": name} for code, name in enumerate(ANATOMIES, start=1)]
    content = {"images": images, "categories": categories, "annotations": annotations}
    (root / FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")
    return root


def _annotations(radiograph: Radiograph, emptied: str | None) -> list[dict[str, Any]]:
    """Build one annotation an anatomy, without the ids."""
    masks = regions(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)
    annotations = []
    for code, name in enumerate(ANATOMIES, start=1):
        mask = np.zeros_like(masks[name]) if name == emptied else masks[name]
        rle: Any = coco.encode(np.asfortranarray(mask, dtype=np.uint8))
        annotations.append(
            {
                "category_id": code,
                "segmentation": {"size": [int(side) for side in rle["size"]], "counts": rle["counts"].decode("ascii")},
                "area": int(mask.sum()),
                "bbox": [float(value) for value in coco.toBbox(rle)],
                "iscrowd": 1,
            }
        )
    return annotations
