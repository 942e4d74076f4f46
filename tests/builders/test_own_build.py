"""A build from a table of one's own: each row becomes a row, or the build names row, column and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from medfaith.builders import own
from medfaith.builders.benchmark import Repository, Request
from medfaith.builders.own.mapping import SHIPPED
from medfaith.builders.parallel import Workers
from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import images as phantom_images
from medfaith.loaders.phantom import slake, vqa_rad
from medfaith.loaders.phantom import table as phantom_table
from medfaith.tasks import controls
from tests.support.builders.files import rows_of
from tests.support.tiers import choose_size

SIZE = (8, 6)  # width, height
MASK = np.zeros((6, 8), dtype=bool)
MASK[1:4, 2:5] = True
ROW = {"image": "a.png", "question": "Is there edema?", "answer": "yes"}


def write_table(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a table, and images of SIZE with the names that its rows may use."""
    images = folder / "images"
    (images / "sub").mkdir(parents=True, exist_ok=True)
    for name in ("a.png", "b.png", "sub/c.png", "image.jpg", "gr\N{LATIN SMALL LETTER O WITH DIAERESIS}.png"):
        Image.new("L", SIZE, 128).save(images / name)
    Image.fromarray(MASK).save(images / "mask.png")
    Image.new("L", (4, 4), 255).save(images / "small.png")
    (images / "text.png").write_text("no image")
    (images / "detection.json").write_text(json.dumps([{"Heart": [2, 1, 3, 3]}, {"Lung": [0, 0, 1, 1]}]))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return images


def build(folder: Path, rows: list[dict[str, Any]], mapping: str = "") -> list[dict[str, Any]]:
    """Make the rows of a table, with a mapping in TOML, and return those of `test`. Nothing is written."""
    splits = make(folder, rows, mapping).splits
    tables = {split.name: cast(pa.Table, split.make()) for split in splits}
    assert [problem for table in tables.values() for problem in own.FAMILY.find_violations(table)] == []
    return tables["test"].to_pylist()


def make(folder: Path, rows: list[dict[str, Any]], mapping: str) -> Repository:
    images = write_table(folder, rows)
    path = folder / "mapping.toml"
    path.write_text(mapping)
    roots = {"table": folder / "rows.jsonl", "images": images}
    options = own.Options(str(path) if mapping else None)
    (repository,) = own.make(Request(roots, (), (own.CONFIG,), 0, options, Workers()))
    return repository


KINDS = {
    "yes": ({"answer": "Yes."}, ("yes_no", ["Yes", "No"], 0, ["Yes"])),
    "no": ({"answer": "NO"}, ("yes_no", ["Yes", "No"], 1, ["No"])),
    "truth value": ({"answer": True}, ("yes_no", ["Yes", "No"], 0, ["Yes"])),
    "a letter": ({"options": "edema|mass", "answer": "b"}, ("choice", ["edema", "mass"], 1, ["mass"])),
    "a letter in brackets": ({"options": ["x", "y"], "answer": "(A)"}, ("choice", ["x", "y"], 0, ["x"])),
    "text before letter": ({"options": ["b", "a"], "answer": "A"}, ("choice", ["b", "a"], 1, ["a"])),
    "an object": ({"options": {"B": "y", "A": "x"}, "answer": "B"}, ("choice", ["x", "y"], 1, ["y"])),
    "an object of Python's": ({"options": "{'A': 'x', 'B': 'y'}", "answer": "B"}, ("choice", ["x", "y"], 1, ["y"])),
    "a list of Python's": ({"options": "['x', \"y's\"]", "answer": "['x']"}, ("choice", ["x", "y's"], 0, ["x"])),
    "answers in brackets": ({"answer": "[redacted] mass"}, ("open", [], -1, ["[redacted] mass"])),
    "blank options at the end": ({"options": ["x", "y", ""], "answer": "B"}, ("choice", ["x", "y"], 1, ["y"])),
    "letters of its own": ({"options": "A. x|B) y", "answer": "B"}, ("choice", ["x", "y"], 1, ["y"])),
    "a lettered answer": ({"options": ["(a) x", "(b) y"], "answer": "B. y"}, ("choice", ["x", "y"], 1, ["y"])),
    "abbreviations": (
        {"options": "E. coli|C. albicans", "answer": "B"},
        ("choice", ["E. coli", "C. albicans"], 1, ["C. albicans"]),
    ),
    "yes as option": ({"options": ["yes", "no"], "answer": "no"}, ("choice", ["yes", "no"], 1, ["no"])),
    "words": ({"answer": "left lung"}, ("open", [], -1, ["left lung"])),
    "several": ({"answer": ["CT", "scan", "CT"]}, ("open", [], -1, ["CT", "scan"])),
    "a number": ({"answer": 3.0}, ("open", [], -1, ["3"])),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_a_question(name, tmp_path):
    columns, expected = KINDS[name]
    mapping = 'values.answer = { true = "yes" }' if name == "truth value" else ""
    (row,) = build(tmp_path, [ROW | columns], mapping)
    assert tuple(row[column] for column in ("kind", "options", "answer", "gold")) == expected


REGIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a box": ({"boxes": [2, 1, 3, 3]}, ""),
    "a box as text": ({"boxes": "[[2, 1, 3, 3]]"}, ""),
    "two boxes": ({"boxes": [[2, 1, 2, 3], [3, 1, 2, 3]]}, ""),
    "labelled": ({"boxes": [{"label": "heart", "xywh": [2, 1, 3, 3]}]}, ""),
    "corners": ({"boxes": [2, 1, 5, 4]}, 'boxes_form = "xyxy"'),
    "corners by their key": ({"boxes": [{"xyxy": [2, 1, 5, 4]}]}, ""),
    "fractions by their key": ({"boxes": [{"xyxy": [0.25, 1 / 6, 0.625, 4 / 6]}]}, 'boxes_form = "xywh_relative"'),
    "fractions": ({"boxes": [0.25, 1 / 6, 0.375, 0.5]}, 'boxes_form = "xywh_relative"'),
    "corners as fractions": ({"boxes": [0.25, 1 / 6, 0.625, 4 / 6]}, 'boxes_form = "xyxy_relative"'),
    "rle": ({"mask": rle.encode(MASK)}, ""),
    "rle as text": ({"mask": json.dumps(rle.encode(MASK))}, ""),
    "polygons": ({"mask": [[2, 1, 5, 1, 5, 4, 2, 4]]}, ""),
    "a polygon": ({"mask": "[2, 1, 5, 1, 5, 4, 2, 4]"}, ""),
    "a png": ({"mask": "mask.png"}, ""),
    "a mask before boxes": ({"mask": "mask.png", "boxes": [0, 0, 1, 1]}, ""),
    "a file of boxes": ({"question": "Is the heart large?"}, 'boxes_file = "detection.json"'),
    "a file by its path": ({"question": "Is the heart large?", "f": "detection"}, 'boxes_file = "{f}.json"'),
    "a file, by the answer": ({"question": "What?", "answer": "the heart"}, 'boxes_file = "detection.json"'),
}


@pytest.mark.parametrize("name", REGIONS)
def test_each_form_of_a_region_is_the_same(name, tmp_path):
    columns, mapping = REGIONS[name]
    (row,) = build(tmp_path, [ROW | columns], mapping)
    assert np.array_equal(rle.decode(row["region"]), MASK)


def test_a_row_without_a_region_and_an_empty_mask_have_none(tmp_path):
    empty = rle.encode(np.zeros_like(MASK))
    rows = build(tmp_path, [ROW, ROW | {"image": "b.png", "mask": empty}, ROW | {"image": "sub/c.png", "boxes": []}])
    assert [row["region"] for row in rows] == [None] * 3


def test_images_patients_and_splits(tmp_path):
    rows = [
        ROW | {"image": "a.png|sub/c.png", "split": "Test", "patient": 7},
        ROW | {"image": ["a.png", "b.png"], "split": "testing"},
        ROW | {"image": ".\\sub\\c.png", "split": "test"},
        ROW | {"image": str(tmp_path / "images" / "b.png"), "split": "test"},
        ROW | {"image": {"bytes": None, "path": "a.png"}, "split": "test"},
        ROW | {"image": "[{'bytes': None, 'path': 'sub/c.png'}]", "split": "test", "question": "Mass?"},
        ROW | {"split": "val"},
    ]
    built = build(tmp_path, rows)
    keys = [[reference["key"] for reference in row["images"]] for row in built]
    single_images = ["sub/c.png", "b.png", "a.png", "sub/c.png"]
    assert keys == [["a.png", "sub/c.png"], ["a.png", "b.png"], *([key] for key in single_images)]
    assert [row["patient_id"] for row in built] == ["7", "a.png", *single_images]
    assert [split.name for split in make(tmp_path, rows, "").splits] == ["validation", "test"]


def test_places_of_images_in_questions_are_removed(tmp_path):
    """The prompt has one for each image: another one would have no image."""
    (row,) = build(tmp_path, [ROW | {"question": "<image>\nIs there edema?"}])
    assert row["question"] == "Is there edema?"


def test_ids_do_not_depend_on_the_order_of_rows(tmp_path):
    rows = [ROW, ROW | {"image": "b.png"}]
    forward = {row["id"]: row["images"] for row in build(tmp_path, rows)}
    assert {row["id"]: row["images"] for row in build(tmp_path, rows[::-1])} == forward
    rows = build(tmp_path, [ROW | {"id": 5}, ROW | {"id": "x"}])
    assert [row["id"] for row in rows] == ["rows/test/5", "rows/test/x"]


CELLS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no question": ({"question": " "}, ["column 'question': is blank"]),
    "no answer": ({"answer": None}, ["column 'answer': is blank", "the right answer"]),
    "yes and no": ({"answer": ["yes", "no"]}, ["column 'answer': is both yes and no"]),
    "no image": ({"image": ""}, ["column 'image': is blank"]),
    "an absent image": ({"image": "z.png"}, ["column 'image'", "no such file", "correct the path"]),
    "no suffix": ({"image": "image"}, ["column 'image'", '"{COLUMN}.jpg"', "image.jpg is there"]),
    "another case": ({"image": "sub/C.PNG"}, ["column 'image'", "c.png is there, in another case"]),
    "another form of Unicode": (
        {"image": "gro\N{COMBINING DIAERESIS}.png"},
        ["gr\N{LATIN SMALL LETTER O WITH DIAERESIS}.png is there", "form of Unicode"],
    ),
    "another suffix": ({"image": "a.jpg"}, ["column 'image'", "write the name as that of the file: a.png is there"]),
    "a comma": ({"image": "a.png, b.png"}, ["column 'image'", 'separator = ","']),
    "bytes of an image": (
        {"image": {"bytes": "x", "path": "a.png"}},
        ["is {'bytes'", "save the images"],
    ),
    "a folder more": ({"image": "images/a.png"}, ["column 'image'", "what to do: pass --images "]),
    "a folder less": ({"image": "c.png"}, ["column 'image'", "--images", '"sub/{COLUMN}"']),
    "not below": ({"image": "../a.png"}, ["'../a.png' is no path below the folder of images"]),
    "absolute": ({"image": "/a.png"}, ["'/a.png' is no path below the folder of images"]),
    "no picture": ({"image": "text.png"}, ["column 'image'", "neither jpg, png nor DICOM"]),
    "one option": ({"options": "edema"}, ["column 'options'", "2 to 26 different options", "'|'"]),
    "equal options": ({"options": "A|a"}, ["column 'options'"]),
    "no such option": ({"options": "x|y", "answer": "z"}, ["'z' is no option", "its letter, A to B"]),
    "letters in another order": ({"options": "B. x|A. y", "answer": "A"}, ["'options': have the letters B, A", "sort"]),
    "a letter of another option": ({"options": "x|y", "answer": "A. y"}, ["'A. y' is no option"]),
    "no such letter": ({"options": "x|y", "answer": "C"}, ["'C' is no option"]),
    "a blank option": ({"options": "x||y", "answer": "B"}, ["column 'options': option B is blank"]),
    "other names": ({"options": {"1": "x", "2": "y"}, "answer": "x"}, ["have the names ['1', '2']", "letters A, B"]),
    "a place for an image": ({"options": ["<image>", "y"], "answer": "B"}, ["column 'options': hold <image>"]),
    "only a place for an image": ({"question": "<image>"}, ["column 'question': is blank"]),
    "a list of numpy": ({"answer": "['x' 'y']"}, ["column 'answer': \"['x' 'y']\" is no list that can be read"]),
    "two options": ({"options": "x|y", "answer": ["x", "y"]}, ["names 2 answers"]),
    "a split": ({"split": "fold1"}, ["column 'split': 'fold1'", 'values.split = { "fold1" = "test" }']),
    "no split": ({"split": ""}, ["column 'split': is blank"]),
    "no id": ({"id": ""}, ["column 'id': is blank"]),
    "a box outside": ({"boxes": [6, 1, 3, 3]}, ["column 'boxes'", "not inside of the image", "8 x 6", "boxes_form"]),
    "an empty box": ({"boxes": [1, 1, 0, 3]}, ["not inside of the image"]),
    "three numbers": ({"boxes": [1, 1, 3]}, ["is no box", "four numbers"]),
    "a number": ({"boxes": 5}, ["is no box"]),
    "a text for a number": ({"boxes": [1, "1", 3, 3]}, ["is no box", "four numbers"]),
    "true for a number": ({"boxes": [True, 1, 3, 3]}, ["is no box", "four numbers"]),
    "an integer above all floats": ({"boxes": [1, 1, 3, 10**400]}, ["is no box"]),
    "an integer of too many digits": ({"boxes": f"[1, 1, 3, {'1' * 5_000}]"}, ["is no JSON"]),
    "one number": ({"boxes": "5"}, ["is no box"]),
    "a table for a box": ({"boxes": {"label": "heart"}}, ["is no box"]),
    "words for a box": ({"boxes": "left"}, ["is no JSON"]),
    "NaN": ({"boxes": "[NaN, 1, 1, 1]"}, ["is no box"]),
    "fractions for pixels": ({"boxes": [0.1, 0, 0.5, 1]}, ["has fractions", '"xywh_relative" or "xyxy_relative" into']),
    "fractions of a polygon": ({"mask": [[0.1, 0.1, 0.5, 0.1, 0.5, 0.5]]}, ["column 'mask'", "have fractions"]),
    "a small mask": ({"mask": "small.png"}, ["column 'mask': has 4 x 4 pixels", "8 x 6 pixels"]),
    "an absent mask": ({"mask": "z.png"}, ["column 'mask': 'z.png' cannot be read"]),
    "no mask": ({"mask": {"size": [6, 8]}}, ["column 'mask': is no mask"]),
    "two images": ({"image": "a.png|b.png", "boxes": [1, 1, 1, 1]}, ["2 images and a region"]),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_that_cannot_be_read_is_named(name, tmp_path):
    columns, messages = CELLS[name]
    sound = ROW | {"image": "b.png"} | {column: "test" for column in columns if column in ("split", "id")}
    with pytest.raises(InputError) as error:
        build(tmp_path, [sound, ROW | columns])
    assert f"{tmp_path / 'rows.jsonl'}, row 2, column" in str(error.value)
    assert [message for message in messages if message not in str(error.value)] == []


def test_a_mask_above_the_limit_is_refused_before_its_pixels_are_read(tmp_path):
    (tmp_path / "images").mkdir()
    Image.new("1", (10_000, 8_001)).save(tmp_path / "images/huge.png")
    with pytest.raises(InputError, match=r"row 1, column 'mask': 'huge\.png' cannot be read \(it is too large\)"):
        build(tmp_path, [ROW | {"mask": "huge.png"}])


@pytest.mark.parametrize("content", ["[[2, 1, 3, 3]]", "5"])
def test_a_file_of_boxes_without_labels_is_named(content, tmp_path):
    (tmp_path / "images").mkdir()
    (path := tmp_path / "images/boxes.json").write_text(content)
    with pytest.raises(InputError, match=rf"(?s){path}: holds .*expected: a list of objects.*correct boxes_file"):
        build(tmp_path, [ROW], 'boxes_file = "boxes.json"')


def test_a_mapping_of_no_such_name_is_refused(tmp_path, capsys):
    images = write_table(tmp_path, [ROW])
    arguments = ["--table", str(tmp_path / "rows.jsonl"), "--images", str(images), "--mapping", "slaek"]
    assert main(["build", "own", *arguments, "--out", str(tmp_path / "out")]) == 2
    expected = "medfaith: --mapping slaek: there is no such file\n  expected: a TOML file, or one of slake, vqa-rad\n"
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "out").exists()


def test_a_table_of_blank_rows_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"rows\.jsonl: has blank rows only"):
        build(tmp_path, [dict.fromkeys(ROW, " ")] * 2)


def test_repeated_rows_are_named(tmp_path):
    with pytest.raises(InputError, match=r"row 2, column 'question': the row repeats row 1"):
        build(tmp_path, [ROW, ROW])
    with pytest.raises(InputError, match=r"row 2, column 'id': '1' repeats row 1(?s:.*)id = \"\""):
        build(tmp_path, [ROW | {"id": 1}, ROW | {"id": "1"}])


MAPPINGS = {
    "no TOML": ("[", "cannot be read as TOML"),
    "unknown": ('picture = "image"', "column 'picture': is no entry of a mapping"),
    "a number": ("image = 3", "column 'image': is 3"),
    "no such column": ('image = "{folder}/x.png"', "column 'image': the table has no column 'folder'"),
    "no such kept column": ('keep = { lang = "en" }', "column 'keep.lang': the table has no column 'lang'"),
    "nothing kept": ('keep = { answer = "maybe" }', "the mapping keeps no row"),
    "turned off": ('question = ""', "no column is named for the question"),
    "a form": ('boxes_form = "corners"', "column 'boxes_form': is 'corners'"),
    "a name": ('name = "a/b"', "column 'name': 'a/b'"),
    "a value": ("values.answer = { a = 1 }", "column 'values'"),
    "a field of values": ('values.colour = { a = "b" }', "column 'values'"),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_mapping_that_cannot_be_used_is_named(name, tmp_path):
    mapping, message = MAPPINGS[name]
    with pytest.raises(InputError) as error:
        build(tmp_path, [ROW], mapping)
    assert message in str(error.value)


def test_a_table_without_the_needed_columns_says_how_to_name_them(tmp_path):
    with pytest.raises(InputError, match=r'no column is named for the image(?s:.*)write image = "COLUMN"'):
        build(tmp_path, [{"picture": "a.png", "question": "?", "answer": "yes"}])


def test_truth_values_are_counted(tmp_path):
    """Excel writes TRUE for true. Such a question is open, unless a mapping says that it stands for yes."""
    rows = [ROW | {"answer": True}, ROW | {"image": "b.png", "answer": "FALSE"}, ROW | {"image": "sub/c.png"}]
    assert [*make(tmp_path, rows, "").skipped().values()] == [2]
    assert make(tmp_path, rows, 'values.answer = { true = "yes", FALSE = "no" }').skipped() == {}


def test_blank_rows_of_a_spreadsheet_are_no_questions(tmp_path):
    images = write_table(tmp_path, [])
    (table := tmp_path / "rows.csv").write_text(
        "sep=;\r\nimage;question;answer;;\r\na.png;Edema?;yes;;\r\n;;;;\r\nz.png;Q?;no;;\r\n"
    )
    request = Request({"table": table, "images": images}, (), (own.CONFIG,), 0, own.Options(None), Workers())
    with pytest.raises(InputError, match="row 3, column 'image'"):
        [*own.make(request)]
    Image.new("L", SIZE).save(images / "z.png")
    (repository,) = own.make(request)
    assert [cast(pa.Table, split.make()).num_rows for split in repository.splits] == [2]


def test_columns_of_other_names(tmp_path):
    mapping = """
name = "ours"
image = "{folder}/{file}.png"
question = "text"
options = ["o1", "o2", "o3"]
answer = "label"
values.answer = { 0 = "A", 1 = "B" }
keep = { lang = ["en", "fr"] }
"""
    record = {"folder": "sub", "file": "c", "text": "Which?", "o1": "x", "o2": "y", "o3": "", "label": 1, "lang": "en"}
    (row,) = build(tmp_path, [record, record | {"lang": "zh"}], mapping)
    assert (row["options"], row["answer"], row["images"][0]["key"]) == (["x", "y"], 1, "sub/c.png")
    assert row["id"].startswith("ours/test/")
    skipped = make(tmp_path, [record, record | {"lang": "zh"}], mapping).skipped
    assert skipped is not None
    assert skipped() == {"rows that the mapping does not keep": 1}


def test_rows_without_their_image_are_counted(tmp_path):
    rows = [ROW, *(ROW | {"image": name} for name in ("x.png", "b.png", "/y.png", "z.png")), ROW | {"answer": ""}]
    with pytest.raises(InputError, match=r"row 2, column 'image': .*looked for x\.png; 2 more rows have no such image"):
        build(tmp_path, rows)
    with pytest.raises(InputError, match=r"row 1, column 'answer': is blank\n"):
        build(tmp_path, rows[::-1])


@pytest.mark.parametrize("text", ["nan", "<NA>", "NULL", "None"])
def test_words_for_a_missing_value_are_blank(text, tmp_path):
    """pandas, databases and Excel write them: two images without a patient are not one patient's."""
    blank = dict.fromkeys(("patient", "topic", "anatomy", "mask", "boxes"), text)
    rows = build(tmp_path, [ROW | blank, ROW | blank | {"image": "b.png", "answer": "None"}])
    assert [row["patient_id"] for row in rows] == ["a.png", "b.png"]
    assert {(row["topic"], row["anatomy"], row["region"]) for row in rows} == {("", "", None)}
    assert rows[1]["gold"] == ["None"]
    options = 'options = ["o1", "o2", "o3"]'
    (row,) = build(tmp_path, [ROW | {"o1": "x", "o2": "y", "o3": "nan", "answer": "B"}], options)
    assert row["options"] == ["x", "y"]
    (row,) = build(tmp_path, [ROW | {"patient": text}], f'values.patient = {{ "{text}" = "p1" }}')
    assert row["patient_id"] == "p1"
    with pytest.raises(InputError, match="column 'answer': is blank"):
        build(tmp_path, [ROW | {"answer": "nan"}])


def test_columns_that_no_field_reads_are_named(tmp_path, capsys):
    build(tmp_path, [ROW | {"subject_id": 3, "Boxes": [1, 1, 2, 2]}])
    assert (
        capsys.readouterr().err == "rows.jsonl: no field reads these columns: subject_id (a mapping can: --mapping)\n"
    )
    build(tmp_path, [ROW | {"subject_id": 3}], 'patient = "subject_id"')
    assert capsys.readouterr().err == ""


def test_the_case_of_a_column_s_name_does_not_count(tmp_path):
    record = {"Image": "a.png", "QUESTION": "Edema?", "answer": "yes", "Patient": 7, "Topic": "x", "TOPIC": "y"}
    (row,) = build(tmp_path, [record])
    assert (row["patient_id"], row["topic"]) == ("7", "")


def write_public(name: str, folder: Path) -> tuple[list[str], Mapping[str, int]]:
    """Write a synthetic public data set; return the words of its build, and how many rows its files have, by split."""
    module = {"vqa-rad": vqa_rad, "slake": slake}[name]
    root = module.write(folder, seed=0, n=choose_size(16, module.N))
    if name == "vqa-rad":
        table, images = root / "VQA_RAD Dataset Public.json", root / "VQA_RAD Image Folder"
        phrases = [entry["phrase_type"].startswith("test") for entry in json.loads(table.read_text())]
        counts = {"rows/train": phrases.count(False), "rows/test": phrases.count(True)}
    else:
        table, images = root / "test.json", root / "imgs"
        counts = {"rows/test": sum(entry["q_lang"] == "en" for entry in json.loads(table.read_text()))}
    return ["--table", str(table), "--images", str(images), "--mapping", name], counts


@pytest.mark.parametrize("name", ["vqa-rad", "slake"])
def test_public_data_sets_are_built_by_their_shipped_mappings(name, tmp_path, capsys):
    arguments, counts = write_public(name, tmp_path / "phantom")
    assert len((SHIPPED / f"{name}.toml").read_text().splitlines()) <= 15
    assert main(["build", "own", *arguments, "--out", str(tmp_path / "out")]) == 0
    record = json.loads((tmp_path / "out" / "own-table" / "build.json").read_text())
    assert {key: split["rows"] for key, split in record["splits"].items()} == counts
    assert str(tmp_path) not in json.dumps(record)
    assert main(["verify", str(tmp_path / "out")]) == 0
    rows = rows_of(tmp_path / "out" / "own-table", "rows", "test")
    are_located = [row["region"] is not None for row in rows]
    assert any(are_located) == (name == "slake")
    assert not all(are_located)


def test_a_dry_run_counts_what_each_control_could_ask(tmp_path, capsys, monkeypatch):
    """Of twelve patients, nine have a finding, and so a mask; no question names a side."""
    counted = ("none", "occluded", "only_target", "flipped")  # the regular run counts no other control
    monkeypatch.setattr(
        controls, "CONTROLS", choose_size({name: controls.CONTROLS[name] for name in counted}, controls.CONTROLS)
    )
    roots = {"table": phantom_table.write(tmp_path / "t", seed=0, n=12)}
    roots["images"] = phantom_images.write(tmp_path / "i", seed=0, n=12)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    arguments = [word for source, root in roots.items() for word in (f"--{source}", str(root))]
    assert main(["build", "own", *arguments, "--dry-run"]) == 0
    lines = {line.split("  ")[0]: line.split()[-3:] for line in capsys.readouterr().out.splitlines()}
    assert lines["with the image"] == lines["none"] == ["21", "9", "12"]
    assert lines["occluded"] == lines["only_target"] == ["9", "9", "9"]
    assert lines["flipped"] == ["0", "0", "0"]
    assert not list((tmp_path / "empty").iterdir())
