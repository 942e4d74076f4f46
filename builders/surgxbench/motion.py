"""What moves in a frame on its own, the camera's motion taken away (SurgXBench, section 3.4.2 and appendix B)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TypedDict

import numpy as np

from ...loaders import rle
from ...loaders.errors import InputError
from .camera import Camera, fit, flow_of

GAMMA = 0.8  # appendix C.1
FLOOR = 0.5  # pixels
RANGES = {"gamma": (0, 1), "trim": (0, 0.5), "floor": (0, math.inf)}  # of the settings, lowest and highest


class Motion(TypedDict):
    """motion: mask of the first frame, possibly empty. camera: pan, tilt, zoom and roll, as `camera.Camera`."""

    motion: rle.Rle
    camera: dict[str, float]


def corrected(forward: np.ndarray, camera: Camera) -> np.ndarray:
    """f_corrected = f_fwd - f_cam (B.2): float32 (2, H, W) of a flow (2, H, W)."""
    return np.asarray(forward, dtype=np.float32) - flow_of(camera, (forward.shape[1], forward.shape[2]))


def magnitude(flow: np.ndarray) -> np.ndarray:
    """Length in pixels of each vector of a flow (2, H, W): (H, W); NaN where the vector is unknown (not finite)."""
    length = np.hypot(flow[0], flow[1])
    length[~np.isfinite(length)] = np.nan
    return length


def motion_mask(residual: np.ndarray, *, gamma: float = GAMMA, floor: float = FLOOR) -> np.ndarray:
    """Where the residual motion is large: bool (H, W).

    Args:
        residual: magnitude (H, W) in pixels of the corrected flow; what is not finite is unknown and is not selected.
        gamma: a pixel is selected from the gamma-quantile of the known magnitudes on (numpy's linear quantile), which
            keeps the top 1 - gamma of them (C.1: 0.8) and whatever equals the quantile.
        floor: and only above so many pixels. The paper has none: of a black or a static frame its rule would select
            20% as of any other. Half a pixel is about what optical flow resolves.

    Raises ValueError where the residual is not two-dimensional.
    """
    residual = np.asarray(residual)
    if residual.ndim != 2:
        raise ValueError(f"a residual of shape {residual.shape}; expected (height, width)")
    known = np.isfinite(residual)
    if not known.any():
        return known
    return known & (residual >= np.quantile(residual[known], gamma)) & (residual > floor)


def describe(
    forward: np.ndarray,
    backward: np.ndarray | None = None,
    *,
    gamma: float = GAMMA,
    trim: float = 0.0,
    floor: float = FLOOR,
) -> Motion:
    """What moves in a frame, from its flow (2, H, W) to the next frame and back; trim as in `camera.fit`.

    Where nothing moves the mask is empty. Raises ValueError as `camera.fit` does.
    """
    camera = fit(forward, backward, trim=trim)
    moving = motion_mask(magnitude(corrected(forward, camera)), gamma=gamma, floor=floor)
    return {"motion": rle.encode(moving), "camera": asdict(camera)}


def check_settings(gamma: float, trim: float, floor: float) -> None:
    """Raises InputError where a setting is out of its range."""
    for name, value, expected in (
        ("gamma", gamma, "a quantile from 0 to 1"),
        ("trim", trim, "a share from 0 to 0.5"),
        ("floor", floor, "pixels, 0 or more"),
    ):
        low, high = RANGES[name]
        if not (low <= value <= high and math.isfinite(value)):
            raise InputError(f"{name} {value}", "is out of range", expected=expected)
