"""VinDr-CXR: boxes that radiologists drew on chest X-rays, from its csv files, and the boxes they agree on.

Source: Nguyen et al., "VinDr-CXR: An open dataset of chest X-rays with radiologist's annotations" (2022). Accepted: the
PhysioNet release (`annotations/annotations_{train,test}.csv`, images `{train,test}/<image_id>.dicom`) and the Kaggle
VinBigData copy of its training set (`train.csv`), which torchxrayvision carries too. Three readers annotated each
training image independently; each test image has the consensus of five. Boxes are in pixels of the original image, so
they do not fit a copy that was scaled down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from . import csv_table, layouts, limits
from .errors import InputError

# The local classes: findings that have boxes.
CLASSES = (
    "Aortic enlargement", "Atelectasis", "Calcification", "Cardiomegaly", "Clavicle fracture", "Consolidation", "Edema",
    "Emphysema", "Enlarged PA", "ILD", "Infiltration", "Lung Opacity", "Lung cavity", "Lung cyst", "Mediastinal shift",
    "Nodule/Mass", "Pleural effusion", "Pleural thickening", "Pneumothorax", "Pulmonary fibrosis", "Rib fracture",
    "Other lesion",
)  # fmt: skip
NO_FINDING = "No finding"
# The global classes: diagnoses of the image, without boxes.
GLOBAL_CLASSES = (NO_FINDING, "COPD", "Lung tumor", "Pneumonia", "Tuberculosis", "Other disease")
# Other spellings of the releases and of detectors' class lists, normalized.
ALIASES = {
    "aorta enlargement": "Aortic enlargement",
    "enlarged pulmonary artery": "Enlarged PA",
    "interstitial lung disease": "ILD",
    "oedema": "Edema",
    "other diseases": "Other disease",
    "other lesions": "Other lesion",
    "lung tumour": "Lung tumor",
    "no findings": NO_FINDING,
}
CORNERS = ("x_min", "y_min", "x_max", "y_max")
SPLITS = ("train", "test")
META_FILES = ("train_meta.csv", "test_meta.csv")
SUFFIXES = (".dicom", ".dcm", ".png", ".jpg", ".jpeg")
IMAGE_ID = r"^[0-9A-Za-z][0-9A-Za-z_-]*$"
RULES = ("majority", "any", "all")
ACTION = "use the csv of VinDr-CXR (PhysioNet), or train.csv of the VinBigData competition (Kaggle), unchanged"


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Boxes on the images of one split.

    Attributes:
        image_ids: Every image of the file, also those without a finding, in the order of their first rows.
        boxes: One row a box: image int32 (index into image_ids), reader string ("" for a consensus), label string (one
            of CLASSES), and x, y, width, height float64, pixels of the original image from its top-left corner.
        n_readers: Int of shape (images,), the number of readers of each image, with or without a box; 1 for a
            consensus. If it is None, the readers who drew a box are counted.
    """

    image_ids: list[str]
    boxes: pa.Table
    n_readers: np.ndarray | None = None


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root: the official DICOM, or a copy in another format.

    Args:
        key: The key of a row's image.

    Returns:
        The paths, most likely first.
    """
    stem = next((key.removesuffix(suffix) for suffix in SUFFIXES if key.endswith(suffix)), key)
    return (key, *(stem + suffix for suffix in SUFFIXES if stem + suffix != key))


def key(split: str, image_id: str) -> str:
    """Return the key of an image: its path below the root of the PhysioNet release.

    Args:
        split: train or test.
        image_id: The image.

    Returns:
        The key.
    """
    return f"{split}/{image_id}.dicom"


def find_label_files(root: Path) -> dict[str, Path]:
    """Find the annotation files.

    A single file is the training set's if it names the reader of each box (column rad_id).

    Args:
        root: The folder of VinDr-CXR, or an annotation file.

    Returns:
        The paths by split (train, test).

    Raises:
        InputError: The root has no annotation file.
    """
    if root.is_file():
        columns = csv_table.header(root, action=ACTION)
        if "image_id" in columns and "class_name" in columns:
            return {"train" if "rad_id" in columns else "test": root}
    paths = {} if root.is_file() else layouts.find_label_files("vindr_cxr", root)
    if not paths:
        problem = "is no VinDr-CXR annotation file" if root.is_file() else "holds no VinDr-CXR annotation file"
        names = "annotations/annotations_train.csv and annotations_test.csv (PhysioNet), or train.csv (Kaggle)"
        raise InputError(root, problem, expected=names, action=ACTION)
    return paths


def read_declared_sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Read the sizes of the original images from train_meta.csv or test_meta.csv.

    Scaled copies of the Kaggle images have these files (columns image_id, dim0 = height, dim1 = width); the official
    release does not.

    Args:
        root: The folder of VinDr-CXR, or an annotation file.

    Returns:
        Image id -> (width, height) in pixels; empty without these files.

    Raises:
        InputError: A file is malformed; the error names file, row and column.
    """
    folder = root.parent if root.is_file() else root
    sizes: dict[str, tuple[int, int]] = {}
    for path in (folder / name for name in META_FILES):
        if not limits.has_file(path):
            continue
        types = {"image_id": pa.string(), "dim0": pa.int32(), "dim1": pa.int32()}
        table = csv_table.read(path, types, action=ACTION)
        csv_table.require(
            pc.is_valid(table["image_id"]), table["image_id"], path, "image_id", expected="an id", action=ACTION
        )
        for side in ("dim0", "dim1"):
            csv_table.require(
                pc.greater(table[side], 0), table[side], path, side, expected="pixels, above 0", action=ACTION
            )
        columns = (table[name].to_pylist() for name in ("image_id", "dim1", "dim0"))
        sizes |= {image_id: (width, height) for image_id, width, height in zip(*columns, strict=True)}
    return sizes


def find_class(name: str) -> str | None:
    """Return the class, local or global, that a finding's name means, whatever the name's case and separators.

    >>> find_class("nodule-mass"), find_class("Other diseases"), find_class("Pneumonitis")
    ('Nodule/Mass', 'Other disease', None)

    Args:
        name: The name of a finding.

    Returns:
        The class; None for an unknown name.
    """
    normalized = _normalize(name)
    return ALIASES.get(normalized) or next(
        (label for label in (*CLASSES, *GLOBAL_CLASSES) if _normalize(label) == normalized), None
    )


def read_annotations(path: Path, split: str) -> Annotations:
    """Read all images and boxes of an annotation file.

    Rows of a global class list their image without a box. The test file is a consensus: its readers are "".

    Args:
        path: The csv file.
        split: train or test.

    Returns:
        The images and boxes.

    Raises:
        InputError: A class is unknown, a finding has no box, "No finding" has one, or a box has no positive width and
            height. The error names file, row and column.
    """
    text_columns = ("image_id", "class_name", *(["rad_id"] if split == "train" else []))
    table = csv_table.read(
        path, dict.fromkeys(text_columns, pa.string()) | dict.fromkeys(CORNERS, pa.float64()), action=ACTION
    )
    for column, pattern in (("image_id", IMAGE_ID), *([("rad_id", ".")] if split == "train" else [])):
        good = pc.match_substring_regex(table[column], pattern)
        csv_table.require(good, table[column], path, column, expected="an id", action=ACTION)
    label = _read_labels(table["class_name"], path)
    local = pc.is_in(label, value_set=pa.array(CLASSES))
    _check_boxes(table, label, local, path)

    image = table["image_id"].combine_chunks().dictionary_encode()
    reader = table["rad_id"].combine_chunks() if split == "train" else pa.array([""] * table.num_rows)
    reader_counts = (
        pa.table({"image": image.indices, "reader": reader}).group_by("image").aggregate([("reader", "count_distinct")])
    )
    n_readers = np.zeros(len(image.dictionary), dtype=np.int64)
    n_readers[reader_counts["image"].to_numpy()] = reader_counts["reader_count_distinct"].to_numpy()
    boxes = pa.table(
        {
            "image": image.indices,
            "reader": reader,
            "label": label,
            "x": table["x_min"],
            "y": table["y_min"],
            "width": pc.subtract(table["x_max"], table["x_min"]),
            "height": pc.subtract(table["y_max"], table["y_min"]),
        }
    )
    return Annotations(image.dictionary.to_pylist(), boxes.filter(local).combine_chunks(), n_readers)


def read_boxes(path: Path, split: str) -> pa.Table:
    """Read the boxes of an annotation file, each with its image's id.

    Args:
        path: The csv file.
        split: train or test.

    Returns:
        The columns of `Annotations.boxes`, with image_id instead of image.

    Raises:
        InputError: As for `read_annotations`.
    """
    annotations = read_annotations(path, split)
    ids = pa.array(annotations.image_ids, pa.string()).take(annotations.boxes["image"].combine_chunks())
    return annotations.boxes.drop_columns("image").append_column("image_id", ids)


def agree(annotations: Annotations, rule: str = "majority", iou: float = 0.5) -> Annotations:
    """Merge the boxes of several readers into one box for each finding that they agree on.

    Within an image and a class, two boxes are linked if their intersection over union is at least `iou`, also two boxes
    of one reader. Boxes that are linked directly or through others are one finding. A finding counts by its distinct
    readers:

    - majority: at least 2;
    - any: at least 1;
    - all: every reader of the image, also those who drew nothing.

    The box of a finding has the mean coordinates of all its boxes, and the reader "". Boxes are ordered by image, class
    and coordinates. The paper trains on VinDr-CXR's boxes without a statement on how three readers were reconciled: the
    rule is ours.

    Args:
        annotations: The boxes of all readers; a consensus is returned unchanged.
        rule: One of RULES.
        iou: The smallest intersection over union of linked boxes, above 0 and at most 1.

    Returns:
        The boxes that the readers agree on.

    Raises:
        ValueError: The rule is unknown, or `iou` is out of range.
    """
    if rule not in RULES or not 0 < iou <= 1:
        raise ValueError(f"rule {rule!r}, iou {iou}: expected one of {', '.join(RULES)}, and 0 < iou <= 1")
    boxes = annotations.boxes
    if not pc.any(pc.not_equal(boxes["reader"], "")).as_py():
        return annotations
    image = boxes["image"].to_numpy().astype(np.int64)
    label = pc.index_in(boxes["label"], value_set=pa.array(CLASSES)).to_numpy()
    xywh = np.column_stack([boxes[side].to_numpy() for side in ("x", "y", "width", "height")])
    order = np.lexsort((*xywh.T[::-1], label, image))
    image, label, xywh = image[order], label[order], xywh[order]
    reader = boxes["reader"].combine_chunks().dictionary_encode().indices.to_numpy()[order]
    n_readers = annotations.n_readers
    if n_readers is None:
        image_of_reader = np.unique(np.column_stack([image, reader]), axis=0)[:, 0]
        n_readers = np.bincount(image_of_reader, minlength=len(annotations.image_ids))

    finding = _group_boxes(image * len(CLASSES) + label, xywh, iou)
    n_agreeing = np.bincount(np.unique(np.column_stack([finding, reader]), axis=0)[:, 0])
    first_box = np.unique(finding, return_index=True)[1]
    min_readers = {"any": 1, "majority": 2, "all": n_readers[image[first_box]]}[rule]
    mean = np.column_stack([np.bincount(finding, weights=side) for side in xywh.T]) / np.bincount(finding)[:, None]
    selected = np.flatnonzero(n_agreeing >= min_readers)
    selected = selected[np.lexsort((*mean[selected].T[::-1], label[first_box[selected]], image[first_box[selected]]))]
    agreed = pa.table(
        {
            "image": pa.array(image[first_box[selected]], pa.int32()),
            "reader": pa.array([""] * selected.size, pa.string()),
            "label": pa.array(CLASSES).take(pa.array(label[first_box[selected]])),
            **{side: mean[selected, n] for n, side in enumerate(("x", "y", "width", "height"))},
        }
    )
    return Annotations(annotations.image_ids, agreed, np.ones_like(n_readers))


def _group_boxes(group: np.ndarray, xywh: np.ndarray, iou: float) -> np.ndarray:
    """Assign each box to a finding: boxes are one finding if a chain of overlaps connects them.

    Args:
        group: Ascending numbers of shape (boxes,), one for each image and class. Boxes of two groups never merge.
        xywh: The boxes, shape (boxes, 4).
        iou: The smallest intersection over union of an overlap.

    Returns:
        The number of each box's finding, from 0, shape (boxes,).
    """
    links = list(_iterate_links(group, xywh, iou))
    start, end = np.concatenate(links, axis=1) if links else np.empty((2, 0), dtype=np.int64)
    graph = coo_array((np.ones(start.size, dtype=bool), (start, end)), shape=(group.size, group.size))
    return connected_components(graph, directed=False)[1]


def _iterate_links(group: np.ndarray, xywh: np.ndarray, iou: float) -> Iterator[np.ndarray]:
    """Yield the pairs of boxes of one group whose intersection over union is at least `iou`.

    Each array, of shape (2, n), has the indices of both boxes of n pairs. The first array has pairs of neighbours (i,
    i + 1), the next one pairs (i, i + 2), and so on.
    """
    for step in range(1, group.size):
        index = np.flatnonzero(group[step:] == group[:-step])
        if not index.size:
            return  # groups are contiguous, so a larger distance has no pair either
        a, b = xywh[index], xywh[index + step]
        sides = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
        shared = np.clip(sides, 0, None).prod(axis=1)
        is_linked = shared / (a[:, 2:].prod(axis=1) + b[:, 2:].prod(axis=1) - shared) >= iou
        yield np.stack([index[is_linked], index[is_linked] + step])


def _normalize(name: str) -> str:
    """Normalize a name to lower case, with one space for each run of signs other than letters and digits."""
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _read_labels(names: pa.ChunkedArray, path: Path) -> pa.Array:
    """Map the names of a file to the official spelling of their classes."""
    encoded = names.combine_chunks().dictionary_encode()
    classes = pa.array([find_class(name) for name in encoded.dictionary.to_pylist()], pa.string())
    label = classes.take(encoded.indices)
    expected = "one of " + ", ".join((*CLASSES, *GLOBAL_CLASSES))
    csv_table.require(pc.is_valid(label), names, path, "class_name", expected=expected, action=ACTION)
    return label


def _check_boxes(table: pa.Table, label: pa.Array, local: pa.Array, path: Path) -> None:
    for corner in CORNERS:
        has_corner = pc.is_valid(table[corner])
        is_complete = pc.or_(pc.invert(local), has_corner)
        csv_table.require(
            is_complete, table[corner], path, corner, expected="a number: findings have boxes", action=ACTION
        )
        is_allowed = pc.or_(pc.not_equal(label, NO_FINDING), pc.invert(has_corner))
        csv_table.require(
            is_allowed, table[corner], path, corner, expected=f"blank, as {NO_FINDING!r} has no box", action=ACTION
        )
    for low, high in (("x_min", "x_max"), ("y_min", "y_max")):
        positive = pc.or_kleene(pc.invert(local), pc.greater(table[high], table[low]))
        csv_table.require(positive, table[high], path, high, expected=f"more than {low}", action=ACTION)
