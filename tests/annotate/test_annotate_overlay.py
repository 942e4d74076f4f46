"""Overlays: the published view of an image, with attention and boxes at their positions."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from medfaith.annotate.overlay import CORNER, SCALE, colours, draw_boxes, nowhere, overlay, picture, png
from medfaith.evaluate_metrics.localization.input_view import SIDE, mask, window
from medfaith.tasks.explain.geometry import Geometry

SIZES = [(256, 256), (300, 200), (211, 340), (64, 1000)]
FULL = SIDE * SCALE


def compute_difference(rendered: Image.Image, plain: Image.Image) -> np.ndarray:
    """Compute how much an overlay differs from the plain image, without the corner's square."""
    difference = np.abs(np.asarray(rendered, float) - np.asarray(plain, float)).sum(axis=-1)
    difference[-CORNER * SCALE - 1 :, -CORNER * SCALE - 1 :] = 0
    return difference


@pytest.mark.parametrize("size", SIZES)
def test_a_picture_shows_what_the_view_shows(size):
    height, width = size
    box = (width // 4, height // 5, width // 3, height // 2)
    image = Image.new("L", (width, height))
    image.paste(255, (box[0], box[1], box[0] + box[2], box[1] + box[3]))
    rendered = picture(image)
    assert (rendered.mode, rendered.size) == ("RGB", (FULL, FULL))
    visible = np.asarray(rendered.resize((SIDE, SIDE), Image.Resampling.BOX))[..., 0] > 127
    inside = mask([box], size)
    assert (visible != inside).sum() <= 2 * (inside.any(axis=0).sum() + inside.any(axis=1).sum())  # of its edge


@pytest.mark.parametrize("size", SIZES)
def test_attention_lies_where_torch_puts_it(size):
    grid = np.random.default_rng(0).random((19, 19)).astype(np.float32)
    grid /= grid.sum()
    plain = Image.new("RGB", (FULL, FULL))
    rendered = overlay(plain, grid, Geometry(size, window(size)))
    level = torch.nn.functional.interpolate(torch.tensor(grid / grid.max())[None, None], (FULL, FULL), mode="bilinear")
    expected = colours(level[0, 0].numpy()) * 0.65 * level[0, 0].numpy()[..., None]
    difference = np.abs(np.asarray(rendered, float) - expected)[: -CORNER * SCALE - 1, : -CORNER * SCALE - 1]
    assert np.mean(difference) < 1  # through the view's 224 pixels, so not to the last level


def test_a_model_that_saw_another_part_of_the_image():
    size = (200, 400)
    rendered = overlay(picture(Image.new("L", (400, 200))), np.ones((2, 2)) / 4, Geometry(size, (200, 0, 200, 200)))
    visible = (
        compute_difference(rendered, Image.new("RGB", (FULL, FULL))).reshape(SIDE, SCALE, SIDE, SCALE).mean(axis=(1, 3))
        > 10
    )
    expected = mask([(200, 0, 200, 200)], size)
    expected[-CORNER - 1 :, -CORNER - 1 :] = visible[-CORNER - 1 :, -CORNER - 1 :]
    assert (visible != expected).sum() <= 2 * SIDE


@pytest.mark.parametrize("away", [0.0, 0.25, 0.9, 1.0])
def test_the_share_that_is_nowhere_fades_the_heatmap_and_lights_the_corner(away):
    grid = np.zeros((7, 7), np.float32)
    grid[2:5, 2:5] = (1 - away) / 9
    assert nowhere(grid) == pytest.approx(away, abs=1e-6)
    rendered = np.asarray(
        overlay(Image.new("RGB", (FULL, FULL)), grid, Geometry((256, 256), window((256, 256)))), float
    )
    level = 1 - away
    assert rendered[FULL // 2, FULL // 2] == pytest.approx(colours(level) * 0.65 * level, abs=2)
    side = CORNER * SCALE
    assert rendered[-side // 2, -side // 2] == pytest.approx(colours(away) * away, abs=1)
    assert rendered[-side // 2, -2 * side] == pytest.approx([0, 0, 0], abs=1)


def test_of_every_model_the_corner_has_its_square():
    """The square must not reveal which models can attend to nowhere."""
    plain = Image.new("RGB", (FULL, FULL), "gray")
    rendered = np.asarray(overlay(plain, np.ones((2, 2)) / 4, Geometry((256, 256), window((256, 256)))))
    assert tuple(rendered[-1, -1]) == (255, 255, 255)
    assert tuple(rendered[-CORNER, -CORNER]) == (0, 0, 0)


@pytest.mark.parametrize("size", SIZES)
def test_boxes_are_drawn_around_what_they_hold(size):
    height, width = size
    box = (width // 4, height // 4, width // 3, height // 3)
    plain = Image.new("RGB", (FULL, FULL))
    changed = np.asarray(draw_boxes(plain, [box], size)).max(axis=-1) > 0
    assert not np.asarray(plain).any()
    inside = mask([box], size)
    middle = []
    for marked, expected in ((changed, inside), (changed.T, inside.T)):
        edges, held = np.flatnonzero(marked.any(axis=0)), np.flatnonzero(expected.any(axis=0))
        assert abs(edges[0] - held[0] * SCALE) <= SCALE
        assert abs(edges[-1] - (held[-1] + 1) * SCALE) <= SCALE
        middle.append((edges[0] + edges[-1]) // 2)
    assert not changed[middle[1], middle[0]]


def test_a_file_holds_pixels_and_nothing_else():
    image = Image.new("RGB", (3, 2), (1, 2, 3))
    image.info = {"model": "secret", "dpi": (1, 1)}
    content = png(image)
    with Image.open(io.BytesIO(content)) as reopened:
        assert reopened.info == {}
        assert reopened.tobytes() == image.tobytes()
    assert b"secret" not in content
