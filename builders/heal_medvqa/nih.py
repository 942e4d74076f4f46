"""NIH ChestX-ray14 for HEAL-MedVQA: boxes of eight diseases, and the masks of CheXmask.

The release has boxes on 880 images, all of which have labels. Only these give positive and abnormal questions. The
labels are mined from reports and say nothing of the place. A label without a box may therefore lie anywhere: no
question asks for its disease as absent in that image, and none of its anatomies is called normal. Images without boxes
take part only if their label is "No Finding". The rows are made of the release's test list.

Two diseases of one shadow are not told apart by a box: where there is an infiltration, no question asks for a pneumonia
as absent, and the reverse; likewise a mass and a nodule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...loaders import chexmask, nih_cxr14
from ...loaders.anatomy_masks import ANATOMIES as ALL_ANATOMIES
from ...loaders.anatomy_masks import WHOLE_LUNGS, AnatomyMasks
from ...loaders.errors import InputError
from .reasons import NOT_BOXED, UNLISTED
from .relations import NO_BOXES, Boxes, Picture

SOURCE = "nih_cxr14"
MASKS = "chexmask"
SPLIT = "test"
# CheXmask has both lungs and the heart. The other anatomies are thirds of a lung's height (loaders/anatomies.toml).
ANATOMIES = (*(name for name in ALL_ANATOMIES if name.endswith("lung")), *WHOLE_LUNGS, "heart")
NAMES = {label: nih_cxr14.COMMON_NAMES.get(label, label) for label in nih_cxr14.LABELS}  # label -> disease
DISEASES = tuple(sorted({NAMES[label] for label in nih_cxr14.BOX_LABELS.values()}))
# Disease -> other readings of the same shadow.
_READINGS = {
    "Consolidation": ("Infiltration", "Pneumonia"),
    "Infiltration": ("Pneumonia",),
    "Mass": ("Nodule",),
    "Nodule": ("Mass",),
    "Pneumonia": ("Infiltration",),
}


def pictures(root: Path) -> tuple[list[Picture], Counter[str]]:
    """Read the images of the test list that have boxes or no finding, in the order of the label file.

    Args:
        root: The folder of ChestX-ray14.

    Returns:
        The images, without sizes, and the number of items that were left out, by reason.

    Raises:
        InputError: A label file is missing or malformed.
    """
    paths = nih_cxr14.find_label_files(root)
    images = nih_cxr14.read_images(paths["images"])
    boxes_by_image = _group_boxes(nih_cxr14.read_boxes(paths["boxes"], images["image_id"]).to_pylist())
    listed = frozenset(nih_cxr14.read_list(paths["test"], images["image_id"]))
    skipped = Counter({UNLISTED: sum(image_id not in listed for image_id in boxes_by_image)})
    selected = []
    for image in images.to_pylist():
        image_id, labels = image["image_id"], image["labels"]
        if image_id not in listed:
            continue
        boxes = boxes_by_image.get(image_id, NO_BOXES)
        if labels and not boxes.labels:
            skipped[NOT_BOXED] += 1
            continue
        selected.append(
            Picture(
                image_id=image_id,
                source=SOURCE,
                key=f"images/{image_id}",
                view=image["view"],
                patient=image["patient"],
                size=None,
                boxes=boxes,
                unlocated=_find_unlocated(labels, boxes),
                contested=_repeat_boxes(boxes),
            )
        )
    return selected, +skipped


def open_masks(
    root: Path, images: Sequence[Picture], anatomies: Sequence[str]
) -> tuple[list[Picture], AnatomyMasks, Counter[str]]:
    """Open the masks of the images.

    The size of an image is that of its masks, which fit the released images. So the rows do not depend on the user's
    copy of the images.

    Args:
        root: The folder of CheXmask.
        images: The images.
        anatomies: The anatomies.

    Returns:
        The images with sizes, without those whose masks are poor; the masks; and the number of these images.
    """
    masks, poor = chexmask.open_masks(root, [picture.image_id for picture in images], anatomies)
    sized = [
        replace(picture, size=masks.get_declared_size(picture.image_id))
        for picture in images
        if picture.image_id not in poor
    ]
    return sized, masks, Counter({chexmask.POOR: len(poor)})


def select_anatomies(anatomies: Sequence[str]) -> tuple[str, ...]:
    """Select the anatomies of this source.

    Args:
        anatomies: The value of --anatomy; the default means all.

    Returns:
        The anatomies.

    Raises:
        InputError: CheXmask has no mask of a chosen anatomy.
    """
    if tuple(anatomies) == ALL_ANATOMIES:
        return ANATOMIES
    missing = next((name for name in anatomies if name not in ANATOMIES), None)
    if missing is not None:
        problem, expected = "CheXmask has no mask of it", f"one of {', '.join(ANATOMIES)}"
        raise InputError(f"--anatomy {missing}", problem, expected=expected, action="or build another config: --config")
    return tuple(anatomies)


def _group_boxes(rows: Sequence[dict]) -> dict[str, Boxes]:
    """Group the boxes by image, in the file's order."""
    rows_by_image: dict[str, list[dict]] = {}
    for row in rows:
        rows_by_image.setdefault(row["image_id"], []).append(row)
    return {
        image_id: Boxes(
            tuple(NAMES[row["label"]] for row in image_rows),
            np.array([[row[side] for side in ("x", "y", "width", "height")] for row in image_rows]),
        )
        for image_id, image_rows in rows_by_image.items()
    }


def _find_unlocated(labels: Sequence[str], boxes: Boxes) -> tuple[str, ...]:
    """List the diseases that an image may have somewhere without a box: labels without a box, and their _READINGS."""
    diseases = {NAMES[label] for label in labels} - {*boxes.labels}
    return tuple(sorted(diseases.union(*(_READINGS.get(disease, ()) for disease in diseases)) - {*boxes.labels}))


def _repeat_boxes(boxes: Boxes) -> Boxes:
    """Copy each box under the names of its disease's _READINGS, except those of which the image has a box."""
    repeated = [
        (reading, place)
        for place, disease in enumerate(boxes.labels)
        for reading in _READINGS.get(disease, ())
        if reading not in boxes.labels
    ]
    if not repeated:
        return NO_BOXES
    return Boxes(tuple(reading for reading, _ in repeated), boxes.xywh[[place for _, place in repeated]])
