"""Which second of its video a frame of Cholec80-Boxes shows, and whether other sources agree.

CholecT45 keeps one frame a second of Cholec80's 25. Whether Cholec80-Boxes numbers seconds or the video's frames, and
how many a second it labels, public accounts do not agree on: its numbers decide (`numbering`). They do not tell whether
the first second is 0 or 1; a source that names the instruments of each second does (`check_seconds`). Instruments stay
for many seconds, so that boxes a second off agree with nearly as many frames as the right ones: only those frames tell
in which an instrument comes or goes. The rule is a sign test over them. It errs on the quiet side: where every box is
drawn a second sooner and a second longer than the other source names its instrument, a shift goes unseen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ...loaders import cholec80
from ...loaders.cholec80 import FPS
from ...loaders.cholec80_boxes import BoxedFrame
from ...loaders.errors import InputError

LEVEL = 0.001  # of the sign test, one-sided, for either neighbour
SHIFTS = {-1: "earlier", 1: "later"}

Instruments = Mapping[tuple[int, int], frozenset[str]]  # (video, second) -> the instruments in it; none for no entry


@dataclass(frozen=True, slots=True)
class Numbering:
    """Second k of a video is its frame `first + step * k`. stated: whether `first` is the user's word."""

    step: int
    first: int = 0
    stated: bool = field(default=False, compare=False)

    def second(self, number: int) -> int | None:
        """The second that frame `number` shows; None for a number in between."""
        k, rest = divmod(number - self.first, self.step)
        return None if rest or k < 0 else k

    def video_frame(self, number: int) -> int | None:
        """The number of the same frame in the 25-fps video; None where there is none."""
        place, rest = divmod(FPS * (number - self.first), self.step)
        return None if rest or place < 0 else place


def numbering(frames: Sequence[BoxedFrame], *, step: int | None = None, first: int | None = None) -> Numbering:
    """How Cholec80-Boxes numbers its frames, as far as it is not given.

    Numbers whose steps share the divisor 25 or 5 are those of the 25-fps video (labelled once or five times a second),
    consecutive ones count seconds; the first second is the smallest number that fits. Raises InputError for other
    steps, which have to be named.
    """
    numbers = {video: sorted({f.frame for f in frames if f.video == video}) for video in {f.video for f in frames}}
    shared = math.gcd(*(after - before for of_one in numbers.values() for before, after in pairwise(of_one)))
    if step is None:
        if shared > 1 and shared % FPS and FPS % shared:
            raise InputError(
                "Cholec80-Boxes",
                f"its frames are numbered in steps of {shared}",
                expected="frames of the 25-fps video (steps of 25 or 5), or seconds",
                action="give --boxes-step, the frame numbers a second, and --boxes-first, the first second's",
            )
        step = FPS if shared > 1 else 1
    if first is not None:
        return Numbering(step, first, stated=True)
    return Numbering(step, min((f.frame for f in frames), default=0) % math.gcd(shared, step))


class Shift(NamedTuple):
    """Boxes of a neighbouring second that agree with clearly more frames than those of the same second.

    seconds: -1 for the second before, 1 for the one after. better, worse: how many frames agree with these boxes alone,
    and how many with those of the same second alone.
    """

    seconds: int
    better: int
    worse: int


def boxed_instruments(frames: Sequence[BoxedFrame], numbered: Numbering, among: Sequence[str]) -> Instruments:
    """The instruments of `among` that have boxes in each labelled second."""
    by_second = {(frame.video, numbered.second(frame.frame)): frame for frame in frames}
    return {
        (video, second): frozenset(label for label, _ in frame.boxes) & frozenset(among)
        for (video, second), frame in by_second.items()
        if second is not None
    }


def tools_of(root: Path, videos: Sequence[int]) -> Instruments:
    """The tools of each second that Cholec80 annotates in `videos`. Raises as cholec80.read_tools does."""
    found = {}
    for video in videos:
        tools = cholec80.read_tools(root, video)
        for frame, present in zip(tools.frames.tolist(), tools.present, strict=True):
            names = (name for name, here in zip(cholec80.INSTRUMENTS, present, strict=True) if here)
            found[video, frame // cholec80.TOOL_STEP] = frozenset(names)
    return found


def agreeing(named: Instruments, boxed: Instruments, shift: int = 0) -> list[bool]:
    """Of each second of `named`: whether the second `shift` later has boxes of its instruments, all and no others."""
    none = frozenset()
    return [boxed.get((video, second + shift), none) == names for (video, second), names in named.items()]


def better_shift(named: Instruments, boxed: Instruments) -> Shift | None:
    """The neighbouring second whose boxes agree with more frames, by a sign test at LEVEL; None where neither does.

    Of the frames that agree with the boxes of one of the two seconds alone, which of the two it is would be a coin's
    toss were neither the right one.
    """
    own = agreeing(named, boxed)
    found = []
    for seconds in SHIFTS:
        pairs = Counter(zip(own, agreeing(named, boxed, seconds), strict=True))
        shift = Shift(seconds, better=pairs[False, True], worse=pairs[True, False])
        if sign_test(shift.better, shift.worse) < LEVEL:
            found.append(shift)
    return max(found, key=lambda shift: shift.better - shift.worse, default=None)


def sign_test(better: int, worse: int) -> float:
    """Probability that a fair coin falls on one side `better` times or more in better + worse tosses.

    >>> sign_test(10, 0) < 0.001 < sign_test(9, 0)
    True
    """
    n = better + worse
    return sum(math.comb(n, k) for k in range(better, n + 1)) / 2**n


def check_seconds(named: Instruments, boxed: Instruments, numbered: Numbering, root: Path) -> Counter[str]:
    """Raises InputError where the boxes of a neighbouring second agree with clearly more frames (`better_shift`).

    Where the user said which number the first second has, nothing is raised: the frames that speak against it are
    counted. root: of Cholec80-Boxes.
    """
    shift = better_shift(named, boxed)
    if shift is None:
        return Counter()
    there = f"the boxes a second {SHIFTS[shift.seconds]}"
    if numbered.stated:
        return Counter({f"frames that agree with {there} and not with their own": shift.better})
    own, other = (sum(agreeing(named, boxed, seconds)) for seconds in (0, shift.seconds))
    n_telling = shift.better + shift.worse
    raise InputError(
        root,
        f"of {len(named)} frames {own} have the instruments of their boxes and {other} those of {there}; of the "
        f"{n_telling} that agree with one alone, {shift.better} with the latter",
        expected="boxes of the same seconds",
        action=f"give --boxes-first {numbered.first + shift.seconds * numbered.step}, "
        f"or --boxes-first {numbered.first} to keep the numbering",
    )
