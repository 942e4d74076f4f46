"""Relations of boxes and masks: a table of cases, with numpy pixel counts as the oracle."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medfaith.builders.heal_medvqa.relations import Boxes, Picture, Rule, locate
from medfaith.builders.heal_medvqa.scenes import scenes, within
from medfaith.loaders import rle
from medfaith.loaders.anatomy_masks import AnatomyMasks, open_masks
from medfaith.loaders.errors import InputError

LUNG, HEART = "left lower lung", "heart"
P, C = "Pneumothorax", "Calcification"


def make_picture(boxes: list[tuple[str, tuple[float, ...]]], unlocated: tuple[str, ...] = ()) -> Picture:
    labels = tuple(label for label, _ in boxes)
    xywh = np.array([box for _, box in boxes], dtype=np.float64).reshape(-1, 4)
    return Picture("a", "vindr_cxr", "train/a.dicom", "frontal", "a", None, Boxes(labels, xywh), unlocated)


def mask(shape: tuple[int, int], *rectangles: tuple[int, int, int, int]) -> np.ndarray:
    """Set rectangles (x, y, width, height) in an image of `shape` = (height, width)."""
    result = np.zeros(shape, dtype=bool)
    for x, y, w, h in rectangles:
        result[y : y + h, x : x + w] = True
    return result


def locate_boxes(boxes, masks: dict[str, np.ndarray], rule: Rule, unlocated: tuple[str, ...] = ()):
    height, width = next(iter(masks.values())).shape
    regions = {name: rle.encode(region_mask) for name, region_mask in masks.items()}
    return locate(make_picture(boxes, unlocated), (width, height), regions, rule)


# A lung of 10 x 10 pixels at the left of an image of 40 x 20, next to a heart of 10 x 10.
MASKS = {LUNG: mask((20, 40), (0, 0, 10, 10)), HEART: mask((20, 40), (10, 0, 10, 10))}


UPPER_HALF, ACROSS, INSIDE = (0, 0, 10, 5), (5, 0, 20, 10), (4, 4, 1, 1)
# Case -> boxes, rule, box numbers by related pair, touched pairs.
RELATIONS = {
    "no box": ([], Rule(), {}, set()),
    "the whole of it, and the neighbour that it borders on is not touched":
        ([(P, (0, 0, 10, 10))], Rule("iou", 1.0), {(LUNG, P): (0,)}, {(LUNG, P)}),
    "apart, however low the threshold": ([(P, (25, 0, 5, 5))], Rule("iou", 0.0), {}, set()),
    "IoU at the threshold": ([(P, UPPER_HALF)], Rule("iou", 0.5), {(LUNG, P): (0,)}, {(LUNG, P)}),
    "IoU below it": ([(P, UPPER_HALF)], Rule("iou", 0.51), {}, {(LUNG, P)}),
    "a quarter of the box is at the threshold":
        ([(P, ACROSS)], Rule("box", 0.25), {(HEART, P): (0,), (LUNG, P): (0,)}, {(HEART, P), (LUNG, P)}),
    "and below it": ([(P, ACROSS)], Rule("box", 0.26), {(HEART, P): (0,)}, {(HEART, P), (LUNG, P)}),
    "a nodule inside has a small IoU": ([(C, INSIDE)], Rule("iou", 0.05), {}, {(LUNG, C)}),
    "and lies there with all of its box": ([(C, INSIDE)], Rule("box", 1.0), {(LUNG, C): (0,)}, {(LUNG, C)}),
    "several boxes of a disease":
        ([(P, UPPER_HALF), (C, (0, 0, 9, 9)), (P, (0, 5, 10, 5))], Rule("iou", 0.5),
         {(LUNG, P): (0, 2), (LUNG, C): (1,)}, {(LUNG, P), (LUNG, C)}),
    "only those above the threshold are its boxes":
        ([(P, (0, 0, 10, 10)), (P, (9, 9, 2, 2))], Rule("iou", 0.5), {(LUNG, P): (0,)}, {(LUNG, P), (HEART, P)}),
    "wider readings of a shadow are not asked for as absent":
        ([("Consolidation", (0, 0, 10, 10))], Rule(), {(LUNG, "Consolidation"): (0,)},
         {(LUNG, d) for d in ("Consolidation", "Infiltration", "Lung Opacity")}),
    "a box without a pixel's centre": ([(P, (3.2, 3.2, 0.1, 0.1))], Rule("box", 0.0), {}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("boxes", "rule", "related", "touched"), RELATIONS.values(), ids=RELATIONS)
def test_relations(boxes, rule, related, touched):
    scene = locate_boxes(boxes, MASKS, rule)
    assert scene.related == related
    assert list(scene.related) == sorted(related)
    assert scene.touched == touched


def test_a_disease_that_lies_nobody_knows_where_touches_every_anatomy_and_relates_to_none():
    """The scene also keeps its masks and their extents as shares of the image."""
    scene = locate_boxes([(P, (0, 0, 10, 10))], MASKS, Rule(), unlocated=(P,))
    assert scene.related == {(LUNG, P): (0,)}
    assert scene.touched == {(LUNG, P), (HEART, P)}
    assert (scene.width, scene.height) == (40, 20)
    assert scene.extents == {LUNG: (10 / 40, 10 / 20), HEART: (10 / 40, 10 / 20)}
    assert "aorta" not in scene.extents
    assert scene.regions.keys() == MASKS.keys()
    assert all(np.array_equal(rle.decode(region), MASKS[name]) for name, region in scene.regions.items())


SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))


@st.composite
def images(draw):
    """Draw boxes of whole pixels within the image, and masks by anatomy with at least one pixel each."""
    height, width = draw(SIZES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from((0.05, 0.5, 1.0)))
    masks = {}
    for name in ("heart", "aorta", "trachea")[: draw(st.integers(1, 3))]:
        masks[name] = rng.random((height, width)) < density
        masks[name][rng.integers(height), rng.integers(width)] = True
    boxes = []
    for _ in range(draw(st.integers(0, 5))):
        x, y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        w, h = draw(st.integers(1, width - x)), draw(st.integers(1, height - y))
        boxes.append((draw(st.sampled_from((P, "Emphysema"))), (x, y, w, h)))
    return boxes, masks


def count_relations(boxes, masks, rule: Rule):
    """Compute (related, touched) from pixel counts (the oracle)."""
    related: dict[tuple[str, str], list[int]] = {}
    touched = set()
    for number, (disease, box) in enumerate(boxes):
        for name, region in masks.items():
            box_mask = mask(region.shape, box)
            common = np.count_nonzero(box_mask & region)
            n_pixels = np.count_nonzero(box_mask | region) if rule.measure == "iou" else np.count_nonzero(box_mask)
            if common:
                touched.add((name, disease))
                if common >= rule.threshold * n_pixels:
                    related.setdefault((name, disease), []).append(number)
    return {pair: tuple(numbers) for pair, numbers in related.items()}, touched


@given(images(), st.sampled_from(("iou", "box")), st.sampled_from((0.0, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0)))
def test_relations_are_those_that_counting_pixels_gives(image, measure, threshold):
    boxes, masks = image
    rule = Rule(measure, threshold)
    scene = locate_boxes(boxes, masks, rule)
    related, touched = count_relations(boxes, masks, rule)
    assert scene.related == related
    assert scene.touched == touched
    assert set(scene.related) <= scene.touched


@given(images())
def test_a_higher_threshold_relates_less_and_touches_the_same(image):
    boxes, masks = image
    for measure in ("iou", "box"):
        low, high = (locate_boxes(boxes, masks, Rule(measure, threshold)) for threshold in (0.1, 0.3))
        assert set(high.related) <= set(low.related)
        assert high.touched == low.touched


@pytest.mark.parametrize(
    ("box", "cut", "counted"),
    [
        pytest.param((1, 2, 3, 4), (1, 2, 3, 4), {}, id="inside"),
        pytest.param((0, 0, 40, 20), (0, 0, 40, 20), {}, id="the whole image"),
        pytest.param((30, 10, 10.9, 10.5), (30, 10, 10, 10), {}, id="rounding beyond the edge is no cut"),
        pytest.param((30, 10, 15, 5), (30, 10, 10, 5), {"boxes cut at the image's edge (kept)": 1}, id="right"),
        pytest.param((-5, -5, 10, 10), (0, 0, 5, 5), {"boxes cut at the image's edge (kept)": 1}, id="top left"),
        pytest.param((40, 0, 5, 5), None, {"boxes outside the image": 1}, id="beside"),
        pytest.param((0, -9, 5, 9), None, {"boxes outside the image": 1}, id="above"),
    ],
)
def test_boxes_are_cut_to_the_image(box, cut, counted):
    skipped: Counter[str] = Counter()
    boxes = within(make_picture([(P, box), ("Emphysema", (0, 0, 5, 5))]).boxes, (40, 20), skipped)
    assert boxes.labels == ((P, "Emphysema") if cut else ("Emphysema",))
    assert boxes.xywh.tolist() == [*([list(cut)] if cut else []), [0, 0, 5, 5]]
    assert +skipped == counted


def write_heart_mask(folder: Path, heart: np.ndarray) -> AnatomyMasks:
    (folder / "a").mkdir()
    Image.fromarray(heart).save(folder / "a/heart.png")
    return open_masks(folder, ["heart"])


INSIDE_BOX, CUT_BOX, OUTSIDE_BOX = (P, (0, 0, 5, 5)), (P, (30, 10, 15, 5)), (P, (40, 0, 5, 5))
# Up to 5% of all boxes, and up to 9 boxes, may reach beyond their image. Boxes -> the count in the error, if any.
STRAY_BOXES = {
    "10 of 200 lie outside": ([INSIDE_BOX] * 190 + [OUTSIDE_BOX] * 10, None),
    "10 of 199 lie outside": ([INSIDE_BOX] * 189 + [OUTSIDE_BOX] * 10, "10 of 199 boxes reach beyond their images"),
    "10 of 200 are cut": ([INSIDE_BOX] * 190 + [CUT_BOX] * 10, None),
    "10 of 199 are cut": ([INSIDE_BOX] * 189 + [CUT_BOX] * 10, "10 of 199 boxes reach beyond their images"),
    "50 of 50 are in the upper left": ([INSIDE_BOX] * 50, "all 50 boxes end within the first 25% of their images"),
    "49 of 49 are in the upper left": ([INSIDE_BOX] * 49, None),
    "49 of 50 are in the upper left": ([INSIDE_BOX] * 49 + [(P, (20, 5, 5, 5))], None),
    "9 of 9 lie outside": ([OUTSIDE_BOX] * 9, None),
}


@pytest.mark.parametrize(("boxes", "message"), STRAY_BOXES.values(), ids=STRAY_BOXES)
def test_boxes_of_other_images_are_refused(boxes, message, tmp_path):
    picture = replace(make_picture(boxes), size=(40, 20))
    masks = write_heart_mask(tmp_path, MASKS[HEART])
    if message is None:
        ((scene,), skipped) = scenes([picture], masks, Rule(), {})
        assert len(scene.picture.boxes.labels) + skipped["boxes outside the image"] == len(boxes)
        return
    with pytest.raises(InputError, match=f"(?s)vindr_cxr: {message}.*images of the original size.*train_meta.csv"):
        scenes([picture], masks, Rule(), {})


@pytest.mark.parametrize(("n_images", "is_refused"), [(20, True), (19, False)])
def test_inverted_masks_are_refused(n_images, is_refused, tmp_path):
    for number in range(n_images):
        (tmp_path / str(number)).mkdir()
        Image.fromarray(~MASKS[HEART]).save(tmp_path / str(number) / "heart.png")
    pictures = [replace(make_picture([]), image_id=str(number), size=(40, 20)) for number in range(n_images)]
    with pytest.raises(InputError, match=r"20 of 20 masks reach") if is_refused else nullcontext():
        assert len(scenes(pictures, open_masks(tmp_path, ["heart"]), Rule(), {})[0]) == n_images


@pytest.mark.parametrize(
    ("heart", "size", "counted"),
    [
        pytest.param(MASKS[HEART], None, {"images of unknown size (no file, no table, no size in the masks)": 1}),
        pytest.param(mask((20, 40)), (40, 20), {"images without masks": 1, "empty mask: heart": 1}),
    ],
    ids=["no size", "an empty mask"],
)
def test_images_without_a_size_or_a_region_are_counted(heart, size, counted, tmp_path):
    picture = replace(make_picture([INSIDE_BOX]), size=size)
    built, skipped = scenes([picture], write_heart_mask(tmp_path, heart), Rule(), {"vindr_cxr": tmp_path})
    assert (built, skipped) == ([], counted)


def test_contested_boxes_touch_and_relate_to_nothing():
    agreed = make_picture([(P, (0, 0, 10, 10))])
    contested = Boxes((C,), np.array([[10.0, 0.0, 10.0, 10.0]]))
    regions = {name: rle.encode(region_mask) for name, region_mask in MASKS.items()}
    relations = locate(replace(agreed, contested=contested), (40, 20), regions, Rule())
    assert relations.related == {(LUNG, P): (0,)}
    assert relations.touched == {(LUNG, P), (HEART, C)}


@pytest.mark.parametrize(("places", "related"), [("any", {LUNG, HEART}), ("anatomical", {HEART})])
def test_a_class_may_be_kept_to_where_it_can_lie(places, related):
    relations = locate_boxes([("Cardiomegaly", (0, 0, 20, 10))], MASKS, Rule("iou", 0.05, places))
    assert {anatomy for anatomy, _ in relations.related} == related
    assert {anatomy for anatomy, _ in relations.touched} == {LUNG, HEART}
