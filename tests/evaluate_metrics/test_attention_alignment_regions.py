"""Attention regions and shares of a batch: against a plain loop, numpy against torch, and invalid arrays."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.attention_alignment import regions
from medfaith.evaluate_metrics.attention_alignment.boxes import find_pixel_rectangles, split_disjoint
from medfaith.evaluate_metrics.attention_alignment.score import attention_alignment, find_attention_region
from tests.support.evaluate_metrics import attention_maps as plain
from tests.support.tiers import keep_quick


@given(plain.batches(), plain.fractions)
def test_equals_the_obvious_loop(batch, top_fraction):
    maps, class_boxes, all_boxes, _ = batch
    aa, ac, degenerate = attention_alignment(maps, class_boxes, all_boxes, top_fraction=top_fraction)
    region = find_attention_region(maps, top_fraction)
    for row, heatmap in enumerate(maps):
        assert np.array_equal(region[row], plain.find_plain_region(heatmap, top_fraction))
        assert np.array_equal(
            aa[row], plain.compute_plain_share(heatmap, class_boxes[row], top_fraction), equal_nan=True
        )
        assert np.array_equal(ac[row], plain.compute_plain_share(heatmap, all_boxes[row], top_fraction), equal_nan=True)
        assert degenerate[row] == (not region[row].any()) == math.isnan(aa[row])


@pytest.mark.parametrize("kind", plain.KINDS)
@pytest.mark.parametrize("dtype", keep_quick([np.float32, np.float64], lambda dtype: dtype is np.float32))
def test_equals_the_obvious_loop_at_the_size_of_a_frame(kind, dtype):
    heatmap = plain.make_heatmap(kind, (480, 854), np.random.default_rng(1)).astype(dtype)
    boxes = [[100.4, 50.5, 250.2, 200.0], [300, 200, 180.5, 260]]
    aa, ac, _ = attention_alignment(heatmap[None], [boxes[:1]], [boxes])
    assert np.array_equal(find_attention_region(heatmap[None])[0], plain.find_plain_region(heatmap))
    expected = [plain.compute_plain_share(heatmap, boxes[:1]), plain.compute_plain_share(heatmap, boxes)]
    assert np.array_equal([aa[0], ac[0]], expected, equal_nan=True)


def test_a_sample_that_misleads_changes_nothing(monkeypatch):
    """The lattice holds atypical values: counting rejects its proposal, and the function sorts the full map."""
    heatmap = np.random.default_rng(0).random((96, 96))
    heatmap[regions._LATTICE // 2 :: regions._LATTICE, regions._LATTICE // 2 :: regions._LATTICE] += 5
    sorted_wholes = []
    sort = np.sort
    monkeypatch.setattr(regions.np, "sort", lambda a, **options: sorted_wholes.append(a.size) or sort(a, **options))
    region = find_attention_region(heatmap[None])[0]
    assert heatmap.size in sorted_wholes
    assert np.array_equal(region, plain.find_plain_region(heatmap))
    sorted_wholes.clear()
    find_attention_region(np.random.default_rng(0).random((1, 96, 96)))
    assert sorted_wholes == [144]  # the sample is enough for an ordinary map


@given(st.lists(st.floats(-(2**99), 2**99, width=32), min_size=2, max_size=30), st.floats(0.001, 0.999))
def test_interpolates_as_numpy_does(values, quantile):
    array = np.array(values, dtype=np.float32)
    rank, weight = regions._find_position(len(array), 1 - quantile)
    lower, upper = np.sort(array)[[rank, rank + 1]]
    expected = np.quantile(array, 1 - (1 - quantile))
    interpolated = regions._compute_between(lower, upper, weight)
    assert interpolated == expected
    assert interpolated.dtype == expected.dtype


def is_cut(heatmap, top_fraction):
    """Whether equation 1 alone keeps more pixels than a non-empty region."""
    pixels, region = heatmap >= np.quantile(heatmap, 1 - top_fraction), plain.find_plain_region(heatmap, top_fraction)
    return bool(region.any() and pixels.sum() > region.sum())


def compute_on_device(maps, unions, motion=None, top_fraction=0.2):
    """Run the code path of device tensors on host tensors, since the test machines have no device."""
    names = [f"row {row + 1}" for row in range(len(maps))]
    size = maps.shape[1:]
    rectangles = [[split_disjoint(find_pixel_rectangles(boxes, size)) for boxes in union] for union in unions]
    return regions._count_on_device(torch.from_numpy(maps), rectangles, motion, top_fraction, names)


@given(plain.batches(largest=40), plain.fractions, st.sampled_from([np.float32, np.float64]))
def test_torch_equals_numpy(batch, top_fraction, dtype):
    maps, class_boxes, all_boxes, motion = batch
    maps, options = maps.astype(dtype), {"top_fraction": top_fraction}
    tensor = torch.from_numpy(maps)
    expected = attention_alignment(maps, class_boxes, all_boxes, **options)
    for ours, theirs in zip(attention_alignment(tensor, class_boxes, all_boxes, **options), expected, strict=True):
        assert isinstance(ours, np.ndarray)
        assert np.array_equal(ours, theirs, equal_nan=True)
    region = find_attention_region(tensor.clone().requires_grad_(), top_fraction)
    assert region.dtype == torch.bool
    assert np.array_equal(region.numpy(), find_attention_region(maps, top_fraction))
    bounds = regions._find_bounds_on_device(tensor, top_fraction, [str(row) for row in range(len(maps))])
    assert np.array_equal((tensor > bounds[:, None, None]).numpy(), region.numpy())
    for mask in (None, motion, torch.from_numpy(motion)):
        areas, inside = compute_on_device(maps, [class_boxes, all_boxes], mask, top_fraction)
        shares, degenerate, cut = regions.compute_shares_inside(maps, [class_boxes, all_boxes], motion=mask, **options)
        with np.errstate(invalid="ignore"):
            assert np.array_equal(inside / areas, shares, equal_nan=True)
        assert np.array_equal(areas == 0, degenerate)
        assert cut.tolist() == [is_cut(heatmap, top_fraction) for heatmap in maps]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_equals_the_host():
    rng = np.random.default_rng(0)
    maps = np.stack([plain.make_heatmap(kind, (480, 854), rng) for kind in plain.KINDS])
    boxes = [[[100, 50, 250, 200], [300.5, 200, 180, 260]]] * len(maps)
    expected = attention_alignment(maps, [box[:1] for box in boxes], boxes)
    gpu_scores = attention_alignment(torch.from_numpy(maps).cuda(), [box[:1] for box in boxes], boxes)
    for ours, theirs in zip(gpu_scores, expected, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.uint8])
def test_other_kinds_and_orders_of_numbers_are_read_exactly(dtype):
    tensor = (torch.from_numpy(plain.make_heatmap("noise", (30, 40), np.random.default_rng(0))) * 200).to(dtype)[None]
    expected = plain.find_plain_region(tensor[0].float().numpy() if dtype.is_floating_point else tensor[0].numpy())
    assert np.array_equal(find_attention_region(tensor)[0].numpy(), expected)
    if dtype is not torch.bfloat16:
        assert np.array_equal(find_attention_region(tensor.numpy())[0], expected)
        assert np.array_equal(
            find_attention_region(np.repeat(tensor.numpy(), 2, axis=1)[:, ::2, ::-1])[0], expected[:, ::-1]
        )


boxes_of_frames = st.lists(
    st.tuples(st.floats(-5, 25), st.floats(-5, 25), st.floats(0.01, 30), st.floats(0.01, 30)), max_size=6
)


@given(boxes_of_frames)
def test_disjoint_rectangles_cover_what_the_coco_tools_cover(boxes):
    covered = np.zeros((18, 22), dtype=int)
    for x_min, y_min, x_max, y_max in split_disjoint(find_pixel_rectangles(boxes, covered.shape)):
        covered[y_min:y_max, x_min:x_max] += 1
    assert covered.max(initial=0) <= 1
    assert np.array_equal(covered == 1, plain.draw_plain_union(boxes, covered.shape))


NO_NUMBERS = [[plain.NAN] * 4, [math.inf] * 4, [-math.inf, 1, 1, 1], [-math.inf, -1, -1, -1], [0, 0, 0, plain.NAN]]


@pytest.mark.parametrize(
    ("maps", "boxes", "message"),
    [
        *(
            (np.array([np.eye(1, 4), [values]]), [[], []], "row 2: a heatmap with NaN or infinity")
            for values in NO_NUMBERS
        ),
        (np.eye(3), [[]], r"maps of shape \(3, 3\); expected \(n, height, width\)"),
        (np.zeros((1, 0, 3)), [[]], r"maps of shape \(1, 0, 3\)"),
        (np.array([[["a"]]]), [[]], "maps, row 1: 'a'; expected a number"),
        (np.eye(3)[None], [], r"boxes for \[0, 0\] maps; expected 1 each"),
        (np.eye(3)[None], [[[1, 1, 2]]], r"row 1: boxes of shape \(1, 3\); expected \(k, 4\)"),
        (np.eye(3)[None], [[1, 1, 2, 2]], r"row 1: boxes of shape \(4,\); expected \(k, 4\)"),
        (np.eye(3)[None], [[[0, 0, 1, 1], [1, 1, 0, 2]]], "row 1, box 2: .* finite, with a size"),
        (np.eye(3)[None], [[[0, 0, 1, -1]]], "row 1, box 1: .* finite, with a size"),
        (np.eye(3)[None], [[[0, math.nan, 1, 1]]], "row 1, box 1: .* finite, with a size"),
        (np.eye(3)[None], [[["x", 0, 1, 1]]], "row 1: boxes that are not all four numbers"),
    ],
)
def test_bad_arrays_are_named(maps, boxes, message):
    with pytest.raises(ValueError, match=message):
        attention_alignment(maps, boxes, boxes)
    if maps.dtype.kind == "f" and "NaN" in message:
        with pytest.raises(ValueError, match=message):
            compute_on_device(maps, [boxes])


@pytest.mark.parametrize(
    ("maps", "options", "message"),
    [
        (np.full((1, 2, 2), plain.NAN), {"ids": ["VID42/7"]}, "VID42/7: a heatmap with NaN"),
        (np.eye(2)[None], {"ids": ["a", "b"]}, "2 ids for 1 maps"),
        *(
            (np.eye(2)[None], {"top_fraction": f}, r"top_fraction .+: expected a share")
            for f in (0, -0.1, 1.1, plain.NAN)
        ),
    ],
)
def test_bad_options_are_named_and_samples_as_the_caller_names_them(maps, options, message):
    with pytest.raises(ValueError, match=message):
        find_attention_region(maps, **options)
