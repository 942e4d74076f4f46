"""The Chest ImaGenome reader: sentences and boxes of the gold dataset, and every fault by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medfaith.loaders import chest_imagenome, images, mimic_cxr
from medfaith.loaders.chest_imagenome import Mention
from medfaith.loaders.errors import InputError

GOLD, ANATOMY = "gold_object_attribute_with_coordinates.txt", "gold_bbox_coordinate_annotations_1000images.csv"
PATIENT, STUDY = "10000032", "50414267"
BOXES = {"left lung": [1300, 200, 2300, 2100], "right lung": [150, 190, 1200, 2000.5], "trachea": [-8, 0, 90, 0]}
CSV_ORDER = ("original_x1", "original_x2", "original_y1", "original_y2")


def dicom(n: int = 0) -> str:
    return f"02aa804e-bde0afdd-112c0b34-7bc16630-{n:08x}"


def row(number=1, box="left lung", label="lung opacity", context="yes", n=0, **other):
    return {
        "patient_id": PATIENT,
        "study_id": STUDY,
        "image_id": f"{dicom(n)}.dcm",
        "row_id": f"{STUDY}|{number}",
        "sentence": f"Sentence {number}.",
        "bbox": box,
        "relation": 1,
        "label_name": label,
        "categoryID": "anatomicalfinding",
        "context": context,
        "coord_original": str(BOXES[box]),
        "coord224": "[0, 0, 9, 9]",
    } | other


def anatomy_row(n=0, box="left lung", corners=None, **other):
    x1, y1, x2, y2 = corners or BOXES[box]
    cells = {"image_id": f"{dicom(n)}.dcm", "x1": 0, "y1": 0, "x2": 9, "y2": 9, "bbox_name": box}
    return cells | dict(zip(CSV_ORDER, (x1, x2, y1, y2), strict=True)) | {"annotator": "C"} | other


def write(root: Path, *rows, anatomy=None, order=None) -> Path:
    """Both required files, as pandas writes them; `anatomy` is all boxes of two images unless given."""
    (root / "gold_dataset").mkdir(exist_ok=True)
    frame = pd.DataFrame(rows or [row()])
    frame.to_csv(root / "gold_dataset" / GOLD, sep="\t", index=False, columns=order)
    anatomy = anatomy or [anatomy_row(n, box) for n in range(2) for box in BOXES]
    pd.DataFrame(anatomy).to_csv(root / "gold_dataset" / ANATOMY, index=False)
    return root


def fault(read, root, **place) -> str:
    """The message of the InputError that reading raises; `place` is the file, row and column that it names."""
    with pytest.raises(InputError) as error:
        read(root)
    expected = {"where": str(root / "gold_dataset" / place.pop("file", GOLD)), "row": None, "column": None} | place
    assert {name: getattr(error.value, name) for name in expected} == expected
    assert "PhysioNet" in error.value.action or "complete the copy" in error.value.action
    return str(error.value)


def test_rows_of_one_row_id_make_a_sentence(tmp_path):
    write(
        tmp_path,
        row(2, "trachea", "normal", sentence="Midline  trachea. "),
        row(1, "right lung", "pneumothorax", "no", relation=0),
        row(1, "left lung", "pneumothorax", "no", relation=0),
        row(1, "left lung", "abnormal"),
        row(2, "left lung", n=0, sentence="Midline  trachea. "),
    )
    second, first = chest_imagenome.read_gold(tmp_path)
    assert (second.id, first.id) == (f"{STUDY}|2", f"{STUDY}|1")
    assert (first.patient_id, first.study_id, first.image_id) == (PATIENT, STUDY, dicom())
    assert second.sentence == "Midline  trachea."
    assert list(first.boxes.items()) == [
        ("right lung", (150, 190, 1200, 2000.5)),
        ("left lung", (1300, 200, 2300, 2100)),
    ]
    assert first.mentions == (
        Mention("right lung", "pneumothorax", "no", False),
        Mention("left lung", "pneumothorax", "no", False),
        Mention("left lung", "abnormal", "yes", True),
    )
    assert second.boxes["trachea"] == (-8, 0, 90, 0)
    assert chest_imagenome.key(first) == mimic_cxr.key(PATIENT, STUDY, dicom())
    assert chest_imagenome.image_paths("files/a.jpg") == ("files/a.jpg",)


def test_a_box_that_the_annotations_have_not_is_read(tmp_path):
    write(tmp_path, row(1), row(2, bbox="spine"), row(3, image_id=f"{dicom(5)}.dcm"))
    spine, other = chest_imagenome.read_gold(tmp_path)[1:]
    assert (list(spine.boxes), other.image_id) == (["spine"], dicom(5))
    assert "spine" not in chest_imagenome.read_anatomy(tmp_path)[spine.image_id]


def test_the_header_decides_which_column_is_which(tmp_path):
    names = list(row())
    expected = chest_imagenome.read_gold(write(tmp_path, row(), row(2, "trachea")))
    assert chest_imagenome.read_gold(write(tmp_path, row(), row(2, "trachea"), order=names[::-1])) == expected


NUMBER = st.integers(0, 4000) | st.floats(0, 4000)
ORDERED = st.tuples(NUMBER, NUMBER).map(sorted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(ORDERED, ORDERED)
def test_corners_are_what_python_reads(tmp_path, x, y):
    corners = [x[0], y[0], x[1], y[1]]
    write(tmp_path, row(coord_original=str(corners)), anatomy=[anatomy_row(corners=corners)])
    (sentence,) = chest_imagenome.read_gold(tmp_path)
    assert sentence.boxes["left lung"] == tuple(ast.literal_eval(str(corners)))
    assert chest_imagenome.read_anatomy(tmp_path) == {dicom(): {"left lung": pytest.approx(tuple(corners))}}


@pytest.mark.parametrize(
    ("change", "column", "words"),
    [
        ({"context": "maybe"}, "context", "yes or no"),
        ({"context": "Yes"}, "context", "'Yes'"),
        ({"context": ""}, "context", "is blank"),
        ({"relation": 2}, "relation", "0 or 1"),
        ({"relation": ""}, "relation", "is blank"),
        ({"sentence": ""}, "sentence", "is blank"),
        ({"sentence": "  "}, "sentence", "is blank"),
        ({"row_id": ""}, "row_id", "is blank"),
        ({"bbox": ""}, "bbox", "is blank"),
        ({"label_name": ""}, "label_name", "is blank"),
        ({"patient_id": "p10000032"}, "patient_id", "8 digits"),
        ({"study_id": "../50414267"}, "study_id", "8 digits"),
        ({"image_id": "image.dcm"}, "image_id", "hexadecimal"),
        ({"coord_original": ""}, "coord_original", "is blank"),
        ({"coord_original": "[1, 2, 3]"}, "coord_original", "four numbers"),
        ({"coord_original": "[1, 2, 3, 4, 5]"}, "coord_original", "four numbers"),
        ({"coord_original": "[1, 2, 3, '4']"}, "coord_original", "four numbers"),
        ({"coord_original": "[1, 2, 3, true]"}, "coord_original", "four numbers"),
        ({"coord_original": "[1, 2, 3, NaN]"}, "coord_original", "four numbers"),
        ({"coord_original": "[1, 2, 3, 1e999]"}, "coord_original", "four numbers"),
        ({"coord_original": f"[1, 2, 3, {'9' * 400}]"}, "coord_original", "four numbers"),
        ({"coord_original": "7"}, "coord_original", "four numbers"),
        ({"coord_original": "__import__('os')"}, "coord_original", "four numbers"),
        ({"coord_original": "[9, 2, 8, 4]"}, "coord_original", "ends before it begins"),
        ({"coord_original": "[1, 5, 8, 4]"}, "coord_original", "ends before it begins"),
        ({"row_id": f"{STUDY}|1", "image_id": dicom(1)}, "image_id", "differs from row 1"),
        ({"row_id": f"{STUDY}|1", "study_id": "50414268"}, "study_id", "differs from row 1"),
        ({"row_id": f"{STUDY}|1"}, "sentence", "differs from row 1"),
        (
            {"row_id": f"{STUDY}|1", "sentence": "Sentence 1.", "coord_original": "[0, 0, 1, 1]"},
            "coord_original",
            "another box for 'left lung'",
        ),
    ],
)
def test_a_fault_of_a_gold_row_is_named(tmp_path, change, column, words):
    write(tmp_path, row(1), row(2, **change))
    assert words in fault(chest_imagenome.read_gold, tmp_path, row=2, column=column)


@pytest.mark.parametrize("name", [GOLD, ANATOMY])
def test_a_required_file_that_is_missing_is_named(tmp_path, name):
    write(tmp_path)
    (tmp_path / "gold_dataset" / name).unlink()
    with pytest.raises(InputError, match=f"holds no gold_dataset/{name}"):
        chest_imagenome.label_files(tmp_path)
    with pytest.raises(InputError, match=f"holds no gold_dataset/{name}"):
        chest_imagenome.read_gold(tmp_path)


# --- boxes ------------------------------------------------------------------------------------------------


def test_anatomy_is_read_by_the_names_of_its_columns(tmp_path):
    write(tmp_path)
    assert chest_imagenome.read_anatomy(tmp_path) == {
        dicom(n): {name: tuple(corners) for name, corners in BOXES.items()} for n in range(2)
    }


@pytest.mark.parametrize(
    ("change", "column", "words"),
    [
        ({"image_id": "1.dcm"}, "image_id", "hexadecimal"),
        ({"bbox_name": ""}, "bbox_name", "is blank"),
        ({"bbox_name": "left lung"}, "bbox_name", "'left lung' again"),
        ({"original_x2": ""}, "original_x2", "is blank"),
        (dict.fromkeys(CSV_ORDER, ""), "original_x1", "is blank"),
        ({"original_y1": "many"}, "original_y1", "a number"),
        ({"original_y1": "inf"}, "original_y1", "a number"),
        # the values of x2 and y1 taken for one another, as the file's order of columns invites to
        ({"original_x2": 190, "original_y1": 1200}, "original_x1 to original_y2", "ends before it begins"),
    ],
)
def test_a_fault_of_an_annotation_is_named(tmp_path, change, column, words):
    rows = [anatomy_row(), anatomy_row(box="right lung") | {"original_x1": 900} | change]
    write(tmp_path, anatomy=rows)
    assert words in fault(chest_imagenome.read_anatomy, tmp_path, file=ANATOMY, row=2, column=column)


def test_rows_made_of_it_open_images_of_mimic(tmp_path):
    (sentence,) = chest_imagenome.read_gold(write(tmp_path))
    file = tmp_path / "mimic" / chest_imagenome.key(sentence)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    ref = {"source": "mimic_cxr", "key": chest_imagenome.key(sentence), "view": "PA"}
    assert images.locate(ref, {"mimic_cxr": tmp_path / "mimic"}) == file.resolve()
