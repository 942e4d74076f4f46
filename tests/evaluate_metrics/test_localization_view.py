"""The view: its window, its masks against a drawn mask resized by PIL, its scores against torch, bad inputs."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from medfaith.evaluate_metrics.localization.input_view import mask, scores, window

sizes = st.one_of(
    st.sampled_from([(3056, 2544), (2544, 3056), (2500, 3056), (256, 256), (512, 256), (2022, 2022)]),
    st.tuples(st.integers(1, 700), st.integers(1, 700)),
)


def crop_to_view(drawing):
    """Resize, pad and crop a mask to the view, following the paper's pipeline."""
    height, width = drawing.size[::-1]
    longest = max(height, width)
    resized = drawing.resize(
        (max(width * 256 // longest, 1), max(height * 256 // longest, 1)), Image.Resampling.NEAREST
    )
    padded = Image.new("L", (256, 256))
    padded.paste(resized, ((256 - resized.width) // 2, (256 - resized.height) // 2))
    return np.asarray(padded.crop((16, 16, 240, 240))) > 0


def is_on_an_edge(size):
    """Mark the view's pixels whose centre falls between two image pixels: PIL's running sum may choose either."""
    x_min, y_min, width, height = window(size)
    x, y = (start + (np.arange(224) + 0.5) * (side / 224) for start, side in ((x_min, width), (y_min, height)))
    return (np.abs(y - y.round()) < 1e-6)[:, None] | (np.abs(x - x.round()) < 1e-6)


@given(sizes, st.data())
def test_a_mask_is_the_drawn_one_resized(size, data):
    height, width = size
    drawing, boxes = Image.new("L", (width, height)), []
    for _ in range(data.draw(st.integers(0, 3))):
        x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
        w, h = data.draw(st.integers(1, width - x)), data.draw(st.integers(1, height - y))
        boxes.append([x, y, w, h])
        ImageDraw.Draw(drawing).rectangle((x, y, x + w - 1, y + h - 1), fill=255)
    clear = ~is_on_an_edge(size)
    assert np.array_equal(mask(boxes, size)[clear], crop_to_view(drawing)[clear])


def test_a_centre_on_an_edge_is_in_the_box_that_begins_there():
    # Scale 2: the centres are at 1, 3, 5, ... of the image from 32 on.
    assert mask([[33, 0, 1, 512]], (512, 512)).sum(axis=0).tolist()[:2] == [224, 0]
    assert not mask([[32, 0, 1, 512]], (512, 512)).any()


def compute_exact_centres(size):
    """Compute the centres of the view's pixels along rows and columns, without rounding."""
    resized = [max(side * 256 // max(size), 1) for side in size]
    first_pixels = [16 - (256 - side) // 2 for side in resized]
    return [
        [Fraction(2 * (first + n) + 1, 2) * Fraction(side, scaled) for n in range(224)]
        for side, scaled, first in zip(size, resized, first_pixels, strict=True)
    ]


@example((385, 114), [3, 62, 15, 75])
@example((114, 385), [62, 3, 75, 15])
@given(sizes, st.lists(st.one_of(st.integers(0, 400), st.floats(0, 400, width=16)), min_size=4, max_size=4))
def test_a_mask_equals_exact_arithmetic(size, box):
    """Also where a pixel's centre lies on an edge of the box."""
    x, y, w, h = box[0], box[1], box[2] + 1, box[3] + 1
    rows, columns = compute_exact_centres(size)
    inside_rows = [Fraction(y) <= centre < Fraction(y) + Fraction(h) for centre in rows]
    inside_columns = [Fraction(x) <= centre < Fraction(x) + Fraction(w) for centre in columns]
    assert np.array_equal(mask([[x, y, w, h]], size), np.outer(inside_rows, inside_columns))


@given(
    sizes,
    st.integers(1, 30),
    st.integers(1, 30),
    st.sampled_from([1, 2, 7, 8, 14, 19, 28, 224]),
    st.integers(0, 2**32 - 1),
)
def test_scores_of_a_grid_over_the_view_are_those_of_torch(size, h, w, cells, seed):
    for shape, options in (
        ((h, w), {"mode": "bilinear", "align_corners": False}),
        ((cells, cells), {"mode": "nearest"}),
    ):
        grid = np.random.default_rng(seed).random(shape)
        expected = torch.nn.functional.interpolate(torch.from_numpy(grid)[None, None], size=(224, 224), **options)
        assert np.allclose(
            scores(grid, size, window(size), options["mode"]), expected[0, 0].numpy(), rtol=0, atol=1e-12
        )


@given(sizes, st.sampled_from(["bilinear", "nearest"]), st.data())
def test_nothing_is_seen_outside_the_grids_window_and_an_even_grid_is_even_inside(size, upsampling, data):
    height, width = size
    x, y = data.draw(st.integers(-9, width - 1)), data.draw(st.integers(-9, height - 1))
    box = [x, y, data.draw(st.integers(1, 2 * width)), data.draw(st.integers(1, 2 * height))]
    view_scores = scores(np.full((3, 5), 0.1), size, box, upsampling)
    assert np.array_equal(view_scores, np.where(mask([box], size), 0.1, 0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: window((0, 5)), r"size \[0, 5\]; expected \[height, width\]"),
        (lambda: window((2.5, 5)), "whole numbers"),
        (lambda: window((5,)), r"size \[5\]"),
        (lambda: mask([[0, 0, 1, 1], [0, 0, 0, 5]], (9, 9)), r"box 2: .*with a size"),
        (lambda: mask([[0, 0, float("nan"), 5]], (9, 9)), "box 1"),
        (lambda: mask([[0, 0, 1]], (9, 9)), r"shape \(1, 3\)"),
        (lambda: mask([["a", 0, 1, 1]], (9, 9)), "not all four numbers"),
        (lambda: scores([[0, 1], [2]], (9, 9), (0, 0, 9, 9)), "all of one length"),
        (lambda: scores([0, 1], (9, 9), (0, 0, 9, 9)), r"shape \(2,\)"),
        (lambda: scores([[0, np.inf]], (9, 9), (0, 0, 9, 9)), "NaN or infinity"),
        (lambda: scores([[0, 1]], (9, 9), (0, 0, 0, 9)), "positive size"),
        (lambda: scores([[0, 1]], (9, 9), (0, 0, 9)), "expected .x, y, width, height"),
        (lambda: scores([[0, 1]], (9, 9), (0, 0, 9, 9), "bicubic"), "expected bilinear or nearest"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
