"""The MIMIC-CXR-JPG reader: images, splits and labels of the official files, and the paths of reports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from medfaith.loaders import images, mimic_cxr
from medfaith.loaders.errors import InputError
from tests.support.loaders.faults import get_fault

METADATA = (
    "dicom_id,subject_id,study_id,PerformedProcedureStepDescription,ViewPosition,Rows,Columns,StudyDate,StudyTime,"
    "ProcedureCodeSequence_CodeMeaning,ViewCodeSequence_CodeMeaning,PatientOrientationCodeSequence_CodeMeaning"
)
SPLIT = "dicom_id,study_id,subject_id,split"
LABELS = "subject_id,study_id," + ",".join(mimic_cxr.LABELS)
SUBJECT, STUDY = "10000032", "50414267"
VIEWS = ("PA", "LATERAL", "AP", "AP AXIAL", "", "LL")


def make_dicom_id(n: int) -> str:
    return f"02aa804e-bde0afdd-112c0b34-7bc16630-{n:08x}"


def format_image_row(n: int, view: str = "PA", rows: object = 3056, columns: object = 2544) -> str:
    return f'{make_dicom_id(n)},{SUBJECT},{STUDY},"CHEST (PA, LAT)",{view},{rows},{columns},21800506,213014.531,,,Erect'


def write(root: Path, kind: str, header: str, *rows: str, packed: bool = True) -> Path:
    data = "\n".join([header, *rows, ""]).encode()
    path = root / f"mimic-cxr-2.0.0-{kind}.csv{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def write_images(root: Path, *rows: str, packed: bool = True) -> Path:
    splits = ("train", "validate", "test")
    write(root, "split", SPLIT, *(f"{make_dicom_id(n)},{STUDY},{SUBJECT},{splits[n % 3]}" for n in range(9, -1, -1)))
    return write(root, "metadata", METADATA, *rows, packed=packed)


@pytest.mark.parametrize("packed", [True, False])
def test_images_of_the_frontal_views(tmp_path, packed):
    write_images(tmp_path, *(format_image_row(n, view) for n, view in enumerate(VIEWS)), packed=packed)
    table = mimic_cxr.read_images(tmp_path)
    assert table.to_pylist() == [
        {
            "dicom_id": make_dicom_id(n),
            "study_id": STUDY,
            "subject_id": SUBJECT,
            "key": f"files/p10/p10000032/s50414267/{make_dicom_id(n)}.jpg",
            "view": view,
            "width": 2544,
            "height": 3056,
            "split": split,
        }
        for n, view, split in ((0, "PA", "train"), (2, "AP", "test"))
    ]
    assert table["key"][0].as_py() == mimic_cxr.key(SUBJECT, STUDY, make_dicom_id(0))
    assert [table.schema.field(side).type for side in ("width", "height")] == [pa.int32()] * 2
    lateral_images = mimic_cxr.read_images(tmp_path, views=("AP AXIAL", "LL"))
    assert lateral_images.select(["dicom_id", "split"]).to_pylist() == [
        {"dicom_id": make_dicom_id(3), "split": "train"}, {"dicom_id": make_dicom_id(5), "split": "test"}
    ]  # fmt: skip
    assert mimic_cxr.read_images(tmp_path, views=()).num_rows == 0


def test_images_are_found_below_either_folder(tmp_path):
    ref = {"source": "mimic_cxr", "key": mimic_cxr.key(SUBJECT, STUDY, make_dicom_id(1)), "view": "PA"}
    for root, place in ((tmp_path / "a", "files/p10"), (tmp_path / "b", "p10")):
        file = root / place / f"p{SUBJECT}/s{STUDY}/{make_dicom_id(1)}.jpg"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        assert images.locate(ref, {"mimic_cxr": root}) == file.resolve()


@pytest.mark.parametrize(
    ("rows", "row", "column", "message"),
    [
        ([format_image_row(0).replace("02aa804e-", "")], 1, "dicom_id", "five groups"),
        (
            [format_image_row(0), format_image_row(1).replace(make_dicom_id(1), "../" + make_dicom_id(1))],
            2,
            "dicom_id",
            "five groups",
        ),
        ([format_image_row(0), format_image_row(1), format_image_row(0)], 3, "dicom_id", "repeats row 1"),
        ([format_image_row(0).replace(SUBJECT, "p" + SUBJECT)], 1, "subject_id", "8 digits"),
        ([format_image_row(0).replace(STUDY, "")], 1, "study_id", "is blank"),
        ([format_image_row(0), format_image_row(1, rows=0)], 2, "Rows", "above 0"),
        ([format_image_row(0), format_image_row(1, columns="")], 2, "Columns", "is blank"),
        ([format_image_row(0), format_image_row(1, columns="wide")], 2, "Columns", "'wide'"),
        ([format_image_row(0), format_image_row(1, rows=2544.5)], 2, "Rows", "a whole number"),
        (
            [format_image_row(0), format_image_row(77)],
            2,
            "dicom_id",
            "an image that mimic-cxr-2.0.0-split.csv.gz has too",
        ),
        ([], None, None, "no rows"),
    ],
)
def test_a_fault_of_the_metadata_is_named(tmp_path, rows, row, column, message):
    path = write_images(tmp_path, *rows)
    assert message in get_fault(mimic_cxr.read_images, tmp_path, where=path, row=row, column=column)


def test_label_files_and_what_is_missing(tmp_path):
    metadata = write(tmp_path, "metadata", METADATA, format_image_row(0))
    with pytest.raises(InputError, match=r"holds no mimic-cxr-2\.0\.0-split\.csv\.gz"):
        mimic_cxr.find_label_files(tmp_path)
    split = write(tmp_path, "split", SPLIT, packed=False)
    assert mimic_cxr.find_label_files(tmp_path) == {"metadata": metadata, "split": split}
    assert mimic_cxr.find_label_files(metadata) == {"metadata": metadata, "split": split}
    with pytest.raises(InputError, match=r"holds no mimic-cxr-2\.0\.0-negbio\.csv\.gz"):
        mimic_cxr.read_labels(tmp_path, "negbio")
    negbio = write(tmp_path, "negbio", LABELS)
    assert mimic_cxr.find_label_files(tmp_path) == {"metadata": metadata, "split": split, "negbio": negbio}
    with pytest.raises(InputError, match="holds no"):
        mimic_cxr.find_label_files(tmp_path / "nowhere")


@pytest.mark.parametrize("labeler", mimic_cxr.LABELERS)
def test_labels_are_one_row_a_study(tmp_path, labeler):
    rows = [f"{SUBJECT},{STUDY},1.0,-1.0,0.0" + "," * 11, f"{SUBJECT},50414268" + "," * 14]
    write(tmp_path, labeler, LABELS, *rows)
    table = mimic_cxr.read_labels(tmp_path, labeler)
    assert table.column_names == ["study_id", *mimic_cxr.LABELS]
    assert table["study_id"].to_pylist() == [STUDY, "50414268"]
    study_labels = {"Atelectasis": 1.0, "Cardiomegaly": -1.0, "Consolidation": 0.0, "Edema": None}
    assert {name: table[name].to_pylist() for name in study_labels} == {
        name: [value, None] for name, value in study_labels.items()
    }
    assert set(table.schema.types[1:]) == {pa.float64()}
    with pytest.raises(ValueError, match="chexpert, negbio"):
        mimic_cxr.read_labels(tmp_path, "radiologist")


@pytest.mark.parametrize(
    ("kind", "rows", "row", "column", "message"),
    [
        ("chexpert", [f"{SUBJECT},{STUDY},2.0" + "," * 13], 1, "Atelectasis", "1.0, 0.0, -1.0 or blank"),
        ("chexpert", [f"{SUBJECT},{STUDY},yes" + "," * 13], 1, "Atelectasis", "'yes'"),
        ("chexpert", [f"{SUBJECT},{STUDY}" + "," * 14] * 2, 2, "study_id", "repeats row 1"),
        ("chexpert", [f"{SUBJECT},s{STUDY}" + "," * 14], 1, "study_id", "8 digits"),
        ("split", [f"{make_dicom_id(0)},{STUDY},{SUBJECT},validation"], 1, "split", "train, validate or test"),
        ("split", [f"{make_dicom_id(0)},{STUDY},{SUBJECT},train"] * 2, 2, "dicom_id", "repeats row 1"),
    ],
)
def test_a_fault_of_the_labels_or_the_split_is_named(tmp_path, kind, rows, row, column, message):
    write_images(tmp_path, format_image_row(0))
    path = write(tmp_path, kind, SPLIT if kind == "split" else LABELS, *rows)
    reader = mimic_cxr.read_images if kind == "split" else mimic_cxr.read_labels
    assert message in get_fault(reader, tmp_path, where=path, row=row, column=column)


@pytest.mark.parametrize("source", ["mimic_cxr", "mimic_cxr_reports"])
@pytest.mark.parametrize("place", ["files/p10/p10000032/s50414267.txt", "p10/p10000032/s50414267.txt"])
def test_a_report_is_read_from_either_root(tmp_path, source, place):
    path = tmp_path / source / place
    path.parent.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    roots = dict.fromkeys(("mimic_cxr", "mimic_cxr_reports"), tmp_path / "other") | {source: tmp_path / source}
    for data, text in (
        (b"\n   FINAL REPORT\r\n FINDINGS: clear.\n", "FINAL REPORT\r\n FINDINGS: clear."),
        ("Größe".encode(), "Größe"),
        ("\ufeffClear.".encode(), "Clear."),
        (b"patient\x92s", "patient’s"),
        (b" \n", None),
    ):
        path.write_bytes(data)
        assert mimic_cxr.read_report(roots, SUBJECT, STUDY) == text
    assert mimic_cxr.read_report(roots, SUBJECT, "50414268") is None
    assert mimic_cxr.read_report({}, SUBJECT, STUDY) is None
    path.unlink()
    path.mkdir()  # a folder in its place
    assert "cannot be read" in get_fault(mimic_cxr.read_report, roots, SUBJECT, STUDY, where=path)
