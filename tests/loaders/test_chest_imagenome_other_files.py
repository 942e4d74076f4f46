"""The files of Chest ImaGenome's gold dataset that no row needs, and the list of all sentences."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medfaith.loaders import chest_imagenome
from medfaith.loaders.errors import InputError

PATIENT, STUDY = "10000032", "50414267"
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")
NOT_FOUND = dict.fromkeys(CORNERS, "")


def dicom(n: int = 0) -> str:
    return f"02aa804e-bde0afdd-112c0b34-7bc16630-{n:08x}"


def sentence(number=1):
    ids = {"patient_id": PATIENT, "study_id": STUDY, "image_id": f"{dicom()}.dcm", "row_id": f"{STUDY}|{number}"}
    return ids | {"sentence": f"Sentence {number}."}


def attribute(number=1):
    said = {"bbox": "left lung", "relation": "1", "label_name": "lung opacity", "categoryID": "anatomicalfinding"}
    return sentence(number) | said | {"context": "yes"}


def comparison(number=1):
    said = {"bbox": "left lung", "label_name": "pleural effusion", "comparison": "no change;;improved"}
    ids = {"patient_id": PATIENT, "current_image_id": dicom(1), "previous_image_id": dicom(0)}
    return ids | said | {"sentence": f"Less\neffusion {number}."}


def found_box(number=1, corners=(1300, 200, 2300, 2100), n=0):
    return {"image_id": f"{dicom(n)}.dcm", "bbox_name": f"box {number}"} | dict(zip(CORNERS, corners, strict=True))


def scaling(number=1):
    return {"image_id": f"{dicom(number)}.dcm", "top": 0, "bottom": 0, "left": 18, "right": 19, "ratio": 0.0733}


ROWS = {
    "all_sentences": sentence,
    "attributes": attribute,
    "comparisons": comparison,
    "automatic_boxes": found_box,
    "scaling": scaling,
}
COLUMNS = [(kind, column) for kind, row in ROWS.items() for column in row()]


def read(root: Path, kind: str):
    return getattr(chest_imagenome, f"read_{kind}")(root)


def write(root: Path, kind: str, rows) -> Path:
    """The file as pandas writes it, with a column that no reader reads."""
    path = root / chest_imagenome.FILES[kind]
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).assign(other="").to_csv(path, sep="\t" if path.suffix == ".txt" else ",", index=False)
    return path


def fault(path: Path, kind: str, **place) -> str:
    """The message of the InputError that reading raises; `place` is the row and column that it names."""
    with pytest.raises(InputError) as error:
        read(path.parents[1], kind)
    expected = {"where": str(path), "row": None, "column": None} | place
    assert {key: getattr(error.value, key) for key in expected} == expected
    assert "PhysioNet" in error.value.action
    return str(error.value)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("all_sentences", [{}, {"image_id": dicom(1)}]),
        ("comparisons", [{}, {"previous_image_id": f"{dicom(2)}.dcm", "comparison": "worsened"}]),
        ("attributes", [{"bbox": "unknown", "context": "no"}, *({"relation": value} for value in ("0", "0.0", "1.0"))]),
    ],
)
def test_a_table_of_sentences_is_read_as_text_in_the_order_of_the_columns(tmp_path, kind, changes):
    rows = [ROWS[kind](number) | change for number, change in enumerate(changes)]
    write(tmp_path, kind, [dict(reversed(row.items())) for row in rows])
    table = read(tmp_path, kind)
    assert table.column_names == list(rows[0])
    assert set(map(str, table.schema.types)) == {"string"}
    assert table.to_pylist() == [{name: cell.removesuffix(".dcm") for name, cell in row.items()} for row in rows]


def test_scaling(tmp_path):
    write(tmp_path, "scaling", [scaling(1), scaling(2) | {"top": 3, "ratio": 1}])
    expected = {dicom(1): (0, 0, 18, 19, 0.0733), dicom(2): (3, 0, 18, 19, 1)}
    assert read(tmp_path, "scaling") == {image: chest_imagenome.Scaling(*row) for image, row in expected.items()}


def test_an_image_in_which_nothing_was_found_has_no_boxes(tmp_path):
    outside = [(-30, 10, -2, 90), (10, -30, 90, -1), (-30, 90, -2, 10)]
    rows = [found_box(1, (-12.5, 190, 1200, 0)) | {"original_y1": -7}, found_box(2) | NOT_FOUND]
    write(tmp_path, "automatic_boxes", rows + [found_box(n, box, 1) for n, box in enumerate(outside)])
    assert read(tmp_path, "automatic_boxes") == {dicom(): {"box 1": (-12.5, -7, 1200, 0)}, dicom(1): {}}


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n\t"|'), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.lists(TEXT.filter(str.strip), min_size=1, max_size=5))
def test_any_text_that_pandas_writes_is_read_back(tmp_path, texts):
    write(tmp_path, "attributes", [attribute(number) | {"sentence": text} for number, text in enumerate(texts)])
    assert read(tmp_path, "attributes")["sentence"].to_pylist() == [text.strip() for text in texts]


WHOLE = st.integers(-300, 300)
BOX = st.tuples(WHOLE, WHOLE, WHOLE, WHOLE).filter(lambda box: box[0] <= box[2] and box[1] <= box[3])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(BOX | st.none(), min_size=1, max_size=5))
def test_exactly_the_boxes_with_a_place_in_the_image_are_kept(tmp_path, boxes):
    """By pandas: those that have coordinates, and end at or beyond the first column and row."""
    path = write(tmp_path, "automatic_boxes", [found_box(n, box or ("",) * 4) for n, box in enumerate(boxes)])
    frame = pd.read_csv(path, sep="\t").drop(columns="other").dropna()
    frame = frame[(frame["original_x2"] >= 0) & (frame["original_y2"] >= 0)]
    expected = dict(zip(frame["bbox_name"], frame[list(CORNERS)].itertuples(index=False, name=None), strict=True))
    assert read(tmp_path, "automatic_boxes") == {dicom(): expected}


def test_the_synthetic_files_are_read_and_agree_with_the_gold_rows(phantom_wrong_lung_roots):
    root = phantom_wrong_lung_roots["chest_imagenome"]
    assert set(chest_imagenome.label_files(root)) == set(chest_imagenome.FILES)
    anatomy, found = chest_imagenome.read_anatomy(root), read(root, "automatic_boxes")
    assert set(anatomy) == set(read(root, "scaling")) == set(found)
    assert all(len(anatomy[image]) - len(boxes) in (1, 2) for image, boxes in found.items())
    rows = {
        (row["row_id"], row["bbox"], row["label_name"], row["context"]) for row in read(root, "attributes").to_pylist()
    }
    gold = {
        (one.id, said.box, said.label, said.context) for one in chest_imagenome.read_gold(root) for said in one.mentions
    }
    assert gold < rows
    assert {box for _, box, *_ in rows - gold} == {"unknown", "left chest wall", "right chest wall"}
    for row in read(root, "comparisons").to_pylist():
        assert row["comparison"] == "no change"
        assert all(row["bbox"] in anatomy[row[f"{when}_image_id"]] for when in ("current", "previous"))


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "column"), COLUMNS)
def test_a_column_that_is_missing_or_blank_is_named(tmp_path, kind, column):
    path = write(tmp_path, kind, [ROWS[kind](1), ROWS[kind](2) | {column: " "}])
    assert "is blank" in fault(path, kind, row=2, column=column)
    write(tmp_path, kind, pd.DataFrame([ROWS[kind](1)]).drop(columns=column))
    assert "is missing" in fault(path, kind, column=column)


@pytest.mark.parametrize(
    ("kind", "change", "column", "words"),
    [
        ("all_sentences", {"patient_id": "p10000032"}, "patient_id", "8 digits"),
        ("all_sentences", {"image_id": "x"}, "image_id", "hexadecimal"),
        ("comparisons", {"patient_id": "x"}, "patient_id", "8 digits"),
        ("comparisons", {"current_image_id": "now"}, "current_image_id", "hexadecimal"),
        ("comparisons", {"previous_image_id": "before.dcm"}, "previous_image_id", "hexadecimal"),
        ("attributes", {"context": "maybe"}, "context", "yes or no"),
        ("attributes", {"context": "Yes"}, "context", "'Yes'"),
        ("attributes", {"context": "no, yes"}, "context", "yes or no"),
        ("attributes", {"relation": 2}, "relation", "0 or 1"),
        ("attributes", {"relation": "1.00"}, "relation", "0 or 1"),
        ("attributes", {"study_id": "../50414267"}, "study_id", "8 digits"),
        ("attributes", {"image_id": "image.dcm"}, "image_id", "hexadecimal"),
        ("automatic_boxes", {"image_id": "image.dcm"}, "image_id", "hexadecimal"),
        ("automatic_boxes", {"bbox_name": "box 1"}, "bbox_name", "'box 1' again"),
        ("automatic_boxes", {"bbox_name": "box 1"} | NOT_FOUND, "bbox_name", "'box 1' again"),
        ("automatic_boxes", NOT_FOUND | {"original_y2": 9}, "original_x1", "is blank"),
        ("automatic_boxes", {"original_x1": "many"}, "original_x1", "a number"),
        ("automatic_boxes", {"original_x1": "inf"}, "original_x1", "a number"),
        ("automatic_boxes", {"original_x1": 2301}, "original_x1 to original_y2", "ends before it begins"),
        ("automatic_boxes", {"original_y1": 2101}, "original_x1 to original_y2", "ends before it begins"),
        ("automatic_boxes", {"original_x2": -1}, "original_x1 to original_y2", "ends before it begins"),
        ("automatic_boxes", {"original_y2": -1}, "original_x1 to original_y2", "ends before it begins"),
        ("scaling", {"image_id": "x"}, "image_id", "hexadecimal"),
        ("scaling", {"image_id": dicom(1)}, "image_id", "repeats row 1"),
        ("scaling", {"ratio": 0}, "ratio", "above 0"),
        ("scaling", {"left": "many"}, "left", "a number"),
    ],
)
def test_a_fault_of_a_cell_is_named(tmp_path, kind, change, column, words):
    path = write(tmp_path, kind, [ROWS[kind](1), ROWS[kind](2) | change])
    assert words in fault(path, kind, row=2, column=column)


def test_a_name_that_was_not_found_before_is_a_name_again(tmp_path):
    path = write(tmp_path, "automatic_boxes", [found_box() | NOT_FOUND, found_box()])
    assert "'box 1' again" in fault(path, "automatic_boxes", row=2, column="bbox_name")


@pytest.mark.parametrize("kind", ROWS)
def test_a_file_of_another_form_and_one_that_is_missing_are_named(tmp_path, kind):
    path = write(tmp_path, kind, [ROWS[kind](1)])
    path.write_text(path.read_text().replace("\t", ";").replace(",", ";"))
    assert "are not separated by" in fault(path, kind)
    path.unlink()
    for needed in chest_imagenome.REQUIRED:
        (tmp_path / chest_imagenome.FILES[needed]).touch()
    assert set(chest_imagenome.label_files(tmp_path)) == set(chest_imagenome.REQUIRED)
    with pytest.raises(InputError, match=f"holds no {chest_imagenome.FILES[kind]}\n"):
        read(tmp_path, kind)
