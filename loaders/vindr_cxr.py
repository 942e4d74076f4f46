"""VinDr-CXR: boxes that radiologists drew on chest X-rays, as its csv files have them, and the boxes they agree on.

Source: Nguyen et al., "VinDr-CXR: An open dataset of chest X-rays with radiologist's annotations" (2022). Read are the
PhysioNet release (`annotations/annotations_{train,test}.csv`, images `{train,test}/<image_id>.dicom`) and the Kaggle
VinBigData copy of its training set (`train.csv`), which torchxrayvision carries too. Three readers drew each training
image apart; each test image has the consensus of five. Boxes are in pixels of the original image, so a copy that was
scaled down does not fit them.
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

from . import csv_table
from .errors import InputError

# The local classes: findings that have boxes.
CLASSES = (
    "Aortic enlargement", "Atelectasis", "Calcification", "Cardiomegaly", "Clavicle fracture", "Consolidation", "Edema",
    "Emphysema", "Enlarged PA", "ILD", "Infiltration", "Lung Opacity", "Lung cavity", "Lung cyst", "Mediastinal shift",
    "Nodule/Mass", "Pleural effusion", "Pleural thickening", "Pneumothorax", "Pulmonary fibrosis", "Rib fracture",
    "Other lesion",
)  # fmt: skip
NO_FINDING = "No finding"
# The global classes: diagnoses of a whole image, which have none.
GLOBAL_CLASSES = (NO_FINDING, "COPD", "Lung tumor", "Pneumonia", "Tuberculosis", "Other disease")
# Other spellings of the releases and of detectors' class lists, in the form of `_plain`.
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
FILES = {
    "train": (
        "annotations/annotations_train.csv", "annotations_train.csv", "train.csv", "train.csv.gz",
        "vinbigdata-train.csv.gz",
    ),
    "test": ("annotations/annotations_test.csv", "annotations_test.csv"),
}  # fmt: skip
META_FILES = ("train_meta.csv", "test_meta.csv")
SUFFIXES = (".dicom", ".dcm", ".png", ".jpg", ".jpeg")
IMAGE_ID = r"^[0-9A-Za-z][0-9A-Za-z_-]*$"
RULES = ("majority", "any", "all")
ACTION = "use the csv of VinDr-CXR (PhysioNet), or train.csv of the VinBigData competition (Kaggle), unchanged"


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Boxes on the images of one split.

    image_ids: every image of the file, those without a finding too, in the order of their first rows.
    boxes: one row a box: image int32 (index into image_ids), reader string ("" for a consensus), label string (one of
        CLASSES), and x, y, width, height float64, pixels of the original image from its top-left corner.
    n_readers: (images,) int, how many readers looked at each image, with or without a box; 1 stands for a consensus.
        Where it is not given, the readers who drew a box are counted.
    """

    image_ids: list[str]
    boxes: pa.Table
    n_readers: np.ndarray | None = None


def image_paths(key: str) -> tuple[str, ...]:
    """Where the image of a row's key may lie below the user's root: the official DICOM, or a copy in another format."""
    stem = next((key.removesuffix(suffix) for suffix in SUFFIXES if key.endswith(suffix)), key)
    return (key, *(stem + suffix for suffix in SUFFIXES if stem + suffix != key))


def key(split: str, image_id: str) -> str:
    """The key of an image: its path below the root of the PhysioNet release."""
    return f"{split}/{image_id}.dicom"


def label_files(root: Path) -> dict[str, Path]:
    """The annotation files that `root` holds, by split (train, test); `root` may be one of them itself.

    A lone file is the training set's where it says who drew each box (column rad_id). Raises InputError for none.
    """
    if root.is_file():
        columns = csv_table.header(root, action=ACTION)
        if "image_id" in columns and "class_name" in columns:
            return {"train" if "rad_id" in columns else "test": root}
    found = {
        split: path
        for split, names in FILES.items()
        if (path := next((root / name for name in names if (root / name).is_file()), None)) is not None
    }
    if not found:
        what = "is no VinDr-CXR annotation file" if root.is_file() else "holds no VinDr-CXR annotation file"
        names = "annotations/annotations_train.csv and annotations_test.csv (PhysioNet), or train.csv (Kaggle)"
        raise InputError(root, what, expected=names, action=ACTION)
    return found


def declared_sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Image id -> (width, height) in pixels of the original images, where the copy has train_meta.csv or test_meta.csv.

    Scaled copies of the Kaggle images bring these files (columns image_id, dim0 = height, dim1 = width); the official
    release does not, and then the answer is empty. Raises InputError naming file, row and column.
    """
    folder = root.parent if root.is_file() else root
    sizes: dict[str, tuple[int, int]] = {}
    for path in (folder / name for name in META_FILES):
        if not path.is_file():
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


def class_of(name: str) -> str | None:
    """The class that a name means, local or global, whatever its case and separators; None for an unknown name.

    >>> class_of("nodule-mass"), class_of("Other diseases"), class_of("Pneumonitis")
    ('Nodule/Mass', 'Other disease', None)
    """
    plain = _plain(name)
    return ALIASES.get(plain) or next((known for known in (*CLASSES, *GLOBAL_CLASSES) if _plain(known) == plain), None)


def read_annotations(path: Path, split: str) -> Annotations:
    """All images and boxes of one annotation file; `split` is train or test.

    Rows of a global class list their image and never become boxes. The test file is a consensus: its readers are "".
    Raises InputError naming file, row and column: an unknown class, a finding without a box or "No finding" with one,
    a box without a positive width and height.
    """
    text = ("image_id", "class_name", *(["rad_id"] if split == "train" else []))
    table = csv_table.read(path, dict.fromkeys(text, pa.string()) | dict.fromkeys(CORNERS, pa.float64()), action=ACTION)
    for column, pattern in (("image_id", IMAGE_ID), *([("rad_id", ".")] if split == "train" else [])):
        good = pc.match_substring_regex(table[column], pattern)
        csv_table.require(good, table[column], path, column, expected="an id", action=ACTION)
    label = _labels(table["class_name"], path)
    local = pc.is_in(label, value_set=pa.array(CLASSES))
    _check_boxes(table, label, local, path)

    image = table["image_id"].combine_chunks().dictionary_encode()
    reader = table["rad_id"].combine_chunks() if split == "train" else pa.array([""] * table.num_rows)
    looked = (
        pa.table({"image": image.indices, "reader": reader}).group_by("image").aggregate([("reader", "count_distinct")])
    )
    n_readers = np.zeros(len(image.dictionary), dtype=np.int64)
    n_readers[looked["image"].to_numpy()] = looked["reader_count_distinct"].to_numpy()
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
    """The boxes of one annotation file, each with its image's id. Raises as `read_annotations`."""
    annotations = read_annotations(path, split)
    ids = pa.array(annotations.image_ids, pa.string()).take(annotations.boxes["image"].combine_chunks())
    return annotations.boxes.drop_columns("image").append_column("image_id", ids)


def agree(annotations: Annotations, rule: str = "majority", iou: float = 0.5) -> Annotations:
    """One box for each finding that readers agree on; annotations that are a consensus already come back as they are.

    Within an image and a class, two boxes are linked where their intersection over union is at least `iou`, also two of
    one reader; boxes linked directly or through others are one finding. A finding counts by its distinct readers:

    - majority: at least 2;
    - any: at least 1;
    - all: every reader of the image, those who drew nothing there too.

    Its box has the mean coordinates of all its boxes, and the reader "". Boxes come ordered by image, class and place.
    The paper trains on VinDr-CXR's boxes without saying how three readers were reconciled: the rule is ours.
    Raises ValueError for an unknown rule, or an `iou` that is not above 0 and at most 1.
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
        drew = np.unique(np.column_stack([image, reader]), axis=0)[:, 0]
        n_readers = np.bincount(drew, minlength=len(annotations.image_ids))

    finding = _findings(image * len(CLASSES) + label, xywh, iou)
    n_agreeing = np.bincount(np.unique(np.column_stack([finding, reader]), axis=0)[:, 0])
    first = np.unique(finding, return_index=True)[1]
    needed = {"any": 1, "majority": 2, "all": n_readers[image[first]]}[rule]
    mean = np.column_stack([np.bincount(finding, weights=side) for side in xywh.T]) / np.bincount(finding)[:, None]
    keep = np.flatnonzero(n_agreeing >= needed)
    keep = keep[np.lexsort((*mean[keep].T[::-1], label[first[keep]], image[first[keep]]))]
    agreed = pa.table(
        {
            "image": pa.array(image[first[keep]], pa.int32()),
            "reader": pa.array([""] * keep.size, pa.string()),
            "label": pa.array(CLASSES).take(pa.array(label[first[keep]])),
            **{side: mean[keep, n] for n, side in enumerate(("x", "y", "width", "height"))},
        }
    )
    return Annotations(annotations.image_ids, agreed, np.ones_like(n_readers))


def _findings(group: np.ndarray, xywh: np.ndarray, iou: float) -> np.ndarray:
    """Which finding each box belongs to, (boxes,) int from 0; `group`, (boxes,) int ascending, keeps boxes apart."""
    links = list(_links(group, xywh, iou))
    one, other = np.concatenate(links, axis=1) if links else np.empty((2, 0), dtype=np.int64)
    graph = coo_array((np.ones(one.size, dtype=bool), (one, other)), shape=(group.size, group.size))
    return connected_components(graph, directed=False)[1]


def _links(group: np.ndarray, xywh: np.ndarray, iou: float) -> Iterator[np.ndarray]:
    """(2, n) positions of boxes of one group that overlap by `iou` or more, one array a distance between positions."""
    for step in range(1, group.size):
        one = np.flatnonzero(group[step:] == group[:-step])
        if not one.size:
            return  # groups stand together, so no pair is farther apart either
        a, b = xywh[one], xywh[one + step]
        sides = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
        shared = np.clip(sides, 0, None).prod(axis=1)
        linked = shared / (a[:, 2:].prod(axis=1) + b[:, 2:].prod(axis=1) - shared) >= iou
        yield np.stack([one[linked], one[linked] + step])


def _plain(name: str) -> str:
    """Lower case, with one space for each run of other signs than letters and digits."""
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _labels(names: pa.ChunkedArray, path: Path) -> pa.Array:
    """The classes' one spelling for the names of a file."""
    encoded = names.combine_chunks().dictionary_encode()
    known = pa.array([class_of(name) for name in encoded.dictionary.to_pylist()], pa.string())
    label = known.take(encoded.indices)
    expected = "one of " + ", ".join((*CLASSES, *GLOBAL_CLASSES))
    csv_table.require(pc.is_valid(label), names, path, "class_name", expected=expected, action=ACTION)
    return label


def _check_boxes(table: pa.Table, label: pa.Array, local: pa.Array, path: Path) -> None:
    for corner in CORNERS:
        given = pc.is_valid(table[corner])
        boxed = pc.or_(pc.invert(local), given)
        csv_table.require(boxed, table[corner], path, corner, expected="a number: findings have boxes", action=ACTION)
        blank = pc.or_(pc.not_equal(label, NO_FINDING), pc.invert(given))
        csv_table.require(
            blank, table[corner], path, corner, expected=f"blank, as {NO_FINDING!r} has no box", action=ACTION
        )
    for low, high in (("x_min", "x_max"), ("y_min", "y_max")):
        positive = pc.or_kleene(pc.invert(local), pc.greater(table[high], table[low]))
        csv_table.require(positive, table[high], path, high, expected=f"more than {low}", action=ACTION)
