"""The CheXpert reader: both layouts, real labels, and an error message for every fault of a file."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from medfaith.loaders import chexpert, sources
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault

HEADER = ",".join(("Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *chexpert.LABELS))
GOOD_PATH = "train/patient00001/study1/view1_frontal.jpg"


def format_row(path: str, labels: str = "", ap_pa: str = "AP", side: str = "Frontal") -> str:
    """Format a csv row with labels for Cardiomegaly, Edema and Pleural Effusion; the other labels are blank."""
    values = dict(zip(("Cardiomegaly", "Edema", "Pleural Effusion"), labels.split("/"), strict=False))
    return ",".join([path, "Female", "68", side, ap_pa, *(values.get(name, "") for name in chexpert.LABELS)])


def write(folder: Path, name: str, *rows: str, header: str = HEADER) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_the_validation_set_of_chexlocalize_has_the_keys_of_chexpert(tmp_path):
    key = "patient64541/study1/view1_frontal.jpg"
    path = write(tmp_path, "CheXpert/val_labels.csv", format_row(f"val/{key}"))
    assert chexpert.find_label_files(tmp_path) == chexpert.find_label_files(path) == {"validation": path}
    assert chexpert.read_labels(path, "validation")["key"].to_pylist() == [f"valid/{key}"]


@pytest.mark.parametrize("prefix", ["", "CheXpert-v1.0/", "CheXpert-v1.0-small/"])
def test_rows_are_the_same_for_every_prefix(tmp_path, prefix):
    keys = [f"train/patient00002/study10/view{view}.jpg" for view in ("1_frontal", "2_lateral")]
    rows = [
        format_row(prefix + key, "1.0/-1.0/0.0", *extra_columns)
        for key, extra_columns in zip(keys, ((), ("", "Lateral")), strict=True)
    ]
    table = chexpert.read_labels(write(tmp_path, "train.csv", *rows), "train")
    assert table["key"].to_pylist() == keys
    assert table["study_id"].to_pylist() == ["patient00002/study10"] * 2
    assert table["view"].to_pylist() == ["AP", "lateral"]
    assert table["view_number"].to_pylist() == [1, 2]
    labels = [table[c][0].as_py() for c in ("Cardiomegaly", "Edema", "Pleural Effusion", "Fracture")]
    assert labels == [1.0, -1.0, 0.0, None]


def test_label_files_are_found_in_each_layout_and_foreign_ones_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no CheXpert label file"):
        chexpert.find_label_files(tmp_path)
    with pytest.raises(InputError, match=r"is not a CheXpert label file"):
        chexpert.find_label_files(write(tmp_path, "other.csv", "1,2", header="a,b"))
    batch = "CheXpert-v1.0 batch 1 (validate & csv)/"
    with pytest.raises(
        InputError, match=rf"is one batch of CheXpert(.|\n)*--root chexpert={re.escape(str(tmp_path))}$"
    ):
        chexpert.find_label_files(tmp_path / batch)
    folders = ["", "CheXpert-v1.0-small/", "CheXpert-v1.0/", batch, f"chexpertchestxrays-u20210408/{batch}"]
    files = product(folders, [("train.csv", "train"), ("valid.csv", "validation")])
    for number, (folder, (name, split)) in enumerate(files):
        root = tmp_path / str(number)
        path = write(root, folder + name, format_row(GOOD_PATH.replace("train", chexpert.FOLDERS[split])))
        assert chexpert.find_label_files(root) == {split: path}
        assert chexpert.find_label_files(path) == {split: path}  # the csv itself
        renamed = path.rename(path.with_name("labels.csv"))
        assert chexpert.find_label_files(renamed) == {split: renamed}  # recognized by its rows, not by its name


def test_labels_of_the_test_set_are_found(tmp_path):
    header = "Study," + ",".join(chexpert.LABELS)
    path = write(tmp_path, "groundtruth.csv", "CheXpert-v1.0/test/patient64741/study1" + ",0.0" * 14, header=header)
    assert chexpert.find_label_files(tmp_path) == {"test": path}


GOOD = format_row(GOOD_PATH)


@pytest.mark.parametrize(
    ("rows", "header", "row_number", "column", "message"),
    [
        *(([GOOD, format_row("train/patient00002/study1/view1_frontal.jpg", value)], HEADER, 2, "Cardiomegaly",
           f": {text}")
          for value, text in (("2.0", "2.0"), ("yes", "'yes'"), ("NULL", "'NULL'"))),
        *(([GOOD, format_row(f"{path}_frontal.jpg")], HEADER, 2, "Path", "either prefix, or none")
          for path in ("train/patient1/view1", "Other/train/patient00001/study1/view1", "valid/patient1/study1/view1",
                       "../train/patient00001/study1/view1", "train/patient00002/study1/view99999999999")),
        ([GOOD, format_row("train/patient00002/study1/view1_frontal.jpg"), GOOD], HEADER, 3, "Path", "repeats row 1"),
        ([GOOD + ",1.0"], HEADER + ",Edema", None, "Edema", "2 times"),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_file_row_and_column(tmp_path, rows, header, row_number, column, message):
    path = write(tmp_path, "train.csv", *rows, header=header)
    assert message in get_fault(chexpert.read_labels, path, "train", where=path, row=row_number, column=column)


@pytest.mark.full  # 223,414 rows
def test_the_real_train_labels():
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    table = chexpert.read_labels(chexpert.find_label_files(root)["train"], "train")
    assert table.num_rows == 223_414
    assert len(table["study_id"].combine_chunks().dictionary) == 187_641
    assert len({study.split("/")[0] for study in table["study_id"].unique().to_pylist()}) == 64_540
    assert set(table["view"].unique().to_pylist()) == {"AP", "PA", "LL", "RL", "lateral"}
