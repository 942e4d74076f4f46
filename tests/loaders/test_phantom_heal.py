"""The phantom of VinDr-CXR: boxes enclose the drawn findings, findings change their anatomy, masks fit the images."""

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco
from pycocotools.coco import COCO

from medfaith.loaders import images
from medfaith.loaders import vindr_cxr as readers
from medfaith.loaders.phantom import cases, chest, vindr_cxr
from tests.support.tiers import choose_size

IOU: Any = coco.iou  # its stubs know neither lists of boxes nor the array it returns
SEED = 0
ZONES = [f"{side} {zone} lung" for side in ("right", "left") for zone in ("upper", "middle", "lower")]
ANATOMIES = [*ZONES, "heart", "aorta", "trachea"]
OPACITIES = {"Consolidation", "Lung Opacity", "Nodule/Mass"}
DARK = {"Emphysema"}


def read_pixels(ref, roots):
    return np.asarray(images.open_image(ref, roots))[..., 0]


# --- local findings ---------------------------------------------------------------------------------------------------


@cache
def draw_normal(seed):
    return chest.draw_chest([], seed=seed)


@pytest.mark.parametrize("finding", cases.FINDINGS, ids=lambda finding: finding.drawn)
def test_a_finding_shows_and_its_box_lies_on_its_anatomy_more_than_on_any_other(finding):
    thin = finding.label in {"Rib fracture", "Atelectasis", "Pleural thickening"}
    for seed in range(choose_size(2, 4)):
        picture = chest.chest([finding.drawn], seed=seed)
        change = (picture.pixels.astype(int) - draw_normal(seed))[picture.findings[finding.drawn]]
        assert np.abs(change).max() > 30, seed
        if finding.label in OPACITIES | DARK:
            assert change.mean() * (-1 if finding.label in DARK else 1) > 20, seed
        ((label, xywh),) = cases.boxes([finding], picture)
        assert label == finding.label
        iou = {name: compute_rle_iou(picture.regions[name], xywh) for name in ANATOMIES}
        assert max(iou, key=lambda name: iou[name]) in finding.anatomies, seed
        assert max(iou.values()) > (0.02 if thin else 0.2), seed


@settings(max_examples=choose_size(8, 30), deadline=None)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(0, 99))
def test_dealt_findings_share_no_anatomy_and_all_get_their_turn(counts, seed):
    hands = cases.deal(counts, np.random.default_rng(seed))
    assert [len(hand) for hand in hands] == counts
    for hand in hands:
        occupied = [anatomy for finding in hand for anatomy in finding.anatomies]
        assert len(occupied) == len(set(occupied))
    times = Counter(finding for hand in hands for finding in hand)
    assert sum(counts) < 2 * len(cases.FINDINGS) or len(times) == len(cases.FINDINGS)
    assert max(times.values(), default=0) <= 1 + -(-sum(counts) // len(cases.FINDINGS))


def compute_rle_iou(mask, xywh):
    """Compute the IoU of a mask and a box with pycocotools."""
    x, y, w, h = xywh
    rle = coco.encode(np.asfortranarray(mask, dtype=np.uint8))
    (box,) = coco.frPyObjects([[x, y, x + w, y, x + w, y + h, x, y + h]], *mask.shape)
    return float(IOU([rle], [box], [0])[0, 0])


# --- VinDr-CXR --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan():
    return vindr_cxr.plan(SEED, 60, 40)


def read_annotations(written, split):
    return readers.read_annotations(written["vindr_cxr"] / "annotations" / f"annotations_{split}.csv", split)


@pytest.mark.parametrize(("split", "count", "n_readers"), [("train", 60, 3), ("test", 40, 1)])
def test_vindr_rows(written, plan, split, count, n_readers):
    table = read_annotations(written, split)
    assert table.n_readers is not None
    assert table.n_readers.tolist() == [n_readers] * count
    assert all(re.fullmatch(r"[0-9a-f]{32}", image_id) for image_id in table.image_ids)
    files = {path.name for path in (written["vindr_cxr"] / split).iterdir()}
    assert files == {f"{image_id}.dicom" for image_id in table.image_ids}
    assert 0.55 * count <= len(table.boxes["image"].unique()) <= 0.75 * count
    other_names = (radiograph.name for name, radiographs in plan.items() if name != split for radiograph in radiographs)
    assert files.isdisjoint(f"{name}.dicom" for name in other_names)


def test_vindr_images_are_of_many_kinds_and_show_the_drawing(written, plan):
    kinds, sizes = set(), set()
    for split, radiographs in plan.items():
        for radiograph in radiographs:
            header = pydicom.dcmread(written["vindr_cxr"] / split / f"{radiograph.name}.dicom", stop_before_pixels=True)
            kinds.add((header.PhotometricInterpretation, header.BitsStored))
            sizes.add(radiograph.size)
            assert (header.Rows, header.Columns) == radiograph.size
    assert kinds == {(kind, bits) for kind in ("MONOCHROME1", "MONOCHROME2") for bits in (8, 10, 12)}
    assert len(sizes) > 50
    for radiograph in plan["test"][:12]:
        ref = {"source": "vindr_cxr", "key": f"test/{radiograph.name}.dicom", "view": ""}
        chest_pixels = chest.draw_chest(radiograph.drawn, seed=radiograph.seed, size=radiograph.size)
        np.testing.assert_array_equal(read_pixels(ref, written), chest_pixels & 0b11111100)


@pytest.mark.parametrize("split", ["train", "test"])
def test_vindr_consensus_boxes_enclose_what_the_finding_changes(written, plan, split):
    """For findings that move no outline, the strong changes against the image without findings are in the boxes."""
    consensus = readers.agree(read_annotations(written, split))
    boxes = {image_id: [] for image_id in consensus.image_ids}
    for row in consensus.boxes.to_pylist():
        boxes[consensus.image_ids[row["image"]]].append([row[side] for side in ("x", "y", "width", "height")])
    checked = 0
    for radiograph in plan[split]:
        still = [f.label in OPACITIES | DARK for f in radiograph.findings]
        if still and all(still):
            ref = {"source": "vindr_cxr", "key": f"{split}/{radiograph.name}.dicom", "view": ""}
            normal = chest.draw_chest([], seed=radiograph.seed, size=radiograph.size)
            changed = np.abs(read_pixels(ref, written).astype(int) - normal) > 40
            inside = np.zeros_like(changed)
            for x, y, w, h in boxes[radiograph.name]:
                box_slice = np.s_[round(y) : round(y + h), round(x) : round(x + w)]
                inside[box_slice] = True
                assert changed[box_slice].mean() > 0.3, radiograph
            assert (changed & inside).sum() > 0.97 * changed.sum(), radiograph
            checked += 1
    assert checked >= 8


def test_vindr_readers_mostly_agree(written, plan):
    """Two or three readers marked each drawn finding; a finding marked by one reader is not drawn."""
    table = read_annotations(written, "train")
    readers_of = {rule: readers.agree(table, rule).boxes for rule in readers.RULES}
    assert readers_of["majority"].num_rows == sum(len(radiograph.findings) for radiograph in plan["train"])
    assert readers_of["all"].num_rows > 0.6 * readers_of["majority"].num_rows
    assert readers_of["any"].num_rows >= readers_of["majority"].num_rows + 3


# --- anatomy masks ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def masks(written):
    """Masks by image id and anatomy, read with pycocotools."""
    data = COCO(str(written["vindr_cxr_anatomy"] / "anatomy.json"))
    names = {category["id"]: category["name"] for category in data.cats.values()}
    masks_by_image = {Path(image["file_name"]).stem: {} for image in data.imgs.values()}
    for annotation in data.anns.values():
        mask = data.annToMask(annotation).astype(bool)
        image = data.imgs[annotation["image_id"]]
        assert mask.shape == (image["height"], image["width"])
        assert mask.sum() == annotation["area"]
        masks_by_image[Path(image["file_name"]).stem][names[annotation["category_id"]]] = mask
    return masks_by_image


@pytest.mark.full
def test_vindr_masks_are_the_drawn_regions(masks, plan):
    lacking, empty = [], []
    for split, radiographs in plan.items():
        for number, radiograph in enumerate(radiographs):
            if radiograph.name not in masks:
                lacking.append((split, number))
                continue
            image_masks = masks[radiograph.name]
            assert set(image_masks) == set(ANATOMIES)
            regions = chest.chest(radiograph.drawn, seed=radiograph.seed, size=radiograph.size).regions
            for name, mask in image_masks.items():
                if mask.any():
                    np.testing.assert_array_equal(mask, regions[name])
                else:
                    empty.append((split, number, name))
    assert lacking == [("train", 1)]
    assert empty == [("test", 1, "trachea")]
