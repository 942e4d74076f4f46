"""Camera fit and motion mask of flow pairs of 480x854, compared with numpy.linalg.lstsq on the same pixels and mask.

    uv run python benchmarks/motion.py

Times are CPU seconds in one process, medians of alternating runs. The simple version solves the same least squares over
both directions; its design matrix of the four prototypes is made once. Allowed: a third of its time.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported: one core for either way

import statistics
import time
from collections.abc import Callable
from dataclasses import astuple

import numpy as np

from medfaith.builders.surgxbench.camera import Camera, compute_camera_flow, compute_centred_axes, fit
from medfaith.builders.surgxbench.motion import compute_magnitude, compute_motion_mask, corrected

SIZE = (480, 854)
RUNS, LIMIT = 9, 1 / 3


def draw_flow_pair() -> tuple[np.ndarray, np.ndarray]:
    """Draw the flow of a camera move, with a tool on a tenth of the frame and the noise of an estimate."""
    rng = np.random.default_rng(0)
    forward = compute_camera_flow(Camera(3, -2, 0.01, 0.02), SIZE)
    forward[:, 200:400, 500:700] += 8
    noise = rng.normal(0, 0.2, (2, *forward.shape)).astype(np.float32)
    return forward + noise[0], -forward + noise[1]


def build_design() -> np.ndarray:
    """Build the design matrix of the camera model for both directions."""
    x, y = (axis.ravel() for axis in np.meshgrid(*compute_centred_axes(SIZE)))
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    one_way = np.concatenate([np.stack([-ones, zeros, -x, y], 1), np.stack([zeros, -ones, -y, -x], 1)])
    return np.concatenate([one_way, one_way])


def fit_plain(matrix: np.ndarray, forward: np.ndarray, backward: np.ndarray) -> Camera:
    """Fit the camera with numpy.linalg.lstsq."""
    target = np.concatenate([forward.ravel(), -backward.ravel()])
    return Camera(*np.linalg.lstsq(matrix, target, rcond=None)[0].tolist())


def measure_cpu_ms(work: Callable[[], object]) -> float:
    """Measure the CPU milliseconds of one call."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def main() -> None:
    """Print the median time of each way."""
    forward, backward = draw_flow_pair()
    matrix = build_design()
    difference = np.subtract(astuple(fit(forward, backward)), astuple(fit_plain(matrix, forward, backward)))

    def compute_mask(camera: Camera) -> np.ndarray:
        return compute_motion_mask(compute_magnitude(corrected(forward, camera)))

    ways: dict[str, Callable[[], object]] = {
        "closed form": lambda: fit(forward, backward),
        "trimmed (0.3)": lambda: fit(forward, backward, trim=0.3),
        "lstsq": lambda: fit_plain(matrix, forward, backward),
        "closed form and mask": lambda: compute_mask(fit(forward, backward)),
        "trimmed (0.3) and mask": lambda: compute_mask(fit(forward, backward, trim=0.3)),
        "lstsq and mask": lambda: compute_mask(fit_plain(matrix, forward, backward)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(RUNS):  # in turn: a busy machine slows all
        for name, work in ways.items():
            times[name].append(measure_cpu_ms(work))
    print(f"flow pairs of {SIZE[0]}x{SIZE[1]}; the fits differ by {np.abs(difference).max():.1e} at most")
    for name, runs in times.items():
        median = statistics.median(runs)
        plain = statistics.median(times["lstsq and mask" if "mask" in name else "lstsq"])
        allowed = f"   (allowed: {LIMIT:.2f})" if name.startswith("closed form") else ""
        print(f"{name:24}{median:8.1f} ms CPU {1000 / median:7.1f} pairs/s {median / plain:6.2f} of lstsq{allowed}")


if __name__ == "__main__":
    main()
