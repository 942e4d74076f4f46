"""The camera's motion between two frames: pan, tilt, zoom and roll by least squares (SurgXBench, appendix B).

With x and y in pixels from the image's centre, ((W - 1) / 2, (H - 1) / 2), the camera's flow is

    f_cam(x, y) = pan (-1, 0) + tilt (0, -1) + zoom (-x, -y) + roll (y, -x)

and the fit minimises sum |f_cam - forward|^2 + sum |f_cam + backward|^2, which has a closed form. Both sums use the
same (x, y), as in the paper, although the grid of the backward flow is that of the second frame. The exact inverse of a
camera's flow f = M x + c is not -f but -f + M f - ..., so the fit over both directions of a pure camera move has an
error of about half of M f: 0.07 pixels for 1% of zoom and 10 pixels of pan, 2.7 pixels in the corners of a frame of
480x854 for 10% of zoom (frames at a distance of 1 s). A fit of the forward flow alone is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

MAX_REFITS = 100
MIN_VECTORS = 4  # fewest vectors in a trimmed fit: with two directions, they belong to at least two pixels
SETTLED = 1e-4  # pixels: refitting stops when no vector changes by more
PARTS = 3  # the trimmed fit starts from the full frame and from each of 3 x 3 parts of it
COARSE = 4096  # approximate number of pixels for the comparison of starts


@dataclass(frozen=True, slots=True)
class Camera:
    """The paper's four coefficients (B.1).

    Attributes:
        pan: Pixels. Positive pan moves the image to the left.
        tilt: Pixels. Positive tilt moves the image upwards.
        zoom: Pixels per pixel. Positive zoom moves the image towards its centre.
        roll: Radians, to first order. Positive roll turns the image anticlockwise for the viewer (x points to the
            right, y down).
    """

    pan: float = 0.0
    tilt: float = 0.0
    zoom: float = 0.0
    roll: float = 0.0


def compute_centred_axes(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute the pixel coordinates of a frame, from its centre.

    Args:
        size: Height and width of the frame in pixels.

    Returns:
        x (W,) and y (H,): float64, in pixels.
    """
    height, width = size
    return np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2


def compute_camera_flow(camera: Camera, size: tuple[int, int]) -> np.ndarray:
    """Compute f_cam of appendix B.1 on every pixel of a frame.

    Args:
        camera: The camera's motion.
        size: Height and width of the frame in pixels.

    Returns:
        The flow: float32 (2, H, W).
    """
    return _compute_flow(camera, *compute_centred_axes(size))


def fit(
    forward: np.ndarray, backward: np.ndarray | None = None, *, weights: np.ndarray | None = None, trim: float = 0.0
) -> Camera:
    """Fit the camera's motion to a measured flow by least squares (appendix B.2).

    The trimmed fit (least trimmed squares) leaves out the known vectors with the largest residuals and refits until
    nothing changes. It starts from the fits to the full frame and to its parts, and continues from the best of them. If
    regions with their own motion cover less than the share `trim` and less than a third of the frame, and the rest
    follows a camera's flow, the fit is that flow.

    Args:
        forward: Flow (2, H, W) from the first frame to the second. A vector with a NaN or an infinity is unknown and is
            left out.
        backward: Flow (2, H, W) from the second frame to the first; None fits the forward flow alone.
        weights: (H, W), finite and not negative, for both directions; None weighs all pixels equally.
        trim: Share of the known vectors that the fit leaves out, from 0 to 1/2. 0 is the published fit, which a moving
            tool biases.

    Returns:
        The camera's motion.

    Raises:
        ValueError: The shapes, the weights or `trim` are invalid, or the known vectors of positive weight belong
            to fewer than two different pixels.
    """
    measured = _prepare_fields(forward, backward, weights)
    if not 0 <= trim <= 0.5:
        raise ValueError(f"trim {trim}; expected a share from 0 to 0.5")
    plain = _fit_closed_form(measured)
    return _fit_trimmed(measured, _find_start(measured, plain, trim), trim) if trim else plain


class _Measured(NamedTuple):
    """The camera's flow as measured in each direction. Unknown vectors are 0 and have weight 0.

    Attributes:
        flow: (directions, 2, h, w).
        weight: (directions, h, w).
        x: The positions of the columns: (w,).
        y: The positions of the rows: (h,).
    """

    flow: np.ndarray
    weight: np.ndarray
    x: np.ndarray
    y: np.ndarray

    def crop(self, rows: slice, columns: slice) -> _Measured:
        """Crop to some of the rows and columns."""
        return _Measured(self.flow[..., rows, columns], self.weight[..., rows, columns], self.x[columns], self.y[rows])


def _compute_flow(camera: Camera, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    flow = np.empty((2, y.size, x.size), dtype=np.float32)  # the float64 sums are not stored
    np.add.outer(camera.roll * y - camera.pan, -camera.zoom * x, out=flow[0], casting="same_kind")
    np.add.outer(-camera.zoom * y - camera.tilt, -camera.roll * x, out=flow[1], casting="same_kind")
    return flow


def _prepare_fields(forward: np.ndarray, backward: np.ndarray | None, weights: np.ndarray | None) -> _Measured:
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
        is_known = np.isfinite(field).all(0)
        np.multiply(field, sign, out=flow[direction], casting="same_kind")
        flow[direction][:, ~is_known] = 0
        weight[direction] = is_known if weights is None else is_known * weights
    return _Measured(flow, weight, *compute_centred_axes((size[0], size[1])))


def _fit_closed_form(measured: _Measured) -> Camera:
    """Fit in closed form: the mean flow, and its slopes about the weighted centre.

    Every sum over pixels is a sum over column sums or row sums, because x is constant in a column and y in a row.
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


def _fit_trimmed(measured: _Measured, camera: Camera, trim: float) -> Camera:
    """Refit to the vectors nearest to the last fit until the camera hardly changes, at most MAX_REFITS times.

    The sum of their squared residuals falls with each refit.
    """
    for _ in range(MAX_REFITS):
        nearest = _select_nearest(measured, _compute_residual(measured, camera), trim)
        previous, camera = camera, _fit_closed_form(measured._replace(weight=measured.weight * nearest))
        if _compute_largest_difference(previous, camera, measured) <= SETTLED:
            break
    return camera


def _compute_largest_difference(first_camera: Camera, second_camera: Camera, measured: _Measured) -> float:
    """Compute the largest difference of two flows in pixels. It is in a corner, because the flows are linear."""
    corners = measured.x[[0, -1]], measured.y[[0, -1]]
    return float(np.abs(_compute_flow(first_camera, *corners) - _compute_flow(second_camera, *corners)).max())


def _compute_residual(measured: _Measured, camera: Camera) -> np.ndarray:
    """Compute squared pixels (directions, h, w) between each vector and the camera's; infinite at weight 0."""
    difference = measured.flow - _compute_flow(camera, measured.x, measured.y)
    residual = np.einsum("dchw,dchw->dhw", difference, difference)
    residual[measured.weight == 0] = np.inf
    return residual


def _select_nearest(measured: _Measured, residual: np.ndarray, trim: float) -> np.ndarray:
    """Select the vectors with the smallest residuals, all but the share `trim`: bool (directions, h, w)."""
    n = int(np.count_nonzero(measured.weight))
    n_kept = min(n, max(MIN_VECTORS, n - int(trim * n)))
    return residual <= np.partition(residual, n_kept - 1, axis=None)[n_kept - 1]


def _find_start(measured: _Measured, plain: Camera, trim: float) -> Camera:
    """Choose the camera from which the trimmed fit starts: the one with the least sum of squared residuals.

    The candidates are the plain fit and the fits to parts of the frame, each refitted on a coarse grid. Trimmed vectors
    do not count in the sum.
    """
    step = max(1, round((measured.x.size * measured.y.size / COARSE) ** 0.5))
    coarse = measured.crop(slice(None, None, step), slice(None, None, step))
    rows, columns = (np.linspace(0, axis.size, PARTS + 1).astype(int) for axis in (coarse.y, coarse.x))
    if np.count_nonzero(coarse.weight.any(0)) < 2:  # almost all vectors are unknown
        return plain
    starts = [plain]
    for i, j in product(range(PARTS), repeat=2):
        part = coarse.crop(slice(rows[i], rows[i + 1]), slice(columns[j], columns[j + 1]))
        if np.count_nonzero(part.weight.any(0)) > 1:
            starts.append(_fit_closed_form(part))

    def compute_loss(camera: Camera) -> float:
        """Compute the weighted sum of the squared residuals that are not trimmed."""
        residual = _compute_residual(coarse, camera)
        nearest = _select_nearest(coarse, residual, trim)
        return float(coarse.weight[nearest] @ residual[nearest])

    return min((_fit_trimmed(coarse, start, trim) for start in starts), key=compute_loss)
