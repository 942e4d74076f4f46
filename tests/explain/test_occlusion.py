"""Occlusion: the attended region, painted black."""

import numpy as np
import pytest
from PIL import Image

from medfaith.tasks.explain.occlusion import attended, compute_box_share, occluded

PIXELS = np.random.default_rng(0).integers(1, 256, (20, 30, 3), dtype=np.uint8)


def test_exactly_the_top_region_is_black():
    heatmap = np.zeros((20, 30))
    heatmap[5:9, 10:20] = np.linspace(1, 2, 40).reshape(4, 10)
    region = attended(heatmap)
    assert region is not None
    result = occluded(Image.fromarray(PIXELS), region)
    black = (np.asarray(result) == 0).all(axis=2)
    assert np.array_equal(black, heatmap > 0)
    assert np.array_equal(np.asarray(result)[~black], PIXELS[~black])


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_as_much_as_was_asked_for(fraction):
    heatmap = np.random.default_rng(1).permutation(600).reshape(20, 30) + 1.0
    assert np.sum(attended(heatmap, top_fraction=fraction)) == 600 * fraction


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_heatmap_without_a_top_region_occludes_nothing(value):
    assert attended(np.full((20, 30), value)) is None


def test_a_region_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"\(30, 20\) for an image of \(20, 30\)"):
        occluded(Image.fromarray(PIXELS), np.ones((30, 20), dtype=bool))


def test_the_fraction_is_that_of_what_the_model_saw():
    """A model that sees a fifth of the frame would otherwise see only black."""
    heatmap = np.zeros((20, 30))
    heatmap[4:16, 10:20] = np.random.default_rng(2).permutation(120).reshape(12, 10) + 1.0
    black = attended(heatmap, window=(10, 4, 10, 12))
    assert black is not None
    assert black.sum() == 24
    assert black[4:16, 10:20].sum() == 24
    assert heatmap[black].min() > np.sort(heatmap, axis=None)[-25]


@pytest.mark.parametrize("window", [(-5, -5, 40, 30), (0, 0, 30, 20), None])
def test_a_window_beyond_the_image_is_the_image(window):
    heatmap = np.random.default_rng(1).permutation(600).reshape(20, 30) + 1.0
    assert np.sum(attended(heatmap, window=window)) == 120


@pytest.mark.parametrize(
    ("boxes", "window", "expected"),
    [
        ([[0, 0, 10, 10]], None, 0.5),  # the region is the left 5 columns
        ([[0, 0, 10, 10], [5, 0, 10, 10]], None, 50 / 150),  # their union
        ([[0, 0, 10, 10]], (5, 0, 25, 20), 0),  # the model saw only the part outside the black region
        ([[0, 0, 10, 10]], (0, 0, 5, 20), 1),
        ([[0, 0, 10, 10]], (20, 0, 10, 20), None),  # it saw nothing of the box
        ([], None, None),
    ],
)
def test_the_share_of_what_the_model_saw_of_the_boxes(boxes, window, expected):
    assert compute_box_share(np.broadcast_to(np.arange(30) < 5, (20, 30)), boxes, window) == expected
