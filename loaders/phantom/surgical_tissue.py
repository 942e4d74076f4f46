"""Tissue under a moving camera: similarities of the plane, and a texture without a period or a border."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

MEAN, LIGHT, HUE = (164, 84, 74), (40, 27, 24), (4, 20, 12)  # RGB of the tissue, and how it changes
STRIP = 8  # rows of the tissue that one product of matrices computes


class Similarity(NamedTuple):
    """The map p -> factor * p + shift of the plane of complex numbers.

    Attributes:
        factor: Zoom and turn.
        shift: Shift.
    """

    factor: complex
    shift: complex

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Map points of the scene to points of the frame."""
        return self.factor * points + self.shift

    def then(self, later: Similarity) -> Similarity:
        """Compose this map with a later one.

        Args:
            later: The map to apply after this one.

        Returns:
            The composition.
        """
        return Similarity(later.factor * self.factor, later.factor * self.shift + later.shift)

    def inverse(self) -> Similarity:
        """Compute the inverse map."""
        return Similarity(1 / self.factor, -self.shift / self.factor)


STILL = Similarity(1, 0)


@dataclass(frozen=True, eq=False)
class Tissue:
    """A smooth texture without a period or a border: two sums of waves, displayed in light and hue.

    Attributes:
        waves: Complex wave vectors of shape (2, n), radians a pixel.
        weights: Complex amplitudes and phases of shape (2, n).
    """

    waves: np.ndarray
    weights: np.ndarray

    def seen(self, frame_to_tissue: Similarity, size: tuple[int, int]) -> np.ndarray:
        """Compute the colours of the tissue in a frame.

        Args:
            frame_to_tissue: The map of positions.
            size: (height, width) of the frame.

        Returns:
            RGB, float of shape (h, w, 3), 0..255.
        """
        factor, shift = frame_to_tissue
        x, y = _compute_axes(size)
        # Re(conj(wave) * (factor * (x + iy) + shift)) has a part of x and a part of y: a wave is an outer product.
        turned = np.conj(self.waves) * factor
        weights = self.weights * np.exp(1j * (np.conj(self.waves) * shift).real)
        columns = _sample_waves(np.real(turned), x, weights)
        rows = _sample_waves(-np.imag(turned), y, np.ones_like(weights))
        # The real part of rows @ columns, in strips of rows so small that BLAS takes one thread for each: its threads
        # get in each other's way where cores are shared.
        left = np.concatenate([np.real(rows), -np.imag(rows)], axis=1).swapaxes(1, 2)
        right = np.concatenate([np.real(columns), np.imag(columns)], axis=1)
        strips = [left[:, start : start + STRIP] @ right for start in range(0, len(y), STRIP)]
        light, hue = np.tanh(np.concatenate(strips, axis=1))
        channels = zip(MEAN, LIGHT, HUE, strict=True)
        return np.stack([mean + light * by_light + hue * by_hue for mean, by_light, by_hue in channels], axis=-1)


def draw_tissue(rng: np.random.Generator, height: int, n_waves: int = 48) -> Tissue:
    """Draw a tissue.

    Args:
        rng: The random generator.
        height: Height of the frame; the waves are 0.08 to 0.6 of it long.
        n_waves: Number of waves of each of the two sums.

    Returns:
        The tissue.
    """
    lengths = height * np.exp(rng.uniform(math.log(0.08), math.log(0.6), (2, n_waves)))
    waves = 2 * np.pi / lengths * np.exp(1j * rng.uniform(0, 2 * np.pi, (2, n_waves)))
    strength = np.sqrt(lengths)
    strength *= np.sqrt(2) * 0.8 / np.linalg.norm(strength, axis=1, keepdims=True)  # the sum's standard deviation: 0.8
    return Tissue(waves, strength * np.exp(1j * rng.uniform(0, 2 * np.pi, (2, n_waves))))


@lru_cache(maxsize=1)
def compute_points(size: tuple[int, int]) -> np.ndarray:
    """Compute the positions of a frame's pixels.

    Args:
        size: (height, width) of the frame.

    Returns:
        Complex, shape (h, w), read-only.
    """
    x, y = _compute_axes(size)
    points = x + 1j * y[:, None]
    points.flags.writeable = False
    return points


def _compute_axes(size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Compute x (w,) and y (h,) of the pixels' centres, from the frame's centre."""
    height, width = size
    return np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2


def _sample_waves(frequencies: np.ndarray, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute weight * exp(i frequency position), complex (2, n, p): a geometric series of p terms."""
    terms = np.repeat(np.exp(1j * frequencies)[..., None], len(positions), axis=2)
    terms[..., 0] = weights * np.exp(1j * frequencies * positions[0])
    return np.multiply.accumulate(terms, axis=2)
