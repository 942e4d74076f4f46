"""Windows against the preprocessing itself, run on images of coordinates; upsampling against torch's interpolate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.explain.geometry import (
    Geometry,
    compute_processor_geometry,
    compute_transform_geometry,
    resize_and_crop,
    to_frame,
    visible_share,
)

FRAME = (480, 854)


def fit_seen_window(preprocess, size):
    """Measure the visible window with images of x and y coordinates: fit a line between the inner pixels of the output.

    Args:
        preprocess: Maps a PIL image to a float array (h, w) in the image's own grey levels.
        size: Height and width of the image.
    """
    white = preprocess(Image.new("RGB", (size[1], size[0]), (255, 255, 255))) > 254.5  # the area without padding
    window = []
    for axis in (1, 0):  # x, then y
        ramp = (np.arange(size[axis]) + 0.5) / size[axis] * 200 + 20  # a pixel's value tells where its centre lies
        grey = np.broadcast_to(ramp if axis == 1 else ramp[:, None], size)
        output = preprocess(Image.fromarray(np.round(grey).astype(np.uint8)).convert("RGB"))
        places = np.flatnonzero(white.any(axis=1 - axis))
        inner = places[len(places) // 8 : len(places) - len(places) // 8]  # resampling bends the line at the ends
        line = np.array([np.take(output, n, axis)[np.take(white, n, axis)].mean() for n in inner])
        slope, start = np.polyfit(inner + 0.5, (line - 20) / 200 * size[axis], 1)
        window.append((start, slope * output.shape[axis]))
    (x, w), (y, h) = window
    return x, y, w, h


def make_plain_preprocess(processor: Any):
    """Make a function that returns a processor's output in the image's own grey levels."""
    processor.do_normalize = False

    def preprocess(image):
        return processor(image, return_tensors="np")["pixel_values"][0].mean(axis=0) * 255

    return preprocess


PROCESSORS = {
    "clip": transformers.CLIPImageProcessor(),
    "clip, small": transformers.CLIPImageProcessor(size={"shortest_edge": 30}, crop_size={"height": 28, "width": 20}),
    "clip, crop larger than the image": transformers.CLIPImageProcessor(
        size={"shortest_edge": 50}, crop_size={"height": 70, "width": 70}
    ),
    "clip, no crop": transformers.CLIPImageProcessor(do_center_crop=False),
    "clip, square": transformers.CLIPImageProcessor(size={"height": 256, "width": 256}),
    "blip": transformers.BlipImageProcessor(),
    "llava, padded": transformers.LlavaImageProcessor(do_pad=True),
    "siglip": transformers.SiglipImageProcessor(),
}


@pytest.mark.parametrize("size", [FRAME, (240, 427), (300, 200), (64, 64)])
@pytest.mark.parametrize("name", PROCESSORS)
def test_a_processors_window_is_what_it_shows_the_model(name, size):
    processor = PROCESSORS[name]
    geometry = compute_processor_geometry(processor, size)
    np.testing.assert_allclose(
        geometry.window, fit_seen_window(make_plain_preprocess(processor), size), atol=0.004 * max(size)
    )


@pytest.mark.parametrize("size", [FRAME, (300, 200)])
@pytest.mark.parametrize(
    "steps",
    [
        [transforms.Resize((360, 640)), transforms.CenterCrop(224)],
        [transforms.Resize(224), transforms.CenterCrop((224, 224))],
        [transforms.Resize((100, 90))],
        [transforms.CenterCrop((101, 152))],
        [transforms.Resize(40)],
    ],
)
def test_a_composes_window_is_what_it_shows_the_model(steps, size):
    compose = transforms.Compose([*steps, transforms.ToTensor()])
    geometry = compute_transform_geometry(compose, size)
    measured = fit_seen_window(lambda image: compose(image).numpy().mean(axis=0) * 255, size)
    np.testing.assert_allclose(geometry.window, measured, atol=0.004 * max(size))


def test_how_much_of_a_frame_clip_and_surgvlp_see():
    clip = compute_processor_geometry(transformers.CLIPImageProcessor(), FRAME)
    surgvlp = resize_and_crop(FRAME, (360, 640), 224)
    shares = [visible_share([[0, 0, 854, 480]], geometry)[0] for geometry in (clip, surgvlp)]
    assert shares == pytest.approx([224 / 398, 224 * 224 / (360 * 640)])  # 854 x 480 becomes 398 x 224: 56%; and 22%
    assert clip.window == pytest.approx((87 * 854 / 398, 0, 224 * 854 / 398, 480))
    assert surgvlp.window == pytest.approx((208 * 854 / 640, 68 * 480 / 360, 224 * 854 / 640, 224 * 480 / 360))
    assert compute_processor_geometry(transformers.BlipImageProcessor(), FRAME) == Geometry.whole(FRAME)


def test_openclips_preprocessing_is_read():
    from open_clip.transform import image_transform

    assert compute_transform_geometry(image_transform(224, is_train=False), FRAME) == resize_and_crop(FRAME, 224, 224)
    squash = image_transform(224, is_train=False, resize_mode="squash")
    assert compute_transform_geometry(squash, FRAME) == Geometry.whole(FRAME)
    with pytest.raises(MedfaithError, match="a step ResizeKeepRatio, whose geometry is not known"):
        compute_transform_geometry(image_transform(224, is_train=False, resize_mode="longest"), FRAME)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (SimpleNamespace(image_grid_pinpoints=[[336, 672]]), "image_grid_pinpoints"),
        (SimpleNamespace(do_image_splitting=True), "do_image_splitting"),
        (SimpleNamespace(do_pad=True), "do_pad"),
        (
            SimpleNamespace(do_resize=True, do_center_crop=True, size={"longest_edge": 5}, crop_size={"height": 2}),
            "longest_edge",
        ),
    ],
)
def test_an_unknown_geometry_is_refused(processor, message):
    with pytest.raises(MedfaithError, match=message):
        compute_processor_geometry(processor, FRAME)


GRIDS = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))


@given(GRIDS, st.tuples(st.integers(1, 20), st.integers(1, 20)), st.tuples(st.integers(-8, 8), st.integers(-8, 8)))
def test_inside_a_window_of_whole_pixels_it_is_torchs_and_outside_it_is_zero(shape, extent, corner):
    grids = np.random.default_rng(0).random(shape, dtype=np.float32) + 0.1
    size, (h, w), (y, x) = (14, 11), extent, corner
    inside = torch.nn.functional.interpolate(torch.tensor(grids)[None], (h, w), mode="bilinear")[0].numpy()
    expected = np.zeros((len(grids), 60, 60), dtype=np.float32)  # the frame's corner is at (20, 20)
    expected[:, 20 + y : 20 + y + h, 20 + x : 20 + x + w] = inside
    frames = to_frame(grids, Geometry(size, (x, y, w, h)))
    assert frames.dtype == np.float32
    np.testing.assert_allclose(frames, expected[:, 20:34, 20:31], atol=2e-6)


@given(st.floats(-50, 50), st.floats(0.5, 120), st.floats(0.125, 1e6, width=32))
def test_a_constant_grid_stays_exactly_constant(start, extent, value):
    frame = to_frame(np.full((1, 7, 7), value, dtype=np.float32), Geometry((40, 50), (start, start, extent, extent)))
    assert set(np.unique(frame)) <= {np.float32(0), np.float32(value)}


def test_a_centre_outside_the_window_is_outside():
    frame = to_frame(np.ones((1, 2, 2)), Geometry((1, 6), (0.51, 0, 3.98, 1)))[0]  # x from 0.51 to 4.49
    assert frame[0].tolist() == [0, 1, 1, 1, 0, 0]
    assert to_frame(np.zeros((0, 7, 7)), Geometry.whole((3, 4))).shape == (0, 3, 4)
    assert not to_frame(np.ones((1, 2, 2)), Geometry((4, 4), (10, 10, 5, 5))).any()


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (np.zeros((3, 3)), r"shape \(3,\)"),
        (np.zeros((1, 0, 3)), r"shape \(0, 3\)"),
        (np.full((1, 2, 2), np.nan), "NaN or infinity"),
        (np.full((1, 2, 2), np.inf), "NaN or infinity"),
    ],
)
def test_heatmaps_that_are_none(grids, message):
    with pytest.raises(ValueError, match=message):
        to_frame(grids, Geometry.whole((4, 4)))


@pytest.mark.parametrize(
    ("size", "window", "message"),
    [
        ((0, 5), (0, 0, 1, 1), "not positive"),
        ((5, 5), (0, 0, 0, 1), "not positive"),
        ((5, 5), (0, 0, float("nan"), 1), "expected"),
        ((5, 5), (0, 0, 1), "expected"),
    ],
)
def test_geometries_that_are_none(size, window, message):
    with pytest.raises(ValueError, match=message):
        Geometry(size, window)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((2, 2, 4, 4), 1.0),  # inside
        ((0, 0, 2, 2), 0.0),  # beside
        ((0, 2, 4, 2), 0.5),  # half
        ((-4, 2, 8, 2), 0.5),  # what lies outside the frame does not count
        ((8, 2, 4, 2), 0.0),
        ((0, 0, 10, 10), 0.36),
        ((3, 3, 0, 5), np.nan),
        ((20, 20, 5, 5), np.nan),
    ],
)
def test_the_visible_share_of_a_box(box, expected):
    assert visible_share([box], Geometry((10, 10), (2, 2, 6, 6)))[0] == pytest.approx(expected, nan_ok=True)


def test_a_window_beyond_the_frame_sees_no_more_than_the_frame():
    geometry = Geometry((10, 10), (-5, -5, 10, 30))
    np.testing.assert_allclose(visible_share([[0, 0, 10, 10], [-5, 0, 10, 5]], geometry), [0.5, 1.0])
    assert visible_share([], geometry).shape == (0,)
