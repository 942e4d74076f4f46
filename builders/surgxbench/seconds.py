"""The second of its video that a frame of Cholec80-Boxes shows, and whether other sources agree.

CholecT45 has one frame per second of Cholec80's 25. Public accounts disagree on whether Cholec80-Boxes numbers seconds
or the video's frames, and on how many frames per second it labels. Its frame numbers decide (`infer_numbering`). They
do not reveal whether the first second is 0 or 1. A source that names the instruments of each second does
(`check_seconds`). Instruments are visible for many seconds, so boxes of a neighbouring second agree with almost as many
frames as the correct boxes. Only frames in which an instrument appears or disappears distinguish the two, and a sign
test over them is the rule. It is conservative: if every box begins a second earlier and ends a second later than the
other source names its instrument, the test does not detect a shift.
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
from .reasons import OTHER_SECOND, SHIFTS

LEVEL = 0.001  # one-sided level of the sign test, for each neighbour

Instruments = Mapping[tuple[int, int], frozenset[str]]  # (video, second) -> its instruments; a missing entry means none


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbering of a video's frames: second k is frame `first_number + step * k`.

    Attributes:
        step: Frame numbers per second.
        first_number: The frame number of the first second.
        is_stated: Whether the user gave `first_number`.
    """

    step: int
    first_number: int = 0
    is_stated: bool = field(default=False, compare=False)

    def find_second(self, number: int) -> int | None:
        """Convert a frame number to the second of the video at which the frame begins.

        Args:
            number: The frame number.

        Returns:
            The second, from 0; None for a number between two seconds or before the first one.
        """
        k, remainder = divmod(number - self.first_number, self.step)
        return None if remainder or k < 0 else k

    def find_video_frame(self, number: int) -> int | None:
        """Convert a frame number of this numbering to the number of the same frame in Cholec80's 25-fps video.

        Args:
            number: The frame number.

        Returns:
            Its number in the video, from 0; None for a number between two frames of the video or before its first one.
        """
        video_frame, remainder = divmod(FPS * (number - self.first_number), self.step)
        return None if remainder or video_frame < 0 else video_frame


def infer_numbering(frames: Sequence[BoxedFrame], *, step: int | None = None, first: int | None = None) -> Numbering:
    """Infer how Cholec80-Boxes numbers its frames.

    If the common divisor of the steps is 25 or 5, the numbers are frames of the 25-fps video (labelled once or five
    times a second). Consecutive numbers are seconds. The first second is the smallest number that fits.

    Args:
        frames: The labelled frames.
        step: Frame numbers per second; None infers them.
        first: The frame number of the first second; None infers it.

    Returns:
        The numbering.

    Raises:
        InputError: The steps have another divisor, so `step` must be given.
    """
    numbers = {video: sorted({f.frame for f in frames if f.video == video}) for video in {f.video for f in frames}}
    common_divisor = math.gcd(
        *(following - previous for video_numbers in numbers.values() for previous, following in pairwise(video_numbers))
    )
    if step is None:
        if common_divisor > 1 and common_divisor % FPS and FPS % common_divisor:
            raise InputError(
                "Cholec80-Boxes",
                f"its frames are numbered in steps of {common_divisor}",
                expected="frames of the 25-fps video (steps of 25 or 5), or seconds",
                action="give --boxes-step, the frame numbers a second, and --boxes-first, the first second's",
            )
        step = FPS if common_divisor > 1 else 1
    if first is not None:
        return Numbering(step, first, is_stated=True)
    return Numbering(step, min((f.frame for f in frames), default=0) % math.gcd(common_divisor, step))


class Shift(NamedTuple):
    """Boxes of a neighbouring second that agree with clearly more frames than the boxes of the same second.

    Attributes:
        seconds: -1 for the second before, 1 for the second after.
        better: Number of frames that agree with these boxes alone.
        worse: Number of frames that agree with the boxes of the same second alone.
    """

    seconds: int
    better: int
    worse: int


def collect_boxed_instruments(
    frames: Sequence[BoxedFrame], frame_numbering: Numbering, instruments: Sequence[str]
) -> Instruments:
    """Collect the instruments with boxes in each labelled second.

    Args:
        frames: The labelled frames.
        frame_numbering: The numbering of the frames.
        instruments: The instruments to include.

    Returns:
        The instruments by video and second.
    """
    by_second = {(frame.video, frame_numbering.find_second(frame.frame)): frame for frame in frames}
    return {
        (video, second_number): frozenset(label for label, _ in frame.boxes) & frozenset(instruments)
        for (video, second_number), frame in by_second.items()
        if second_number is not None
    }


def read_tools_by_second(root: Path, videos: Sequence[int]) -> Instruments:
    """Read the tools of each second that Cholec80 annotates.

    Args:
        root: The folder of Cholec80.
        videos: The numbers of the videos.

    Returns:
        The tools by video and second.

    Raises:
        InputError: `cholec80.read_tools` rejects a file.
    """
    tools_by_second = {}
    for video in videos:
        tools = cholec80.read_tools(root, video)
        for frame, present in zip(tools.frames.tolist(), tools.present, strict=True):
            names = (name for name, is_present in zip(cholec80.INSTRUMENTS, present, strict=True) if is_present)
            tools_by_second[video, frame // cholec80.TOOL_STEP] = frozenset(names)
    return tools_by_second


def compare_seconds(named_instruments: Instruments, box_instruments: Instruments, shift: int = 0) -> list[bool]:
    """Compare each second with the boxes of the second `shift` later.

    Args:
        named_instruments: The instruments that another source names, by video and second.
        box_instruments: The instruments with boxes, by video and second.
        shift: The shift in seconds.

    Returns:
        Whether the instruments are equal, for each second of `named_instruments`.
    """
    no_instruments = frozenset()
    return [
        box_instruments.get((video, second_number + shift), no_instruments) == names
        for (video, second_number), names in named_instruments.items()
    ]


def find_better_shift(named_instruments: Instruments, box_instruments: Instruments) -> Shift | None:
    """Find the neighbouring second whose boxes agree with more frames, by a sign test at LEVEL.

    The null hypothesis is that neither second is right: a frame that agrees with the boxes of only one of the two
    seconds then agrees with each of them equally often.

    Args:
        named_instruments: The instruments that another source names, by video and second.
        box_instruments: The instruments with boxes, by video and second.

    Returns:
        The shift; None if no neighbouring second agrees better.
    """
    own_agreement = compare_seconds(named_instruments, box_instruments)
    shifts = []
    for seconds in SHIFTS:
        pairs = Counter(zip(own_agreement, compare_seconds(named_instruments, box_instruments, seconds), strict=True))
        shift = Shift(seconds, better=pairs[False, True], worse=pairs[True, False])
        if compute_sign_test(shift.better, shift.worse) < LEVEL:
            shifts.append(shift)
    return max(shifts, key=lambda shift: shift.better - shift.worse, default=None)


def compute_sign_test(better: int, worse: int) -> float:
    """Compute the probability of at least `better` heads in better + worse tosses of a fair coin.

    Args:
        better: Number of heads.
        worse: Number of tails.

    Returns:
        The probability.

    >>> compute_sign_test(10, 0) < 0.001 < compute_sign_test(9, 0)
    True
    """
    n = better + worse
    return sum(math.comb(n, k) for k in range(better, n + 1)) / 2**n


def check_seconds(
    named_instruments: Instruments, box_instruments: Instruments, frame_numbering: Numbering, root: Path
) -> Counter[str]:
    """Check that the boxes of a neighbouring second do not agree with clearly more frames (`find_better_shift`).

    If the user gave the frame number of the first second, the frames that contradict it are counted and no error is
    raised.

    Args:
        named_instruments: The instruments that another source names, by video and second.
        box_instruments: The instruments with boxes, by video and second.
        frame_numbering: The numbering of the frames.
        root: The folder of Cholec80-Boxes.

    Returns:
        The counts of contradicting frames by reason.

    Raises:
        InputError: The boxes of a neighbouring second agree better.
    """
    shift = find_better_shift(named_instruments, box_instruments)
    if shift is None:
        return Counter()
    if frame_numbering.is_stated:
        return Counter({OTHER_SECOND[shift.seconds]: shift.better})
    n_own, n_shifted = (
        sum(compare_seconds(named_instruments, box_instruments, seconds)) for seconds in (0, shift.seconds)
    )
    n_telling, shifted_boxes = shift.better + shift.worse, f"the boxes a second {SHIFTS[shift.seconds]}"
    raise InputError(
        root,
        f"of {len(named_instruments)} frames {n_own} have the instruments of their boxes and {n_shifted} those of "
        f"{shifted_boxes}; of the {n_telling} that agree with one alone, {shift.better} with the latter",
        expected="boxes of the same seconds",
        action=f"give --boxes-first {frame_numbering.first_number + shift.seconds * frame_numbering.step}, "
        f"or --boxes-first {frame_numbering.first_number} to keep the numbering",
    )
