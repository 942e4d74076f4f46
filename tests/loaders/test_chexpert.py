"""The CheXpert reader: both layouts, real labels, and every fault of a file by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medfaith.loaders import chexpert, sources
from medfaith.loaders.errors import InputError

HEADER = ",".join(chexpert.COLUMNS)


def row(path: str, labels: str = "", ap_pa: str = "AP", side: str = "Frontal") -> str:
    """A csv row; labels are given for Cardiomegaly, Edema, Pleural Effusion and are blank elsewhere."""
    values = dict(zip(("Cardiomegaly", "Edema", "Pleural Effusion"), labels.split("/"), strict=False))
    return ",".join([path, "Female", "68", side, ap_pa, *(values.get(name, "") for name in chexpert.LABELS)])


def write(folder: Path, name: str, *rows: str, header: str = HEADER) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("prefix", ["", "CheXpert-v1.0/", "CheXpert-v1.0-small/"])
def test_rows_are_the_same_for_every_prefix(tmp_path, prefix):
    path = write(
        tmp_path,
        "train.csv",
        row(f"{prefix}train/patient00002/study10/view1_frontal.jpg", "1.0/-1.0/0.0"),
        row(f"{prefix}train/patient00002/study10/view2_lateral.jpg", "1.0/-1.0/0.0", "", "Lateral"),
    )
    table = chexpert.read_labels(path, "train")
    assert table["key"].to_pylist() == [
        "train/patient00002/study10/view1_frontal.jpg",
        "train/patient00002/study10/view2_lateral.jpg",
    ]
    assert table["study_id"].to_pylist() == ["patient00002/study10"] * 2
    assert table["view"].to_pylist() == ["AP", "lateral"]
    assert table["view_number"].to_pylist() == [1, 2]
    assert [table[c][0].as_py() for c in ("Cardiomegaly", "Edema", "Pleural Effusion", "Fracture")] == [
        1.0,
        -1.0,
        0.0,
        None,
    ]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.csv", "train"),
        ("valid.csv", "validation"),
        ("CheXpert-v1.0-small/train.csv", "train"),
        ("CheXpert-v1.0/valid.csv", "validation"),
    ],
)
def test_label_files_are_found_in_each_layout(tmp_path, name, split):
    folder = chexpert.FOLDERS[split]
    path = write(tmp_path, name, row(f"CheXpert-v1.0-small/{folder}/patient00001/study1/view1_frontal.jpg"))
    assert chexpert.label_files(tmp_path) == {split: path}
    assert chexpert.label_files(path) == {split: path}  # the csv itself
    renamed = path.rename(path.with_name("labels.csv"))
    assert chexpert.label_files(renamed) == {split: renamed}  # told by its rows, not by its name


def test_a_gzipped_file_reads_like_the_plain_one(tmp_path):
    plain = write(tmp_path, "train.csv", row("train/patient00001/study1/view1_frontal.jpg", "1.0"))
    packed = tmp_path / "train.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert chexpert.read_labels(packed, "train").equals(chexpert.read_labels(plain, "train"))


def test_test_labels_are_one_row_a_study(tmp_path):
    header = "Study," + ",".join(chexpert.LABELS)
    path = write(tmp_path, "groundtruth.csv", "CheXpert-v1.0/test/patient64741/study1" + ",0.0" * 14, header=header)
    assert chexpert.label_files(tmp_path) == {"test": path}
    table = chexpert.read_test_labels(path)
    assert table["study_id"].to_pylist() == ["patient64741/study1"]
    assert table["Edema"].to_pylist() == [0.0]


GOOD = row("train/patient00001/study1/view1_frontal.jpg")


@pytest.mark.parametrize(
    ("rows", "header", "row_number", "column", "words"),
    [
        ([GOOD, row("train/patient00002/study1/view1_frontal.jpg", "2.0")], HEADER, 2, "Cardiomegaly", ": 2.0"),
        ([GOOD, row("train/patient00002/study1/view1_frontal.jpg", "yes")], HEADER, 2, "Cardiomegaly", ": 'yes'"),
        ([row("train/patient1/view1_frontal.jpg")], HEADER, 1, "Path", "either prefix"),
        ([row("Other/train/patient00001/study1/view1_frontal.jpg")], HEADER, 1, "Path", "either prefix"),
        ([row("valid/patient00001/study1/view1_frontal.jpg")], HEADER, 1, "Path", "either prefix"),
        ([GOOD, row("../train/patient00001/study1/view1_frontal.jpg")], HEADER, 2, "Path", "either prefix"),
        ([GOOD, row("train/patient00002/study1/view1_frontal.jpg"), GOOD], HEADER, 3, "Path", "repeats row 1"),
        ([GOOD + ",1.0"], HEADER + ",Edema", None, "Edema", "2 times"),
        (
            [GOOD, row("train/patient00002/study1/view99999999999_frontal.jpg")],
            HEADER,
            2,
            "Path",
            "either prefix, or none",
        ),
        ([GOOD, row("train/patient00002/study1/view1_frontal.jpg", "NULL")], HEADER, 2, "Cardiomegaly", "'NULL'"),
        ([GOOD, row("train/patient00002/study1/view1_frontal.jpg", "nan")], HEADER, 2, "Cardiomegaly", "nan"),
    ],
)
def test_a_fault_is_named_by_file_row_and_column(tmp_path, rows, header, row_number, column, words):
    path = write(tmp_path, "train.csv", *rows, header=header)
    with pytest.raises(InputError) as error:
        chexpert.read_labels(path, "train")
    assert (error.value.where, error.value.row, error.value.column) == (str(path), row_number, column)
    assert words in str(error.value)
    assert "what to do" in str(error.value)


def test_an_empty_folder_and_a_foreign_csv_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no CheXpert label file"):
        chexpert.label_files(tmp_path)
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"is not a CheXpert label file"):
        chexpert.label_files(other)


def test_the_real_train_labels():
    root = sources.resolve_roots({"chexpert": "torchxrayvision"}, environ={})["chexpert"]
    table = chexpert.read_labels(chexpert.label_files(root)["train"], "train")
    assert table.num_rows == 223_414
    assert len(table["study_id"].combine_chunks().dictionary) == 187_641
    assert len({study.split("/")[0] for study in table["study_id"].unique().to_pylist()}) == 64_540
    assert set(table["view"].unique().to_pylist()) == {"AP", "PA", "LL", "RL", "lateral"}
