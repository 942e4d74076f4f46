"""Motion in a frame after subtraction of the camera's motion (SurgXBench, section 3.4.2 and appendix B)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TypedDict

import numpy as np

from ...loaders import rle
from ...loaders.errors import InputError
from .camera import Camera, compute_camera_flow, fit

GAMMA = 0.8  # appendix C.1
FLOOR = 0.5  # pixels
RANGES = {"gamma": (0, 1), "trim": (0, 0.5), "floor": (0, math.inf)}  # lowest and highest value of each setting


class Motion(TypedDict):
    """Motion in the first frame of a pair.

    Attributes:
        motion: The mask of the motion in COCO run-length encoding; it may be empty.
        camera: pan, tilt, zoom and roll (`camera.Camera`).
    """

    motion: rle.Rle
    camera: dict[str, float]


def corrected(forward: np.ndarray, camera: Camera) -> np.ndarray:
    """Subtract the camera's flow: f_corrected = f_fwd - f_cam (B.2).

    Args:
        forward: Flow (2, H, W).
        camera: The camera's motion.

    Returns:
        The corrected flow: float32 (2, H, W).
    """
    return np.asarray(forward, dtype=np.float32) - compute_camera_flow(camera, (forward.shape[1], forward.shape[2]))


def compute_magnitude(flow: np.ndarray) -> np.ndarray:
    """Compute the length of each vector of a flow.

    Args:
        flow: Flow (2, H, W).

    Returns:
        Pixels (H, W); NaN for unknown vectors (not finite).
    """
    length = np.hypot(flow[0], flow[1])
    length[~np.isfinite(length)] = np.nan
    return length


def compute_motion_mask(residual: np.ndarray, *, gamma: float = GAMMA, floor: float = FLOOR) -> np.ndarray:
    """Select the pixels with large residual motion.

    Args:
        residual: Magnitude (H, W) of the corrected flow in pixels. Values that are not finite are unknown and are not
            selected.
        gamma: The quantile of the known magnitudes from which pixels are selected (numpy's linear quantile). It selects
            the top 1 - gamma (C.1: 0.8) and all values equal to the quantile.
        floor: Pixels must also exceed this magnitude. The paper has no such limit, so its rule selects 20% of a black
            or a static frame, too. Half a pixel is about the resolution of optical flow.

    Returns:
        bool (H, W).

    Raises:
        ValueError: The residual is not two-dimensional.
    """
    residual = np.asarray(residual)
    if residual.ndim != 2:
        raise ValueError(f"a residual of shape {residual.shape}; expected (height, width)")
    is_known = np.isfinite(residual)
    if not is_known.any():
        return is_known
    return is_known & (residual >= np.quantile(residual[is_known], gamma)) & (residual > floor)


def describe(
    forward: np.ndarray,
    backward: np.ndarray | None = None,
    *,
    gamma: float = GAMMA,
    trim: float = 0.0,
    floor: float = FLOOR,
) -> Motion:
    """Describe the motion in a frame.

    Args:
        forward: Flow (2, H, W) to the next frame.
        backward: Flow (2, H, W) from the next frame; None fits the camera to the forward flow alone.
        gamma: See `compute_motion_mask`.
        trim: See `camera.fit`.
        floor: See `compute_motion_mask`.

    Returns:
        The mask, empty if nothing moves, and the camera's motion.

    Raises:
        ValueError: `camera.fit` rejects the flow or `trim`.
    """
    camera = fit(forward, backward, trim=trim)
    mask = compute_motion_mask(compute_magnitude(corrected(forward, camera)), gamma=gamma, floor=floor)
    return {"motion": rle.encode(mask), "camera": asdict(camera)}


def check_settings(gamma: float, trim: float, floor: float) -> None:
    """Check the settings of motion masks.

    Args:
        gamma: A quantile from 0 to 1.
        trim: A share from 0 to 0.5.
        floor: Pixels, 0 or more.

    Raises:
        InputError: A setting is out of range.
    """
    for name, value, expected in (
        ("gamma", gamma, "a quantile from 0 to 1"),
        ("trim", trim, "a share from 0 to 0.5"),
        ("floor", floor, "pixels, 0 or more"),
    ):
        low, high = RANGES[name]
        if not (low <= value <= high and math.isfinite(value)):
            raise InputError(f"{name} {value}", "is out of range", expected=expected)
