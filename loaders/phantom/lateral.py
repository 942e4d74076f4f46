"""The lateral chest, patient facing the image's left: sternum on the left, spine on the right, both lungs overlaid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .shapes import Point, around, band, bands, between, ellipse, grid, haze, line, paint, step, texture

EDGE = 0.007


@dataclass(frozen=True)
class Anatomy:
    """The proportions of one patient, seen from the side."""

    chest_axes: Point
    dome: float  # y of the diaphragm's top
    heart_axes: Point
    great_vessels: float  # half width of the shadow above the heart
    lung_density: float

    @classmethod
    def of(cls, rng: np.random.Generator) -> Anatomy:
        """Draw the proportions of one patient.

        Args:
            rng: The random numbers.

        Returns:
            The proportions.
        """
        vary = around(rng)
        return cls(
            chest_axes=(vary(0.335, 0.012), vary(0.42, 0.012)),
            dome=vary(0.735, 0.015),
            heart_axes=(vary(0.125, 0.008), vary(0.155, 0.008)),
            great_vessels=vary(0.055, 0.004),
            lung_density=vary(0.27, 0.03),
        )


@dataclass(frozen=True)
class Scene:
    """Coordinates (`grid`), proportions, and the coverage of each structure (h, w)."""

    x: np.ndarray
    y: np.ndarray
    anatomy: Anatomy
    body: np.ndarray
    lungs: np.ndarray
    heart: np.ndarray
    mediastinum: np.ndarray
    aorta: np.ndarray
    trachea: np.ndarray
    spine: np.ndarray


def altered(anatomy: Anatomy, findings: frozenset[tuple[str, int]]) -> Anatomy:
    """Apply the changes of proportions by findings.

    Args:
        anatomy: The proportions.
        findings: (name, side) of each finding.

    Returns:
        The changed proportions.
    """
    names = {name for name, _ in findings}
    if "cardiomegaly" in names:
        anatomy = replace(anatomy, heart_axes=(anatomy.heart_axes[0] * 1.5, anatomy.heart_axes[1] * 1.12))
    if "enlarged cardiomediastinum" in names:
        anatomy = replace(anatomy, great_vessels=anatomy.great_vessels * 2.2)
    return replace(anatomy, dome=anatomy.dome - 0.04 * ("atelectasis" in names))


def scene(size: tuple[int, int], a: Anatomy) -> Scene:
    """Compute the coverage of every structure of a lateral chest.

    Args:
        size: (height, width) in pixels.
        a: The proportions.

    Returns:
        The scene.
    """
    x, y = grid(size)
    body = ellipse(x, y, (0.5, 0.62), (0.46, 0.62), power=3.2, edge=0.008)
    body = np.maximum(body, ellipse(x, y, (0.56, 0.03), (0.14, 0.20), power=3, edge=0.008))
    field = ellipse(x - 0.10 * (0.5 - y), y, (0.5, 0.50), a.chest_axes, power=2.5, edge=EDGE)
    # The diaphragm drops to the posterior costophrenic angle, the lowest point of the lungs.
    dome = a.dome + 0.26 * np.clip(x - 0.45, 0, None) ** 1.3 + 0.5 * np.clip(0.35 - x, 0, None) ** 2
    lungs = field * step(dome - y, EDGE)
    heart = ellipse(x, y, (0.235 + a.heart_axes[0], 0.63), a.heart_axes, tilt=-0.45, edge=EDGE)
    heart = heart * step(dome + 0.02 - y, EDGE)
    vessels = band(x - 0.43 - 0.12 * (0.5 - y), a.great_vessels, EDGE) * between(y, 0.22, 0.58, 0.03)
    arch = np.abs(np.hypot((x - 0.52) / 1.0, (y - 0.30) / 1.1) - 0.085)
    aorta = step(0.020 - arch, EDGE) * step(0.34 - y, 0.02)
    aorta = np.maximum(aorta, band(x - 0.605, 0.020, EDGE) * between(y, 0.32, 0.72, 0.02))
    trachea = band(x - 0.52 - 0.15 * (y - 0.2), 0.017, 0.004) * between(y, 0.02, 0.40, 0.01)
    spine = band(x - 0.745 - 0.05 * np.sin(3 * (y - 0.3)), 0.048, 0.008)
    return Scene(x, y, a, body, lungs, heart, vessels, aorta, trachea, spine)


def draw_anatomy(s: Scene, rng: np.random.Generator) -> np.ndarray:
    """Draw a lateral chest without findings.

    Args:
        s: The scene.
        rng: The random numbers.

    Returns:
        Densities of shape (h, w).
    """
    x, y, a = s.x, s.y, s.anatomy
    canvas = paint(np.full_like(s.body, 0.03), s.body, 0.62 + 0.10 * step(y - 0.78, 0.03))
    canvas = paint(canvas, s.lungs, a.lung_density + 0.10 * step(0.30 - y, 0.08))
    slope, arch = 0.22 * (0.72 - x), 0.10 * np.sin(np.pi * np.clip((x - 0.15) / 0.6, 0, 1))
    curves = [0.16 + number * 0.075 + slope - arch for number in range(8)]
    ribs = bands(y, curves, 0.010, 0.003, strength=between(x, 0.24, 0.74, 0.02))
    canvas = paint(canvas, 0.25 * ribs * s.body, 0.75)
    hilum = haze(x, y, (0.50, 0.45), (0.05, 0.055)) * (0.9 + 0.1 * texture(rng, canvas.shape, 12))
    canvas = paint(canvas, 0.55 * hilum, 0.68)
    canvas = paint(canvas, 0.55 * s.mediastinum * s.body, 0.60)
    canvas = paint(canvas, 0.90 * s.heart, 0.72)
    canvas = paint(canvas, 0.40 * s.aorta, 0.72)
    discs = 0.45 + 0.30 * np.cos(2 * np.pi * y / 0.068)
    canvas = paint(canvas, s.spine * s.body * discs, 0.86)
    sternum = band(x - 0.165 - 0.10 * (0.5 - y) + 0.10 * (y - 0.5) ** 2, 0.014, 0.004) * between(y, 0.20, 0.62, 0.02)
    canvas = paint(canvas, 0.7 * sternum * s.body, 0.86)
    return paint(canvas, 0.75 * s.trachea * s.body, 0.32)


# --- findings: see frontal.py; the side only matters to where a frontal view shows them ------------------------------

Drawn = tuple[np.ndarray, np.ndarray]


def _visible(s: Scene) -> np.ndarray:
    return s.lungs * (1 - s.heart)


def _blobs(value: float, strength: float, *, radius: float, count: int, heights: Point) -> Callable[..., Drawn]:
    """`count` opacities of about `radius` in the lungs, between two heights."""

    def draw(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
        everywhere = np.zeros_like(canvas)
        for _ in range(count):
            centre = (rng.uniform(0.50, 0.64), rng.uniform(*heights))
            rough = 0.3 * radius * texture(rng, canvas.shape, 12)
            blob = ellipse(s.x + rough, s.y + rough, centre, (radius, radius), edge=0.012)
            everywhere = np.maximum(everywhere, blob * _visible(s))
        return paint(canvas, strength * everywhere, value), everywhere

    return draw


def _cardiomegaly(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    return canvas, s.heart


def _enlarged_cardiomediastinum(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    return canvas, s.mediastinum


def _edema(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    cloud = haze(s.x, s.y, (0.50, 0.46), (0.15, 0.13)) * _visible(s)
    cloud = cloud * (0.85 + 0.15 * texture(rng, canvas.shape, 14))
    return paint(canvas, 0.75 * cloud, 0.70), cloud


def _atelectasis(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    line = s.anatomy.dome - 0.06 + rng.uniform(0.05, 0.25) * (s.x - 0.5)
    plate = band(s.y - line, 0.013, 0.004) * step(s.x - 0.40, 0.01) * _visible(s)
    return paint(canvas, 0.85 * plate, 0.80), plate


def _pleural_effusion(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Fluid collects first in the posterior angle."""
    top = 0.74 - rng.uniform(0.04, 0.08) - 0.5 * np.clip(s.x - 0.55, 0, None) ** 1.5 - 0.4 * np.clip(0.3 - s.x, 0, None)
    inside = ellipse(s.x - 0.10 * (0.5 - s.y), s.y, (0.5, 0.50), s.anatomy.chest_axes, power=2.5, edge=EDGE)
    fluid = step(s.y - top, 0.006) * inside * step(s.x - 0.40, 0.02)
    return paint(canvas, 0.9 * fluid, 0.74), fluid


def _pneumothorax(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    depth = rng.uniform(0.05, 0.08)
    inner = (s.anatomy.chest_axes[0], s.anatomy.chest_axes[1] - depth)
    collapsed = ellipse(s.x - 0.10 * (0.5 - s.y), s.y, (0.5, 0.50 + depth), inner, power=2.5, edge=0.004)
    air = s.lungs * (1 - collapsed) * step(0.45 - s.y, 0.03)
    line = 4 * collapsed * (1 - collapsed) * s.lungs * step(0.45 - s.y, 0.03)
    return paint(paint(canvas, 0.9 * air, 0.08), 0.7 * line, 0.8), air


def _pleural_other(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    shifted = np.roll(s.lungs, -round(0.04 * canvas.shape[1]), axis=1)
    rim = s.lungs * (1 - shifted) * between(s.y, 0.36, 0.66, 0.015) * step(s.x - 0.6, 0.02)
    return paint(canvas, 0.9 * rim, 0.88), rim


def _fracture(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    centre = (rng.uniform(0.50, 0.60), rng.uniform(0.55, 0.64))
    dx, dy = s.x - centre[0], s.y - centre[1]
    near = ellipse(s.x, s.y, centre, (0.07, 0.05), edge=0.006)
    ends = near * band(dy - 0.018 * np.sign(dx) + 0.2 * dx, 0.012, 0.003)
    gap = near * band(dx, 0.008, 0.003) * band(dy, 0.030, 0.004)
    return paint(paint(canvas, 0.85 * ends, 0.90), 0.8 * gap, 0.12), np.maximum(ends, gap)


def _support_devices(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    box = ellipse(s.x, s.y, (0.25, 0.24), (0.022, 0.045), power=4, edge=0.004)
    t = np.linspace(0, 1, 60, dtype=np.float32)
    lead_x, lead_y = 0.25 + 0.20 * np.sin(np.pi * t * 0.8), 0.24 + 0.44 * t
    metal = np.maximum(box, line(s.x, s.y, (lead_x, lead_y), 0.005, 0.0025))
    return paint(canvas, metal, 0.97), metal


# The same names and the same order as in frontal.py.
FINDINGS: dict[str, Callable[..., Drawn]] = {
    "cardiomegaly": _cardiomegaly,
    "enlarged cardiomediastinum": _enlarged_cardiomediastinum,
    "edema": _edema,
    "lung opacity": _blobs(0.60, 0.60, radius=0.10, count=1, heights=(0.36, 0.60)),
    "consolidation": _blobs(0.80, 0.85, radius=0.09, count=1, heights=(0.36, 0.60)),
    "pneumonia": _blobs(0.74, 0.70, radius=0.035, count=5, heights=(0.52, 0.70)),
    "lung lesion": _blobs(0.84, 0.90, radius=0.035, count=1, heights=(0.30, 0.58)),
    "atelectasis": _atelectasis,
    "pleural other": _pleural_other,
    "pneumothorax": _pneumothorax,
    "pleural effusion": _pleural_effusion,
    "fracture": _fracture,
    "support devices": _support_devices,
}


def regions(s: Scene) -> dict[str, np.ndarray]:
    """Compute the masks of the anatomy.

    Args:
        s: The scene.

    Returns:
        Bool masks (h, w) by name.
    """
    coverages = {
        "lungs": _visible(s),
        "heart": s.heart,
        "mediastinum": s.mediastinum,
        "aorta": s.aorta,
        "trachea": s.trachea,
        "spine": s.spine * s.body,
    }
    return {name: coverage > 0.5 for name, coverage in coverages.items()}
