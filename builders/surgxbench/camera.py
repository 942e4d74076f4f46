"""The camera's motion between two frames: pan, tilt, zoom and roll by least squares (SurgXBench, appendix B).

With x and y in pixels from the image's centre, ((W - 1) / 2, (H - 1) / 2), the camera's flow is

    f_cam(x, y) = pan (-1, 0) + tilt (0, -1) + zoom (-x, -y) + roll (y, -x)

and the fit minimises sum |f_cam - forward|^2 + sum |f_cam + backward|^2, which has a closed form. As published, both
sums use the same (x, y), although the backward flow lies on the second frame's grid. The exact inverse of a camera's
flow f = M x + c is not -f but -f + M f - ..., so that the fit over both directions of a pure camera move is off by
about half of M f: for 1% of zoom and 10 pixels of pan by 0.07 pixels, for 10% of zoom (frames a second apart) by 2.7
pixels in the corners of a frame of 480x854. A fit of the forward flow alone is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

MAX_REFITS = 100
FEWEST = 4  # vectors that a trimmed fit keeps: of two directions, they lie on two pixels at least
SETTLED = 1e-4  # pixels: a refit that moves no vector by more is the last one
PARTS = 3  # the trimmed fit starts from the whole frame and from each of 3 x 3 parts of it
COARSE = 4096  # pixels, about, on which the starts are compared


@dataclass(frozen=True, slots=True)
class Camera:
    """The paper's four coefficients (B.1). pan, tilt: pixels; zoom: pixels a pixel; roll: radians, to first order.

    Positive pan moves the picture to the left, positive tilt upwards, positive zoom towards the centre; positive roll
    turns it anticlockwise as seen (x runs rightwards, y down).
    """

    pan: float = 0.0
    tilt: float = 0.0
    zoom: float = 0.0
    roll: float = 0.0


def centred(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """x (W,) and y (H,) of a frame of (height, width) `size`: float64 pixels from its centre."""
    height, width = size
    return np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2


def flow_of(camera: Camera, size: tuple[int, int]) -> np.ndarray:
    """f_cam of appendix B.1 on every pixel of a frame of (height, width) `size`: float32 (2, H, W)."""
    return _flow_at(camera, *centred(size))


def fit(
    forward: np.ndarray, backward: np.ndarray | None = None, *, weights: np.ndarray | None = None, trim: float = 0.0
) -> Camera:
    """The camera whose flow is nearest to what was measured, in the sense of least squares (appendix B.2).

    Args:
        forward: flow (2, H, W) from the first frame to the second; a vector with a NaN or an infinity is unknown and
            left out.
        backward: flow (2, H, W) from the second frame to the first, or None to fit the forward flow alone.
        weights: (H, W), finite and not negative, for both directions; None counts every pixel once.
        trim: 0 is the fit as published, which a moving tool pulls along. Above 0, at most 1/2, that share of the known
            vectors, those with the largest residuals, is left out and the fit repeated until it settles (least trimmed
            squares). It starts from the fits to the whole frame and to its parts, and goes on from the best of them.
            Where what moves on its own covers less than the share and less than a third of the frame, and the rest
            moves as a camera's flow does, the fit is that flow.

    Raises ValueError where the shapes, the weights or `trim` are not as above, and where the known vectors of positive
    weight do not lie on two different pixels at least.
    """
    measured = _measured(forward, backward, weights)
    if not 0 <= trim <= 0.5:
        raise ValueError(f"trim {trim}; expected a share from 0 to 0.5")
    plain = _solve(measured)
    return _settle(measured, _start(measured, plain, trim), trim) if trim else plain


class _Measured(NamedTuple):
    """The camera's flow as each direction has it (directions, 2, h, w), its weights (directions, h, w), and the places
    of its columns, x (w,), and rows, y (h,). What is unknown is 0 and weighs 0.
    """

    flow: np.ndarray
    weight: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def at(self, rows: slice, columns: slice) -> _Measured:
        """The same on some of the rows and columns only."""
        return _Measured(self.flow[..., rows, columns], self.weight[..., rows, columns], self.x[columns], self.y[rows])


def _flow_at(camera: Camera, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    flow = np.empty((2, y.size, x.size), dtype=np.float32)  # sums of float64, of which none is kept
    np.add.outer(camera.roll * y - camera.pan, -camera.zoom * x, out=flow[0], casting="same_kind")
    np.add.outer(-camera.zoom * y - camera.tilt, -camera.roll * x, out=flow[1], casting="same_kind")
    return flow


def _measured(forward: np.ndarray, backward: np.ndarray | None, weights: np.ndarray | None) -> _Measured:
    fields = [np.asarray(forward)] if backward is None else [np.asarray(forward), np.asarray(backward)]
    shape = fields[0].shape
    if len(shape) != 3 or shape[0] != 2 or 0 in shape:
        raise ValueError(f"a flow of shape {shape}; expected (2, height, width)")
    if fields[-1].shape != shape:
        raise ValueError(f"a forward flow of shape {shape} and a backward flow of shape {fields[-1].shape}")
    size = shape[1:]
    if weights is not None:
        weights = np.asarray(weights)
        if weights.shape != size:
            raise ValueError(f"weights of shape {weights.shape}; expected {size}")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("a weight that is negative or not finite")
    flow = np.empty((len(fields), *shape), dtype=np.float32)
    weight = np.empty((len(fields), *size), dtype=np.float32)
    for direction, (field, sign) in enumerate(zip(fields, (1, -1), strict=False)):
        known = np.isfinite(field).all(0)
        np.multiply(field, sign, out=flow[direction], casting="same_kind")
        flow[direction][:, ~known] = 0
        weight[direction] = known if weights is None else known * weights
    return _Measured(flow, weight, *centred((size[0], size[1])))


def _solve(measured: _Measured) -> Camera:
    """The closed form: the mean flow, and its slopes about the weighted centre.

    Every sum over pixels is one over the columns' or the rows' sums, because x does not change down a column, nor y
    along a row.
    """
    weight, flow = measured.weight.sum(0), np.einsum("dhw,dchw->chw", measured.weight, measured.flow)
    columns, rows = weight.sum(0, dtype=np.float64), weight.sum(1, dtype=np.float64)
    n = columns.sum()
    mean_x, mean_y = (columns @ measured.x / n, rows @ measured.y / n) if n else (0.0, 0.0)
    x, y = measured.x - mean_x, measured.y - mean_y
    spread = columns @ x**2 + rows @ y**2
    if not spread > 0:
        raise ValueError(f"known flow on {np.count_nonzero(weight)} pixels; expected two at least, to fit a camera")
    (u_columns, v_columns), (u_rows, v_rows) = flow.sum(1, dtype=np.float64), flow.sum(2, dtype=np.float64)
    zoom = -(u_columns @ x + v_rows @ y) / spread
    roll = -(v_columns @ x - u_rows @ y) / spread
    pan = -u_rows.sum() / n - zoom * mean_x + roll * mean_y
    tilt = -v_rows.sum() / n - zoom * mean_y - roll * mean_x
    return Camera(float(pan), float(tilt), float(zoom), float(roll))


def _settle(measured: _Measured, camera: Camera, trim: float) -> Camera:
    """Fits to the vectors nearest to the last fit, until none moves; the sum over them falls with each."""
    for _ in range(MAX_REFITS):
        nearest = _nearest(measured, _residual(measured, camera), trim)
        last, camera = camera, _solve(measured._replace(weight=measured.weight * nearest))
        if _farthest_apart(last, camera, measured) <= SETTLED:
            break
    return camera


def _farthest_apart(one: Camera, other: Camera, measured: _Measured) -> float:
    """Pixels; the flows are linear, so that they differ most in a corner."""
    corners = measured.x[[0, -1]], measured.y[[0, -1]]
    return float(np.abs(_flow_at(one, *corners) - _flow_at(other, *corners)).max())


def _residual(measured: _Measured, camera: Camera) -> np.ndarray:
    """Squared pixels (directions, h, w) between each vector and the camera's; infinite where it weighs nothing."""
    difference = measured.flow - _flow_at(camera, measured.x, measured.y)
    residual = np.einsum("dchw,dchw->dhw", difference, difference)
    residual[measured.weight == 0] = np.inf
    return residual


def _nearest(measured: _Measured, residual: np.ndarray, trim: float) -> np.ndarray:
    """Which vectors are not trimmed: bool (directions, h, w)."""
    n = int(np.count_nonzero(measured.weight))
    kept = min(n, max(FEWEST, n - int(trim * n)))
    return residual <= np.partition(residual, kept - 1, axis=None)[kept - 1]


def _start(measured: _Measured, plain: Camera, trim: float) -> Camera:
    """Of the plain fit and those to parts of the frame, each settled on a coarse grid, the one with the least sum."""
    step = max(1, round((measured.x.size * measured.y.size / COARSE) ** 0.5))
    coarse = measured.at(slice(None, None, step), slice(None, None, step))
    rows, columns = (np.linspace(0, axis.size, PARTS + 1).astype(int) for axis in (coarse.y, coarse.x))
    if np.count_nonzero(coarse.weight.any(0)) < 2:  # nearly everything is unknown
        return plain
    starts = [plain]
    for i, j in product(range(PARTS), repeat=2):
        part = coarse.at(slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1]))
        if np.count_nonzero(part.weight.any(0)) > 1:
            starts.append(_solve(part))

    def left(camera: Camera) -> float:
        """The weighted sum of squared residuals that are not trimmed."""
        residual = _residual(coarse, camera)
        nearest = _nearest(coarse, residual, trim)
        return float(coarse.weight[nearest] @ residual[nearest])

    return min((_settle(coarse, start, trim) for start in starts), key=left)
