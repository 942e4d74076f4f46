"""The gold dataset of Chest ImaGenome: the contents of each file, and an error message for every fault."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medfaith.loaders import chest_imagenome, mimic_cxr
from medfaith.loaders.chest_imagenome import CORNERS, FILES, GOLD_COLUMNS, Mention
from tests.support.loaders.faults import get_fault

PATIENT, STUDY = "10000032", "50414267"
BOXES = {"left lung": (1300, 200, 2300, 2100), "right lung": (150, 190, 1200, 2000.5), "trachea": (-8, 0, 90, 0)}
NOT_FOUND = dict.fromkeys(CORNERS, "")


def make_dicom_id(n=0):
    return f"02aa804e-bde0afdd-112c0b34-7bc16630-{n:08x}"


def make_sentence(number=1):
    ids = {
        "patient_id": PATIENT,
        "study_id": STUDY,
        "image_id": f"{make_dicom_id()}.dcm",
        "row_id": f"{STUDY}|{number}",
    }
    return ids | {"sentence": f"Sentence {number}."}


def make_attribute(number=1):
    fields = {"bbox": "left lung", "relation": "1", "label_name": "lung opacity", "categoryID": "anatomicalfinding"}
    return make_sentence(number) | fields | {"context": "yes"}


def make_gold_row(number=1, box="left lung", label="lung opacity", context="yes", **columns):
    fields = {"bbox": box, "label_name": label, "context": context, "coord_original": str(list(BOXES[box]))}
    return make_attribute(number) | fields | columns


def make_box(number: object = 1, corners=BOXES["left lung"], n=0):
    return {"image_id": f"{make_dicom_id(n)}.dcm", "bbox_name": f"box {number}"} | dict(
        zip(CORNERS, corners, strict=True)
    )


ROWS = {"gold": make_gold_row, "anatomy": make_box, "all_sentences": make_sentence}
NEEDED = {kind: tuple(row()) for kind, row in ROWS.items()} | {"gold": GOLD_COLUMNS}


def read(root: Path, kind: str):
    return getattr(chest_imagenome, f"read_{kind}")(root)


def write(root: Path, kind: str, rows) -> Path:
    """Write the file with pandas, with extra columns that no reader uses and empty required columns."""
    (root / "gold_dataset").mkdir(exist_ok=True)
    for needed in chest_imagenome.REQUIRED:
        (root / FILES[needed]).touch()
    path = root / FILES[kind]
    frame = pd.DataFrame(rows).assign(other="", x1=0, y1=0, x2=9, y2=9)
    frame.to_csv(path, sep="\t" if path.suffix == ".txt" else ",", index=False)
    return path


# --- contents ---------------------------------------------------------------------------------------------------------


def test_rows_of_one_row_id_make_a_sentence(tmp_path):
    rows = [
        make_gold_row(2, "trachea", "normal", sentence="Midline  trachea. "),
        make_gold_row(1, "right lung", "pneumothorax", "no", relation=0),
        make_gold_row(1, "left lung", "pneumothorax", "no", relation=0),
        make_gold_row(1, "left lung", "abnormal"),
        make_gold_row(2, "left lung", sentence="Midline  trachea. "),
    ]
    write(tmp_path, "gold", [dict(reversed(row.items())) for row in rows])  # the header decides which column is which
    sentence_2, sentence_1 = chest_imagenome.read_gold(tmp_path)
    assert (sentence_2.id, sentence_1.id) == (f"{STUDY}|2", f"{STUDY}|1")
    assert (sentence_1.patient_id, sentence_1.study_id, sentence_1.image_id) == (PATIENT, STUDY, make_dicom_id())
    assert sentence_2.sentence == "Midline  trachea."
    assert list(sentence_1.boxes.items()) == [(name, BOXES[name]) for name in ("right lung", "left lung")]
    assert sentence_1.mentions == (
        Mention("right lung", "pneumothorax", "no", False),
        Mention("left lung", "pneumothorax", "no", False),
        Mention("left lung", "abnormal", "yes", True),
    )
    assert sentence_2.boxes["trachea"] == (-8, 0, 90, 0)
    assert chest_imagenome.key(sentence_1) == mimic_cxr.key(PATIENT, STUDY, make_dicom_id())
    assert chest_imagenome.list_image_paths("files/a.jpg") == ("files/a.jpg",)


def test_a_box_and_an_image_that_the_annotations_have_not_are_read(tmp_path):
    write(tmp_path, "anatomy", [make_box(n, corners, image) for image in range(2) for n, corners in BOXES.items()])
    annotated = {f"box {name}": corners for name, corners in BOXES.items()}
    assert chest_imagenome.read_anatomy(tmp_path) == {make_dicom_id(n): annotated for n in range(2)}
    write(tmp_path, "gold", [make_gold_row(1, bbox="spine"), make_gold_row(2, image_id=f"{make_dicom_id(5)}.dcm")])
    spine, other_sentence = chest_imagenome.read_gold(tmp_path)
    assert (list(spine.boxes), other_sentence.image_id) == (["spine"], make_dicom_id(5))


NUMBER = st.integers(0, 4000) | st.floats(0, 4000)
ORDERED = st.tuples(NUMBER, NUMBER).map(sorted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ORDERED, ORDERED)
def test_corners_are_what_python_reads(tmp_path, x, y):
    corners = [x[0], y[0], x[1], y[1]]
    write(tmp_path, "anatomy", [make_box(corners=corners)])
    assert chest_imagenome.read_anatomy(tmp_path) == {make_dicom_id(): {"box 1": pytest.approx(tuple(corners))}}
    write(tmp_path, "gold", [make_gold_row(coord_original=str(corners))])
    (row,) = chest_imagenome.read_gold(tmp_path)
    assert row.boxes["left lung"] == tuple(ast.literal_eval(str(corners)))


def test_all_sentences_are_read_as_text_in_the_order_of_the_columns(tmp_path):
    rows = [make_sentence(0), make_sentence(1) | {"image_id": make_dicom_id(1)}]
    write(tmp_path, "all_sentences", [dict(reversed(row.items())) for row in rows])
    table = chest_imagenome.read_all_sentences(tmp_path)
    assert table.column_names == list(rows[0])
    assert set(map(str, table.schema.types)) == {"string"}
    assert table.to_pylist() == [{name: cell.removesuffix(".dcm") for name, cell in row.items()} for row in rows]


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "column"), [(kind, column) for kind in ROWS for column in NEEDED[kind]])
def test_a_column_that_is_missing_or_blank_is_named(tmp_path, kind, column):
    path = write(tmp_path, kind, [ROWS[kind](1), ROWS[kind](2) | {column: " "}])
    assert "is blank" in get_fault(read, tmp_path, kind, where=path, row=2, column=column)
    write(tmp_path, kind, pd.DataFrame([ROWS[kind](1)]).drop(columns=column))
    assert "is missing" in get_fault(read, tmp_path, kind, where=path, column=column)


TABLES = ("gold", "all_sentences")
BACKWARD = "original_x1 to original_y2"
CELLS = [  # file kinds, column, part of the message, cell values
    (["gold"], "context", "yes or no", ["maybe", "Yes", "no, yes"]),
    (["gold"], "relation", "0 or 1", [2, "1.00"]),
    (TABLES, "patient_id", "8 digits", ["p10000032"]),
    (TABLES, "study_id", "8 digits", ["../50414267"]),
    ((*TABLES, "anatomy"), "image_id", "hexadecimal", ["image.dcm"]),
    (["gold"], "coord_original", "four numbers", ["[1, 2, 3]", "[1, 2, 3, 4, 5]", "[1, 2, 3, '4']", "[1, 2, 3, true]"]),
    (["gold"], "coord_original", "four numbers", ["[1, 2, 3, NaN]", "[1, 2, 3, 1e999]", f"[1, 2, 3, {'9' * 400}]"]),
    (["gold"], "coord_original", "four numbers", ["7", "__import__('os')"]),
    (["gold"], "coord_original", "ends before it begins", ["[9, 2, 8, 4]", "[1, 5, 8, 4]"]),
    (["anatomy"], "bbox_name", "'box 1' again", ["box 1"]),
    (["anatomy"], "original_x1", "a number", ["many", "inf"]),
]
FIRST = {"row_id": f"{STUDY}|1", "sentence": "Sentence 1."}
CHANGES = [
    ("gold", FIRST | {"image_id": make_dicom_id(1)}, "image_id", "differs from row 1"),
    ("gold", FIRST | {"study_id": "50414268"}, "study_id", "differs from row 1"),
    ("gold", FIRST | {"sentence": "Another."}, "sentence", "differs from row 1"),
    ("gold", FIRST | {"coord_original": "[0, 0, 1, 1]"}, "coord_original", "another box for 'left lung'"),
    ("anatomy", NOT_FOUND, "original_x1", "is blank"),
    *(("anatomy", {corner: value}, BACKWARD, "ends before it begins")
      for corner, value in zip(CORNERS, (2301, 2101, -1, -1), strict=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "change", "column", "message"),
    [(kind, {name: cell}, name, message) for kinds, name, message, cells in CELLS for kind in kinds for cell in cells]
    + CHANGES,
)
def test_a_fault_of_a_cell_is_named(tmp_path, kind, change, column, message):
    path = write(tmp_path, kind, [ROWS[kind](1), ROWS[kind](2) | change])
    assert message in get_fault(read, tmp_path, kind, where=path, row=2, column=column)


@pytest.mark.parametrize("kind", ROWS)
def test_a_file_of_another_form_and_one_that_is_missing_are_named(tmp_path, kind):
    path = write(tmp_path, kind, [ROWS[kind](1)])
    path.write_text(path.read_text().replace("\t", ";").replace(",", ";"))
    assert "are not separated by" in get_fault(read, tmp_path, kind, where=path)
    path.unlink()
    if kind in chest_imagenome.REQUIRED:
        get_fault(chest_imagenome.find_label_files, tmp_path, where=tmp_path)
    else:
        assert set(chest_imagenome.find_label_files(tmp_path)) == set(chest_imagenome.REQUIRED)
    assert f"holds no {FILES[kind]}\n" in get_fault(read, tmp_path, kind, where=tmp_path)
