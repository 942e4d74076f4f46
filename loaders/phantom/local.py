"""Findings tied to one anatomy of the frontal chest: a zone of a lung, the heart, the aorta or the trachea.

They are drawn so that the mean grey of their anatomy changes: brighter, or darker for emphysema. So even a model that
measures nothing but brightness can answer from the image whether they are there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .frontal import ZONES, Drawn, Scene, zones
from .shapes import between, ellipse, paint, step, texture


def _in_zone(zone: str, value: float, strength: float, fill: float, *, round_: bool = False) -> Callable[..., Drawn]:
    """An opacity (or, with a low `value`, a lucency) inside one third of a lung, of about `fill` of its extent."""

    def draw(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
        height, width = canvas.shape
        mask = zones(s, side)[zone]
        xs, ys = (np.broadcast_to(axis, mask.shape)[mask] for axis in (s.x, s.y))
        x_min, x_max, y_min, y_max = xs.min(), xs.max(), ys.min(), ys.max()
        axes = (0.5 * fill * (x_max - x_min), 0.5 * fill * (y_max - y_min))
        if round_:
            axes = (axes[1] * height / width, axes[1])
        play = 0.3 * (1 - fill)  # how far from the zone's middle it may lie
        centre = (xs.mean() + play * (x_max - x_min) * rng.uniform(-1, 1), (y_min + y_max) / 2)
        rough = 0 if round_ else 0.06 * axes[1] * texture(rng, canvas.shape, 14)
        blob = ellipse(s.x + rough, s.y + rough, centre, axes, power=2 if round_ else 3, edge=0.005)
        blob = blob * s.aerated(side)
        return paint(canvas, strength * blob, value), blob

    return draw


def _enlarged_heart(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Paint the scene's heart, which is wide already, denser: a thicker heart absorbs more."""
    return paint(canvas, 0.5 * s.heart, 0.95), s.heart


def _aortic_enlargement(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Paint the scene's aorta, which is wide already, denser: a thicker aorta absorbs more."""
    aorta = s.aorta * (1 - s.trachea)
    return paint(canvas, 0.6 * aorta, 0.95), aorta


def _aortic_calcification(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """White plaques all along the aorta."""
    plaques = s.aorta * (1 - s.trachea) * step(texture(rng, canvas.shape, 40) + 0.15, 0.05)
    return paint(canvas, 0.9 * plaques, 1.0), plaques


def _tracheal_narrowing(s: Scene, canvas: np.ndarray, side: int, rng: np.random.Generator) -> Drawn:
    """Soft tissue where the windpipe should hold air."""
    tissue = s.trachea * between(s.y, rng.uniform(0.07, 0.10), rng.uniform(0.26, 0.29), 0.006)
    return paint(canvas, 0.9 * tissue, 0.80), tissue


MIDLINE: dict[str, Callable[..., Drawn]] = {
    "enlarged heart": _enlarged_heart,
    "aortic enlargement": _aortic_enlargement,
    "aortic calcification": _aortic_calcification,
    "tracheal narrowing": _tracheal_narrowing,
}
# Zones come first in the name: "upper mass", "left upper mass".
FINDINGS: dict[str, Callable[..., Drawn]] = {
    **{f"{zone} emphysema": _in_zone(zone, 0.05, 0.75, 0.92) for zone in ZONES},
    **{f"{zone} opacity": _in_zone(zone, 0.64, 0.65, 0.85) for zone in ZONES},
    **{f"{zone} consolidation": _in_zone(zone, 0.82, 0.88, 0.80) for zone in ZONES},
    **{f"{zone} mass": _in_zone(zone, 0.86, 0.92, 0.70, round_=True) for zone in ZONES},
    **MIDLINE,
}
