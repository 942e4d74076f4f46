"""Draws schematic chest radiographs in which every named finding is really there, and says where.

Synthetic from the first pixel to the last: no licensed image was looked at or learnt from. The same seed is the same
patient: adding a finding to a seed changes what that finding changes, and leaves the rest of the picture as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import frontal, lateral, local

FINDINGS = tuple(frontal.FINDINGS)
LOCAL_FINDINGS = tuple(local.FINDINGS)  # tied to one anatomy, and drawn in the frontal view only
VIEWS = ("frontal", "lateral")
SIZE = (192, 160)
NOISE = 0.010  # standard deviation in density, 0..1


@dataclass(frozen=True)
class Chest:
    """A drawn chest.

    pixels: uint8 (h, w). regions: boolean masks (h, w) of the anatomy by name ("left lung", "right upper lung",
    "heart", ...). findings: boolean masks (h, w) by finding, where it was drawn; "left"/"right" precede the name of a
    finding that lies on one side, whether or not the caller chose the side.
    """

    pixels: np.ndarray
    regions: dict[str, np.ndarray]
    findings: dict[str, np.ndarray]


def draw_chest(
    findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE, view: str = "frontal"
) -> np.ndarray:
    """The pixels of `chest(...)`: uint8 (h, w)."""
    return chest(findings, seed=seed, size=size, view=view).pixels


def chest(findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE, view: str = "frontal") -> Chest:
    """Draws one chest.

    Args:
        findings: names of FINDINGS or LOCAL_FINDINGS; "left " or "right " before a one-sided one fixes its side (the
            patient's: the patient's left is the image's right), which the seed chooses otherwise. For both sides name
            both.
        seed: the patient and everything random; not negative.
        size: (height, width) in pixels.
        view: "frontal" or "lateral". A lateral view overlays both sides.

    Raises ValueError for an unknown finding, side or view, and for a local finding in a lateral view.
    """
    plane, drawing = _plane(view)
    wanted, scene = _scene(findings, seed, size, view)
    canvas = plane.draw_anatomy(scene, _stream(seed, "vessels"))
    masks = {}
    for name, side in wanted:
        canvas, coverage = drawing[name](scene, canvas, side, _stream(seed, f"{name} {side}"))
        masks[_label(name, side)] = coverage > 0.5 * coverage.max()
    canvas = canvas + NOISE * _stream(seed, "noise").standard_normal(size)
    pixels = np.rint(255 * np.clip(canvas, 0, 1)).astype(np.uint8)
    return Chest(pixels, plane.regions(scene), masks)


def box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """(x, y, width, height) in pixels of the tightest box around a mask (h, w), top-left origin."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        raise ValueError("an empty mask has no box")
    return int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)


def regions(findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE) -> dict[str, np.ndarray]:
    """The regions of the frontal `chest(...)`, without drawing it: boolean masks (h, w) by name."""
    return frontal.regions(_scene(findings, seed, size, "frontal")[1])


def _scene(findings: Collection[str], seed: int, size: tuple[int, int], view: str) -> tuple[list[tuple[str, int]], Any]:
    """The findings as (name, side) in the order of drawing, and the view's scene with what they alter in it."""
    plane, drawing = _plane(view)
    order = list(drawing)
    wanted = sorted({_parse(name, seed, drawing) for name in findings}, key=lambda f: (order.index(f[0]), f[1]))
    anatomy = plane.Anatomy.of(_stream(seed, "anatomy"))
    return wanted, plane.scene(size, plane.altered(anatomy, frozenset(wanted)))


def _plane(view: str) -> tuple[ModuleType, dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]]]:
    """The module that draws a view (it offers Anatomy, altered, scene, draw_anatomy and regions), and its findings."""
    if view not in VIEWS:
        raise ValueError(f"view {view!r}: expected one of {', '.join(VIEWS)}")
    return (frontal, frontal.FINDINGS | local.FINDINGS) if view == "frontal" else (lateral, lateral.FINDINGS)


def _parse(text: str, seed: int, known: Collection[str]) -> tuple[str, int]:
    """A finding as (name, side): side -1 right, 1 left, 0 for those that have none."""
    first, _, rest = text.partition(" ")
    name = rest if first in frontal.SIDES else text
    if name not in known:
        raise ValueError(f"finding {text!r}: expected one of {', '.join(known)}, or left / right before one")
    if name in frontal.BOTH_SIDES | local.MIDLINE.keys():
        if name != text:
            raise ValueError(f"finding {text!r}: {name} has no side")
        return name, 0
    if name != text:
        return name, frontal.SIDES[first]
    return name, int(_stream(seed, f"side of {name}").choice((-1, 1)))


def _label(name: str, side: int) -> str:
    return name if side == 0 else f"{'left' if side > 0 else 'right'} {name}"


def _stream(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose: what one part of the drawing consumes moves no other part."""
    return np.random.default_rng([seed, *purpose.encode()])
