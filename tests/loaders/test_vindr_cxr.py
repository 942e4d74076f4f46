"""The VinDr-CXR reader: both layouts, an error message for every fault, and consensus boxes of readers."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medfaith.loaders import images, sources, vindr_cxr
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault
from tests.support.tiers import choose_size

TRAIN = "image_id,rad_id,class_name,x_min,y_min,x_max,y_max"
TEST = "image_id,class_name,x_min,y_min,x_max,y_max"
KAGGLE = "image_id,class_name,class_id,rad_id,x_min,y_min,x_max,y_max"
A, B = "50a418190bc3fb1ef1633bf9678929b3", "9a5094b2563a1ef3ff50dc5c7ff71345"


def write(path: Path, header: str, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "\n".join([header, *rows, ""]).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def list_boxes(annotations: vindr_cxr.Annotations) -> list[tuple]:
    return [tuple(row.values()) for row in annotations.boxes.to_pylist()]


def test_the_two_releases_read_alike(tmp_path):
    box = "691.5,1375.0,1653.0,1831.25"
    rows = [(A, "R1", "No finding", 14, ",,,"), (B, "R10", "Cardiomegaly", 3, box), (A, "R2", "No finding", 14, ",,,")]
    physionet = [f"{image},{reader},{name},{box}" for image, reader, name, _, box in rows]
    kaggle = [f"{image},{name},{number},{reader},{box}" for image, reader, name, number, box in rows]
    written = [write(tmp_path / "annotations_train.csv", TRAIN, *physionet)]
    written += [write(tmp_path / "train.csv.gz", KAGGLE, *kaggle)]
    for path in written:
        annotations = vindr_cxr.read_annotations(path, "train")
        assert annotations.image_ids == [A, B]
        assert annotations.n_readers is not None
        assert annotations.n_readers.tolist() == [2, 1]
        assert list_boxes(annotations) == [(1, "R10", "Cardiomegaly", 691.5, 1375.0, 961.5, 456.25)]
        types = [pa.int32(), pa.string(), pa.string(), *[pa.float64()] * 4]
        assert annotations.boxes.schema.types == types


def test_the_test_set_is_a_consensus(tmp_path):
    path = write(tmp_path / "annotations_test.csv", TEST, f"{A},Rib fracture,1,2,3,5", f"{B},No finding,,,,")
    annotations = vindr_cxr.read_annotations(path, "test")
    assert annotations.image_ids == [A, B]
    assert list_boxes(annotations) == [(0, "", "Rib fracture", 1.0, 2.0, 2.0, 3.0)]
    for rule in vindr_cxr.RULES:
        assert vindr_cxr.agree(annotations, rule) is annotations


@pytest.mark.parametrize(
    ("name", "header", "split"),
    [
        ("annotations/annotations_train.csv", TRAIN, "train"),
        ("annotations/annotations_test.csv", TEST, "test"),
        ("annotations_test.csv", TEST, "test"),
        ("train.csv", KAGGLE, "train"),
        ("vinbigdata-train.csv.gz", KAGGLE, "train"),
    ],
)
def test_label_files_are_found_in_each_layout(tmp_path, name, header, split):
    path = write(tmp_path / name, header, "")
    assert vindr_cxr.find_label_files(tmp_path) == {split: path}
    renamed = path.rename(path.with_name("labels.csv" + (".gz" if path.suffix == ".gz" else "")))
    assert vindr_cxr.find_label_files(renamed) == {split: renamed}  # recognized by its columns, not by its name


def test_foreign_folders_and_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no VinDr-CXR"):
        vindr_cxr.find_label_files(tmp_path)
    with pytest.raises(InputError, match="is no VinDr-CXR"):
        vindr_cxr.find_label_files(write(tmp_path / "other.csv", "a,b", "1,2"))
    with pytest.raises(InputError, match="cannot be read"):
        vindr_cxr.find_label_files(write(tmp_path / "empty.csv.gz", ""))


def test_spellings_of_a_class():
    spellings = {
        **{name: name for name in (*vindr_cxr.CLASSES, *vindr_cxr.GLOBAL_CLASSES)},
        **{name.upper(): name for name in vindr_cxr.CLASSES},
        **dict.fromkeys(("nodule_mass", "Nodule / Mass"), "Nodule/Mass"),
        "Enlarged Pulmonary Artery": "Enlarged PA",
        "Other diseases": "Other disease",
        "Interstitial lung disease": "ILD",
        "no_finding": "No finding",
        **dict.fromkeys(("Pneumonitis", "Nodule", "")),
    }
    assert {name: vindr_cxr.find_class(name) for name in spellings} == spellings


def test_global_labels_list_their_image_and_never_become_boxes(tmp_path):
    rows = [f"{A},R1,Pneumonia,,,,", f"{B},R1,Other diseases,1,2,3,4"]
    annotations = vindr_cxr.read_annotations(write(tmp_path / "train.csv", TRAIN, *rows), "train")
    assert (annotations.image_ids, annotations.boxes.num_rows) == ([A, B], 0)
    assert vindr_cxr.agree(annotations).boxes.num_rows == 0


GOOD = f"{A},R1,Edema,1,2,3,4"


@pytest.mark.parametrize(
    ("rows", "header", "row", "column", "message"),
    [
        ([GOOD, f"{A},R1,Pneumonitis,1,2,3,4"], TRAIN, 2, "class_name", "Cardiomegaly, Clavicle fracture"),
        ([f"{A},R1,,1,2,3,4"], TRAIN, 1, "class_name", "is blank"),
        ([GOOD, f"{A},R1,Edema,1,2,,4"], TRAIN, 2, "x_max", "is blank"),
        ([f"{A},R1,Edema,,,,"], TRAIN, 1, "x_min", "is blank"),
        ([f"{A},R1,No finding,0,0,1,1"], TRAIN, 1, "x_min", "blank, as 'No finding' has no box"),
        ([GOOD, GOOD, f"{A},R1,Edema,3,2,3,4"], TRAIN, 3, "x_max", "more than x_min"),
        ([f"{A},R1,Edema,1,4,3,2"], TRAIN, 1, "y_max", "more than y_min"),
        ([GOOD, f"{A},R1,Edema,1,two,3,4"], TRAIN, 2, "y_min", "'two'"),
        ([f"../{A},R1,Edema,1,2,3,4"], TRAIN, 1, "image_id", "an id"),
        ([GOOD, ",R1,Edema,1,2,3,4"], TRAIN, 2, "image_id", "is blank"),
        ([GOOD, f"{A},,Edema,1,2,3,4"], TRAIN, 2, "rad_id", "is blank"),
        ([f"{A},Edema,1,2,3,4"], TEST, None, "rad_id", "column is missing"),
    ],
)
def test_a_fault_is_named_by_file_row_and_column(tmp_path, rows, header, row, column, message):
    path = write(tmp_path / "train.csv", header, *rows)
    assert message in get_fault(vindr_cxr.read_annotations, path, "train", where=path, row=row, column=column)


def test_images_are_found_in_each_format(tmp_path):
    ref = {"source": "vindr_cxr", "key": vindr_cxr.key("train", A), "view": ""}
    for suffix in ("dicom", "dcm", "png", "jpg", "jpeg"):
        file = tmp_path / suffix / f"train/{A}.{suffix}"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        assert images.locate(ref, {"vindr_cxr": tmp_path / suffix}) == file.resolve()


def test_declared_sizes(tmp_path):
    assert vindr_cxr.read_declared_sizes(tmp_path) == {}
    write(tmp_path / "train_meta.csv", "image_id,dim0,dim1", f"{A},2580,2332")
    path = write(tmp_path / "test_meta.csv", "image_id,dim0,dim1", f"{B},3159,2954")
    assert vindr_cxr.read_declared_sizes(tmp_path) == {A: (2332, 2580), B: (2954, 3159)}
    write(path, "image_id,dim0,dim1", f"{B},3159,0")
    assert "above 0" in get_fault(vindr_cxr.read_declared_sizes, tmp_path, where=path, row=1, column="dim1")


# Agreement


def make_annotations(*rows: tuple, n_readers: list[int] | None = None) -> vindr_cxr.Annotations:
    """Build annotations from rows of (image, reader, label, x, y, width, height)."""
    n_images = max((row[0] for row in rows), default=-1) + 1
    columns = list(zip(*rows, strict=True)) or [()] * 7
    types = {"image": pa.int32(), "reader": pa.string(), "label": pa.string()}
    names = ("image", "reader", "label", "x", "y", "width", "height")
    table = pa.table({n: pa.array(c, types.get(n, pa.float64())) for n, c in zip(names, columns, strict=True)})
    readers = None if n_readers is None else np.array(n_readers)
    return vindr_cxr.Annotations([f"i{n}" for n in range(n_images)], table, readers)


E, C = "Edema", "Consolidation"
BOX = (0.0, 0.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("rows", "n_readers", "majority", "any_", "all_"),
    [
        ([(0, "R1", E, *BOX), (0, "R2", E, *BOX), (0, "R3", E, *BOX)], [3], 1, 1, 1),
        ([(0, "R1", E, *BOX), (0, "R2", E, *BOX)], [3], 1, 1, 0),  # the third reader has no box there
        ([(0, "R1", E, *BOX), (0, "R1", E, *BOX)], [3], 0, 1, 0),  # a reader counts once
        ([(0, "R1", E, *BOX), (0, "R2", C, *BOX)], [2], 0, 2, 0),  # classes are separate
        ([(0, "R1", E, *BOX), (1, "R2", E, *BOX)], [1, 1], 0, 2, 2),  # and images
        ([(0, "R1", E, *BOX), (0, "R2", E, 0, 0, 10, 5)], [2], 1, 1, 1),  # IoU exactly 0.5
        ([(0, "R1", E, *BOX), (0, "R2", E, 0, 0, 10, 4.9)], [2], 0, 2, 0),
        ([(0, "R1", E, *BOX), (0, "R2", E, 3, 0, 10, 10), (0, "R3", E, 6, 0, 10, 10)], [3], 1, 1, 1),  # a chain
        ([(0, "R1", E, *BOX), (0, "R1", E, 3, 0, 10, 10), (0, "R2", E, 6, 0, 10, 10)], [3], 1, 1, 0),
        ([(0, "R1", E, *BOX), (0, "R2", E, 10, 0, 10, 10)], [2], 0, 2, 0),  # the boxes only touch
    ],
)
def test_the_rules_on_cases(rows, n_readers, majority, any_, all_):
    annotations = make_annotations(*rows, n_readers=n_readers)
    for rule, expected in zip(("majority", "any", "all"), (majority, any_, all_), strict=True):
        agreed = vindr_cxr.agree(annotations, rule)
        assert agreed.boxes.num_rows == expected, rule
        assert agreed.image_ids == annotations.image_ids
        assert agreed.boxes.schema == annotations.boxes.schema
        assert set(agreed.boxes["reader"].to_pylist()) <= {""}


def test_a_finding_has_the_mean_coordinates_of_its_boxes_and_an_unknown_rule_is_refused():
    annotations = make_annotations((0, "R1", E, 0, 0, 10, 10), (0, "R2", E, 1, 2, 10, 9), (0, "R3", E, 2, 1, 10, 8))
    assert list_boxes(vindr_cxr.agree(annotations)) == [(0, "", E, 1.0, 1.0, 10.0, 9.0)]
    for arguments in ({"rule": "most"}, {"iou": 0.0}, {"iou": 1.5}):
        with pytest.raises(ValueError, match="expected"):
            vindr_cxr.agree(annotations, **arguments)


def compute_agreement(annotations: vindr_cxr.Annotations, rule: str, iou: Fraction) -> list[tuple]:
    """Compute agreement by definition: grow each group until no outside box is linked to it, with exact fractions."""
    rows = list_boxes(annotations)

    def linked(a: tuple, b: tuple) -> bool:
        if a[0] != b[0] or a[2] != b[2]:
            return False
        (ax, ay, aw, ah), (bx, by, bw, bh) = (tuple(map(Fraction, row[3:])) for row in (a, b))
        shared = max(0, min(ax + aw, bx + bw) - max(ax, bx)) * max(0, min(ay + ah, by + bh) - max(ay, by))
        return shared / (aw * ah + bw * bh - shared) >= iou

    unassigned, findings = set(range(len(rows))), []
    while unassigned:
        group = {unassigned.pop()}
        while near := {i for i in unassigned if any(linked(rows[i], rows[j]) for j in group)}:
            group |= near
            unassigned -= near
        findings.append([rows[i] for i in group])
    result = []
    for group in findings:
        image, _, label = group[0][:3]
        readers = {row[1] for row in group}
        everyone = {row[1] for row in rows if row[0] == image}
        if len(readers) >= {"any": 1, "majority": 2, "all": len(everyone)}[rule]:
            mean = [float(sum(map(Fraction, side)) / len(group)) for side in list(zip(*group, strict=True))[3:]]
            result.append((image, "", label, *mean))
    return sorted(result, key=lambda row: (row[0], vindr_cxr.CLASSES.index(row[2]), row[3:]))


side = st.integers(1, 8)
rows_of_boxes = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["R1", "R2", "R3"]), st.sampled_from([E, C]), side, side, side, side),
    min_size=1,
    max_size=14,
)


@given(rows_of_boxes, st.sampled_from(vindr_cxr.RULES), st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(1)]))
def test_agreement_equals_the_definition(rows, rule, iou):
    annotations = make_annotations(*rows)
    agreed_boxes, expected = (
        list_boxes(vindr_cxr.agree(annotations, rule, float(iou))),
        compute_agreement(annotations, rule, iou),
    )
    assert [row[:3] for row in agreed_boxes] == [row[:3] for row in expected]
    # Means that are equal as fractions can differ in the last digit, which changes the order within a class.
    for key in {row[:3] for row in agreed_boxes}:
        ours, theirs = (sorted(r[3:] for r in rows if r[:3] == key) for rows in (agreed_boxes, expected))
        assert np.allclose(ours, theirs)


@settings(max_examples=choose_size(8, 20), deadline=None)
@given(rows_of_boxes, st.randoms(use_true_random=False), st.sampled_from(vindr_cxr.RULES))
def test_agreement_does_not_depend_on_the_order_of_rows(rows, random, rule):
    n_images = max(row[0] for row in rows) + 1
    counts = [max(1, len({row[1] for row in rows if row[0] == n})) for n in range(n_images)]
    shuffled = random.sample(rows, len(rows))
    agreed_boxes = [vindr_cxr.agree(make_annotations(*r, n_readers=counts), rule).boxes for r in (rows, shuffled)]
    assert agreed_boxes[0].equals(agreed_boxes[1])


def test_the_real_train_annotations():
    root = sources.resolve_roots({"vindr_cxr": "torchxrayvision"}, environ={})["vindr_cxr"]
    annotations = vindr_cxr.read_annotations(vindr_cxr.find_label_files(root)["train"], "train")
    assert len(annotations.image_ids) == 15_000
    assert annotations.n_readers is not None
    assert annotations.n_readers.tolist() == [3] * 15_000
    assert annotations.boxes.num_rows == 36_096
    uniques = {name: annotations.boxes[name].unique().to_pylist() for name in ("image", "label", "reader")}
    assert (len(uniques["image"]), len(uniques["label"])) == (4_394, 14)
    assert set(uniques["reader"]) <= {f"R{n}" for n in range(1, 18)}
    agreed = {rule: vindr_cxr.agree(annotations, rule).boxes for rule in vindr_cxr.RULES}
    counts = {rule: (boxes.num_rows, len(boxes["image"].unique())) for rule, boxes in agreed.items()}
    assert counts == {"majority": (8163, 4157), "any": (23_636, 4394), "all": (4295, 3089)}
