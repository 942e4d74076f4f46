"""Boxes of a detector in COCO results and YOLO text files: accepted, skipped with a count, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from medfaith.loaders import detections, sources
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault

A, B = "02aa804e-bde0afdd-112c0b34-7bc16630-4e384014", "174413ec-4ec4c1f7-34ea26b7-c5f994f8-79ef1962"
SIZES = {A: (200, 100), B: (64, 128)}
NAMES = ("Edema", "Nodule/Mass", "No finding")


def read(root: Path, **options) -> detections.Detections:
    return detections.read_detections(root, [A, B], **({"sizes": SIZES} | options))


def list_rows(result: detections.Detections) -> list[tuple]:
    return [tuple(row.values()) for row in result.boxes.to_pylist()]


def write_yolo(root: Path, files: dict[str, str], names: str | None = "\n".join(NAMES)) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for stem, lines in files.items():
        (root / f"{stem}.txt").write_text(lines)
    if names is not None:
        (root / "classes.txt").write_text(names)
    return root


def make_entry(image_id: object, category: object = 1, bbox: object = (20, 30, 40, 50), score: object = 0.9) -> dict:
    bbox = list(bbox) if isinstance(bbox, tuple) else bbox
    return {"image_id": image_id, "category_id": category, "bbox": bbox, "score": score}


def write_coco(root: Path, results: object, categories: object = None) -> Path:
    categories = [{"id": n, "name": name} for n, name in enumerate(NAMES, 1)] if categories is None else categories
    (root / "predictions.json").write_text(json.dumps(results))
    (root / "categories.json").write_text(json.dumps(categories))
    return root


EXPECTED = (0, "Edema", 20.0, 30.0, 40.0, 50.0, 0.9)
SHARES = "0.2 0.55 0.2 0.5"  # the same box on 200 x 100 pixels


def test_both_formats_give_the_same_boxes(tmp_path):
    (tmp_path / "coco").mkdir()
    from_coco = read(write_coco(tmp_path / "coco", [make_entry(A), make_entry(B, 2, (1, 2, 3, 4), 0.5)]))
    lines = {A: f"0 {SHARES} 0.9\n", B: f"1 {2.5 / 64} {4 / 128} {3 / 64} {4 / 128} 0.5\n"}
    from_yolo = read(write_yolo(tmp_path / "yolo", lines))
    for result in (from_coco, from_yolo):
        assert result.boxes.schema.types == [pa.int32(), pa.string(), *[pa.float64()] * 5]
        assert [row[:2] for row in list_rows(result)] == [(0, "Edema"), (1, "Nodule/Mass")]
        expected = [EXPECTED[2:], (1.0, 2.0, 3.0, 4.0, 0.5)]
        assert np.allclose([row[2:] for row in list_rows(result)], expected)
        assert result.skipped == {}


@pytest.mark.parametrize("image_id", [A, f"{A}.jpg", f"files/p10/{A}.png", f"C:\\images\\{A}.JPG", 17, "study-17"])
@pytest.mark.parametrize("place", ["one object", "categories.json"])
def test_an_image_is_named_in_each_way(tmp_path, image_id, place):
    described = {
        "images": [{"id": 17, "file_name": f"{A}.jpg"}, {"id": "study-17", "file_name": f"p10/{A}.jpg"}],
        "categories": [{"id": 1, "name": "edema"}],
    }
    if place == "one object":
        root = tmp_path / "detections.json"
        root.write_text(json.dumps(described | {"annotations": [make_entry(image_id)]}))
    else:
        root = write_coco(tmp_path, [make_entry(image_id)], described)
    assert list_rows(read(root)) == [EXPECTED]


def test_classes_of_coco_results_from_a_list_of_names(tmp_path):
    root = write_coco(tmp_path, [make_entry(A, 0)])
    (root / "categories.json").unlink()
    (root / "classes.txt").write_text("\n".join(NAMES))
    assert list_rows(read(root)) == [EXPECTED]
    assert list_rows(read(root / "predictions.json")) == [EXPECTED]  # the file itself


@pytest.mark.parametrize("folder", ["", "labels"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("classes.txt", "Edema\nNodule/Mass\n"),
        ("labels/classes.txt", "Edema\nNodule/Mass\n"),
        ("data.yaml", "names: [Edema, Nodule/Mass]\n"),
        ("data.yaml", "path: x\nnc: 2\nnames:\n  0: edema\n  1: nodule_mass\n"),
    ],
)
def test_the_layouts_of_a_yolo_folder(tmp_path, folder, name, content):
    write_yolo(tmp_path / folder, {A: f"0 {SHARES} 0.9"}, names=None)
    (tmp_path / "labels").mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    rows = list_rows(read(tmp_path))
    assert np.allclose(rows[0][2:], EXPECTED[2:])
    assert set(detections.find_label_files(tmp_path)) == {f"{A}.txt", Path(name).name}


@pytest.mark.parametrize("number", ["1", "1.", "1.0", "1.000000000000000000e+00"])
def test_a_class_number_may_be_written_as_a_float(tmp_path, number):
    rows = list_rows(read(write_yolo(tmp_path, {A: f"{number} {SHARES} 0.9"})))
    assert [row[1] for row in rows] == ["Nodule/Mass"]


def test_a_line_without_a_confidence_counts_as_certain(tmp_path):
    (row,) = list_rows(read(write_yolo(tmp_path, {A: f"0 {SHARES}\n\n"}), threshold=1.0))
    assert row[-1] == 1.0


def test_what_is_left_out_is_counted(tmp_path):
    results = [
        make_entry("0" * 8),  # another image
        make_entry(A, 3),  # "No finding" is not a class
        make_entry(A, score=0.25),  # a score equal to the threshold counts
        make_entry(A, score=0.249),
        make_entry(A, bbox=(200, 0, 5, 5)),  # beyond the right edge
        make_entry(A, bbox=(-5, 0, 5, 5)),
        make_entry(A, 2),
    ]
    result = read(write_coco(tmp_path, results), classes=("Edema",))
    assert [row[-1] for row in list_rows(result)] == [0.25]
    assert result.skipped == {"unknown_image": 1, "other_class": 2, "below_threshold": 1, "outside_image": 2}


boxes = st.lists(
    st.tuples(st.integers(-80, 220), st.integers(-60, 120), st.integers(1, 150), st.integers(1, 90)), max_size=8
)


@given(boxes)
def test_clipping_covers_the_pixels_that_pycocotools_draws(tmp_path_factory, given_boxes):
    width, height = SIZES[A]
    root = write_coco(tmp_path_factory.mktemp("coco"), [make_entry(A, bbox=bbox) for bbox in given_boxes])
    result = read(root)
    margin = 100  # drawn on a canvas that holds every box, then cut to the image
    extents = []
    for x, y, w, h in given_boxes:
        (rle,) = coco_mask.frPyObjects(np.array([[x + margin, y + margin, w, h]], dtype=float), 400, 500)
        mask = coco_mask.decode(rle)[margin : margin + height, margin : margin + width]
        extents.append(tuple(coco_mask.toBbox(coco_mask.encode(np.asfortranarray(mask)))))
    inside = [extent for extent in extents if extent[2]]
    assert [row[2:6] for row in list_rows(result)] == inside
    assert result.skipped.get("outside_image", 0) == len(extents) - len(inside)


def test_boxes_are_ordered_by_the_images_asked_for_and_nothing_detected_is_an_empty_table(tmp_path):
    root = write_coco(tmp_path, [make_entry(B, score=0.3), make_entry(A, score=0.4), make_entry(B, score=0.5)])
    assert [(row[0], row[-1]) for row in list_rows(read(root))] == [(0, 0.4), (1, 0.3), (1, 0.5)]
    result = read(write_coco(tmp_path, []))
    assert (result.boxes.num_rows, result.boxes.schema, result.skipped) == (0, detections.SCHEMA, {})
    lone = {"mimic_cxr_detections": root / "predictions.json"}
    assert sources.status("mimic_cxr_detections", lone).state == "found"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0.5 0.5 0.2", "4 values"),
        ("0 0.5 0.5 0.2 0.2 0.9 1", "7 values"),
        ("0 0.5 0.5 0.2 wide 0.9", "'wide'"),
        ("0 0.5 0.5 nan 0.2 0.9", "'nan'"),
        ("0 0.5 0.5 -0.2 0.2 0.9", "both above 0"),
        ("0 0.5 0.5 0.2 0 0.9", "both above 0"),
        ("0 0.5 0.5 0 0.2 0.9", "both above 0"),
        ("0 120 55 40 50 0.9", "coordinates in pixels"),
        ("0 0.5 0.5 0.2 0.2 1.2", "0 to 1"),
        ("7 0.5 0.5 0.2 0.2 0.9", "class numbers 0 to 2"),
        ("-1 0.5 0.5 0.2 0.2 0.9", "class '-1'"),
        ("Edema 0.5 0.5 0.2 0.2 0.9", "class 'Edema'"),
        ("٣ 0.5 0.5 0.1 0.1", "class"),
        ("0.5 0.5 0.5 0.1 0.1", "class '0.5'"),
        ("1e9 0.5 0.5 0.1 0.1", "class 1000000000"),
        ("1" * 5_000 + " 0.5 0.5 0.1 0.1", "class"),
        (f"0 {'1' * 5_000} 0.5 0.1 0.1", "111"),
        ("0 " * 100_000, "100000 values"),
    ],
)
def test_a_faulty_line_is_named(tmp_path, line, message):
    for stem in (A, "another-image"):
        root = write_yolo(tmp_path / stem, {stem: f"0 {SHARES} 0.9\n{line}\n"})
        assert message in get_fault(read, root, where=root / f"{stem}.txt", row=2, column=ANY)


@pytest.mark.parametrize(
    ("faulty", "column", "message"),
    [
        (make_entry(A, bbox=(1, 2, 3)), "bbox", "[x, y, width, height]"),
        (make_entry(A, bbox="1 2 3 4"), "bbox", "[x, y, width, height]"),
        (make_entry(A, bbox=[1, 2, None, 4]), "width", "None"),
        (make_entry(A, bbox=[1, 2, True, 4]), "width", "True"),
        (make_entry(A, bbox=(1, 2, -3, 4)), None, "both above 0"),
        (make_entry(A, bbox=(1, 2, 3, 0)), None, "both above 0"),
        (make_entry(A, bbox=(1, 2, 0, 4)), None, "both above 0"),
        (make_entry(A, score="high"), "score", "'high'"),
        (make_entry(A, score=-0.1), "score", "0 to 1"),
        (make_entry(A, 9), None, "class 9"),
        (make_entry(A, "1"), None, "class '1'"),
        (make_entry(17), "image_id", "`images` resolves"),
        (make_entry(None), "image_id", "None"),
        (make_entry(True), "image_id", "True"),
    ],
)
def test_a_faulty_result_is_named(tmp_path, faulty, column, message):
    root = write_coco(tmp_path, [make_entry(A), faulty])
    assert message in get_fault(read, root, where=root / "predictions.json", row="2 of results", column=column)


HERNIA = '[{"id": 1, "name": "Hernia"}]'


@pytest.mark.parametrize(
    ("files", "where", "message"),
    [
        ({}, "", "holds no boxes"),
        ({"a.json": "[]", "b.json": "[]"}, "", "holds a.json, b.json"),
        ({"a.json": "[]", "x.txt": ""}, "", "holds a.json, 1 text files"),
        ({"a.json": "[]"}, "a.json", "no class names"),
        ({"a.json": "[" * 20_000, "classes.txt": "Edema"}, "a.json", "cannot be read as JSON"),
        ({"a.json": "[1]", "classes.txt": "Edema"}, "a.json", "1 of results"),
        ({"a.json": '{"images": []}'}, "a.json", "no list 'categories'"),
        ({"a.json": "[]", "categories.json": "[]"}, "categories.json", "no category whose id is a number"),
        (
            {"a.json": "[]", "categories.json": '[{"id": "1", "name": "Edema"}]'},
            "categories.json",
            'expected: [{"id": 1',
        ),
        ({"a.json": "[]", "categories.json": '[{"name": "Edema"}]'}, "categories.json", "1 of categories, column 'id'"),
        ({"a.json": "[]", "categories.json": HERNIA}, "categories.json", "class 1 is 'Hernia'"),
        ({"a.json": "[]", "classes.txt": "Edema\nHernia"}, "classes.txt", "class 1 is 'Hernia'"),
        ({"boxes.csv": "a,b\n"}, "boxes.csv", "holds no boxes"),
        ({"x.txt": ""}, "", "no class names"),
        ({"x.txt": "", "classes.txt": "\n"}, "classes.txt", "is empty"),
        ({"x.txt": "", "data.yaml": "names: [Edema"}, "data.yaml", "but got '<stream end>' in line 1"),
        ({"x.txt": "", "data.yaml": "nc: 1\nnames: {[0]: Edema}"}, "data.yaml", "found unhashable key in line 2"),
        ({"x.txt": "", "data.yaml": "names: [\x07]"}, "data.yaml", "unacceptable character"),
        ({"x.txt": "", "data.yaml": "nc: 3"}, "data.yaml", "names no classes"),
        ({"x.txt": "", "data.yaml": "names: {a: Edema}"}, "data.yaml", "names no classes"),
        ({"x.txt": "", "data.yaml": "names: [Edema, 5]"}, "data.yaml", "class 1 is '5'"),
    ],
)
def test_a_faulty_folder_is_explained(tmp_path, files, where, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    root = tmp_path / "boxes.csv" if "boxes.csv" in files else tmp_path  # a lone file
    with pytest.raises(InputError, match="what to do") as error:
        read(root)
    assert error.value.where == str(tmp_path / where)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("stated", "fits"), [({"width": 200, "height": 100}, True), ({}, True), ({"width": 100, "height": 50}, False)]
)
def test_coco_boxes_of_a_scaled_copy_are_refused(tmp_path, stated, fits):
    """Boxes of a scaled copy have other positions on the original image, still within its bounds."""
    listed = [{"id": 17, "file_name": f"{A}.jpg", **stated}]
    categories = [{"id": n, "name": name} for n, name in enumerate(NAMES, 1)]
    write_coco(tmp_path, [make_entry(17)], {"images": listed, "categories": categories})
    if fits:
        assert list_rows(read(tmp_path)) == [EXPECTED]
    else:
        with pytest.raises(InputError, match=f"{A} is 100 x 50 pixels, in the source 200 x 100"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("scale", "message"),
    [(1, ""), (0.5, "60 boxes end within the first 50% of the width"), (2, "of 60 boxes reach beyond their images")],
)
def test_coco_boxes_of_a_copy_whose_size_is_not_stated_are_refused(tmp_path, scale, message):
    n_boxes = 60
    boxes = [tuple(scale * number for number in (3 * n, n, 200 - 3 * n, 100 - n)) for n in range(n_boxes)]
    write_coco(tmp_path, [make_entry(A, bbox=box) for box in boxes])
    if not message:
        assert read(tmp_path).boxes.num_rows == n_boxes
        return
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_boxes_of_two_runs_are_refused(tmp_path):
    write_yolo(tmp_path / "labels", {A: f"0 {SHARES} 0.9"})
    write_yolo(tmp_path, {"README": "Boxes of run 3."})
    assert read(tmp_path).boxes.num_rows == 1
    write_yolo(tmp_path, {B: f"0 {SHARES} 0.9"})
    with pytest.raises(InputError, match="in labels/ and at its top"):
        read(tmp_path)
