"""Coverage of the 95% interval of the AUROC with which edited images are detected (`medfaith audit --thorough`).

    python -m benchmarks.auroc_coverage [REPETITIONS]

Simulates normal scores of plain and edited images with a known AUROC. An image has one row, or as many as make 50 rows
of all images; its rows share the plain image and a part of the edited one's score. Percentiles of 200 resamples of
images, which the audit took before, are next to the interval by the logit. Required: 93 to 97%. A higher coverage means
a wide interval, which is safe.
"""

from __future__ import annotations

import math
import sys
from statistics import NormalDist

import numpy as np

from medfaith.auditing.edit_detection import FEWEST_ROWS, compute_auroc_interval

IMAGES, AUROCS = (5, 8, 14, 30, 60), (0.5, 0.7, 0.9, 0.97)
RESAMPLES = 200
CORRELATIONS = (0.0, 0.5, 0.9)  # of the scores of an image before the edit and after it
WITHIN = 0.5  # share of the variance of edited scores that the rows of an image have in common


def draw_scores(
    rng: np.random.Generator, auroc: float, images: np.ndarray, correlation: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the scores of the plain and of the edited image of each row, each of shape (n,)."""
    plain, individual = rng.normal(size=(2, int(images.max()) + 1))
    shared = correlation * plain + math.sqrt(1 - correlation**2) * individual
    within = WITHIN if len(images) > len(plain) else 1.0
    own = math.sqrt(1 - within) * rng.normal(size=len(images))
    gap = math.sqrt(2) * NormalDist().inv_cdf(auroc)
    return plain[images], gap + math.sqrt(within) * shared[images] + own


def compute_percentiles(
    rng: np.random.Generator, plain: np.ndarray, edited: np.ndarray, images: np.ndarray
) -> tuple[float, float]:
    """Compute the percentiles of the AUROC over resamples of images."""
    n_images = int(images.max()) + 1
    is_own = np.eye(n_images)[images]
    pairs = is_own.T @ ((np.sign(edited[:, None] - plain) + 1) / 2) @ is_own
    counts = rng.multinomial(n_images, np.full(n_images, 1 / n_images), size=RESAMPLES).astype(float)
    resampled = ((counts @ pairs) * counts).sum(1) / (counts @ is_own.sum(0)) ** 2
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(low), float(high)


def compute_coverage(
    auroc: float, n_images: int, n_per_image: int, correlation: float, repetitions: int
) -> list[float]:
    """Compute coverage of both intervals, how often both exclude 0.5, in percent, and their mean lengths."""
    rng, images = np.random.default_rng(1), np.repeat(np.arange(n_images), n_per_image)
    figures = np.zeros(6)
    for _ in range(repetitions):
        plain, edited = draw_scores(rng, auroc, images, correlation)
        percentiles = compute_percentiles(rng, plain, edited, images)
        ends = np.array([percentiles, compute_auroc_interval(plain, edited, images)[1:]])
        holds_auroc, holds_half = ((ends[:, 0] <= value) & (value <= ends[:, 1]) for value in (auroc, 0.5))
        figures += [*holds_auroc, *~holds_half, *(ends[:, 1] - ends[:, 0])]
    return (figures / repetitions * [100, 100, 100, 100, 1, 1]).tolist()


def main() -> None:
    """Print the coverage of both intervals."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{repetitions} repetitions; for percentiles and for the interval of the audit")
    print(f"images  rows  correlation  AUROC{'coverage %':>15}{'without 0.5 %':>17}{'length':>13}")
    for n_images in IMAGES:
        for n_per_image in sorted({1, math.ceil(FEWEST_ROWS / n_images)}):
            for correlation in CORRELATIONS:
                for auroc in AUROCS:
                    cells = compute_coverage(auroc, n_images, n_per_image, correlation, repetitions)
                    print(
                        f"{n_images:6}{n_images * n_per_image:6}{correlation:13}{auroc:7}"
                        "{:9.1f}{:6.1f}{:11.1f}{:6.1f}{:8.2f}{:5.2f}".format(*cells),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
