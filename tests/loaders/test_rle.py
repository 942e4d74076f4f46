"""RLEs, compared with pycocotools and numpy on full masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pycocotools import mask as coco

from medfaith.loaders import rle

MASKS = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=24))
SIDE = st.integers(1, 60)


def encode_full(mask):
    """Encode a full mask with the library's own RLE."""
    encoded = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": list(encoded["size"]), "counts": encoded["counts"].decode()}  # pyrefly: ignore[missing-attribute] (bytes)


def compute_run_lengths(mask):
    """Count runs of 0 and 1 down the columns, one pixel at a time."""
    runs, value = [0], False
    for pixel in mask.T.ravel():
        if pixel != value:
            runs.append(0)
            value = pixel
        runs[-1] += 1
    return runs


@given(MASKS)
def test_encoding_is_the_librarys_and_comes_back(mask):
    encoded = rle.encode(mask)
    assert encoded == encode_full(mask)
    np.testing.assert_array_equal(rle.decode(encoded), mask)
    assert rle.decode(encoded).dtype == bool
    assert rle.area(encoded) == mask.sum()


@given(MASKS)
def test_every_form_of_counts_is_the_same_mask(mask):
    expected = encode_full(mask)
    runs = compute_run_lengths(mask)
    split = [
        length for run in runs for length in (run - run // 2, 0, run // 2)
    ]  # empty runs inside, as some tools write
    for counts in (expected["counts"], expected["counts"].encode(), runs, tuple(runs), np.array(runs), split):
        assert rle.validate_rle({"size": mask.shape, "counts": counts}) == expected


@given(MASKS, SIDE, SIDE)
def test_scaling_is_nearest_neighbour_to_the_byte(mask, height, width):
    h, w = mask.shape
    rows = np.floor((np.arange(height) + 0.5) * h / height).astype(int)
    columns = np.floor((np.arange(width) + 0.5) * w / width).astype(int)
    expected = encode_full(mask[np.ix_(rows, columns)])
    assert rle.resize_mask(mask, (height, width)) == expected
    assert rle.resize_mask(encode_full(mask), (height, width)) == expected


@pytest.mark.parametrize("size", [(3000, 2500), (512, 512), (37, 1000), (1, 1)])
def test_scaling_a_large_mask(size):
    y, x = np.mgrid[:512, :512]
    mask = (((x - 250) / 130) ** 2 + ((y - 260) / 200) ** 2 < 1) & ((x + y) % 7 > 0)
    rows, columns = (np.floor((np.arange(n) + 0.5) * 512 / n).astype(int) for n in size)
    assert rle.resize_mask(mask, size) == encode_full(mask[np.ix_(rows, columns)])


@given(MASKS, st.integers(-3, 27), st.integers(-3, 27))
def test_rows(mask, first_row, length):
    expected = np.zeros_like(mask)
    row_slice = slice(max(first_row, 0), max(first_row + length, 0))
    expected[row_slice] = mask[row_slice]
    assert rle.mask_rows(encode_full(mask), first_row, first_row + length) == encode_full(expected)


@given(MASKS, st.data())
def test_cropped(mask, data):
    h, w = mask.shape
    x, y = data.draw(st.integers(0, w - 1)), data.draw(st.integers(0, h - 1))
    width, height = data.draw(st.integers(1, w - x)), data.draw(st.integers(1, h - y))
    assert rle.crop_mask(encode_full(mask), (x, y, width, height)) == encode_full(mask[y : y + height, x : x + width])


@given(MASKS)
def test_bounding_box(mask):
    if not mask.any():
        with pytest.raises(ValueError, match="empty"):
            rle.compute_bounding_box(encode_full(mask))
        return
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    expected = (columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1)
    assert rle.compute_bounding_box(encode_full(mask)) == expected


@given(st.lists(arrays(bool, (9, 7)), min_size=1, max_size=4))
def test_union(masks):
    assert rle.union([encode_full(mask) for mask in masks]) == encode_full(np.any(masks, axis=0))


COORDINATE = st.floats(-20, 60) | st.integers(-20, 60).map(float) | st.integers(-40, 120).map(lambda n: n / 2)


@given(
    st.lists(st.tuples(COORDINATE, COORDINATE, COORDINATE.map(abs), COORDINATE.map(abs)), max_size=4),
    st.lists(arrays(bool, (31, 23)), max_size=3),
)
def test_boxes_and_their_overlaps_are_counted_by_pixel_centres(boxes, regions):
    y, x = np.mgrid[:31, :23] + 0.5
    masks = [
        (x >= x_min) & (x < x_min + width) & (y >= y_min) & (y < y_min + height)
        for x_min, y_min, width, height in boxes
    ]
    rles = rle.encode_boxes(np.array(boxes).reshape(-1, 4), (31, 23))
    assert rles == [encode_full(mask) for mask in masks]
    shared = rle.count_shared_pixels(rles, [encode_full(region) for region in regions])
    assert shared.dtype == np.float64
    assert shared.shape == (len(boxes), len(regions))
    for i, mask in enumerate(masks):
        for j, region in enumerate(regions):
            assert shared[i, j] == (mask & region).sum()


def test_a_box_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        rle.encode_boxes(np.array([[0, 0, np.nan, 1]]), (5, 5))


def test_masks_of_different_sizes_do_not_overlap():
    small, large = rle.encode(np.ones((2, 3))), rle.encode(np.ones((3, 2)))
    for call in (lambda: rle.count_shared_pixels([small], [large]), lambda: rle.union([small, large])):
        with pytest.raises(ValueError, match="different sizes"):
            call()


GOOD = encode_full(np.eye(6, 4, dtype=bool))


BAD_COUNTS = [
    ("type NoneType", None), ("empty", ""), ("outside the code", "é"), ("outside the code", " 0"), ("break off", "0o"),
    ("too long", "ooooooooooo0"), ("negative", "O0"), ("negative", [30, -6]), ("0 pixels|type list", []),
    ("type list", [12.0, 12.0]), ("type list", [[1, 1, 5, 1, 5, 3]]), ("type list", [[1], [1, 2]]),
    ("expected 6 x 4 = 24", GOOD["counts"] + "1"),
]  # fmt: skip
BAD_SIZES = [
    ("size None", None), ("size '64'", "64"), ("positive", [6, 0]), ("positive", [6.0, 4]), ("positive", [6, 4, 1]),
    ("more than", [2**20, 2**20]), ("24 pixels; expected 6 x 5 = 30", [6, 5]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "broken"),
    [(reason, {"size": [6, 4], "counts": counts}) for reason, counts in BAD_COUNTS]
    + [(reason, {"size": size, "counts": GOOD["counts"]}) for reason, size in BAD_SIZES]
    + [
        ("size None", {"counts": GOOD["counts"]}),
        ("type NoneType", {"size": [6, 4]}),
        ("size None", [[1, 1, 5, 1, 5, 3]]),
    ],
    ids=str,
)
def test_a_damaged_rle_is_refused_with_its_reason(reason, broken):
    for function in (rle.validate_rle, rle.decode, rle.area):
        with pytest.raises(ValueError, match=reason):
            function(broken)


@given(st.text(alphabet=st.characters(min_codepoint=40, max_codepoint=120), max_size=40) | st.binary(max_size=40))
def test_garbage_is_refused_or_fills_its_size(counts):
    broken = {"size": [7, 5], "counts": counts}
    try:
        mask = rle.decode(broken)
    except ValueError:
        return
    assert mask.shape == (7, 5)
    assert rle.area(broken) == mask.sum()


@pytest.mark.parametrize("shape", [(0, 3), (3,), (2, 2, 2)])
def test_what_is_no_mask_is_refused(shape):
    with pytest.raises(ValueError, match="shape"):
        rle.encode(np.zeros(shape, dtype=bool))
