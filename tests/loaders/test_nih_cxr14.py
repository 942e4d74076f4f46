"""NIH ChestX-ray14: its tables in every form they are handed out in, and what is refused."""

from __future__ import annotations

import gzip
import importlib.util
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders import images, nih_cxr14, sources
from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.phantom import nih_cxr14 as phantom

HEADER, BOX_HEADER = phantom.HEADER, phantom.BOX_HEADER
IMAGES = [
    "00000001_000.png,Cardiomegaly|Effusion,0,1,57,M,PA,2682,2749,0.143,0.143",
    "00000002_001.png,No Finding,1,2,30,F,AP,2500,2048,0.168,0.168",
]
BOX = "00000001_000.png,Infiltrate,225.084745762712,547.019216763771,86.7796610169491,79.1864406779661"


def read_boxes(path: Path, text: str):
    path.write_bytes(text.encode())
    return nih_cxr14.read_boxes(path, nih_cxr14.read_images(write_images(path.parent))["image_id"])


def write_images(folder: Path, rows=IMAGES, header: str = HEADER) -> Path:
    path = folder / "Data_Entry_2017.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_labels_have_patient_view_and_a_list_of_findings(tmp_path):
    table = nih_cxr14.read_images(write_images(tmp_path))
    assert table.to_pylist() == [
        {"image_id": "00000001_000.png", "patient": "00000001", "labels": ["Cardiomegaly", "Effusion"], "view": "PA"},
        {"image_id": "00000002_001.png", "patient": "00000002", "labels": [], "view": "AP"},
    ]


FORMS = {
    "official": lambda text: text,
    "rows with blank cells": lambda text: text.replace("9661\n", "9661,,,\n"),
    "rows with blanks": lambda text: text.replace("9661\n", "9661, , ,\r\n"),
    "header of six names": lambda text: text.replace("h],,,", "h]"),
    "header with quotes": lambda text: text.replace("Bbox [x,y,w,h]", '"Bbox [x,y,w,h]"'),
    "quotes around each name": lambda text: text.replace(BOX_HEADER, '"' + BOX_HEADER.replace(",", '","') + '"'),
    "byte order mark": lambda text: "\ufeff" + text,
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "no end of the last line": lambda text: text.rstrip("\n"),
    "blank lines at the end": lambda text: text + "\n\n",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_boxes_are_read_in_each_form(tmp_path, form):
    table = read_boxes(tmp_path / "BBox_List_2017.csv", FORMS[form](f"{BOX_HEADER}\n{BOX}\n{BOX}\n"))
    assert table.num_rows == 2
    box = table.to_pylist()[0]
    assert (box["image_id"], box["label"]) == ("00000001_000.png", "Infiltration")
    sides = [box[side] for side in ("x", "y", "width", "height")]
    assert sides == [225.084745762712, 547.019216763771, 86.7796610169491, 79.1864406779661]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (BOX.replace("Infiltrate", "Gout"), r"row 1, column 'Finding Label': 'Gout'"),
        (BOX.replace("00000001", "00000009"), "row 1, column 'Image Index': '00000009_000.png'"),
        (BOX.replace("86.7796610169491", "0"), "row 1, column 'w': 0"),
        (BOX.replace("225.0", "-225.0"), r"row 1, column 'Bbox \[x': -225"),
        (BOX.rpartition(",")[0], "row 1: the row has 5 cells"),
        (f"{BOX}\n{BOX},7", "row 2: the row has 7 cells"),
        (BOX.replace(",547", ',"547'), "row"),
        ("\n".join([BOX, BOX.replace("Infil", '"Infil'), BOX, BOX.replace("Infil", '"Infil'), BOX]), "row 2"),
        (BOX.replace(".png", ".jpg"), "expected: a name such as 00000001_000.png"),
        (BOX.replace(",", ";"), "row"),
    ],
)
def test_odd_boxes_are_refused_with_their_row(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_boxes(tmp_path / "BBox_List_2017.csv", f"{BOX_HEADER}\n{rows}\n")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (IMAGES[0].replace("Effusion", "Gout"), "row 2, column 'Finding Labels'"),
        (IMAGES[0].replace("Effusion", "No Finding"), "row 2, column 'Finding Labels'"),
        (IMAGES[0].replace("PA", "LL"), "row 2, column 'View Position'"),
        (IMAGES[0].replace(",0,1,", ",0,7,"), "row 2, column 'Patient ID'"),
        (IMAGES[1], "row 2, column 'Image Index': '00000002_001.png' repeats row 1"),
        (f'"{IMAGES[0]}', "row 2: the row has 1 cells"),
    ],
)
def test_odd_labels_are_refused_with_their_row(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        nih_cxr14.read_images(write_images(tmp_path, [IMAGES[1], row]))


def test_the_release_of_2017_has_one_more_comma_in_each_line(tmp_path):
    table = nih_cxr14.read_images(write_images(tmp_path, [f"{row}," for row in IMAGES], f"{HEADER},"))
    assert table.num_rows == len(IMAGES)


def test_a_list_names_images_once(tmp_path):
    image_ids = nih_cxr14.read_images(write_images(tmp_path))["image_id"]
    (path := tmp_path / "test_list.txt").write_text("\ufeff00000002_001.png\r\n00000001_000.png")
    assert nih_cxr14.read_list(path, image_ids) == ["00000002_001.png", "00000001_000.png"]
    for text, message in (
        ("00000002_001.png\n00000002_001.png\n", "repeats row 1"),
        ("00000003_001.png\n", "row 1, column 'image'"),
        ("", "is empty"),
        ("00000002_001.png,00000001_000.png\n", "cells"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            nih_cxr14.read_list(path, image_ids)


@given(st.lists(st.sampled_from(sorted(nih_cxr14.BOX_LABELS)), min_size=1, max_size=20), st.sampled_from(sorted(FORMS)))
def test_no_box_is_lost_in_any_form(tmp_path_factory, labels, form):
    """The count of boxes is the count of lines."""
    folder = tmp_path_factory.mktemp("boxes")
    rows = [BOX.replace("Infiltrate", label) for label in labels]
    table = read_boxes(folder / "BBox_List_2017.csv", FORMS[form]("\n".join([BOX_HEADER, *rows]) + "\n"))
    assert table["label"].to_pylist() == [nih_cxr14.BOX_LABELS[label] for label in labels]


@pytest.mark.full  # the phantom's tables: the tests before; the real ones of another source: test_chexpert.py
@pytest.mark.skipif(importlib.util.find_spec("torchxrayvision") is None, reason="needs the extra labels")
def test_the_real_tables_are_read_to_their_end():
    """torchxrayvision carries both tables."""
    folder = sources.find_package_data(sources.source("vindr_cxr"))
    table = nih_cxr14.read_images(folder / "Data_Entry_2017_v2020.csv.gz")
    assert (table.num_rows, len(set(table["patient"].to_pylist()))) == (112_120, 30_805)
    boxes = nih_cxr14.read_boxes(folder / "BBox_List_2017.csv.gz", table["image_id"])
    assert Counter(boxes["label"].to_pylist()) == {
        "Atelectasis": 180, "Effusion": 153, "Cardiomegaly": 146, "Infiltration": 123, "Pneumonia": 120,
        "Pneumothorax": 98, "Mass": 85, "Nodule": 79,
    }  # fmt: skip
    assert len(set(boxes["image_id"].to_pylist())) == 880


# --- folders ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_release(tmp_path_factory) -> Path:
    return phantom.write(tmp_path_factory.mktemp("small") / "nih", seed=0, n_train=2, n_test=4)


@pytest.fixture
def root(small_release, tmp_path) -> Path:
    """A copy for a test to change."""
    return Path(shutil.copytree(small_release, tmp_path / "nih"))


def rename(name: str, target: str):
    def change(root: Path) -> None:
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / name).rename(root / target)

    return change


def pack(root: Path) -> None:
    data = (root / "BBox_List_2017.csv").read_bytes()
    (root / "BBox_List_2017.csv.gz").write_bytes(gzip.compress(data))
    (root / "BBox_List_2017.csv").unlink()


@pytest.mark.parametrize(
    "change",
    [
        rename("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv"),
        rename("images", "images_007/images"),
        rename("images", "images_012"),
        rename("images", "images/images"),
        rename("images", "CXR8/images"),
        rename("BBox_List_2017.csv", "CXR8/BBox_List_2017.csv"),
        lambda root: [shutil.move(path, root) for path in (root / "images").iterdir()],
        pack,
    ],
    ids=["2017", "Kaggle", "without images/", "twice nested", "in CXR8", "boxes in CXR8", "one folder", "gz"],
)
def test_layouts_of_a_copy_are_read(root, change):
    if (root / "images").exists():
        shutil.copytree(root / "images", root.parent / "kept")
    _rename_through(root, change)
    paths = nih_cxr14.find_label_files(root)
    table = nih_cxr14.read_images(paths["images"])
    assert table.num_rows == 6
    assert nih_cxr14.read_boxes(paths["boxes"], table["image_id"]).num_rows == count_boxes()
    assert len(nih_cxr14.read_list(paths["test"], table["image_id"])) == 4
    for image_id in table["image_id"].to_pylist():
        size = images.read_image_size({"source": "nih_cxr14", "key": f"images/{image_id}"}, {"nih_cxr14": root})
        assert min(size) > 100


def _rename_through(root: Path, change) -> None:
    """Apply a change that may move a folder below itself."""
    try:
        change(root)
    except OSError:
        (root / "images").rename(root / "moved")
        (root / "images").mkdir()
        (root / "moved").rename(root / "images/images")


def count_boxes() -> int:
    return sum(len(study.image.findings) for study in phantom.plan(0, 2, 4)["test"] if study.is_boxed)


@pytest.mark.parametrize(
    ("name", "replacement", "message"),
    [
        ("BBox_List_2017.csv", None, "holds no BBox_List_2017.csv"),
        ("test_list.txt", None, "holds no test_list.txt"),
        ("Data_Entry_2017_v2020.csv", None, "holds no Data_Entry_2017_v2020.csv or Data_Entry_2017.csv"),
        ("BBox_List_2017.csv", "zip", r"BBox_List_2017.csv.zip: is packed[\s\S]*unpack it"),
        ("BBox_List_2017.csv", "folder", "is a folder"),
        ("test_list.txt", "link", "is a link to nothing"),
    ],
)
def test_a_missing_or_packed_file_is_named(root, name, replacement, message):
    path = root / name
    path.unlink()
    if replacement == "zip":
        path.with_name(f"{name}.zip").write_bytes(b"PK")
    elif replacement == "folder":
        path.mkdir()
    elif replacement == "link":
        path.symlink_to(root / "nowhere")
    with pytest.raises(InputError, match=message):
        nih_cxr14.find_label_files(root)


def test_a_label_file_names_its_folder_and_a_missing_image_is_an_error(root):
    file = root / "Data_Entry_2017_v2020.csv"
    assert nih_cxr14.find_label_files(file) == nih_cxr14.find_label_files(root)
    with pytest.raises(ImageError, match=r"images_003/images/99999999_000\.png"):
        images.locate({"source": "nih_cxr14", "key": "images/99999999_000.png"}, {"nih_cxr14": root})
