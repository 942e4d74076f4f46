"""Simple statistics that detect findings, tools and structure in the pixels of the phantom's images.

They depend on the phantom's drawings (loaders.phantom) and do not apply to real images.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy import ndimage

from medfaith.evaluate_metrics.reading.disease_names import NIH_CLASSES, list_classes
from medfaith.loaders.nih_cxr14 import COMMON_NAMES
from medfaith.loaders.phantom import cases, chest, frontal
from medfaith.loaders.phantom.surgical_tools import COLOURS
from medfaith.tasks.controls import paint

GRID = (32, 28)  # (rows, columns) of cells in which chests are compared
SEEDS = range(10**6, 10**6 + 4)  # seeds of training chests; no phantom has these patients
N_NORMAL = 16  # number of normal training chests
SPREAD = 0.05  # grey levels (0..1): added deviation of a cell, because few chests are drawn
ALIKE = 0.8  # minimum correlation of a frontal chest with the mean normal chest
WHOLE = ""  # name of the region that covers the chest

SCALE = 2.0  # pixels: smoothing before structure is measured
REACH = 5  # deviations of a Gaussian beyond which no pixel counts; SciPy cuts at 4
STRUCTURED = 5.0  # white noise has 1, paint mostly less than 4, the phantom's tissue mostly more than 8
# Deviations of white noise of deviation 1: after the Laplacian, and of details finer than `FINE`.
FINE = 1.0  # pixels
WHITE = (1 / (np.sqrt(2 * np.pi) * SCALE**3), 0.873)

LINES = 60  # image height at which tools are searched
DIM, BRIGHT = 0.75, 1.2  # range of light on a tool, relative to its mean
TOLERANCE = 14  # grey levels between a tool's pixel and its lit colour
LEAST = 12  # minimum number of pixels of a tool after the opening


class Chests:
    """Detects findings in drawn frontal chests by a linear discriminant, learned from chests with and without findings.

    A finding's template is the mean change that it causes in the same patients' chests. The variation of the drawn
    chests around their means is the noise. `evidence` is the log-likelihood ratio of chest + template and a normal
    chest with that noise (matched filter), in one anatomy or in the full chest.
    """

    def __init__(self) -> None:
        normal = np.stack([_draw_cells((), seed) for seed in range(SEEDS.start, SEEDS.start + N_NORMAL)])
        self._normal = normal.mean(0)
        self._templates, residuals = {}, [normal - self._normal]
        for name in _list_drawings():
            changes = np.stack([_draw_cells((name,), seed) for seed in SEEDS]) - normal[: len(SEEDS)]
            self._templates[name] = changes.mean(0)
            residuals.append(changes - self._templates[name])
        self._residuals = np.concatenate(residuals)
        self._regions = _compute_mean_regions()
        self._filter_cache: dict[tuple[str, tuple[str, ...]], _Filter] = {}

    def region(self, place: str) -> np.ndarray | None:
        """Get an anatomy's region in the mean chest.

        Args:
            place: Name of the anatomy.

        Returns:
            bool GRID, or None if the phantom does not draw the anatomy.
        """
        return self._regions.get(place)

    def is_frontal(self, image: Image.Image) -> bool:
        """Check whether an image resembles a frontal chest.

        Args:
            image: The image.

        Returns:
            True if the image correlates with the mean frontal chest.
        """
        cells = _compute_cells(image)
        return bool(cells.std() > 0 and np.corrcoef(cells, self._normal)[0, 1] > ALIKE)

    def evidence(self, image: Image.Image, names: Sequence[str], place: str = WHOLE) -> np.ndarray:
        """Compute log-likelihood ratios of drawings (`chest.chest`) and a normal chest within a region.

        Args:
            image: The image.
            names: n names of drawings.
            place: Name of the anatomy.

        Returns:
            Shape (n,).
        """
        key = (place, tuple(names))
        if key not in self._filter_cache:
            self._filter_cache[key] = self._build_filter(*key)
        mask, weights, middle = self._filter_cache[key]
        return (_compute_cells(image) - self._normal)[mask] @ weights - middle

    def _build_filter(self, place: str, names: tuple[str, ...]) -> _Filter:
        mask = self._regions[place].ravel()
        templates = np.stack([self._templates[name][mask] for name in names], axis=1)
        residuals = self._residuals[:, mask]
        noise = residuals.T @ residuals / len(residuals) + SPREAD**2 * np.eye(mask.sum())
        weights = np.linalg.solve(noise, templates)
        return _Filter(mask, weights, (weights * templates).sum(0) / 2)


@cache
def chests() -> Chests:
    """Return the chests, learned once per process."""
    return Chests()


class _Filter(NamedTuple):
    where: np.ndarray
    weights: np.ndarray
    middle: np.ndarray


def list_chest_drawings(text: str) -> list[str]:
    """List the drawings of the findings (`frontal.FINDINGS`) that a text names, on each side if a finding has a side.

    Args:
        text: The text.

    Returns:
        Names of drawings; an empty list if the text names no finding.
    """
    findings = [finding for finding in frontal.FINDINGS if finding in text.casefold()]
    return [
        drawing
        for finding in findings
        for drawing in ([finding] if finding in frontal.BOTH_SIDES else [f"{side} {finding}" for side in frontal.SIDES])
    ]


def list_anatomy_drawings(anatomy: str, row_id: str = "") -> list[tuple[str, str]]:
    """List the classes of the findings that may occur in an anatomy, with their drawings.

    Args:
        anatomy: Name of the anatomy.
        row_id: The id of the row, which says whether the classes are those of VinDr-CXR or of NIH ChestX-ray14.

    Returns:
        (class, drawing) pairs; in a whole lung a class has several drawings.
    """
    findings = cases.NIH_FINDINGS if list_classes(row_id) == NIH_CLASSES else cases.FINDINGS
    return [(COMMON_NAMES.get(case.label, case.label), case.drawn) for case in findings if anatomy in case.anatomies]


def find_tools(image: Image.Image) -> dict[str, np.ndarray]:
    """Find the instruments in a frame by their colours.

    Args:
        image: The frame.

    Returns:
        Mask of each visible instrument, bool (LINES, w).
    """
    size = (max(1, round(image.width * LINES / image.height)), LINES)
    pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.NEAREST), dtype=np.float32)
    tool_masks = {}
    for name, rgb in COLOURS.items():
        colour = np.array(rgb, dtype=np.float32)
        light = np.clip(pixels @ colour / (colour @ colour), DIM, BRIGHT)
        matches = (np.abs(pixels - light[..., None] * colour) < TOLERANCE).all(2)
        patch = ndimage.binary_opening(matches, np.ones((2, 2)))
        if patch.sum() >= LEAST:
            tool_masks[name] = patch
    return tool_masks


def compute_structure(image: Image.Image) -> np.ndarray:
    """Compute the amount of structure around each pixel.

    Args:
        image: The image.

    Returns:
        Shape (h, w): 1 in white noise, near 0 in a uniform image.
    """
    return _compute_ratio(*(ndimage.gaussian_filter(energy, 4 * SCALE) for energy in _compute_energies(image)))


def is_structured(image: Image.Image, mask: np.ndarray) -> bool:
    """Check whether a region shows tissue, in contrast to paint, noise or a uniform grey.

    Args:
        image: The image.
        mask: The region, bool (h, w), of the image's size, not empty.

    Returns:
        Whether the ratio of coarse to fine structure in the region is that of tissue.
    """
    y0, y1, x0, x1 = paint.compute_window(mask, math.ceil(REACH * SCALE))
    image, mask = image.crop((x0, y0, x1, y1)), mask[y0:y1, x0:x1]
    inner = np.asarray(ndimage.binary_erosion(mask, iterations=round(SCALE)), dtype=bool)
    region = inner if inner.any() else mask
    return bool(_compute_ratio(*(energy[region].mean() for energy in _compute_energies(image))) > STRUCTURED)


def _compute_energies(image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """Compute squares of the smoothed image's Laplacian and of its fine details, each (h, w).

    Paint that continues its surroundings solves Laplace's equation: except for its grain, its Laplacian is zero.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float32)
    coarse = np.asarray(ndimage.gaussian_laplace(grey, SCALE)) / WHITE[0]
    fine = (grey - ndimage.gaussian_filter(grey, FINE)) / WHITE[1]
    return coarse**2, fine**2


def _compute_ratio(coarse: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Compute the ratio of root mean squares. Fine details are at least one grey level, the rounding of pixels."""
    return np.sqrt(coarse / np.maximum(fine, 1))


def _list_drawings() -> list[str]:
    """List all drawings that are distinguished."""
    chest_drawings = [name for finding in frontal.FINDINGS for name in list_chest_drawings(finding)]
    return [*dict.fromkeys((*chest_drawings, *(case.drawn for case in cases.FINDINGS)))]


def _draw_cells(findings: Collection[str], seed: int) -> np.ndarray:
    size = (2 * GRID[0], 2 * GRID[1])
    return _compute_cells(Image.fromarray(chest.draw_chest(findings, seed=seed, size=size)))


def _compute_cells(image: Image.Image) -> np.ndarray:
    """Compute the mean grey of each cell of GRID, 0..1, as a vector."""
    small = image.convert("L").resize((GRID[1], GRID[0]), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float32).ravel() / 255


def _compute_mean_regions() -> Mapping[str, np.ndarray]:
    region_sets = [chest.regions((), seed=seed, size=GRID) for seed in SEEDS]
    mean = {name: np.mean([regions[name] for regions in region_sets], axis=0) > 0.5 for name in region_sets[0]}
    return {WHOLE: np.ones(GRID, dtype=bool)} | mean
