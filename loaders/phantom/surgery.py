"""A synthetic laparoscopic clip with exactly known motion: tissue under a moving camera, and moving tools.

Positions are complex numbers x + iy in pixels from the frame's centre ((W-1)/2, (H-1)/2), x to the right and y down.
The camera's step from frame t to t + 1 is the linear field of SurgXBench, appendix B.1, exactly and not only to first
order: the tissue at (x, y) of frame t is at (x, y) + f_cam(x, y) in frame t + 1, with

    f_cam(x, y) = pan (-1, 0) + tilt (0, -1) + zoom (-x, -y) + roll (y, -x).

This is the map p -> (1 - zoom - i roll) p - (pan + i tilt), a similarity. Several steps in a row, and the way back, are
similarities too, so the flow between any two frames is f_cam of some camera. The way back of `factor`, `shift` is
1/factor, -shift/factor: the negative of f_cam only as long as the motion is small.

Tools move by their own similarities (a turn and a shift) in the frame, independently of the camera.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .chest import box
from .surgical_tissue import STILL, Similarity, Tissue, compute_points, draw_tissue
from .surgical_tools import HALF_WIDTH, INSTRUMENTS, inside, look

SIZE = (120, 214)  # height, width; about 1/4 of Cholec80's 480 x 854
FPS = 25
SECONDS = 14
N_FRAMES = SECONDS * FPS
PHASES = 7  # phases of the operation, an equal part of the clip each
UNIT = 1.25  # frame heights to one unit of a tool's plane
SLIDE = 12  # frames in which a tool comes in before its first second, and goes out after its last

Deed = tuple[str, str]  # verb, target
# A few of the official triplets an instrument. A specimen bag is boxed, and has no triplet.
DEEDS: dict[str, tuple[Deed, ...]] = {
    "grasper": (
        ("retract", "gallbladder"), ("grasp", "gallbladder"), ("retract", "liver"), ("grasp", "specimen_bag"),
        ("null_verb", "null_target"),
    ),
    "bipolar": (("coagulate", "liver"), ("coagulate", "cystic_plate"), ("dissect", "omentum")),
    "hook": (("dissect", "gallbladder"), ("dissect", "cystic_plate"), ("null_verb", "null_target")),
    "scissors": (("cut", "cystic_duct"), ("cut", "cystic_artery"), ("dissect", "omentum")),
    "clipper": (("clip", "cystic_artery"), ("clip", "cystic_duct"), ("null_verb", "null_target")),
    "irrigator": (("aspirate", "fluid"), ("irrigate", "liver"), ("retract", "liver"), ("null_verb", "null_target")),
}  # fmt: skip
FREQUENT = ("grasper", "grasper", "grasper", "hook", "hook", "bipolar", "irrigator")  # dealt once each has had its turn


class Seen(NamedTuple):
    """A tool in a frame.

    Attributes:
        instrument: Its name.
        xywh: The extent of its visible pixels.
        deed: (verb, target); None for a specimen bag.
    """

    instrument: str
    xywh: tuple[int, int, int, int]
    deed: Deed | None


@dataclass(frozen=True)
class Tool:
    """One visit of one instrument. It turns about the point where it enters the body, outside the frame.

    Attributes:
        instrument: Its name.
        deed: (verb, target); None for a specimen bag.
        seconds: Seconds in which it is completely inserted.
        entry: The point where it enters.
        home: The mean position of its tip.
        reach: How far the tip moves from `home`.
        periods: Periods of its horizontal and vertical motion, in frames.
        phases: Phases of its horizontal and vertical motion, in radians.
    """

    instrument: str
    deed: Deed | None
    seconds: frozenset[int]
    entry: complex
    home: complex
    reach: float
    periods: tuple[float, float]
    phases: tuple[float, float]

    def withdrawn(self, t: int) -> float:
        """Compute how far the tool is withdrawn.

        Args:
            t: The frame.

        Returns:
            0 if it is completely inserted, 1 if it is out of sight.
        """
        time, frame = divmod(t, FPS)
        is_inserted, next_one = time in self.seconds, min(time + 1, SECONDS - 1) in self.seconds
        share = (0 if next_one else frame / SLIDE) if is_inserted else ((FPS - frame) / SLIDE if next_one else 1)
        share = min(share, 1)
        return share * share * (3 - 2 * share)

    def pose(self, t: int) -> Similarity:
        """Compute the map from the tool's plane (a + ic, in pixels) to the frame.

        Args:
            t: The frame.

        Returns:
            The map.
        """
        angles = [2 * math.pi * t / period + phase for period, phase in zip(self.periods, self.phases, strict=True)]
        reach = self.home + self.reach * complex(math.cos(angles[0]), math.sin(angles[1])) - self.entry
        return Similarity(reach / abs(reach), self.entry + (1 - self.withdrawn(t)) * reach)


@dataclass(frozen=True, eq=False)
class Clip:
    """A video of N_FRAMES frames at FPS; see `clip`. Every method raises ValueError for a frame that does not exist.

    Attributes:
        size: (height, width) in pixels.
        views: The map of frame 0's tissue to each frame.
        tools: The visits of instruments.
        tissue: The texture.
        black: Seconds in which the camera is outside the body. The frames nearest to these are black, without tools and
            labels, and flow and camera from and to them are 0.
    """

    size: tuple[int, int]
    views: Sequence[Similarity]
    tools: tuple[Tool, ...]
    tissue: Tissue
    black: frozenset[int]

    def frame(self, t: int) -> np.ndarray:
        """Draw a frame.

        Args:
            t: The frame.

        Returns:
            RGB, uint8 of shape (h, w, 3).
        """
        if self.is_black(t):
            return np.zeros((*self.size, 3), dtype=np.uint8)
        owner = self._owner(t)
        pixels = self.tissue.seen(self.views[t].inverse(), self.size)
        for number, tool in enumerate(self.tools):
            mine = owner == number
            if mine.any():
                points = tool.pose(t).inverse()(compute_points(self.size)[mine]) / (UNIT * self.size[0])
                pixels[mine] = look(tool.instrument, points.real, points.imag, tool.phases[0])
        return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)

    def seen(self, t: int) -> list[Seen]:
        """List the visible tools of a frame; the later of two covers the earlier.

        Args:
            t: The frame.

        Returns:
            The tools.
        """
        owner = self._owner(t)
        numbers = np.unique(owner[owner >= 0]).tolist()
        return [Seen(self.tools[n].instrument, box(owner == n), self.tools[n].deed) for n in numbers]

    def boxes(self, t: int) -> list[tuple[str, tuple[int, int, int, int]]]:
        """List the boxes of the tools.

        Args:
            t: The frame.

        Returns:
            (instrument, (x, y, width, height) in pixels) of each tool.
        """
        return [(tool.instrument, tool.xywh) for tool in self.seen(t)]

    def triplets(self, t: int) -> list[tuple[str, str, str]]:
        """List the triplets of the tools, except the specimen bag.

        Args:
            t: The frame.

        Returns:
            (instrument, verb, target) of each tool.
        """
        return [(tool.instrument, *tool.deed) for tool in self.seen(t) if tool.deed]

    def phase(self, t: int) -> int:
        """Compute the phase of the operation.

        Args:
            t: The frame.

        Returns:
            0 .. PHASES - 1.
        """
        self._check(t)
        return t * PHASES // N_FRAMES

    def is_black(self, t: int) -> bool:
        """Return whether a frame is black.

        Args:
            t: Number of the frame.

        Returns:
            Whether it is black.
        """
        self._check(t)
        return (t + FPS // 2) // FPS in self.black

    def tool_mask(self, t: int, instrument: str | None = None) -> np.ndarray:
        """Compute the visible pixels of all tools, or of those of one instrument.

        Args:
            t: The frame.
            instrument: Its name; None for all.

        Returns:
            Bool of shape (h, w).
        """
        numbers = [n for n, tool in enumerate(self.tools) if instrument in (None, tool.instrument)]
        return np.isin(self._owner(t), numbers)

    def camera(self, t: int, t2: int | None = None) -> dict[str, float]:
        """Compute the camera's motion, f_cam, between two frames.

        Args:
            t: The first frame.
            t2: The second frame; by default, the next one.

        Returns:
            pan and tilt (pixels), zoom and roll.
        """
        factor, shift = self._view_change(t, t + 1 if t2 is None else t2)
        return {"pan": -shift.real, "tilt": -shift.imag, "zoom": 1 - factor.real, "roll": -factor.imag}

    def flow(self, t: int, t2: int) -> np.ndarray:
        """Compute the optical flow from frame t to t2, on t's grid, for hidden pixels too.

        Tissue moves with the camera, a tool's pixels with the tool. t2 < t gives the backward flow.

        Args:
            t: The first frame.
            t2: The second frame.

        Returns:
            Float32 of shape (2, h, w): u (to the right) and v (down), in pixels.
        """
        points = compute_points(self.size)
        moved = self._view_change(t, t2)(points)
        if not (self.is_black(t) or self.is_black(t2)):
            owner = self._owner(t)
            for number in np.unique(owner[owner >= 0]).tolist():
                mine, tool = owner == number, self.tools[number]
                moved[mine] = tool.pose(t).inverse().then(tool.pose(t2))(points[mine])
        change = moved - points
        return np.stack([np.real(change), np.imag(change)]).astype(np.float32)

    def _view_change(self, t: int, t2: int) -> Similarity:
        if self.is_black(t) or self.is_black(t2):
            return STILL
        return self.views[t].inverse().then(self.views[t2])

    def _owner(self, t: int) -> np.ndarray:
        """Compute the number of the tool that each pixel belongs to, -1 for tissue: int (h, w)."""
        owner = np.full(self.size, -1)
        if self.is_black(t):
            return owner
        for number, tool in enumerate(self.tools):
            if tool.withdrawn(t) < 1:
                points = tool.pose(t).inverse()(compute_points(self.size)) / (UNIT * self.size[0])
                near = np.abs(points.imag) <= HALF_WIDTH
                a, c = points[near].real, points[near].imag
                owner[near] = np.where(inside(tool.instrument, a, c), number, owner[near])
        return owner

    def _check(self, t: int) -> None:
        if not 0 <= t < N_FRAMES:
            raise ValueError(f"frame {t}: the clip has frames 0 to {N_FRAMES - 1}")


def clip(video: int, *, seed: int) -> Clip:
    """Build the clip that all phantom sources of one seed have as video `video`.

    Each of the seven instruments is visible at the start of at least one second; one second has no tool, and one is
    black.

    Args:
        video: The number of the video.
        seed: The seed, not negative.

    Returns:
        The clip.
    """
    rng = np.random.default_rng([seed, video, *b"tools"])
    quiet = int(rng.integers(3, SECONDS - 2))
    black = int(rng.choice([time for time in range(3, SECONDS - 2) if abs(time - quiet) > 1]))
    tissue = draw_tissue(np.random.default_rng([seed, video, *b"tissue"]), SIZE[0])
    views = _views(np.random.default_rng([seed, video, *b"camera"]), SIZE[0])
    return Clip(SIZE, views, _tools(rng, SIZE, quiet, black), tissue, frozenset({black}))


def _views(rng: np.random.Generator, height: int) -> list[Similarity]:
    """Draw the camera's motion: pan, tilt, zoom and roll swing independently, two swings each."""
    t = np.arange(N_FRAMES - 1)
    steps = []
    for amplitude in (0.12 * height, 0.09 * height, 0.08, 0.10):  # of the sums of pan, tilt, zoom and roll
        rates = 2 * np.pi / rng.uniform(110, 220, 2)
        swings = [rate * np.cos(rate * t + phase) for rate, phase in zip(rates, rng.uniform(0, 6.3, 2), strict=True)]
        steps.append(amplitude * np.sum(swings, axis=0))
    views = [STILL]
    for pan, tilt, zoom, roll in zip(*(step.tolist() for step in steps), strict=True):
        views.append(views[-1].then(Similarity(1 - zoom - 1j * roll, -(pan + 1j * tilt))))
    return views


def _tools(rng: np.random.Generator, size: tuple[int, int], quiet: int, black: int) -> tuple[Tool, ...]:
    """Draw visits from the left (always one), the right (3 seconds of 4) and from above or below (3 of 5)."""
    visits = []
    for place, (stay, pause) in enumerate(((4, 0), (3, 1), (3, 2))):
        starts = range(int(rng.integers(stay + pause)) - stay - pause + 1, SECONDS, stay + pause)
        for start in starts:
            seconds = {time for time in range(start, start + stay) if 0 <= time < SECONDS} - {quiet}
            visits += [(place, frozenset(seconds))] if seconds - {black} else []
    deck = [*INSTRUMENTS, *rng.permutation(FREQUENT * 2).tolist()]
    dealt = rng.permutation(deck[: len(visits)]).tolist()
    return tuple(
        _tool(rng, size, place, seconds, instrument) for (place, seconds), instrument in zip(visits, dealt, strict=True)
    )


def _tool(
    rng: np.random.Generator, size: tuple[int, int], place: int, seconds: frozenset[int], instrument: str
) -> Tool:
    """Draw one visit; `place` is 0 for the left, 1 for the right, 2 for above or below."""
    height, width = size
    to_entry, to_home = width / 2 + 0.4 * height, width * rng.uniform(0.12, 0.2)
    if place == 2:
        side = 1j * rng.choice((-1, 1))
        entry = side * 0.9 * height + width * rng.uniform(-0.1, 0.1)
        home = side * 0.05 * height + width * rng.uniform(-0.03, 0.03)
    else:
        side = (-1, 1)[place]
        entry = side * to_entry + 1j * height * rng.uniform(-0.5, 0.5)
        home = side * to_home + 1j * height * rng.uniform(-0.15, 0.15)
    deeds = DEEDS.get(instrument, (None,))
    return Tool(
        instrument=instrument,
        deed=deeds[int(rng.integers(len(deeds)))],
        seconds=seconds,
        entry=complex(entry),
        home=complex(home),
        reach=0.08 * height,
        periods=(float(rng.uniform(35, 70)), float(rng.uniform(35, 70))),
        phases=(float(rng.uniform(0, 2 * np.pi)), float(rng.uniform(0, 2 * np.pi))),
    )
