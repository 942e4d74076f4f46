"""CheXlocalize: masks by image and finding, their files, and damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medfaith.loaders import chexlocalize, chexpert, images, rle
from medfaith.loaders.errors import InputError

IMAGE = "patient64541_study1_view1_frontal"
EMPTY = {"size": [2320, 2828], "counts": "PVWX6"}  # as the authors' public sample has it


def write(folder: Path, content: Any, name: str = "gt_segmentations_val.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def encode(height: int, width: int) -> rle.Rle:
    return rle.encode(np.ones((height, width), bool))


def test_every_finding_of_the_labels_has_a_mask_and_no_other(written):
    root = written["chexlocalize"]
    files = chexlocalize.find_mask_files(root)
    assert list(files) == ["validation", "test"]
    for split, path in files.items():
        label_path = chexpert.label_file(root, split)
        assert label_path is not None
        labels = chexpert.read_labels(label_path, split)
        masks = chexlocalize.read_masks(path, split)
        assert {key.rpartition(".")[0] for key in labels["key"].to_pylist()} == masks.keys()
        for row in labels.to_pylist():
            reference = {"source": "chexlocalize", "key": row["key"], "view": row["view"]}
            width, height = images.read_image_size(reference, written)
            image_masks = masks[row["key"].rpartition(".")[0]]
            assert image_masks.keys() == {*chexlocalize.FINDINGS}
            for finding, mask in image_masks.items():
                assert mask["size"] == [height, width]
                assert (rle.area(mask) > 0) is (row[finding] == 1), (row["key"], finding)


def test_an_empty_mask_and_the_other_name_of_lung_opacity(tmp_path):
    path = write(tmp_path, {IMAGE: {"Airspace Opacity": EMPTY, "Edema": EMPTY}})
    (masks,) = chexlocalize.read_masks(path, "validation").items()
    assert masks == ("valid/patient64541/study1/view1_frontal", {"Lung Opacity": EMPTY, "Edema": EMPTY})
    assert rle.area(EMPTY) == 0


@pytest.mark.parametrize("folder", ["", "CheXlocalize/"])
def test_files_are_found_and_what_is_no_file_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match=r"holds no masks(.|\n)*gt_segmentations_val\.json"):
        chexlocalize.find_mask_files(tmp_path)
    path = write(tmp_path / folder, {}, "gt_segmentations_test.json")
    assert chexlocalize.find_mask_files(tmp_path) == {"test": path}
    (path.parent / "gt_segmentations_val.json").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="is a link to nothing"):
        chexlocalize.find_mask_files(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds a list"),
        ("{", "cannot be read as JSON"),
        (f'{{"{IMAGE}": {{}}, "{IMAGE}": {{}}}}', "twice"),
        ({"patient64541": {}}, "row 'patient64541': is no image"),
        ({IMAGE: []}, "is no image with its masks"),
        ({IMAGE: {"Pneumonia": EMPTY}}, f"{IMAGE}(.|\n)*mask of 'Pneumonia': expected each of"),
        ({IMAGE: {"Airspace Opacity": EMPTY, "Lung Opacity": EMPTY}}, "mask of 'Lung Opacity': expected each of"),
        ({IMAGE: {"Edema": EMPTY, "Cardiomegaly": encode(4, 3)}}, r"size \[4, 3\]; another mask of the image has"),
        ({IMAGE: {"Edema": {"size": [4, 3], "counts": "PVWX6"}}}, "mask of 'Edema'"),
        ({IMAGE: {"Edema": {"size": [4], "counts": ""}}}, "mask of 'Edema': size"),
    ],
)
def test_damage_is_named(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=message) as error:
        chexlocalize.read_masks(path, "validation")
    assert error.value.where == str(path)


def test_a_mask_is_scaled_to_a_smaller_copy_and_refused_on_another_aspect():
    mask = np.zeros((2320, 2828), bool)
    mask[:1160] = True
    scaled = rle.decode(chexlocalize.fit_mask(rle.encode(mask), (320, 390), "valid/a.jpg"))
    assert scaled.shape == (320, 390)
    assert scaled[:160].all()
    assert not scaled[160:].any()
    assert chexlocalize.fit_mask(EMPTY, (2320, 2828), "valid/a.jpg") == EMPTY
    with pytest.raises(InputError, match=r"image valid/a\.jpg: has 320 x 320 pixels, its mask 2828 x 2320"):
        chexlocalize.fit_mask(EMPTY, (320, 320), "valid/a.jpg")
