"""The files of Chest ImaGenome's gold dataset that no row needs: sentences, attributes, comparisons, detected boxes."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medfaith.loaders import chest_imagenome
from medfaith.loaders.errors import InputError

SENTENCES = "gold_all_sentences_500pts_1000studies.txt"
ATTRIBUTES = "gold_attributes_relations_500pts_500studies1st.txt"
COMPARISONS = "gold_object_comparison_with_coordinates.txt"
AUTOMATIC = "auto_bbox_pipeline_coordinates_1000_images.txt"
READERS = {
    SENTENCES: chest_imagenome.read_all_sentences,
    ATTRIBUTES: chest_imagenome.read_attributes,
    COMPARISONS: chest_imagenome.read_comparisons,
    AUTOMATIC: chest_imagenome.read_automatic_boxes,
}
PATIENT, STUDY = "10000032", "50414267"
COMPARED = ("patient_id", "current_image_id", "previous_image_id", "bbox", "label_name", "comparison", "sentence")
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")


def dicom(n: int = 0) -> str:
    return f"02aa804e-bde0afdd-112c0b34-7bc16630-{n:08x}"


def sentence(number=1, **other):
    ids = {"patient_id": PATIENT, "study_id": STUDY, "image_id": f"{dicom()}.dcm", "row_id": f"{STUDY}|{number}"}
    return ids | {"sentence": f"Sentence {number}."} | other


def attribute(number=1, box="left lung", **other):
    said = {"bbox": box, "relation": 1, "label_name": "lung opacity", "categoryID": "anatomicalfinding"}
    return sentence(number) | said | {"context": "yes"} | other


def comparison(number=1, **other):
    """With all columns that the release has."""
    now, before = dicom(1), dicom(0)
    return {
        "patient_id": PATIENT,
        "relationship_id": f"{STUDY}|{number}|left lung",
        "subject_id": f"{now}_left lung",
        "object_id": f"{before}_left lung",
        "bbox": "left lung",
        "comparison": "no change;;improved",
        "attribute": "anatomicalfinding|yes|pleural effusion",
        "sentence": f"Less\neffusion {number}.",
        "bbox_coord_224_subject": "[1, 2, 30, 40]",
        "bbox_coord_224_object": "[2, 2, 31, 40]",
        "bbox_coord_original_subject": "[10, 20, 300, 400]",
        "bbox_coord_original_object": "[20, 20, 310, 400]",
        "label_name": "pleural effusion",
        "current_image_id": now,
        "previous_image_id": before,
    } | other


def found_box(box="left lung", corners=(1300, 200, 2300, 2100), n=0, **other):
    return {"image_id": f"{dicom(n)}.dcm", "bbox_name": box} | dict(zip(CORNERS, corners, strict=True)) | other


ROWS = {SENTENCES: sentence, ATTRIBUTES: attribute, COMPARISONS: comparison}


def pair(name):
    """Two rows of a file."""
    return [found_box(), found_box("trachea")] if name == AUTOMATIC else [ROWS[name](1), ROWS[name](2)]


def write(root: Path, name: str, rows, **options) -> Path:
    path = root / "gold_dataset" / name
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(path, sep="\t", index=False, **options)
    return path


def fault(root, name, **place) -> str:
    """The message of the InputError that reading raises; `place` is the row and column that it names."""
    with pytest.raises(InputError) as error:
        READERS[name](root)
    expected = {"where": str(root / "gold_dataset" / name), "row": None, "column": None} | place
    assert {key: getattr(error.value, key) for key in expected} == expected
    assert "PhysioNet" in error.value.action
    return str(error.value)


# --- what is read -----------------------------------------------------------------------------------------------------


def test_all_sentences(tmp_path):
    write(tmp_path, SENTENCES, pair(SENTENCES))
    table = chest_imagenome.read_all_sentences(tmp_path)
    assert table.to_pylist() == [sentence(number, image_id=dicom()) for number in (1, 2)]


def test_comparisons_are_read_from_the_columns_of_the_release(tmp_path):
    write(tmp_path, COMPARISONS, [comparison(1), comparison(2, previous_image_id=f"{dicom(0)}.dcm")])
    expected = [{name: comparison(number)[name] for name in COMPARED} for number in (1, 2)]
    assert chest_imagenome.read_comparisons(tmp_path).to_pylist() == expected


def test_attributes_have_rows_without_a_box(tmp_path):
    rows = [
        attribute(1),
        attribute(1, "left chest wall", label_name="rib fracture", context="no", relation="0.0"),
        attribute(2, "unknown", label_name="normal", categoryID="nlp", relation="1.0"),
    ]
    write(tmp_path, ATTRIBUTES, [row | {"section": "finalreport"} for row in rows])
    table = chest_imagenome.read_attributes(tmp_path)
    assert table.to_pylist() == [row | {"image_id": dicom(), "relation": str(row["relation"])} for row in rows]
    assert set(map(str, table.schema.types)) == {"string"}


def test_automatic_boxes_are_those_that_were_found(tmp_path):
    rows = [
        found_box("right lung", (-12.5, 190, 1200, 2000)),
        found_box("left lung", ("",) * 4),
        found_box("trachea", (0, 0, 0, 0)),
        found_box("spine", (-30, 10, -2, 90)),
        found_box("carina", (10, -30, 90, -1)),
        found_box("svc", (10, -30, 90, 0)),
        found_box("left lung", ("",) * 4, n=1),
    ]
    write(tmp_path, AUTOMATIC, [row | {"original_width": 2544, "note": ""} for row in rows])
    assert chest_imagenome.read_automatic_boxes(tmp_path) == {
        dicom(): {"right lung": (-12.5, 190, 1200, 2000), "trachea": (0, 0, 0, 0), "svc": (10, -30, 90, 0)},
        dicom(1): {},
    }


@pytest.mark.parametrize("name", READERS)
def test_the_header_decides_which_column_is_which(tmp_path, name):
    write(tmp_path, name, pair(name))
    expected = READERS[name](tmp_path)
    write(tmp_path, name, pair(name), columns=list(pair(name)[0])[::-1])
    assert READERS[name](tmp_path) == expected


@pytest.mark.parametrize(
    "change",
    [lambda data: b"\xef\xbb\xbf" + data, lambda data: data.replace(b"\n", b"\r\n"), lambda data: data.rstrip(b"\n")],
    ids=["a byte order mark", "lines of Windows", "no last end of line"],
)
@pytest.mark.parametrize("name", [name for name in READERS if name != COMPARISONS])  # its sentences have line ends
def test_what_editors_change_does_not_matter(tmp_path, name, change):
    path = write(tmp_path, name, pair(name))
    expected = READERS[name](tmp_path)
    path.write_bytes(change(path.read_bytes()))
    assert READERS[name](tmp_path) == expected


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n\t"|'), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(TEXT.filter(str.strip), min_size=1, max_size=5))
def test_any_text_that_pandas_writes_is_read_back(tmp_path, texts):
    write(tmp_path, ATTRIBUTES, [attribute(number, sentence=text) for number, text in enumerate(texts)])
    assert chest_imagenome.read_attributes(tmp_path)["sentence"].to_pylist() == [text.strip() for text in texts]


WHOLE = st.integers(-300, 300)
BOX = st.tuples(WHOLE, WHOLE, WHOLE, WHOLE).filter(lambda box: box[0] <= box[2] and box[1] <= box[3])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.lists(BOX | st.none(), min_size=1, max_size=5))
def test_exactly_the_boxes_with_a_place_in_the_image_are_kept(tmp_path, boxes):
    """By pandas: those that have coordinates, and end at or beyond the first column and row."""
    path = write(tmp_path, AUTOMATIC, [found_box(str(n), box or ("",) * 4) for n, box in enumerate(boxes)])
    frame = pd.read_csv(path, sep="\t", dtype={"bbox_name": str}).dropna()
    frame = frame[(frame["original_x2"] >= 0) & (frame["original_y2"] >= 0)]
    expected = dict(zip(frame["bbox_name"], frame[list(CORNERS)].itertuples(index=False, name=None), strict=True))
    assert chest_imagenome.read_automatic_boxes(tmp_path) == {dicom(): expected}


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "column", "words"),
    [
        (SENTENCES, {"sentence": " "}, "sentence", "is blank"),
        (SENTENCES, {"row_id": ""}, "row_id", "is blank"),
        (SENTENCES, {"patient_id": "p10000032"}, "patient_id", "8 digits"),
        (COMPARISONS, {"comparison": ""}, "comparison", "is blank"),
        (COMPARISONS, {"current_image_id": "now"}, "current_image_id", "hexadecimal"),
        (COMPARISONS, {"previous_image_id": "before.dcm"}, "previous_image_id", "hexadecimal"),
        (ATTRIBUTES, {"context": "maybe"}, "context", "yes or no"),
        (ATTRIBUTES, {"context": "Yes"}, "context", "'Yes'"),
        (ATTRIBUTES, {"context": ""}, "context", "is blank"),
        (ATTRIBUTES, {"relation": 2}, "relation", "0 or 1"),
        (ATTRIBUTES, {"bbox": ""}, "bbox", "is blank"),
        (ATTRIBUTES, {"label_name": ""}, "label_name", "is blank"),
        (ATTRIBUTES, {"categoryID": ""}, "categoryID", "is blank"),
        (ATTRIBUTES, {"study_id": "../50414267"}, "study_id", "8 digits"),
        (ATTRIBUTES, {"image_id": "image.dcm"}, "image_id", "hexadecimal"),
        (AUTOMATIC, {"image_id": "image.dcm"}, "image_id", "hexadecimal"),
        (AUTOMATIC, {"image_id": ""}, "image_id", "is blank"),
        (AUTOMATIC, {"bbox_name": ""}, "bbox_name", "is blank"),
        (AUTOMATIC, {"bbox_name": "left lung"}, "bbox_name", "'left lung' again"),
        (AUTOMATIC, {"bbox_name": "left lung"} | dict.fromkeys(CORNERS, ""), "bbox_name", "'left lung' again"),
        (AUTOMATIC, {"original_y2": ""}, "original_y2", "is blank"),
        (AUTOMATIC, {"original_x1": "many"}, "original_x1", "a number"),
        (AUTOMATIC, {"original_x1": "inf"}, "original_x1", "a number"),
        (AUTOMATIC, {"original_x1": 2300, "original_x2": 1300}, "original_x1 to original_y2", "ends before it begins"),
        (AUTOMATIC, {"original_y1": 2101}, "original_x1 to original_y2", "ends before it begins"),
    ],
)
def test_a_fault_of_a_cell_is_named(tmp_path, name, change, column, words):
    first, second = pair(name)
    write(tmp_path, name, [first, second | change])
    assert words in fault(tmp_path, name, row=2, column=column)


def test_a_name_that_was_not_found_before_is_a_name_again(tmp_path):
    write(tmp_path, AUTOMATIC, [found_box(corners=("",) * 4), found_box()])
    assert "'left lung' again" in fault(tmp_path, AUTOMATIC, row=2, column="bbox_name")


READ = {
    SENTENCES: list(sentence()),
    ATTRIBUTES: list(attribute()),
    COMPARISONS: list(COMPARED),
    AUTOMATIC: list(found_box()),
}


@pytest.mark.parametrize(("name", "column"), [(name, column) for name in READ for column in READ[name]])
def test_a_missing_column_is_named(tmp_path, name, column):
    rows = [{other: value for other, value in row.items() if other != column} for row in pair(name)]
    write(tmp_path, name, rows)
    assert "is missing" in fault(tmp_path, name, column=column)


def commas(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def test_commas_for_tabs_are_named(tmp_path):
    for name in READERS:
        commas(write(tmp_path, name, pair(name)))
        place, words = ({"column": "image_id"}, "is missing") if name == AUTOMATIC else ({}, "not parted by tabs")
        assert words in fault(tmp_path, name, **place)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.splitlines(keepends=True)[0], "a header and no rows"),
        (lambda text: text.rstrip("\n") + "\textra\n", "cells under a header|cannot be read"),
        (lambda text: text[: text.rindex("\t")], "cells under a header|cannot be read"),
        (lambda text: text.replace(text.splitlines()[-1], '"' + text.splitlines()[-1]), "cannot be read"),
        (lambda text: text.replace("trachea", "Lücke").replace("Sentence 2", "Lücke").encode("cp1252"), "utf-8|UTF-8"),
        (lambda text: "", "not parted by tabs|cannot be read"),
    ],
    ids=["no row", "a cell too many", "cut off", "a quote that does not end", "no UTF-8", "empty"],
)
@pytest.mark.parametrize("name", [SENTENCES, ATTRIBUTES, AUTOMATIC])
def test_a_file_that_is_no_table_is_refused(tmp_path, name, damage, words):
    path = write(tmp_path, name, pair(name))
    damaged = damage(path.read_text(encoding="utf-8"))
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(InputError, match=words) as error:
        READERS[name](tmp_path)
    assert error.value.where == str(path)
    assert "PhysioNet" in error.value.action


@pytest.mark.parametrize("read", [chest_imagenome.read_scaling, *READERS.values()], ids=lambda read: read.__name__)
def test_a_file_that_only_some_need_is_missed_when_it_is_read(tmp_path, read):
    for kind in chest_imagenome.REQUIRED:
        (tmp_path / chest_imagenome.FILES[kind]).parent.mkdir(exist_ok=True)
        (tmp_path / chest_imagenome.FILES[kind]).touch()
    assert set(chest_imagenome.label_files(tmp_path)) == {"gold", "anatomy"}
    with pytest.raises(InputError, match=r"holds no gold_dataset/(gold|auto)_\w+\.(txt|csv)\n"):
        read(tmp_path)
