"""The synthetic laparoscopic clip: exact flow, tight boxes, and tools of different appearance."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ivtmetrics.disentangle import Disentangle
from scipy.ndimage import binary_dilation, binary_erosion, map_coordinates
from sklearn.metrics import roc_auc_score

from medfaith.loaders import cholec_triplets
from medfaith.loaders.phantom import surgery, surgical_tools

H, W = surgery.SIZE
X, Y = np.arange(W) - (W - 1) / 2, (np.arange(H) - (H - 1) / 2)[:, None]
SECONDS = range(0, surgery.N_FRAMES, surgery.FPS)
INSTRUMENTS = surgical_tools.INSTRUMENTS
STEPS = [(t, t + step) for t in (0, 76) for step in (1, 25)]
BOTH_WAYS = [*STEPS, *((t2, t) for t, t2 in STEPS)]


@pytest.fixture(scope="module")
def clip():
    return surgery.clip(43, seed=0)


def compute_camera_flow(camera):
    """Compute f_cam of appendix B.1, shape (2, H, W), one prototype at a time."""
    ones = np.ones((H, W))
    pan, tilt = np.stack([-ones, 0 * ones]), np.stack([0 * ones, -ones])
    zoom, roll = np.stack([-X * ones, -Y * ones]), np.stack([Y * ones, -X * ones])
    return camera["pan"] * pan + camera["tilt"] * tilt + camera["zoom"] * zoom + camera["roll"] * roll


def compute_step_matrix(camera):
    """Compute the step's matrix for homogeneous coordinates (x, y, 1), from the same definition."""
    pan, tilt, zoom, roll = (camera[name] for name in ("pan", "tilt", "zoom", "roll"))
    return np.array([[1 - zoom, roll, -pan], [-roll, 1 - zoom, -tilt], [0, 0, 1]])


def find_visible_pixels(clip, t):
    """Find the visible pixels of each tool by drawing every tool separately; later tools cover earlier ones."""
    tool_masks = [dataclasses.replace(clip, tools=(tool,)).tool_mask(t) for tool in clip.tools]
    covered = np.zeros((H, W), dtype=bool)
    visible = []
    for tool, mask in zip(reversed(clip.tools), reversed(tool_masks), strict=True):
        if (mask & ~covered).any():
            visible.append((tool, mask & ~covered))
        covered |= mask
    return visible[::-1]


# --- camera and flow --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "t2"), BOTH_WAYS)
def test_the_tissue_flow_is_the_camera_s_linear_field(clip, t, t2):
    tissue = ~clip.tool_mask(t)
    np.testing.assert_allclose(
        clip.flow(t, t2)[:, tissue], compute_camera_flow(clip.camera(t, t2))[:, tissue], rtol=0, atol=1e-4
    )
    assert np.abs(clip.flow(t, t2)[:, tissue]).max() > 0.2


def test_many_steps_are_the_product_of_single_ones(clip):
    for t in (0, 76):
        product = np.linalg.multi_dot([compute_step_matrix(clip.camera(k)) for k in reversed(range(t, t + 25))])
        np.testing.assert_allclose(compute_step_matrix(clip.camera(t, t + 25)), product, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("t", "t2"), BOTH_WAYS)
def test_a_frame_warped_by_the_flow_is_the_other_frame(clip, t, t2):
    flow, frame, frame2 = clip.flow(t, t2), clip.frame(t).astype(float), clip.frame(t2).astype(float)
    rows, columns = np.arange(H)[:, None] + flow[1], np.arange(W) + flow[0]
    warped = np.stack([map_coordinates(frame2[..., c], [rows, columns], order=3, mode="nearest") for c in range(3)], -1)
    error, unmoved = np.abs(warped - frame).max(-1), np.abs(frame2 - frame).max(-1)
    inside = (rows >= 0) & (rows <= H - 1) & (columns >= 0) & (columns <= W - 1)
    # Compared pixels are visible in both frames, and far enough from edges for interpolation within one object.
    near_tool2 = np.asarray(binary_dilation(clip.tool_mask(t2), iterations=4), dtype=bool)
    deep = [np.asarray(binary_erosion(clip.tool_mask(n), iterations=3), dtype=bool) for n in (t, t2)]
    warped_masks = [
        map_coordinates(mask.astype(float), [rows, columns], order=1) > 0.99 for mask in (~near_tool2, deep[1])
    ]
    for region, min_pixels in (
        (~clip.tool_mask(t) & warped_masks[0] & inside, 8000),
        (deep[0] & warped_masks[1] & inside, 0),
    ):
        assert region.sum() > min_pixels
        if region.sum() > 100:
            assert np.quantile(error[region], 0.99) < 5
            assert error[region].mean() < 1.2
        if min_pixels and abs(t2 - t) > 1:
            assert unmoved[region].mean() > 20 * error[region].mean()


# --- tools, boxes, triplets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [*SECONDS[:5], 20, 345])
def test_boxes_are_the_extents_of_the_pixels_drawn(clip, t):
    visible = find_visible_pixels(clip, t)
    expected = []
    for tool, mask in visible:
        rows, columns = np.nonzero(mask)
        y_min, x_min = rows.min(), columns.min()
        expected.append((tool.instrument, (x_min, y_min, columns.max() + 1 - x_min, rows.max() + 1 - y_min)))
    assert clip.boxes(t) == expected
    assert all(type(side) is int for _, xywh in clip.boxes(t) for side in xywh)
    changed = (clip.frame(t) != dataclasses.replace(clip, tools=()).frame(t)).any(-1)
    np.testing.assert_array_equal(changed, clip.tool_mask(t))
    assert (sum(mask for _, mask in visible) == clip.tool_mask(t)).all() or not visible


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 200))
def test_every_clip_shows_every_instrument_and_has_a_quiet_and_a_black_second(seed, video):
    clip = surgery.clip(video, seed=seed)
    boxes = {t: clip.boxes(t) for t in SECONDS}
    assert {instrument for frame_boxes in boxes.values() for instrument, _ in frame_boxes} == set(INSTRUMENTS)
    assert Counter(clip.is_black(t) for t in SECONDS)[True] == 1
    assert Counter(bool(frame_boxes) for frame_boxes in boxes.values())[False] == 2
    assert max(map(len, boxes.values())) <= 3
    for t, frame_boxes in boxes.items():
        for _, (x, y, w, h) in frame_boxes:
            assert min(x, y) >= 0
            assert x + w <= W
            assert y + h <= H
            assert min(w, h) >= 10
            assert x == 0 or y == 0 or x + w == W or y + h == H, t  # it comes in from the border
        triplets = clip.triplets(t)
        assert [instrument for instrument, *_ in triplets] == [i for i, _ in frame_boxes if i != "specimen_bag"]
        assert set(triplets) <= set(cholec_triplets.TRIPLETS)


def test_every_deed_is_an_official_triplet():
    bank = Disentangle().bank[:, 1:4].tolist()
    names = (cholec_triplets.INSTRUMENTS, cholec_triplets.VERBS, cholec_triplets.TARGETS)
    deeds = [(instrument, *deed) for instrument, instrument_deeds in surgery.DEEDS.items() for deed in instrument_deeds]
    for deed in deeds:
        assert [official_names.index(name) for official_names, name in zip(names, deed, strict=True)] in bank
    assert {instrument for instrument, *_ in deeds} == set(cholec_triplets.INSTRUMENTS)
    assert sum(verb == "null_verb" for _, verb, _ in deeds) >= 3


@pytest.fixture(scope="module")
def colours():
    """Mean colour of tissue and of each instrument, measured on clips that the tests do not use."""
    pixels = {name: [] for name in (*INSTRUMENTS, "tissue")}
    for video in (1, 2, 3):
        clip = surgery.clip(video, seed=99)
        for t in SECONDS[::2]:
            frame = clip.frame(t)
            for tool, mask in find_visible_pixels(clip, t):
                pixels[tool.instrument].append(frame[mask])
            if not clip.is_black(t):
                pixels["tissue"].append(frame[~clip.tool_mask(t)])
    return np.stack([np.concatenate(samples).mean(0) for samples in pixels.values()])


def count_nearest(pixels, colours):
    """Count the pixels of each class; a pixel belongs to the class with the nearest colour."""
    pixels = pixels.reshape(-1, 3).astype(np.float32)
    squared_distance = (colours**2).sum(1) - 2 * pixels @ colours.T.astype(np.float32)  # minus the pixel's own square
    return np.bincount(squared_distance.argmin(1), minlength=len(colours))


@pytest.fixture(scope="module")
def counted(colours):
    """Clip, time and pixel counts by class for each frame of three clips."""
    clips = [surgery.clip(video, seed=0) for video in (42, 43, 44)]
    return [(clip, t, count_nearest(clip.frame(t), colours)) for clip in clips for t in SECONDS if not clip.is_black(t)]


@pytest.mark.parametrize("instrument", INSTRUMENTS)
def test_a_colour_tells_an_instrument_from_the_others(counted, instrument):
    present = [instrument in {name for name, _ in clip.boxes(t)} for clip, t, _ in counted]
    assert 3 <= sum(present) < len(present)
    assert roc_auc_score(present, [counts[INSTRUMENTS.index(instrument)] for *_, counts in counted]) > 0.99


# --- black frames, sizes, seeds, errors -------------------------------------------------------------------------------


def test_outside_the_body_nothing_is_seen_labelled_or_moves(clip):
    (black_second,) = clip.black
    t = black_second * surgery.FPS
    assert [clip.is_black(n) for n in (t - 13, t - 12, t, t + 12, t + 13)] == [False, True, True, True, False]
    assert not clip.frame(t).any()
    assert (clip.boxes(t), clip.triplets(t), clip.tool_mask(t).any()) == ([], [], False)
    for way in ((t - 25, t), (t, t + 25), (t, t + 1)):
        assert not clip.flow(*way).any()
        assert not any(clip.camera(*way).values())
    assert all(clip.frame(n).min() > 0 for n in (t - 13, t + 13))


def test_phases_are_equal_parts_in_order_and_a_frame_that_the_clip_lacks_is_refused(clip):
    length = surgery.N_FRAMES // 7
    assert [clip.phase(t) for t in range(surgery.N_FRAMES)] == [t // length for t in range(surgery.N_FRAMES)]
    for t in (-1, surgery.N_FRAMES):
        one_frame_calls = (
            clip.frame,
            clip.seen,
            clip.boxes,
            clip.triplets,
            clip.phase,
            clip.is_black,
            clip.tool_mask,
            clip.camera,
        )
        two_frame_calls = ((call, times) for call in (clip.camera, clip.flow) for times in ((t, 0), (0, t)))
        for call, times in (*((call, (t,)) for call in one_frame_calls), *two_frame_calls):
            with pytest.raises(ValueError, match=rf"frame {t}: the clip has frames 0 to 349"):
                call(*times)
