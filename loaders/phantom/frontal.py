"""The frontal chest: anatomy, and each finding drawn where radiology expects it.

The patient faces the viewer, so the patient's right is on the image's left. Coordinates are fractions of the image's
width and height; densities run from 0 (air, black) to 1 (metal, white).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .shapes import Point, around, band, bands, between, ellipse, extent, grid, haze, line, paint, step, texture

SIDES = {"right": -1, "left": 1}
EDGE = 0.006


@dataclass(frozen=True)
class Anatomy:
    """The proportions of one patient."""

    middle: float  # x of the spine
    lung_axes: Point
    lung_y: float
    domes: dict[int, float]  # y of each hemidiaphragm's top, by side
    heart_axes: Point
    mediastinum: float  # half width of the upper mediastinum
    rib_gap: float
    lung_density: float
    aorta: float = 1.0  # how much wider than usual

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
            middle=vary(0.5, 0.012),
            lung_axes=(vary(0.172, 0.010), vary(0.40, 0.015)),
            lung_y=vary(0.50, 0.012),
            domes={-1: vary(0.735, 0.015), 1: vary(0.765, 0.015)},
            heart_axes=(vary(0.142, 0.010), vary(0.150, 0.010)),
            mediastinum=vary(0.058, 0.004),
            rib_gap=vary(0.072, 0.003),
            lung_density=vary(0.24, 0.03),
        )


@dataclass(frozen=True)
class Scene:
    """The canvas of a finding: coordinates (`build_grid`), proportions, and the coverage of each structure (h, w)."""

    x: np.ndarray
    y: np.ndarray
    anatomy: Anatomy
    body: np.ndarray
    thorax: dict[int, np.ndarray]  # a side's half of the chest, including the angle posterior to the diaphragm
    lungs: dict[int, np.ndarray]
    heart: np.ndarray
    mediastinum: np.ndarray
    aorta: np.ndarray
    trachea: np.ndarray

    def lung_x(self, side: int) -> float:
        """Compute x of the middle of one lung.

        Args:
            side: -1 right, 1 left.

        Returns:
            The coordinate.
        """
        return self.anatomy.middle + side * 0.205

    def aerated(self, side: int) -> np.ndarray:
        """Compute the part of one lung that heart and mediastinum leave visible.

        Args:
            side: -1 right, 1 left.

        Returns:
            Coverage of shape (h, w).
        """
        return self.lungs[side] * (1 - np.maximum(self.heart, self.mediastinum))


def altered(anatomy: Anatomy, findings: frozenset[tuple[str, int]]) -> Anatomy:
    """Apply the changes of proportions by findings: sizes, and volume loss.

    Args:
        anatomy: The proportions.
        findings: (name, side) of each finding; side 0 for both or none.

    Returns:
        The changed proportions.
    """
    names = {name for name, _ in findings}
    if names & {"cardiomegaly", "enlarged heart"}:
        anatomy = replace(anatomy, heart_axes=(anatomy.heart_axes[0] * 1.55, anatomy.heart_axes[1] * 1.12))
    if "enlarged cardiomediastinum" in names:
        anatomy = replace(anatomy, mediastinum=anatomy.mediastinum * 1.75)
    if "aortic enlargement" in names:
        anatomy = replace(anatomy, aorta=1.5)
    raised = {side: top - 0.05 * (("atelectasis", side) in findings) for side, top in anatomy.domes.items()}
    return replace(anatomy, domes=raised)


def scene(size: tuple[int, int], a: Anatomy) -> Scene:
    """Compute the coverage of every structure of a frontal chest.

    Args:
        size: (height, width) in pixels.
        a: The proportions.

    Returns:
        The scene.
    """
    x, y = grid(size)
    from_middle = np.abs(x - a.middle)
    half_body = 0.13 + 0.36 * step(y - 0.085 - 0.10 * from_middle, 0.014) - 0.05 * step(y - 0.60, 0.10)
    body = step(half_body - from_middle, 0.008)
    thorax, lungs = {}, {}
    for side in (-1, 1):
        centre = a.middle + side * 0.205
        dome = a.domes[side] + 2.6 * np.abs(x - centre + side * 0.03) ** 2
        leaning = x - side * 0.16 * (y - 0.5)
        field = ellipse(leaning, y, (centre, a.lung_y), a.lung_axes, power=2.5, edge=EDGE)
        thorax[side] = field * step(side * (x - a.middle) - 0.035, EDGE)
        lungs[side] = thorax[side] * step(dome - y, EDGE)
    wide = a.heart_axes[0]
    heart_y = 0.645
    # Two thirds of the heart lie on the patient's left, its apex down and outwards; the right atrium makes the rest.
    heart = ellipse(x, y, (a.middle + 0.46 * wide, heart_y + 0.015), a.heart_axes, tilt=0.75, power=2.2, edge=EDGE)
    heart = np.maximum(heart, ellipse(x, y, (a.middle - 0.12 * wide, heart_y), (0.62 * wide, 0.125), edge=EDGE))
    heart = heart * step(max(a.domes.values()) + 0.035 - y, EDGE)
    widened = a.mediastinum + 0.03 * step(y - 0.5, 0.06)
    mediastinum = step(widened - from_middle, EDGE) * between(y, 0.07, 0.80, EDGE)
    knob = ellipse(x, y, (a.middle + a.mediastinum, 0.315), (0.038 * a.aorta, 0.042 * a.aorta), edge=EDGE)
    descending = band(x - a.middle - a.mediastinum * 0.8, 0.020 * a.aorta, EDGE) * between(y, 0.33, 0.72, 0.02)
    trachea = band(x - a.middle, 0.017, 0.004) * between(y, 0.03, 0.335, 0.01)
    return Scene(
        x, y, a, body, thorax, lungs, heart, np.maximum(mediastinum, knob), np.maximum(knob, 0.6 * descending), trachea
    )


def draw_anatomy(s: Scene, rng: np.random.Generator) -> np.ndarray:
    """Draw a chest without findings.

    Args:
        s: The scene.
        rng: The random numbers.

    Returns:
        Densities of shape (h, w).
    """
    x, y, a = s.x, s.y, s.anatomy
    from_middle = np.abs(x - a.middle)
    canvas = paint(np.full_like(s.body, 0.03), s.body, 0.60 + 0.10 * step(y - 0.78, 0.03))
    canvas = paint(canvas, 0.12 * s.body * step(0.40 - from_middle, 0.02), 1.0)
    for side, lung in s.lungs.items():
        canvas = paint(canvas, lung, a.lung_density + 0.10 * step(y - 0.62, 0.12))
        canvas = paint(canvas, lung * _vessels(s, side, extent(lung > 0), rng), 0.62)
    canvas = paint(canvas, 0.45 * _ribs(s) * s.body, 0.78)
    bubble = ellipse(x, y, (a.middle + 0.19, a.domes[1] + 0.115), (0.065, 0.032), edge=0.008)
    canvas = paint(canvas, 0.65 * bubble, 0.25)
    canvas = paint(canvas, 0.92 * s.mediastinum * s.body, 0.68)
    canvas = paint(canvas, 0.92 * s.heart, 0.74 + 0.05 * step(y - 0.62, 0.1))
    canvas = paint(canvas, 0.5 * s.aorta, 0.82)
    vertebrae = band(x - a.middle, 0.036, 0.006) * (0.35 + 0.25 * np.cos(2 * np.pi * y / 0.062)) * step(y - 0.05, 0.02)
    canvas = paint(canvas, vertebrae * s.body * (1 - 0.5 * s.heart), 0.88)
    return paint(canvas, 0.8 * s.trachea, 0.30)


def _ribs(s: Scene) -> np.ndarray:
    """Nine posterior ribs that slope down to the side, faint anterior ends that slope back, and the clavicles."""
    a = s.anatomy
    lateral = np.abs(s.x - a.middle)
    cage = step(0.40 - lateral, 0.01) * step(lateral - 0.03, 0.008)
    reach = between(lateral, 0.16, 0.38, 0.015)
    starts = [0.115 + number * a.rib_gap for number in range(9)]
    slope = 0.10 * np.sin(np.clip(lateral / 0.40, 0, 1) * np.pi * 0.8 - 0.55)
    bones = bands(s.y, [start + slope for start in starts], 0.0105, 0.003, strength=cage)
    rise = 0.55 * (0.38 - lateral)
    anterior = [start + 0.20 - rise for start in starts[:6]]
    bones = np.maximum(bones, bands(s.y, anterior, 0.011, 0.004, strength=0.45 * reach, lower=0.09))
    clavicle = 0.165 - 0.16 * (lateral - 0.05) + 0.35 * (lateral - 0.05) ** 2
    collar = 1.1 * between(lateral, 0.04, 0.40, 0.01)
    return np.maximum(bones, bands(s.y, [clavicle], 0.013, 0.003, strength=collar))


def _vessels(s: Scene, side: int, window: tuple[slice, slice], rng: np.random.Generator) -> np.ndarray:
    """A hilum and the vessels that fan out of it and thin towards the periphery; 0 outside the window."""
    rows, columns = window
    x, y = s.x[:, columns], s.y[rows]
    root = (s.anatomy.middle + side * 0.085, 0.45)
    hilum = 0.55 * haze(x, y, root, (0.026, 0.045))
    dx, dy = (x - root[0]) * side, y - root[1]
    distance = np.hypot(dx, dy)
    fade = np.exp(-distance / 0.13)
    angles = (np.linspace(-1.2, 1.25, 7) + rng.uniform(-0.1, 0.1, 7)).tolist()
    cos, sin, phase = (
        np.array([function(angle) for angle in angles], np.float32)[:, None, None]
        for function in (math.cos, math.sin, lambda angle: 6 * angle)
    )
    straight, along = dy * cos - dx * sin, dx * cos + dy * sin  # (7, h, w)
    near = np.flatnonzero(np.abs(straight) < 0.045)  # a vessel leaves its straight line by 0.03, and is 0.0125 wide
    vessel, place = np.divmod(near, distance.size)
    off = straight.ravel()[near] + 0.03 * np.sin(9 * distance.ravel()[place] + phase.ravel()[vessel])
    ahead = step(along.ravel()[near], 0.01)
    vessels = np.zeros_like(straight)
    vessels.ravel()[near] = 0.5 * ahead * band(off, 0.005, 0.003) * fade.ravel()[place]
    everywhere = np.zeros_like(s.body)
    everywhere[window] = np.maximum(hilum, vessels.max(axis=0))
    return everywhere


# --- findings ---------------------------------------------------------------------------------------------------------
# Each takes the scene, the densities so far, a side and a generator; it returns the new densities and where it drew.

Drawn = tuple[np.ndarray, np.ndarray]


def _cardiomegaly(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    return canvas, s.heart  # the scene's heart is already the large one


def _enlarged_cardiomediastinum(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    return canvas, s.mediastinum * step(0.5 - s.y, 0.01)


def _edema(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Perihilar haze in the shape of bat wings, and short lines at the bases."""
    everywhere = np.zeros_like(canvas)
    for wing in (-1, 1):
        cloud = haze(s.x, s.y, (s.anatomy.middle + wing * 0.135, 0.47), (0.085, 0.125))
        cloud = cloud * (0.85 + 0.15 * texture(rng, canvas.shape, 14)) * s.aerated(wing)
        lines = s.aerated(wing) * between(s.y, 0.62, 0.72, 0.01) * step(np.abs(s.x - s.anatomy.middle) - 0.30, 0.01)
        lines = lines * (np.cos(2 * np.pi * s.y / 0.022) > 0.6)
        canvas = paint(paint(canvas, 0.78 * cloud, 0.70), 0.35 * lines, 0.8)
        everywhere = np.maximum(everywhere, np.maximum(cloud, lines))
    return canvas, everywhere


def _patch(value: float, strength: float, radius: float, roughness: float) -> Callable[..., Drawn]:
    """An opacity somewhere in one lung: dense for a consolidation, thin for a mere lung opacity."""

    def draw(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
        centre = (s.lung_x(side) + side * rng.uniform(0.0, 0.04), rng.uniform(0.33, 0.62))
        size = radius * rng.uniform(0.9, 1.15)
        edge = roughness * size * texture(rng, canvas.shape, 12)
        blob = ellipse(s.x + edge, s.y + edge, centre, (size, size * 1.05), edge=0.014) * s.aerated(side)
        return paint(canvas, strength * blob, value), blob

    return draw


def _consolidation(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """A dense patch that still shows air-filled bronchi, dark branches that come from the hilum."""
    canvas, blob = _patch(0.80, 0.88, 0.095, 0.35)(s, canvas, side, rng)
    hilum = (s.anatomy.middle + side * 0.07, 0.46)
    dx, dy = (s.x - hilum[0]) * side, s.y - hilum[1]
    middle = math.atan2((dy * blob).sum(), (dx * blob).sum())
    bronchi = np.zeros_like(canvas)
    for angle in (middle - 0.28, middle + 0.05, middle + 0.30):
        bronchi = np.maximum(bronchi, band(dy * math.cos(angle) - dx * math.sin(angle), 0.003, 0.0025))
    return paint(canvas, 0.35 * bronchi * blob, 0.40), blob


def _pneumonia(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Several small ill-defined patches in one lower zone."""
    everywhere = np.zeros_like(canvas)
    for _ in range(5):
        centre = (s.lung_x(side) + side * rng.uniform(-0.04, 0.08), rng.uniform(0.52, 0.68))
        everywhere = np.maximum(everywhere, haze(s.x, s.y, centre, (0.035, 0.035)))
    everywhere = everywhere * s.aerated(side)
    return paint(canvas, 0.75 * everywhere, 0.74), everywhere


def _lung_lesion(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """A round, sharp nodule."""
    centre = (s.lung_x(side) + side * rng.uniform(0.0, 0.06), rng.uniform(0.27, 0.58))
    radius = rng.uniform(0.032, 0.042)
    height, width = canvas.shape
    nodule = ellipse(s.x, s.y, centre, (radius, radius * width / height), edge=0.004) * s.aerated(side)
    return paint(canvas, 0.9 * nodule, 0.84), nodule


def _atelectasis(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """A plate-like band above a raised hemidiaphragm (the scene's dome is already the raised one)."""
    level = s.anatomy.domes[side] - rng.uniform(0.055, 0.075)
    line = level + 0.25 * rng.uniform(0.3, 1.0) * side * (s.x - s.lung_x(side))
    plate = band(s.y - line, 0.013, 0.004) * step(np.abs(s.x - s.anatomy.middle) - 0.09, 0.01) * s.aerated(side)
    return paint(canvas, 0.85 * plate, 0.80), plate


def _pleural_effusion(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Fluid that fills the base and climbs along the chest wall: the meniscus."""
    outward = np.clip((np.abs(s.x - s.anatomy.middle) - 0.10) / 0.28, 0, 1)
    top = s.anatomy.domes[side] - rng.uniform(0.055, 0.11) - 0.15 * outward**3
    fluid = step(s.y - top, 0.005) * s.thorax[side]
    return paint(canvas, 0.94 * fluid * (1 - 0.5 * s.heart), 0.74), fluid


def _pneumothorax(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Air without vessels over the apex and the outer wall, and the thin white line of the collapsed lung's surface."""
    a = s.anatomy
    depth = rng.uniform(0.055, 0.08)
    inner = (a.lung_axes[0] - 0.6 * depth, a.lung_axes[1] - depth)
    centre = (s.lung_x(side) - side * 0.35 * depth, a.lung_y + 0.55 * depth)
    leaning = s.x - side * 0.16 * (s.y - 0.5)
    collapsed = ellipse(leaning, s.y, centre, inner, power=2.5, edge=0.004)
    air = s.aerated(side) * (1 - collapsed) * step(0.62 - s.y, 0.03)
    line = 4 * collapsed * (1 - collapsed) * s.aerated(side) * step(0.62 - s.y, 0.03)
    return paint(paint(canvas, 0.95 * air, 0.07), 0.7 * line, 0.78), air


def _pleural_other(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Thickened pleura: a bright rim along the outer wall."""
    shifted = np.roll(s.lungs[side], -side * round(0.035 * canvas.shape[1]), axis=1)
    rim = s.lungs[side] * (1 - shifted) * between(s.y, 0.36, 0.66, 0.015)
    rim = rim * step(side * (s.x - s.lung_x(side)), 0.01)
    return paint(canvas, 0.9 * rim, 0.82), rim


def _fracture(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """A rib end displaced across a dark gap."""
    centre = (s.anatomy.middle + side * rng.uniform(0.24, 0.29), rng.uniform(0.36, 0.50))
    dx, dy = s.x - centre[0], s.y - centre[1]
    near = ellipse(s.x, s.y, centre, (0.062, 0.05), edge=0.006)
    offset = 0.018 * np.sign(dx)
    ends = near * band(dy - offset - 0.25 * side * dx, 0.013, 0.003)
    gap = near * band(dx - 0.2 * dy, 0.010, 0.003) * band(dy, 0.030, 0.004)
    return paint(paint(canvas, 0.95 * ends, 0.92), 0.9 * gap, 0.10), np.maximum(ends, gap)


def _support_devices(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """A pacemaker below the clavicle, its lead to the heart, and a feeding tube down the midline."""
    a = s.anatomy
    box = ellipse(s.x, s.y, (a.middle + side * 0.285, 0.235), (0.05, 0.04), power=4, edge=0.004)
    t = np.linspace(0, 1, 60, dtype=np.float32)
    lead_x = a.middle + side * 0.245 * (1 - t) ** 2 + 0.06 * np.sin(np.pi * t) * (1 - t) + 0.06 * t
    lead_y = 0.225 + 0.46 * t**1.6 - 0.05 * np.sin(np.pi * t)
    lead = line(s.x, s.y, (lead_x, lead_y), 0.005, 0.0025)
    tube = band(s.x - a.middle - 0.012 - 0.012 * np.sin(6 * s.y), 0.005, 0.0025) * between(s.y, 0.0, 0.84, 0.006)
    metal = np.maximum(np.maximum(box, lead), 0.75 * tube)
    return paint(canvas, metal, 0.97), metal


# In the order of drawing: structures in front come later.
FINDINGS: dict[str, Callable[..., Drawn]] = {
    "cardiomegaly": _cardiomegaly,
    "enlarged cardiomediastinum": _enlarged_cardiomediastinum,
    "edema": _edema,
    "lung opacity": _patch(0.60, 0.60, 0.10, 0.45),
    "consolidation": _consolidation,
    "pneumonia": _pneumonia,
    "lung lesion": _lung_lesion,
    "atelectasis": _atelectasis,
    "pleural other": _pleural_other,
    "pneumothorax": _pneumothorax,
    "pleural effusion": _pleural_effusion,
    "fracture": _fracture,
    "support devices": _support_devices,
}
BOTH_SIDES = frozenset({"cardiomegaly", "enlarged cardiomediastinum", "edema"})
ZONES = ("upper", "middle", "lower")


def regions(s: Scene) -> dict[str, np.ndarray]:
    """Compute the masks of the anatomy; a lung's three zones are thirds of its mask's height.

    Args:
        s: The scene.

    Returns:
        Bool masks (h, w) by name.
    """
    coverages = {
        "heart": s.heart,
        "mediastinum": s.mediastinum,
        "aorta": s.aorta,
        "trachea": s.trachea,
    }
    masks = {name: coverage > 0.5 for name, coverage in coverages.items()}
    for name, side in SIDES.items():
        masks[f"{name} lung"] = s.aerated(side) > 0.5
        masks |= {f"{name} {zone} lung": mask for zone, mask in zones(s, side).items()}
    return masks


def zones(s: Scene, side: int) -> dict[str, np.ndarray]:
    """Compute the masks of the upper, middle and lower third of one lung's height.

    Args:
        s: The scene.
        side: -1 right, 1 left.

    Returns:
        Bool masks (h, w) by zone.
    """
    lung = s.aerated(side) > 0.5
    rows = np.flatnonzero(lung.any(axis=1))
    cuts = np.linspace(rows[0], rows[-1] + 1, 4).round().astype(int)
    masks = {}
    for zone, start, stop in zip(ZONES, cuts[:-1], cuts[1:], strict=True):
        masks[zone] = np.zeros_like(lung)
        masks[zone][start:stop] = lung[start:stop]
    return masks
