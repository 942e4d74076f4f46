"""The appearance of the synthetic laparoscopic instruments: a form and a colour each, both different for each tool.

A tool extends along the a axis of its own plane, its foremost point at 0 and its shaft towards minus infinity; c is the
distance to the right of the axis as seen from the shaft. The clip chooses the unit of length (about a frame's height).
"""

from __future__ import annotations

import numpy as np

INSTRUMENTS = ("grasper", "bipolar", "hook", "scissors", "clipper", "irrigator", "specimen_bag")
COLOURS = {  # mean RGB, 0..255
    "grasper": (104, 112, 126),
    "bipolar": (62, 104, 200),
    "hook": (222, 184, 52),
    "scissors": (66, 158, 78),
    "clipper": (150, 76, 190),
    "irrigator": (84, 200, 200),
    "specimen_bag": (236, 230, 218),
}
SHAFT = 0.07  # half its width
HALF_WIDTH = 0.16  # every point of a tool is at most so far from its axis
SHADE, GRAIN, GRAIN_LENGTH = 0.10, 0.10, 0.17  # how much darker than the mean the flanks are; light and dark along a


def inside(instrument: str, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Compute which points (a, c) a tool covers.

    Args:
        instrument: One of INSTRUMENTS.
        a: Coordinates along the tool.
        c: Coordinates across the tool, of the same shape.

    Returns:
        Bool of that shape.

    Raises:
        KeyError: The instrument is unknown.
    """
    return _FORMS[instrument](a, c)


def look(instrument: str, a: np.ndarray, c: np.ndarray, grain: float) -> np.ndarray:
    """Compute the colours of points on a tool; they are smooth and move with the tool.

    Args:
        instrument: One of INSTRUMENTS.
        a: Coordinates along the tool, shape (n,).
        c: Coordinates across the tool, shape (n,).
        grain: Phase, in radians, of the light and dark bands along the shaft; it differs from tool to tool.

    Returns:
        RGB, float of shape (n, 3).
    """
    across = np.clip(np.abs(c) / SHAFT, 0, 1)
    light = 1 + SHADE * (0.5 - across**2) + GRAIN * np.sin(2 * np.pi * a / GRAIN_LENGTH + grain)
    return light[:, None] * np.array(COLOURS[instrument])


def _bar(a: np.ndarray, c: np.ndarray, start: float, end: float, half_width: float) -> np.ndarray:
    return (start <= a) & (a <= end) & (np.abs(c) <= half_width)


def _grasper(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Two open jaws."""
    opening = (a + 0.26) / 0.26  # 0 at the joint, 1 at the tips
    jaws = _bar(a, np.abs(c) - 0.02 - 0.09 * opening, -0.26, 0, 0.03)
    return _bar(a, c, -np.inf, -0.25, SHAFT) | jaws


def _bipolar(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Two thin tines that bend outwards and meet again at the tip."""
    bow = 0.07 * np.sin(np.pi * np.clip((a + 0.28) / 0.28, 0, 1))
    return _bar(a, c, -np.inf, -0.27, SHAFT) | _bar(a, np.abs(c) - bow, -0.28, 0, 0.022)


def _hook(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A thin rod with its end at a right angle."""
    rod, end = _bar(a, c, -0.24, 0, 0.022), _bar(a, c - 0.06, -0.05, 0, 0.08)
    return _bar(a, c, -np.inf, -0.23, SHAFT) | rod | end


def _scissors(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Two tapering blades that cross."""
    along = (a + 0.28) / 0.28
    taper = 0.035 * (1.15 - along)
    blades = [(np.abs(c - side * 0.15 * (along - 0.35)) <= taper) & (a >= -0.28) & (a <= 0) for side in (-1, 1)]
    return _bar(a, c, -np.inf, -0.27, SHAFT) | blades[0] | blades[1]


def _clipper(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A broad jaw with a slot."""
    return _bar(a, c, -np.inf, -0.21, SHAFT) | (_bar(a, c, -0.22, 0, 0.1) & ~_bar(a, c, -0.15, 0, 0.035))


def _irrigator(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A tube with a round end and two holes."""
    tube = _bar(a, c, -np.inf, -SHAFT, SHAFT) | ((a + SHAFT) ** 2 + c**2 <= SHAFT**2)
    holes = [(a - at) ** 2 + c**2 <= 0.025**2 for at in (-0.1, -0.19)]
    return tube & ~holes[0] & ~holes[1]


def _specimen_bag(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A pouch on a thin rod."""
    return _bar(a, c, -np.inf, -0.35, 0.03) | (((a + 0.19) / 0.19) ** 2 + (c / 0.15) ** 2 <= 1)


_FORMS = {
    "grasper": _grasper,
    "bipolar": _bipolar,
    "hook": _hook,
    "scissors": _scissors,
    "clipper": _clipper,
    "irrigator": _irrigator,
    "specimen_bag": _specimen_bag,
}
