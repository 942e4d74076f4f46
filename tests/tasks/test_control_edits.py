"""Edits of a region with doses, donors of tissue, and harmless changes: names, pixels, places and boxes."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.errors import ImageError, InputError
from medfaith.tasks.contrabench import rows as contrabench
from medfaith.tasks.controls import (
    CONTROLS,
    DOSES,
    EDITS,
    ELSEWHERE,
    TARGET,
    get_elsewhere_edit,
    in_order,
    paint,
    split_dose,
)
from medfaith.tasks.controls import UnsupportedControlError as Unsupported
from medfaith.tasks.controls.donors import DONOR
from medfaith.tasks.controls.harmless import crop, crop_row, recode
from medfaith.tasks.controls.rows import PLACE, change, controlled
from medfaith.tasks.heal import rows as heal
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.surgx import rows as surgx
from medfaith.tasks.wrong_lung import rows as wrong_lung
from tests.support.tiers import choose_size, keep_quick

LOADERS: dict[str, tuple[Any, tuple[str, ...], dict[str, str]]] = {
    "": (contrabench.load, ("cxr-contrabench-chexpert",), {"config": "chexpert_presence", "split": "validation"}),
    "_heal": (heal.load, ("heal-medvqa-vindr_cxr", "vindr", "closed"), {"split": "test"}),
    "_surgx": (surgx.load, ("surgxbench-cholec80_boxes", "instruments", "instruments"), {"split": "test"}),
    "_wrong_lung": (wrong_lung.load, ("wrong-lung-chest_imagenome", "gold"), {"split": "test"}),
}


@pytest.fixture
def load(request) -> Any:
    """A function that loads the documents of one task of a benchmark, by the suffix of its fixtures."""

    def load_docs(name: str, roots: dict[str, Path] | None = None, **options: Any) -> Any:
        loader, args, kwargs = LOADERS[name]
        image_roots = roots or request.getfixturevalue(f"phantom{name}_roots")
        data = str(request.getfixturevalue(f"phantom{name}_build"))
        return loader(*args, data=data, roots={k: str(v) for k, v in image_roots.items()}, **kwargs, **options)["test"]

    return load_docs


@pytest.mark.parametrize(
    ("control", "expected"),
    [("occluded", ("occluded", 100)), ("blurred_elsewhere@25", ("blurred_elsewhere", 25)), ("none", ("none", 100))],
)
def test_a_name_is_split_into_the_edit_and_its_dose(control, expected):
    assert split_dose(control) == expected


BAD = ("", "@25", "occluded@", "occluded@100", "occluded@25@50", "occluded@025", "flipped@50", "Occluded", "black@25")


@pytest.mark.parametrize("control", BAD)
def test_a_name_or_dose_that_there_is_not_ends_with_what_there_is(control, capsys):
    with pytest.raises(InputError, match=r"expected:"):
        split_dose(control)
    for arguments in (["eval", "--control", control, "--tasks", "x"], ["audit", "--controls", control, "--out", "x"]):
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert "expected" in capsys.readouterr().err


def test_the_place_elsewhere_keeps_the_dose_and_doses_stand_behind_their_edit():
    assert [get_elsewhere_edit(control) for control in ("occluded", "blurred@75")] == [
        "occluded_elsewhere",
        "blurred_elsewhere@75",
    ]
    with pytest.raises(InputError):
        get_elsewhere_edit("blank")
    assert in_order(["blurred", "occluded@25", "none", "occluded", "occluded@75"]) == [
        "none", "occluded", "occluded@75", "occluded@25", "blurred",
    ]  # fmt: skip


@settings(max_examples=choose_size(8, 30), deadline=None)
@given(st.integers(0, 999), st.floats(0, 1, exclude_max=True))
def test_parts_are_nested_have_their_share_and_move_with_the_region(seed, start):
    rng = np.random.default_rng(seed)
    mask = np.zeros((70, 90), bool)
    for _ in range(int(rng.integers(1, 4))):
        y0, x0 = int(rng.integers(30)), int(rng.integers(40))
        mask[y0 : y0 + int(rng.integers(15, 25)), x0 : x0 + int(rng.integers(15, 25))] = True
    sectors = [mask & paint.compute_sector(mask, dose / 100, start) for dose in DOSES]
    for sector, dose in zip(sectors, DOSES, strict=True):
        assert abs(sector.sum() / mask.sum() - dose / 100) < 0.02
    assert all((small <= large).all() for small, large in itertools.pairwise(sectors))
    for place in ({"dx": 7, "dy": 11, "mirror": False}, {"dx": 0, "dy": 0, "mirror": True}):
        moved = paint.shift_mask(mask, **place)
        sector = moved & paint.compute_sector(moved, 0.5, start, mirror=place["mirror"])
        assert (sector == paint.shift_mask(sectors[1], **place)).all()


def test_over_all_rows_each_pixel_is_removed_as_often_as_the_dose_says():
    mask = np.zeros((24, 20), bool)
    mask[3:20, 4:16] = True
    for dose in DOSES:
        often = np.mean([paint.compute_sector(mask, dose / 100, start) for start in np.arange(200) / 200], axis=0)[mask]
        assert abs(often.mean() - dose / 100) < 0.01
        assert np.abs(often - dose / 100).max() < 0.04


@pytest.mark.parametrize("edit", keep_quick(EDITS, lambda edit: edit == "occluded"))
def test_an_edit_changes_its_part_of_the_place_alone_and_again_in_the_same_way(edit, load):
    for place in ("", ELSEWHERE):
        plain = {doc["id"]: doc for doc in load("_heal")}
        docs = {
            dose: load("_heal", control=f"{edit}{place}" + (f"@{dose}" if dose < 100 else "")) for dose in (25, 50, 100)
        }
        raw = docs[100].with_format(None)
        for n in range(0, 12, 4):
            image = np.asarray(plain[docs[100][n]["id"]]["images"][0].convert("RGB")).astype(int)
            region = rle.decode(raw[n][TARGET])
            edit_mask = paint.shift_mask(region, **raw[n][PLACE])
            assert bool((edit_mask & region).any()) is not bool(place)
            pixels_by_dose = {dose: np.asarray(edited[n]["images"][0]).astype(int) for dose, edited in docs.items()}
            assert (pixels_by_dose[100] == np.asarray(docs[100][n]["images"][0])).all()
            far = np.asarray(ndimage.distance_transform_edt(~edit_mask)) > 12
            assert (pixels_by_dose[100][far] == image[far]).all()
            changed = {dose: np.abs(edited - image).max(2) for dose, edited in pixels_by_dose.items()}
            assert (changed[25] <= changed[50] + 1).all()  # one step of rounding
            assert (changed[50] <= changed[100] + 1).all()
            share = changed[50][edit_mask].sum() / changed[100][edit_mask].sum()
            assert 0 < changed[25][edit_mask].sum() < changed[50][edit_mask].sum() < changed[100][edit_mask].sum()
            assert 0.1 < share < 0.9


def test_tissue_comes_from_another_patient_without_what_is_asked_about(load):
    plain = load("_heal").with_format(None)
    absent = {(doc["images"][0]["key"], doc["topic"]) for doc in plain if doc["options"][doc["answer"]] == "No"}
    docs = load("_heal", control="transplanted")
    for doc, raw in zip(docs, docs.with_format(None), strict=True):
        donor = raw[DONOR]["image"]
        assert donor["key"] != doc["image_id"]
        assert donor["view"] == raw["images"][0]["view"]
        assert (donor["key"], doc["topic"]) in absent
        assert DONOR not in doc
        assert doc["images"].sources == {"vindr_cxr"}
    assert {doc["options"][doc["answer"]] for doc in docs} == {"Yes", "No"}  # a placebo, too
    elsewhere = {row["id"]: row[DONOR] for row in load("_heal", control="transplanted_elsewhere").with_format(None)}
    assert all(elsewhere.get(raw["id"], raw[DONOR]) == raw[DONOR] for raw in docs.with_format(None))


@pytest.mark.full  # the tests of tissue before have rows of HEAL-MedVQA
def test_tissue_of_frames_has_no_tool_and_that_of_sentences_no_such_finding(load):
    boxes = {doc["images"][0]["key"]: doc for doc in load("_surgx").with_format(None)}
    for control in ("transplanted", "transplanted_elsewhere"):
        docs = load("_surgx", control=control).with_format(None)
        assert len(docs) > 10
        for raw in docs:
            donor = boxes[raw[DONOR]["image"]["key"]]
            edit_mask = paint.shift_mask(rle.decode(raw[TARGET]), **raw[PLACE])
            tools = rle.encode_boxes(np.array([box["xywh"] for box in donor["boxes"]], float), edit_mask.shape)
            assert donor["video"] != raw["video"]
            assert not any((edit_mask & rle.decode(tool)).any() for tool in tools)
    findings_by_image: dict[str, set[str]] = {}
    for doc in load("_wrong_lung").with_format(None):
        findings_by_image.setdefault(doc["image_id"], set()).update(wrong_lung.facts(doc).shown)
    for raw in load("_wrong_lung", control="transplanted").with_format(None):
        assert findings_by_image[raw[DONOR]["image"]["key"]].isdisjoint(wrong_lung.facts(raw).findings)


def test_a_donor_of_tissue_that_is_missing_stops_the_run(load, phantom_heal_roots, tmp_path):
    root = tmp_path / "vindr"
    shutil.copytree(phantom_heal_roots["vindr_cxr"], root, copy_function=os.link)
    roots = phantom_heal_roots | {"vindr_cxr": root}
    docs = load("_heal", roots, control="transplanted").with_format(None)
    image_keys = {doc["images"][0]["key"] for doc in docs}
    raw = next((doc for doc in docs if doc[DONOR]["image"]["key"] not in image_keys), docs[0])
    (root / raw[DONOR]["image"]["key"]).unlink()
    with pytest.raises(ImageError, match=r"row .*image"):
        load("_heal", roots, control="transplanted")
    loaded = load("_heal", roots, control="transplanted", skip_missing_images=True)
    assert raw["id"] not in loaded["id"]


def test_an_image_of_another_size_than_its_region_stops_the_run(load, phantom_wrong_lung_roots, tmp_path):
    raw = load("_wrong_lung", control="occluded").with_format(None)[0]
    (reference,) = raw["images"]
    root = tmp_path / "root"
    path, original = root / reference["key"], phantom_wrong_lung_roots[reference["source"]] / reference["key"]
    path.parent.mkdir(parents=True)
    image = Image.open(original)
    image.resize((image.width // 2, image.height)).save(path)
    lazy = LazyImages(raw["id"], [reference], {reference["source"]: root}, change("occluded", raw))
    with pytest.raises(ImageError, match=rf"row {raw['id']}: height and width (.|\n)*the source's original images"):
        list(lazy)


def test_a_control_that_leaves_no_row_is_refused():
    """The crop cuts each image's edges, where the only tool is."""
    rows = Dataset.from_list([{"id": "r", "width": 99, "height": 99, "boxes": [{"xywh": [0.0, 0.0, 1.0, 1.0]}]}])
    with pytest.raises(Unsupported, match=r"option control=cropped: can be made for no row(.|\n)*choose another one"):
        controlled(rows, "cropped", None)


@settings(max_examples=choose_size(8, 30), deadline=None)
@given(st.integers(0, 999))
def test_a_box_is_found_where_the_crop_moves_it(seed):
    rng = np.random.default_rng(seed)
    width, height = (int(side) for side in rng.integers(150, 400, 2))
    x, y, w, h = (
        int(coordinate) for coordinate in (rng.integers(40, width - 90), rng.integers(40, height - 90), 30, 25)
    )
    pixels = np.zeros((height, width), np.uint8)
    pixels[y : y + h, x : x + w] = 255
    row = {"id": str(seed), "width": width, "height": height, "boxes": [{"label": "", "xywh": [x, y, w, h]}]}
    moved = crop_row(row | {TARGET: rle.encode(pixels)})
    assert moved is not None
    visible = np.asarray(crop(Image.fromarray(pixels), row["id"])) > 127
    x0, y0, wide, high = moved["boxes"][0]["xywh"]
    rows, columns = np.flatnonzero(visible.any(1)), np.flatnonzero(visible.any(0))
    bounds = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    assert np.abs(np.array(bounds) - [x0, y0, x0 + wide, y0 + high]).max() <= 1
    mask = rle.decode(moved[TARGET])
    assert (mask & visible).sum() / (mask | visible).sum() > 0.9


def test_a_box_that_a_crop_cuts_in_half_leaves_its_row_out():
    row = {"id": "a", "width": 200, "height": 200, "boxes": [{"label": "", "xywh": [0, 50, 2, 40]}]}
    assert crop_row(row) is None
    assert crop_row(row | {"boxes": [{"label": "", "xywh": [60, 50, 20, 40]}]}) is not None


def test_a_recoded_image_has_other_pixels_and_shows_the_same(load):
    image = load("_heal")[0]["images"][0].convert("RGB")
    before, after = np.asarray(image).astype(int), np.asarray(recode(image)).astype(int)
    assert before.shape == after.shape
    assert 0 < np.abs(before - after).mean() < 4


@pytest.mark.parametrize("name", keep_quick(LOADERS, lambda name: name == "_heal"))
def test_every_control_loads_or_says_why_not(name, load):
    reasons = {}
    for control in (*CONTROLS, "occluded@25", "transplanted_elsewhere@75"):
        try:
            docs = load(name, control=control)
        except Unsupported as error:
            reasons[control] = str(error)
        else:
            assert set(docs.with_format(None)["control"]) == {control}
            assert docs[0]["prompt"].endswith(f", {control}")
            assert control == "none" or docs[0]["images"][0].size[0] > 0
    assert all(reason.startswith(f"option control={control}: ") for control, reason in reasons.items())
    assert name == "" or not reasons
