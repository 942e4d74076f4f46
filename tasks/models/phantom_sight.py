"""What can be told from the pixels of the phantom's images by simple statistics: findings, tools, and structure.

It knows how the phantom draws (loaders.phantom), and nothing of real images.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage

from medfaith.loaders.phantom import cases, chest, frontal
from medfaith.loaders.phantom.shapes import extent
from medfaith.loaders.phantom.surgical_tools import COLOURS

GRID = (32, 28)  # cells, down and across, on which chests are compared
SEEDS = range(10**6, 10**6 + 4)  # of the chests that are drawn to learn from; no phantom has these patients
N_NORMAL = 16  # normal chests among these
SPREAD = 0.05  # grey levels (0..1): what a cell varies by beyond what the few drawn chests show
ALIKE = 0.8  # correlation with the mean normal chest from which an image counts as a frontal chest
WHOLE = ""  # place: the whole chest

SCALE = 2.0  # pixels: structure is what this smoothing leaves
REACH = round(4 * SCALE) + 1  # pixels: how far the smoothing looks
STRUCTURED = 5.0  # white noise has 1, paint mostly less than 4, the phantom's tissue mostly more than 8
# The deviations of white noise of deviation 1: after the Laplacian, and of what is finer than `FINE`.
FINE = 1.0  # pixels
WHITE = (1 / (np.sqrt(2 * np.pi) * SCALE**3), 0.873)

LINES = 60  # of a frame that are looked at for tools
DIM, BRIGHT = 0.75, 1.2  # light on a tool, of its mean
TOLERANCE = 14  # grey levels between a tool's pixel and its lit colour
LEAST = 12  # pixels of a tool after the opening


class Chests:
    """Tells findings of a drawn frontal chest apart: a linear discriminant, learnt from chests drawn with and without.

    A finding is a template, the mean change that it makes to the same patients' chests. How the drawn chests vary
    around their means is the noise. `evidence` is the log-likelihood ratio of chest + template against a normal chest
    under that noise (matched filter), in one anatomy or in the whole chest.
    """

    def __init__(self) -> None:
        normal = np.stack([_drawn((), seed) for seed in range(SEEDS.start, SEEDS.start + N_NORMAL)])
        self._normal = normal.mean(0)
        self._templates, residuals = {}, [normal - self._normal]
        for name in _names():
            changes = np.stack([_drawn((name,), seed) for seed in SEEDS]) - normal[: len(SEEDS)]
            self._templates[name] = changes.mean(0)
            residuals.append(changes - self._templates[name])
        self._residuals = np.concatenate(residuals)
        self._regions = _mean_regions()
        self._filters: dict[tuple[str, tuple[str, ...]], _Filter] = {}

    def region(self, place: str) -> np.ndarray | None:
        """Where an anatomy lies in the mean chest, bool GRID; None for a place that the phantom does not draw."""
        return self._regions.get(place)

    def is_frontal(self, image: Image.Image) -> bool:
        """Whether the image looks like a frontal chest as a whole."""
        cells = _cells(image)
        return bool(cells.std() > 0 and np.corrcoef(cells, self._normal)[0, 1] > ALIKE)

    def evidence(self, image: Image.Image, names: Sequence[str], place: str = WHOLE) -> np.ndarray:
        """Log-likelihood ratios (n,) of the named drawings (`chest.chest`) against none, by what lies in a place."""
        key = (place, tuple(names))
        if key not in self._filters:
            self._filters[key] = self._filter(*key)
        where, weights, middle = self._filters[key]
        return (_cells(image) - self._normal)[where] @ weights - middle

    def _filter(self, place: str, names: tuple[str, ...]) -> _Filter:
        where = self._regions[place].ravel()
        templates = np.stack([self._templates[name][where] for name in names], axis=1)
        residuals = self._residuals[:, where]
        noise = residuals.T @ residuals / len(residuals) + SPREAD**2 * np.eye(where.sum())
        weights = np.linalg.solve(noise, templates)
        return _Filter(where, weights, (weights * templates).sum(0) / 2)


@cache
def chests() -> Chests:
    """Learnt once a process, whichever models look."""
    return Chests()


class _Filter(NamedTuple):
    where: np.ndarray
    weights: np.ndarray
    middle: np.ndarray


def in_whole_chest(text: str) -> list[str]:
    """The drawings of the findings that a text names, of `frontal.FINDINGS`: on each side, where one has a side."""
    named = [finding for finding in frontal.FINDINGS if finding in text.casefold()]
    return [
        drawing
        for finding in named
        for drawing in ([finding] if finding in frontal.BOTH_SIDES else [f"{side} {finding}" for side in frontal.SIDES])
    ]


def in_anatomy(anatomy: str) -> dict[str, str]:
    """VinDr-CXR's class -> the drawing, of the findings that may lie in an anatomy."""
    return {case.label: case.drawn for case in cases.FINDINGS if anatomy in case.anatomies}


def tools(image: Image.Image) -> dict[str, np.ndarray]:
    """The instruments in a frame, each with where it is seen: bool (LINES, w). A tool is a patch of its own colour."""
    size = (max(1, round(image.width * LINES / image.height)), LINES)
    pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.NEAREST), dtype=np.float32)
    seen = {}
    for name, rgb in COLOURS.items():
        colour = np.array(rgb, dtype=np.float32)
        light = np.clip(pixels @ colour / (colour @ colour), DIM, BRIGHT)
        alike = (np.abs(pixels - light[..., None] * colour) < TOLERANCE).all(2)
        patch = ndimage.binary_opening(alike, np.ones((2, 2)))
        if patch.sum() >= LEAST:
            seen[name] = patch
    return seen


def structure(image: Image.Image) -> np.ndarray:
    """How much structure there is around each pixel, (h, w): 1 in white noise, near 0 in an even image."""
    return _ratio(*(ndimage.gaussian_filter(energy, 4 * SCALE) for energy in _energies(_grey(image))))


def is_structured(image: Image.Image, where: np.ndarray) -> bool:
    """Whether the place, bool (h, w), of an image of that size shows tissue, not paint, noise or an even grey."""
    inner = np.asarray(ndimage.binary_erosion(where, iterations=round(SCALE)), dtype=bool)
    place = inner if inner.any() else where
    # A filter reaches 4 deviations: further pixels change nothing in the place.
    window = tuple(slice(max(0, s.start - REACH), s.stop + REACH) for s in extent(place))
    return bool(_ratio(*(energy[place[window]].mean() for energy in _energies(_grey(image)[window]))) > STRUCTURED)


def _grey(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("L"), dtype=np.float32)


def _energies(grey: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares of the Laplacian of the smoothed image, and of what is finer than a pixel's neighbourhood, each (h, w).

    Paint that continues its surroundings solves Laplace's equation: but for its grain, its Laplacian is zero.
    """
    coarse = np.asarray(ndimage.gaussian_laplace(grey, SCALE)) / WHITE[0]
    fine = (grey - ndimage.gaussian_filter(grey, FINE)) / WHITE[1]
    return coarse**2, fine**2


def _ratio(coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Of root mean squares; what is fine counts as one grey level at least, the rounding of pixels."""
    return np.sqrt(coarse / np.maximum(fine, 1))


def _names() -> list[str]:
    """All drawings that are told apart."""
    whole = [name for finding in frontal.FINDINGS for name in in_whole_chest(finding)]
    return [*dict.fromkeys((*whole, *(case.drawn for case in cases.FINDINGS)))]


def _drawn(findings: Collection[str], seed: int) -> np.ndarray:
    size = (2 * GRID[0], 2 * GRID[1])
    return _cells(Image.fromarray(chest.draw_chest(findings, seed=seed, size=size)))


def _cells(image: Image.Image) -> np.ndarray:
    """Mean grey of each cell of GRID, 0..1, as a vector."""
    small = image.convert("L").resize((GRID[1], GRID[0]), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32).ravel() / 255


def _mean_regions() -> Mapping[str, np.ndarray]:
    drawn = [chest.regions((), seed=seed, size=GRID) for seed in SEEDS]
    mean = {name: np.mean([regions[name] for regions in drawn], axis=0) > 0.5 for name in drawn[0]}
    return {WHOLE: np.ones(GRID, dtype=bool)} | mean
