"""What a model looked at, painted black."""

import numpy as np
import pytest
from PIL import Image

from medfaith.tasks.explain.occlusion import occluded

PIXELS = np.random.default_rng(0).integers(1, 256, (20, 30, 3), dtype=np.uint8)


def test_exactly_the_top_region_is_black():
    heatmap = np.zeros((20, 30))
    heatmap[5:9, 10:20] = np.linspace(1, 2, 40).reshape(4, 10)
    result = occluded(Image.fromarray(PIXELS), heatmap)
    assert result is not None
    black = (np.asarray(result) == 0).all(axis=2)
    assert np.array_equal(black, heatmap > 0)
    assert np.array_equal(np.asarray(result)[~black], PIXELS[~black])


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_as_much_as_was_asked_for(fraction):
    heatmap = np.random.default_rng(1).permutation(600).reshape(20, 30) + 1.0
    result = occluded(Image.fromarray(PIXELS), heatmap, top_fraction=fraction)
    assert (np.asarray(result) == 0).all(axis=2).sum() == 600 * fraction


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_heatmap_without_a_top_region_occludes_nothing(value):
    assert occluded(Image.fromarray(PIXELS), np.full((20, 30), value)) is None


def test_a_heatmap_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"\(30, 20\) for an image of \(20, 30\)"):
        occluded(Image.fromarray(PIXELS), np.ones((30, 20)))
