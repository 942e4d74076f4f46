"""Independent motion on known fields: camera removal, quantile and floor."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from medfaith.builders.surgxbench.camera import Camera, compute_camera_flow
from medfaith.builders.surgxbench.motion import compute_magnitude, compute_motion_mask, corrected, describe
from medfaith.loaders import rle
from medfaith.loaders.phantom.surgery import clip

SIZE = (60, 106)
CAMERA = Camera(3, -2, 0.02, 0.01)


def make_tool(shift=(6.0, -4.0)) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mask of a tool that covers a tenth of the frame and moves by `shift`, and the flow of the frame."""
    mask = np.zeros(SIZE, dtype=bool)
    mask[20:40, 60:92] = True
    return mask, compute_camera_flow(CAMERA, SIZE) + mask * np.array(shift, dtype=np.float32)[:, None, None]


def compute_iou(mask: np.ndarray, other_mask: np.ndarray) -> float:
    return (mask & other_mask).sum() / (mask | other_mask).sum()


@given(
    st.builds(Camera, *[st.floats(-30, 30)] * 2, *[st.floats(-0.2, 0.2)] * 2),
    st.tuples(st.integers(2, 50), st.integers(2, 50)),
    st.sampled_from([0.0, 0.3]),
)
def test_a_pure_camera_move_leaves_nothing(camera, size, trim):
    forward = compute_camera_flow(camera, size)
    assert compute_magnitude(corrected(forward, camera)).max() == 0
    described = describe(forward, -forward, trim=trim)
    assert described["motion"]["size"] == list(size)
    assert rle.area(described["motion"]) == 0
    assert set(described["camera"]) == {"pan", "tilt", "zoom", "roll"}


@pytest.mark.parametrize(
    ("trim", "options", "figure"),
    [
        (0.0, {}, 0.503),  # published setting: the plain fit is biased, and background fills up the top 20%
        (0.0, {"gamma": 0.9}, 0.994),
        (0.2, {}, 1.0),
        (0.2, {"gamma": 0.9}, 1.0),
        (0.2, {"gamma": 0.0}, 1.0),
    ],
)
def test_how_well_a_tool_is_recovered(trim, options, figure):
    """IoU of the mask with a tool of 10% of the frame that moves by 7.2 pixels."""
    mask, forward = make_tool()
    described = describe(forward, -forward, trim=trim, **options)
    assert compute_iou(rle.decode(described["motion"]), mask) == pytest.approx(figure, abs=1e-3)
    if trim:
        assert described["camera"] == pytest.approx(asdict(CAMERA), abs=1e-5)


def test_the_quantile_keeps_more_than_a_small_tool_only_above_the_floor():
    """If 10% moves, the top 20% includes as much background, unless the floor excludes it."""
    mask, forward = make_tool()
    plain = rle.decode(describe(forward, -forward, floor=0)["motion"])
    assert plain.mean() == pytest.approx(0.2, abs=1e-3)
    assert plain[mask].all()
    for directions in ((forward, -forward), (forward,)):
        assert np.array_equal(rle.decode(describe(*directions, trim=0.2)["motion"]), mask)


def test_a_black_or_static_frame_selects_nothing():
    video = clip(42, seed=0)
    t = next(t for t in range(350) if video.is_black(t))
    assert rle.area(describe(video.flow(t, t + 1), video.flow(t + 1, t))["motion"]) == 0
    for flow in (0.0, 0.3):
        jitter = (flow * np.random.default_rng(0).uniform(-1, 1, (2, *SIZE))).astype(np.float32)
        assert rle.area(describe(jitter, -jitter)["motion"]) == 0
        moving = 0.2 * (flow > 0) * 60 * 106
        assert rle.area(describe(jitter, -jitter, floor=0)["motion"]) == pytest.approx(moving, abs=1)


@pytest.mark.parametrize(
    ("residual", "options", "expected"),
    [  # four of the five: numpy's linear quantile of 0..4 at 0.8 is 3.2
        ([0, 1, 2, 3, 4], {}, [0, 0, 0, 0, 1]),
        ([0, 1, 2, 3, 4], {"gamma": 0.75}, [0, 0, 0, 1, 1]),  # 3 equals the quantile
        ([0, 1, 2, 3, 4], {"gamma": 0.0}, [0, 1, 1, 1, 1]),
        ([0, 1, 2, 3, 4], {"gamma": 1.0}, [0, 0, 0, 0, 1]),
        ([0, 1, 2, 3, 4], {"floor": 4.0}, [0, 0, 0, 0, 0]),  # above the floor, not on it
        ([0, 1, 2, 3, 4], {"gamma": 0.5, "floor": 2.5}, [0, 0, 0, 1, 1]),
        ([0, 0, 0, 0, 0], {"floor": 0.0}, [0, 0, 0, 0, 0]),
        ([0, 0, 0, 0, 0.4], {}, [0, 0, 0, 0, 0]),
        ([9, 9, 9, 1, 1], {}, [1, 1, 1, 0, 0]),  # more than 20% have the maximum
        ([np.nan, 1, 2, 3, 4], {"gamma": 0.5}, [0, 0, 0, 1, 1]),  # quantile of the known values: 2.5
        ([np.inf, 1, 2, 3, 4], {}, [0, 0, 0, 0, 1]),  # quantile of the known values: 3.4
        ([np.nan] * 5, {}, [0] * 5),
    ],
)
def test_the_mask_of_a_residual(residual, options, expected):
    assert compute_motion_mask(np.array([residual]), **options).tolist() == [[bool(n) for n in expected]]


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.floats(0, 50, width=32)),
    st.floats(0, 1),
    st.floats(0, 10),
)
def test_a_mask_is_what_is_above_the_rest(residual, gamma, floor):
    mask = compute_motion_mask(residual, gamma=gamma, floor=floor)
    assert mask.dtype == bool
    if mask.any():
        assert residual[mask].min() > floor
        assert (residual[mask].min() > residual[~mask]).all()
    above = np.unique(residual).size == residual.size and floor == 0
    if above and (residual > 0).all():
        assert abs(mask.sum() - (1 - gamma) * residual.size) <= 1


def test_unknown_vectors_are_in_no_mask():
    mask, forward = make_tool()
    backward = -forward
    forward[1, 25:30, 60:92] = np.nan
    described = describe(forward, backward, trim=0.2)
    expected = mask.copy()
    expected[25:30, 60:92] = False
    assert np.array_equal(rle.decode(described["motion"]), expected)
    assert np.isnan(compute_magnitude(forward)[25:30, 60:92]).all()


def test_a_residual_of_another_shape():
    for residual in (np.zeros((2, 3, 4)), np.zeros(4)):
        with pytest.raises(ValueError, match=r"a residual of shape .*; expected \(height, width\)"):
            compute_motion_mask(residual)
