"""CheXmask: masks from run lengths, in each layout, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from medfaith.loaders import chexmask, limits, rle
from medfaith.loaders.errors import InputError
from medfaith.loaders.phantom import chest
from medfaith.loaders.phantom import chexmask as phantom
from medfaith.loaders.phantom.nih_cxr14 import plan

HEADER = ",".join(phantom.HEADER)
NAMES = ["00000001_000.png", "00000002_000.png"]
ROWS = [f'{name},0.9,0.95,"1,2,3,4",2 1 4 2,1 1,6 1,2,3' for name in NAMES]
STRUCTURES = ("left lung", "right lung", "heart")


def write_rows(folder: Path, text: str, name: str = "ChestX-Ray8.csv") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def read_rows(folder: Path, text: str) -> dict[str, dict[str, np.ndarray]]:
    masks, _ = chexmask.open_masks(write_rows(folder, text), NAMES, STRUCTURES)
    return {image: {name: rle.decode(mask) for name, mask in masks.read(image).items()} for image in masks}


@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))))
def test_runs_are_decoded_as_the_official_functions_encode_them(mask):
    np.testing.assert_array_equal(chexmask.decode_runs(phantom._encode(mask), mask.shape), mask)


@given(st.lists(st.integers(-1, 12), max_size=6))
def test_other_numbers_are_refused_or_lie_inside(numbers):
    """A decoded mask has as many pixels as the lengths say: no run is lost, and none counts twice."""
    try:
        mask = chexmask.decode_runs(" ".join(map(str, numbers)), (3, 4))
    except ValueError:
        return
    assert mask.sum() == sum(numbers[1::2])


def test_masks_are_those_of_the_phantom_and_left_is_the_patients(tmp_path):
    root = phantom.write(tmp_path, seed=0, n_train=1, n_test=10)
    studies = plan(0, 1, 10)["test"]
    names = [study.image.name for study in studies]
    masks, poor = chexmask.open_masks(root, names, (*STRUCTURES, "left upper lung"))
    assert poor == [names[phantom.POOR]]
    assert {*masks} == {*names} - {names[phantom.WITHOUT_MASKS], names[phantom.POOR]}
    for image in (study.image for study in studies if study.image.name in masks):
        regions = masks.read(image.name)
        truth = chest.regions(image.drawn, seed=image.seed, size=image.size)
        for name, mask in regions.items():
            np.testing.assert_array_equal(rle.decode(mask), truth[name])
        left, right = (rle.compute_bounding_box(regions[f"{side} lung"])[0] for side in ("left", "right"))
        assert left > right, "the patient's left is the image's right"
        assert masks.get_declared_size(image.name) == image.size[::-1]
    assert masks.problems == {"empty mask: heart": 1}


@pytest.mark.parametrize(
    "name",
    [
        "ChestX-Ray8.csv", "ChestX-ray8.csv", "Preprocessed/ChestX-Ray8.csv", "OriginalResolution/chestx-ray8.csv.gz",
    ],
)  # fmt: skip
def test_layouts_are_read(tmp_path, name):
    root = write_rows(tmp_path, "\n".join([HEADER, *ROWS]) + "\n", name)
    for place in (root, root / name):
        masks, _ = chexmask.open_masks(place, NAMES, STRUCTURES)
        assert [*masks] == NAMES
        assert rle.decode(masks.read(NAMES[0])["left lung"]).tolist() == [[False, True, False], [True, True, False]]
        assert masks.files == [root / name]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text + "\n\n",
        lambda text: text.rstrip(),
        lambda text: "\n".join(f"{n}," + line for n, line in enumerate(text.splitlines())),  # the index of pandas
    ],
)
def test_forms_of_the_table_are_read(tmp_path, change):
    assert [*read_rows(tmp_path, change("\n".join([HEADER, *ROWS]) + "\n"))] == NAMES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.replace("2 1 4 2", "2 1 4"), "row 2, column 'Left Lung': it holds no pairs"),
        (lambda row: row.replace("2 1 4 2", "2 3 4 2"), "row 2, column 'Left Lung': its runs overlap"),
        (lambda row: row.replace("6 1", "6 2"), "row 2, column 'Heart': its runs overlap, or leave"),
        (lambda row: row.replace("1 1,", "0 1,"), "row 2, column 'Right Lung'"),
        (lambda row: row.replace(",2,3", ",2,0"), "row 2, column 'Width': '0'"),
        *[
            (lambda row, width=width: row.replace(",2,3", f",2,{width}"), f"row 2, column 'Width': '{width}'")
            for width in ("wide", "3.5", "-3", "²", "100000", "99999")
        ],
        (lambda row: row.replace("0.9,", "good,"), "row 2, column 'Dice RCA"),
        (lambda row: row.replace(NAMES[1], NAMES[0]), "row 2, column 'Image Index': '00000001_000.png' repeats"),
        (lambda row: row.replace(",2,3", ",2"), "row 2: the row has 8 cells"),
        (lambda row: row.replace('4",', '4,'), "quote|cannot be read"),
        (lambda row: row.replace(",0.9,", ',"0.9,'), "cannot be read to its end|row 2"),
        (lambda row: f"{row}\n\n{row}", "row 3: the row has 0 cells"),
        (lambda row: row.replace("0.9,0.95", '"0.9\n",0.95'), "row 2: a cell that begins with a quote"),
        (lambda row: row.replace(",0.9,", f",{'9' * limits.LINE_BYTES},"), "a line of more than 4,194,304 bytes"),
    ],
)  # fmt: skip
def test_odd_rows_are_refused_with_their_number(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read_rows(tmp_path, "\n".join([HEADER, ROWS[0], change(ROWS[1])]) + "\n")


def test_two_stray_quotes_that_enclose_rows_are_refused(tmp_path):
    rows = [f"0000000{n}_000.png,0.9,0.95,1,2 1,1 1,6 1,2,3" for n in range(1, 8)]
    rows[2], rows[5] = (row.replace(",0.9", ',"0.9') for row in (rows[2], rows[5]))
    with pytest.raises(InputError, match=r"row 3|cannot be read to its end"):
        read_rows(tmp_path, "\n".join([HEADER, *rows]) + "\n")


def test_a_missing_packed_or_truncated_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"holds no ChestX-Ray8.csv"):
        chexmask.find_label_file(tmp_path)
    (tmp_path / "ChestX-Ray8.csv.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match="is packed"):
        chexmask.find_label_file(tmp_path)
    (tmp_path / "ChestX-Ray8.csv.zip").rename(tmp_path / "chexmask-chest.zip")
    with pytest.raises(InputError, match=r"(?s)chexmask-chest\.zip: is packed.*expected: ChestX-Ray8\.csv.*unpack it"):
        chexmask.find_label_file(tmp_path)
    text = "\n".join([HEADER, *ROWS])
    data = gzip.compress(text.encode())
    (tmp_path / "ChestX-Ray8.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="cannot be read to its end"):
        chexmask.open_masks(tmp_path, NAMES, STRUCTURES)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="the file has a header and no rows"):
        read_rows(tmp_path / "other", HEADER + "\n")
