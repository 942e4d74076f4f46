"""Draw schematic chest radiographs that really show every named finding, with its mask.

All pixels are synthetic: no licensed image was used. A seed is a patient: adding a finding to a seed changes only the
pixels that the finding affects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
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
class Outlines:
    """The masks of a chest.

    Attributes:
        findings: Boolean masks (h, w) of the drawn findings; a finding on one side has the prefix "left" or "right",
            chosen by the caller or by the seed.
        scene: The scene of its view (`frontal.Scene` or `lateral.Scene`).
        view: Its view.
    """

    findings: dict[str, np.ndarray]
    scene: Any
    view: str

    @cached_property
    def regions(self) -> dict[str, np.ndarray]:
        """Boolean masks (h, w) of the anatomy by name ("left lung", "right upper lung", "heart", ...)."""
        return _plane(self.view)[0].regions(self.scene)


@dataclass(frozen=True)
class Chest(Outlines):
    """A drawn chest.

    Attributes:
        pixels: Uint8 of shape (h, w).
    """

    pixels: np.ndarray


def draw_chest(
    findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE, view: str = "frontal"
) -> np.ndarray:
    """Draw the pixels of a chest.

    Args:
        findings: As for `chest`.
        seed: As for `chest`.
        size: As for `chest`.
        view: As for `chest`.

    Returns:
        Uint8 of shape (h, w).
    """
    return chest(findings, seed=seed, size=size, view=view).pixels


def chest(findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE, view: str = "frontal") -> Chest:
    """Draw one chest.

    Args:
        findings: Names of FINDINGS or LOCAL_FINDINGS. The prefix "left " or "right " fixes the side of a one-sided one
            (the patient's left is the image's right), which the seed chooses otherwise. For both sides name both.
        seed: The patient and everything random; not negative.
        size: (height, width) in pixels.
        view: "frontal" or "lateral". A lateral view overlays both sides.

    Returns:
        The pixels and masks.

    Raises:
        ValueError: A finding, side or view is unknown, or a local finding is in a lateral view.
    """
    plane, drawing = _plane(view)
    ordered, scene = _scene(findings, seed, size, view)
    anatomy = plane.draw_anatomy(scene, _stream(seed, "vessels"))
    canvas, masks = _draw_findings(ordered, drawing, scene, anatomy, seed)
    canvas = canvas + NOISE * _stream(seed, "noise").standard_normal(size)
    pixels = np.rint(255 * np.clip(canvas, 0, 1)).astype(np.uint8)
    return Chest(masks, scene, view, pixels)


def outline(findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE, view: str = "frontal") -> Outlines:
    """Compute the masks of the chest that `chest` draws, at a fraction of the time.

    Args:
        findings: As for `chest`.
        seed: As for `chest`.
        size: As for `chest`.
        view: As for `chest`.

    Returns:
        The masks.
    """
    ordered, scene = _scene(findings, seed, size, view)
    masks = _draw_findings(ordered, _plane(view)[1], scene, np.zeros_like(scene.body), seed)[1]
    return Outlines(masks, scene, view)


def box(mask: np.ndarray) -> tuple[int, int, int, int]:
    """Compute the tightest box around a mask.

    Args:
        mask: The mask (h, w).

    Returns:
        (x, y, width, height) in pixels, top-left origin.

    Raises:
        ValueError: The mask is empty.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        raise ValueError("an empty mask has no box")
    return int(columns[0]), int(rows[0]), int(columns[-1] - columns[0] + 1), int(rows[-1] - rows[0] + 1)


def regions(findings: Collection[str], *, seed: int, size: tuple[int, int] = SIZE) -> dict[str, np.ndarray]:
    """Compute the regions of the frontal chest without drawing it.

    Args:
        findings: As for `chest`.
        seed: As for `chest`.
        size: As for `chest`.

    Returns:
        Boolean masks (h, w) by name.
    """
    return frontal.regions(_scene(findings, seed, size, "frontal")[1])


def _draw_findings(
    ordered: list[tuple[str, int]],
    drawing: Mapping[str, Callable[..., tuple[np.ndarray, np.ndarray]]],
    scene: Any,
    canvas: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draw findings on a canvas, whose values do not affect the masks; return the new canvas and the masks."""
    masks = {}
    for name, side in ordered:
        canvas, coverage = drawing[name](scene, canvas, side, _stream(seed, f"{name} {side}"))
        masks[_label(name, side)] = coverage > 0.5 * coverage.max()
    return canvas, masks


def _scene(findings: Collection[str], seed: int, size: tuple[int, int], view: str) -> tuple[list[tuple[str, int]], Any]:
    """Return the findings as (name, side) in the order of drawing, and the view's scene with their changes."""
    plane, drawing = _plane(view)
    order = list(drawing)
    ordered = sorted({_parse(name, seed, drawing) for name in findings}, key=lambda f: (order.index(f[0]), f[1]))
    anatomy = plane.Anatomy.of(_stream(seed, "anatomy"))
    return ordered, plane.scene(size, plane.altered(anatomy, frozenset(ordered)))


def _plane(view: str) -> tuple[ModuleType, dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]]]:
    """Return the module that draws a view (with Anatomy, altered, scene, draw_anatomy, regions), and its findings."""
    if view not in VIEWS:
        raise ValueError(f"view {view!r}: expected one of {', '.join(VIEWS)}")
    return (frontal, frontal.FINDINGS | local.FINDINGS) if view == "frontal" else (lateral, lateral.FINDINGS)


def _parse(text: str, seed: int, names: Collection[str]) -> tuple[str, int]:
    """Parse a finding to (name, side): side -1 right, 1 left, 0 for a finding without a side."""
    side_name, _, remainder = text.partition(" ")
    name = remainder if side_name in frontal.SIDES else text
    if name not in names:
        raise ValueError(f"finding {text!r}: expected one of {', '.join(names)}, or left / right before one")
    if name in frontal.BOTH_SIDES | local.MIDLINE.keys():
        if name != text:
            raise ValueError(f"finding {text!r}: {name} has no side")
        return name, 0
    if name != text:
        return name, frontal.SIDES[side_name]
    return name, int(_stream(seed, f"side of {name}").choice((-1, 1)))


def _label(name: str, side: int) -> str:
    return name if side == 0 else f"{'left' if side > 0 else 'right'} {name}"


def _stream(seed: int, purpose: str) -> np.random.Generator:
    """Create random numbers for one purpose: one part of the drawing does not affect the numbers of another."""
    return np.random.default_rng([seed, *purpose.encode()])
