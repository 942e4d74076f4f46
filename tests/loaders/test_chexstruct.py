"""CheXStruct: labels by OpenI image, unknown for missing rows, and errors for files that differ from the release."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders import chexstruct, images, openi, sources
from medfaith.loaders.errors import InputError

KNOB, TRACHEA = "aortic_knob_enlargement", "trachea_deviation"
HEADER = "image_file,viewposition,ratio,label\n"


def write(root: Path, text: str, finding: str = KNOB, folder: str = "openi") -> Path:
    (root / folder).mkdir(parents=True, exist_ok=True)
    (root / folder / f"{finding}.csv").write_text(text, encoding="utf-8")
    return root


def read(root: Path) -> dict[str, dict[str, int]]:
    return chexstruct.read_labels(root, [KNOB])


@pytest.mark.parametrize("column", ["image_file", "image_id"])
def test_images_are_called_as_in_openi(tmp_path, column):
    images = {
        "1_IM-0001-3001": "CXR1_1_IM-0001-3001", "10_IM-0002-1001-0001": "CXR10_IM-0002-1001-0001",
        "11_IM-0067-1001": "CXR11_IM-0067-1001", "1234_IM-0157-4004": "CXR1234_IM-0157-4004",
    }  # fmt: skip
    text = HEADER.replace("image_file", column) + "".join(f"{name}.dcm,,2.7,1.0\n" for name in images)
    assert read(write(tmp_path, text)) == {image: {KNOB: 1} for image in images.values()}


@pytest.mark.full
def test_real_openi_ids_survive_the_way_to_a_dicom_name_and_back():
    """Compare with the 7,470 ids of the real reports (564 of them break the usual pattern)."""
    root = sources.resolve_roots({"openi": "torchxrayvision"}, environ={})["openi"]
    keys = [image.key for report in openi.read_reports(root) for image in report.images]
    assert len(keys) == 7470
    for key in keys:
        dicom = next(Path(place).name for place in openi.list_image_paths(key) if place.endswith(".dcm"))
        assert chexstruct._parse_image_id(dicom, Path("x.csv"), 1, "image_file") + ".png" == key


def test_a_missing_row_is_unknown_and_files_are_joined(tmp_path):
    write(tmp_path, HEADER + "3_IM-1-1.dcm,,2.7,1.0\n20_IM-1-1.dcm,,1.1,0.0\n")
    write(tmp_path, HEADER + "1,,,\n20_IM-1-1.dcm,,left,1.0\n4_IM-1-1.dcm,,flat,0\n", TRACHEA)
    labels = chexstruct.read_labels(tmp_path, [KNOB, TRACHEA])
    assert labels == {"CXR3_IM-1-1": {KNOB: 1}, "CXR4_IM-1-1": {TRACHEA: 0}, "CXR20_IM-1-1": {KNOB: 0, TRACHEA: 1}}
    assert list(labels) == ["CXR3_IM-1-1", "CXR4_IM-1-1", "CXR20_IM-1-1"]  # numeric order


GOOD = "3_IM-1-1.dcm,,2.7,1.0\n"


def test_where_the_files_may_lie(tmp_path):
    for folder in ("openi", "CheXStruct/openi", "."):
        root = write(tmp_path / folder.split("/")[0], HEADER + GOOD, folder=folder)
        assert read(root) == {"CXR3_IM-1-1": {KNOB: 1}}
        (path,) = chexstruct.find_label_files(root, [KNOB]).values()
        assert path.name == f"{KNOB}.csv"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("viewposition,ratio,label\n,2.7,1.0\n", ["'image_file'", "column is missing"]),
        ("image_file,viewposition,ratio\n3_IM-1-1.dcm,,2.7\n", ["'label'", "column is missing"]),
        (HEADER + GOOD + GOOD, ["row 2", "earlier row"]),
        (HEADER + GOOD + "1,,,\n", ["row 2", "'image_file'", "1234_IM-0157-4004.dcm"]),  # junk only where it occurs
        (HEADER + "1,,2.7,\n", ["row 1", "image '1'"]),
        (HEADER + "3_IM-1-1.dcm,,2.7,\n", ["row 1", "'label'", "label ''", "1.0 or 0.0"]),
        (HEADER + "3_IM-1-1.dcm,,2.7,-1.0\n", ["row 1", "'label'"]),
        (HEADER + "3_IM-1-1.png,,2.7,1.0\n", ["row 1", "3_IM-1-1.png"]),
        (HEADER + "../3_x.dcm,,2.7,1.0\n", ["row 1", "../3_x.dcm"]),
    ],
)
def test_what_is_not_as_released_is_refused_by_name(tmp_path, text, messages):
    with pytest.raises(InputError) as error:
        read(write(tmp_path, text))
    for word in [f"{KNOB}.csv", "what to do", *messages]:
        assert word in str(error.value)


def test_a_missing_file_and_an_unknown_finding_are_named_and_two_half_copies_are_not_mixed(tmp_path):
    write(tmp_path, HEADER + GOOD)
    with pytest.raises(InputError, match=r"has no openi/trachea_deviation\.csv"):
        chexstruct.read_labels(tmp_path, [KNOB, TRACHEA])
    with pytest.raises(InputError, match="no such file"):
        chexstruct.read_labels(tmp_path, ["inclusion"])
    write(tmp_path, HEADER + GOOD, TRACHEA, folder="other/openi")
    with pytest.raises(InputError, match="several incomplete copies"):
        chexstruct.read_labels(tmp_path, [KNOB, TRACHEA])


ROWS = st.dictionaries(st.integers(1, 4000), st.booleans(), min_size=1, max_size=8)


@given(ROWS, st.booleans(), st.randoms(use_true_random=False))
def test_labels_do_not_depend_on_the_order_of_rows(tmp_path_factory, rows, junk, random):
    names = [f"{number}_IM-0001-1001.dcm,,x,{float(label)}\n" for number, label in rows.items()]
    random.shuffle(names)
    root = write(tmp_path_factory.mktemp("c"), HEADER + ("1,,,\n" if junk else "") + "".join(names))
    labels_by_image = read(root)
    assert [chexstruct.parse_report_number(image) for image in labels_by_image] == sorted(rows)
    assert {chexstruct.parse_report_number(image): labels[KNOB] for image, labels in labels_by_image.items()} == rows


# --- the phantom ------------------------------------------------------------------------------------------------------


def test_the_phantom_labels_images_of_the_openi_phantom(written):
    labels = chexstruct.read_labels(written["chexstruct"])
    assert "CXR1_1_IM-0001-3001" in labels
    assert len(labels) >= 25
    for image in labels:
        images.locate({"source": "openi", "key": f"{image}.png", "view": ""}, written)
    for finding in chexstruct.FINDINGS:  # some checks failed
        assert {image_labels.get(finding) for image_labels in labels.values()} == {0, 1, None}, finding
