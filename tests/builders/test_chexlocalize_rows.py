"""Rows with regions: the questions of CheXpert's rows, one image, and the mask of the finding in its pixels."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medfaith.builders import cxr_contrabench
from medfaith.builders.cxr_contrabench import chexlocalize, chexpert
from medfaith.loaders import chexlocalize as masks_of_release
from medfaith.loaders import images, rle
from medfaith.loaders.errors import ImageError, InputError
from medfaith.loaders.phantom import chexlocalize as small_phantom
from tests.support.builders.files import record_of, rows_of, skipped

NAME = "cxr-contrabench-chexlocalize"
CONFIG = "chexlocalize_presence"
SHARED = ("study_id", "question", "options", "answer", "finding", "negated", "counterpart", "layout", "polarity")


@pytest.mark.parametrize(("config", "plain"), chexlocalize.PROTOCOLS.items())
def test_rows_ask_what_chexperts_rows_ask(config, plain, phantom_chexlocalize_build, phantom_build):
    """Both phantoms have the same validation set. Some findings are not drawn in the images of their study."""
    rows = {row["id"]: row for row in rows_of(phantom_chexlocalize_build / NAME, config, "validation")}
    plain_rows = rows_of(phantom_build / "cxr-contrabench-chexpert", plain, "validation")
    for row in plain_rows:
        located = rows.pop(f"chexlocalize/{row['id'].removeprefix('chexpert/')}")
        assert [located[name] for name in SHARED] == [row[name] for name in SHARED]
        assert located["protocol"] == config
        (image,) = located["images"]
        assert image == row["images"][0] | {"source": "chexlocalize"}
    assert plain_rows
    assert not rows


def test_the_region_is_the_mask_of_the_finding(phantom_chexlocalize_build, phantom_chexlocalize_roots):
    root = phantom_chexlocalize_roots["chexlocalize"]
    for split, path in masks_of_release.find_mask_files(root).items():
        masks = masks_of_release.read_masks(path, split)
        rows = [
            row
            for config in chexlocalize.PROTOCOLS
            for row in rows_of(phantom_chexlocalize_build / NAME, config, split)
        ]
        assert len(rows) > 50
        for row in rows:
            image_masks = masks[row["images"][0]["key"].removesuffix(".jpg")]
            assert row["region"] == image_masks[row["finding"].title()]
            assert row["region"]["size"] == [row["height"], row["width"]]
            drawn = [name.lower() for name, mask in image_masks.items() if rle.area(mask)]
            assert row["present"] == sorted({*drawn} & {*chexpert.FINDINGS})


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CheXlocalize of a few studies."""
    return small_phantom.write(tmp_path_factory.mktemp("few"), seed=0, n_valid=6, n_test=3)


def build(few: Path, tmp_path: Path, change: Callable[[Path], Any]) -> Path:
    root = Path(shutil.copytree(few, tmp_path / "root"))
    change(root)
    (folder,) = cxr_contrabench.build({"chexlocalize": root}, tmp_path / "out", configs=[CONFIG])
    return folder


def change_masks(change: Callable[[dict[str, Any]], Any], name: str = "val") -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        path = root / f"CheXlocalize/gt_segmentations_{name}.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return edit


def remove_masks(root: Path) -> None:
    for name in ("val", "test"):
        change_masks(lambda content: [masks.clear() for masks in content.values()], name)(root)


def remove_findings(root: Path) -> None:
    for path in root.glob("CheXpert/*_labels.csv"):
        path.write_text(path.read_text().replace(",1.0", ",0.0"))


def resize_images(size: tuple[int, int]) -> Callable[[Path], None]:
    def resize(root: Path) -> None:
        for path in root.rglob("*.jpg"):
            Image.open(path).resize(size).save(path)

    return resize


def test_questions_without_a_mask_are_counted(few, tmp_path):
    plain = rows_of(build(few, tmp_path / "plain", lambda root: None), CONFIG, "validation")

    def remove_effusions(content: dict[str, Any]) -> None:
        for masks in content.values():
            del masks["Pleural Effusion"]

    folder = build(few, tmp_path, change_masks(remove_effusions))
    kept = rows_of(folder, CONFIG, "validation")
    counts = Counter(row["finding"] == "pleural effusion" for row in plain)
    assert [row["id"] for row in kept] == [row["id"] for row in plain if row["finding"] != "pleural effusion"]
    assert skipped(folder) == {f"questions of {CONFIG}/validation without a mask of the finding": counts[True]}
    assert counts[True] > 0


def test_an_image_without_a_mask_gives_way_to_the_next_of_its_study(few, tmp_path):
    """The mask of the first view is empty in each study. Rows of studies with one view are left out."""

    def clear_first_view(content: dict[str, Any]) -> None:
        for image_id, masks in content.items():
            for mask in masks.values() if "view1" in image_id else ():
                mask["counts"] = rle.encode(rle.decode(mask) & False)["counts"]

    folder = build(few, tmp_path, change_masks(clear_first_view))
    keys = [row["images"][0]["key"] for row in rows_of(folder, CONFIG, "validation")]
    assert keys
    assert all("/view2_" in key for key in keys)


def test_masks_are_scaled_to_smaller_copies_and_counted(few, tmp_path):
    plain = rows_of(build(few, tmp_path / "plain", lambda root: None), CONFIG, "validation")
    folder = build(few, tmp_path, resize_images((80, 96)))
    rows = rows_of(folder, CONFIG, "validation")
    assert [row["id"] for row in rows] == [row["id"] for row in plain]
    assert {(row["width"], row["height"], *row["region"]["size"]) for row in rows} == {(80, 96, 96, 80)}
    assert [row["region"] for row in rows] == [rle.resize_mask(row["region"], (96, 80)) for row in plain]
    assert skipped(folder)[f"masks of {CONFIG}/validation scaled to the size of their image"] == len(rows)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (resize_images((96, 96)), InputError, r"image valid/patient\d+/.*: has 96 x 96 pixels, its mask 160 x 192"),
        (remove_masks, InputError, r"gives no question; \d+ questions of \w+/validation without a mask of the finding"),
        (remove_findings, InputError, r"gives no question\n  expected: studies with findings"),
        (lambda root: shutil.rmtree(root / "CheXpert/val"), ImageError, r"valid/patient\d+/study1"),
        (lambda root: shutil.rmtree(root / "CheXpert"), InputError, r"without the labels(.|\n)*holds both folders"),
        (lambda root: shutil.rmtree(root / "CheXlocalize"), InputError, "holds no masks of CheXlocalize"),
        (change_masks(lambda content: content.update(odd={})), InputError, "row 'odd'|row odd"),
    ],
    ids=["another aspect", "no mask", "no finding", "no images", "no labels", "no masks", "no image's name"],
)
def test_what_cannot_be_placed_is_refused(few, tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        build(few, tmp_path, change)
    assert not (tmp_path / "out" / NAME).exists()


def test_images_and_labels_may_come_from_a_copy_of_chexpert(few, tmp_path):
    """Many have CheXpert already, and add the masks alone."""
    complete = build(few, tmp_path / "complete", lambda root: None)
    roots = {"chexlocalize": shutil.copytree(few, tmp_path / "masks"), "chexpert": tmp_path / "CheXpert-v1.0"}
    shutil.move(roots["chexlocalize"] / "CheXpert", roots["chexpert"])
    (roots["chexpert"] / "val").rename(roots["chexpert"] / "valid")
    (roots["chexpert"] / "val_labels.csv").rename(roots["chexpert"] / "valid.csv")
    (folder,) = cxr_contrabench.build(roots, tmp_path / "out", configs=[CONFIG])
    for split in ("validation", "test"):
        rows = rows_of(folder, CONFIG, split)
        assert rows == rows_of(complete, CONFIG, split)
        assert [*images.open_image(rows[0]["images"][0], roots).size] == [rows[0]["width"], rows[0]["height"]]
    with pytest.raises(InputError, match=r"or name your copy of CheXpert, too: --root chexpert=PATH"):
        cxr_contrabench.build({"chexlocalize": roots["chexlocalize"]}, tmp_path / "alone", configs=[CONFIG])


@pytest.mark.parametrize("name", ["CheXpert/test_labels.csv", "CheXlocalize/gt_segmentations_test.json"])
def test_a_split_without_masks_or_labels_is_named(few, tmp_path, name):
    folder = build(few, tmp_path, lambda root: (root / name).unlink())
    assert list(record_of(folder)["splits"]) == [f"{CONFIG}/validation"]
    assert record_of(folder)["absent"] == {"test": "its label file is absent"}
