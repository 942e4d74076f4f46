"""The camera fit of SurgXBench's appendix B, against known cameras and numpy's least squares."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.surgxbench.camera import Camera, compute_camera_flow, compute_centred_axes, fit

SIZE = (40, 66)
SIZES = st.tuples(st.integers(2, 60), st.integers(2, 60))
CAMERAS = st.builds(
    Camera, *[st.floats(-30, 30, allow_subnormal=False)] * 2, *[st.floats(-0.2, 0.2, allow_subnormal=False)] * 2
)


def compute_backward_flow(camera: Camera, size: tuple[int, int]) -> np.ndarray:
    """Compute the exact backward flow of a camera, (2, H, W): x' = (1 + M) x + c on the second frame's grid, solved."""
    moved = np.array([[1 - camera.zoom, camera.roll], [-camera.roll, 1 - camera.zoom]])
    x, y = np.meshgrid(*compute_centred_axes(size))
    grid = np.stack([x, y])
    moved_grid = np.tensordot(np.linalg.inv(moved), grid + np.array([camera.pan, camera.tilt])[:, None, None], 1)
    return moved_grid - grid


def compute_noisy_flow(rng: np.random.Generator, camera: Camera, size=SIZE) -> np.ndarray:
    return (compute_camera_flow(camera, size) + rng.normal(0, 2, (2, *size))).astype(np.float32)


def fit_least_squares(fields: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Fit the four prototypes by LAPACK; each field is a camera flow of shape (2, H, W)."""
    x, y = (axis.ravel() for axis in np.meshgrid(*compute_centred_axes((fields[0].shape[1], fields[0].shape[2]))))
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    u, v = np.stack([-ones, zeros, -x, y], 1), np.stack([zeros, -ones, -y, -x], 1)
    design = np.concatenate([np.concatenate([u, v])] * len(fields))
    target = np.concatenate([field.reshape(-1) for field in fields]).astype(np.float64)
    root = np.sqrt(np.tile(weights.ravel(), 2 * len(fields)))
    return np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]


@pytest.mark.parametrize(
    ("camera", "at_right", "at_bottom"),
    [  # (u, v) ten pixels to the right of the centre, and ten below it, written out from the prototypes of B.1
        (Camera(pan=1), (-1, 0), (-1, 0)),
        (Camera(tilt=1), (0, -1), (0, -1)),
        (Camera(zoom=0.1), (-1, 0), (0, -1)),
        (Camera(roll=0.1), (0, -1), (1, 0)),
        (Camera(2, 3, 0.1, 0.2), (-2 - 1, -3 - 2), (-2 + 2, -3 - 1)),
    ],
)
def test_the_signs_are_those_of_the_papers_prototypes(camera, at_right, at_bottom):
    flow = compute_camera_flow(camera, (41, 61))
    assert flow.dtype == np.float32
    assert flow[:, 20, 30 + 10] == pytest.approx(at_right, abs=1e-6)
    assert flow[:, 20 + 10, 30] == pytest.approx(at_bottom, abs=1e-6)
    assert astuple(fit(flow, -flow)) == pytest.approx(astuple(camera), abs=1e-5)


def test_the_centre_of_an_even_size_lies_between_the_pixels():
    x, y = compute_centred_axes((2, 4))
    assert (x.tolist(), y.tolist()) == ([-1.5, -0.5, 0.5, 1.5], [-0.5, 0.5])


@given(CAMERAS, SIZES, st.booleans(), st.sampled_from([0.0, 0.3]))
def test_a_known_camera_is_recovered(camera, size, both_directions, trim):
    flow = compute_camera_flow(camera, size)
    fitted = fit(flow, -flow if both_directions else None, trim=trim)
    assert (fitted.pan, fitted.tilt) == pytest.approx((camera.pan, camera.tilt), abs=1e-4)
    assert (fitted.zoom, fitted.roll) == pytest.approx((camera.zoom, camera.roll), abs=1e-4 / max(size) + 1e-5)
    assert np.abs(compute_camera_flow(fitted, size) - flow).max() < 1e-4


@given(CAMERAS, st.integers(0, 2**32 - 1), SIZES, st.booleans(), st.booleans())
def test_noisy_flow_agrees_with_numpys_least_squares(camera, seed, size, weighted, both_directions):
    rng = np.random.default_rng(seed)
    forward, backward = compute_noisy_flow(rng, camera, size), -compute_noisy_flow(rng, camera, size)
    weights = rng.uniform(0.1, 3, size).astype(np.float32) if weighted else None
    fields = [forward, -backward] if both_directions else [forward]
    expected = fit_least_squares(fields, np.ones(size) if weights is None else weights)
    assert astuple(fit(forward, backward if both_directions else None, weights=weights)) == pytest.approx(
        expected, abs=2e-5, rel=1e-5
    )


def test_each_direction_counts_and_the_backward_flow_counts_negated():
    """Two fields differ in the pan only: the fit is between them, weighted by their known vectors."""
    forward, backward = compute_camera_flow(Camera(pan=2), SIZE), -compute_camera_flow(Camera(pan=6), SIZE)
    assert astuple(fit(forward, backward)) == pytest.approx((4, 0, 0, 0), abs=1e-5)
    backward[:, 10:30] = np.nan  # half of the rows: 2 parts of 2 pixels against 1 of 6
    assert fit(forward, backward).pan == pytest.approx(10 / 3, abs=1e-5)


@pytest.mark.parametrize(
    ("camera", "off"),
    [
        (Camera(pan=10, zoom=0.01), 0.073),
        (Camera(zoom=0.1), 2.72),
        (Camera(roll=0.05), 0.61),
    ],  # stated in the module's docstring
)
def test_the_grids_of_the_two_directions_as_published(camera, off):
    """The exact backward flow is on the second frame's grid and differs from the negated forward flow."""
    size = (480, 854)
    forward, backward = compute_camera_flow(camera, size), compute_backward_flow(camera, size)
    combined = compute_camera_flow(fit(forward, backward), size)
    assert np.abs(combined - (forward + compute_camera_flow(fit(-backward), size)) / 2).max() < 1e-4
    assert np.hypot(*(combined - forward)).max() == pytest.approx(off, rel=0.01)
    assert np.abs(compute_camera_flow(fit(forward), size) - forward).max() < 1e-4


def test_unknown_vectors_and_pixels_of_no_weight_do_not_count():
    camera = Camera(-4, 1, 0.03, -0.02)
    for unknown in (np.nan, np.inf, -np.inf):
        forward = compute_camera_flow(camera, SIZE)
        backward = -forward
        forward[0, :20], backward[1, :, 30:] = unknown, unknown  # one component is enough
        before = forward.copy()
        assert astuple(fit(forward, backward)) == pytest.approx(astuple(camera), abs=1e-5)
        assert np.array_equal(forward, before, equal_nan=True)
    forward, weights = compute_camera_flow(camera, SIZE), np.ones(SIZE)
    forward[:, 5:15, 5:50], weights[5:15, 5:50] = 99, 0
    assert astuple(fit(forward, weights=weights)) == pytest.approx(astuple(camera), abs=1e-5)
    assert astuple(fit(forward, weights=weights, trim=0.2)) == pytest.approx(astuple(camera), abs=1e-5)


@given(CAMERAS, CAMERAS, st.floats(0.05, 0.3), st.integers(0, 2**32 - 1))
def test_the_trimmed_fit_is_exact_where_a_minority_moves_otherwise(camera, tool_camera, share, seed):
    """A tool at any edge covers up to 30% of the frame and moves like a different camera."""
    rng = np.random.default_rng(seed)
    size = (48, 86)
    tool = np.zeros(size, dtype=bool)
    height = int(rng.integers(int(share * 48) + 1, 49))
    width = max(1, int(share * tool.size / height))
    y0, x0 = rng.integers(0, 48 - height + 1), rng.choice([0, 86 - width])
    tool[y0 : y0 + height, x0 : x0 + width] = True
    forward = np.where(tool, compute_camera_flow(tool_camera, size), compute_camera_flow(camera, size))
    fitted = fit(forward, -forward, trim=0.35)
    assert np.abs(compute_camera_flow(fitted, size) - compute_camera_flow(camera, size)).max() < 1e-3


def test_a_tool_pulls_the_plain_fit_and_not_the_trimmed_one():
    forward = compute_camera_flow(Camera(pan=2), SIZE)
    forward[:, :, :20] += 10  # 30% of the frame
    assert fit(forward, -forward).pan < 0
    assert fit(forward, -forward, trim=0.35).pan == pytest.approx(2, abs=1e-5)
    assert fit(forward, -forward, trim=0.1).pan < 0.5  # the tool covers more than is trimmed
    # From the plain fit alone, refitting ends between these two motions.
    forward = np.zeros((2, 96, 170), dtype=np.float32)
    forward[:, :, :68] = np.array([45, -10])[:, None, None]
    assert astuple(fit(forward, -forward, trim=0.45)) == pytest.approx((0, 0, 0, 0), abs=1e-4)


@pytest.mark.parametrize("trim", [0.1, 0.3, 0.5])
def test_the_trimmed_fit_has_settled(trim):
    """Least squares on the vectors nearest to the fit reproduce the fit."""
    forward = compute_noisy_flow(np.random.default_rng(2), Camera(3, 1, 0.02, 0.01))
    forward[:, 5:20, :30] += np.random.default_rng(3).uniform(0, 8, (2, 15, 30))
    fitted = fit(forward, trim=trim)
    residual = np.square(forward - compute_camera_flow(fitted, SIZE)).sum(0)
    nearest = residual <= np.sort(residual, axis=None)[residual.size - int(trim * residual.size) - 1]
    assert astuple(fitted) == pytest.approx(fit_least_squares([forward], nearest), abs=2e-4)
    assert astuple(fitted) != pytest.approx(astuple(fit(forward)), abs=1e-2)


def test_two_known_pixels_are_enough():
    camera = Camera(-4, 1, 0.03, -0.02)
    forward = np.full((2, *SIZE), np.nan)
    forward[:, [3, 30], [5, 60]] = compute_camera_flow(camera, SIZE)[:, [3, 30], [5, 60]]
    for trim in (0.0, 0.5):
        assert astuple(fit(forward, trim=trim)) == pytest.approx(astuple(camera), abs=1e-5)
    backward = -forward
    forward[:, 30, 60] += 1  # the directions agree on one pixel only; both pixels are kept
    backward[:, 30, 60] += 1
    assert astuple(fit(forward, backward, trim=0.5)) == pytest.approx(astuple(camera), abs=1e-5)


FLOW = np.zeros((2, 4, 5))
ONE = np.where(np.arange(20).reshape(4, 5) == 7, FLOW, np.nan)


@pytest.mark.parametrize(
    ("forward", "options", "message"),
    [
        (np.zeros((4, 5)), {}, r"a flow of shape \(4, 5\); expected \(2, height, width\)"),
        (np.zeros((4, 5, 2)), {}, r"a flow of shape \(4, 5, 2\)"),
        (np.zeros((2, 0, 5)), {}, r"a flow of shape \(2, 0, 5\)"),
        (FLOW, {"backward": np.zeros((2, 5, 4))}, r"\(2, 4, 5\) and a backward flow of shape \(2, 5, 4\)"),
        (FLOW, {"weights": np.ones((5, 4))}, r"weights of shape \(5, 4\); expected \(4, 5\)"),
        (FLOW, {"weights": np.full((4, 5), -1.0)}, "negative or not finite"),
        (FLOW, {"weights": np.full((4, 5), np.nan)}, "negative or not finite"),
        (FLOW, {"trim": -0.1}, "trim -0.1; expected a share from 0 to 0.5"),
        (FLOW, {"trim": 0.51}, "trim 0.51"),
        (FLOW, {"trim": float("nan")}, "trim nan"),
        (np.full((2, 4, 5), np.nan), {}, "known flow on 0 pixels; expected two at least"),
        (ONE, {"backward": ONE}, "known flow on 1 pixels"),
        (FLOW, {"weights": np.zeros((4, 5))}, "known flow on 0 pixels"),
        (ONE, {"trim": 0.2}, "known flow on 1 pixels"),
    ],
)
def test_what_cannot_be_fitted_is_refused(forward, options, message):
    with pytest.raises(ValueError, match=message):
        fit(forward, **options)
