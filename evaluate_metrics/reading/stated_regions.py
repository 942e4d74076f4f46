"""Regions that a vision-language model states in words: boxes and polygons, each family in coordinates of its own.

    qwen2_vl    <|object_ref_start|>heart<|object_ref_end|><|box_start|>(x0,y0),(x1,y1)<|box_end|>, 0 to 1000
    qwen2_5_vl  JSON, [{"bbox_2d": [x0, y0, x1, y1], "label": "heart"}], in pixels of the image as the model got it
    qwen3_vl    the same JSON, 0 to 1000
    internvl    <ref>heart</ref><box>[[x0, y0, x1, y1]]</box>, 0 to 1000
    gemini      JSON, [{"box_2d": [y0, x0, y1, x1], "label": "heart"}], 0 to 1000; Gemma writes it, too
    paligemma   <loc0123> four times, y0 x0 y1 x1, then the label, in 1024 bins; <seg...> behind it needs weights and is
                passed over
    florence2   the label, then <loc_123> four times, x0 y0 x1 y1, or a pair for each corner of a polygon, in 1000 bins
    plain       [x0, y0, x1, y1], 0 to 1

Numbers from 0 on are shares of the image's width and height. Sources: the model cards and processors of these models.
transformers' Florence2PostProcessor takes the middle of a bin.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

FOUND, NONE, UNREADABLE = "found", "none", "unreadable"
LONGEST = 100_000  # characters of an answer that are read
MOST = 1_000  # beginnings of JSON that are tried

_PAIRS = re.compile(
    r"(?:<\|object_ref_start\|>(?P<label>[^<]{0,200})<\|object_ref_end\|>\s*)?(?:<\|box_start\|>)?"
    r"\(\s*(\d{1,6})\s*,\s*(\d{1,6})\s*\)\s*,\s*\(\s*(\d{1,6})\s*,\s*(\d{1,6})\s*\)"
)
_INTERNVL = re.compile(
    r"(?:<ref>(?P<label>[^<]{0,200})</ref>\s*)?<box>\s*(?P<boxes>\[[\[\]\d\s.,-]{0,2000}\])\s*</box>"
)
_PALIGEMMA = re.compile(r"((?:<loc\d{4}>){4})(?:<seg\d{3}>)*(?P<label>[^<;\n]{0,200})")
_FLORENCE = re.compile(r"(?P<label>[^<>]{0,200})((?:<loc_\d{1,4}>){4,2000})")
_NUMBERS = re.compile(r"\d+")
_SHARE = r"\s*(-?(?:\d++(?:\.\d++)?+|\.\d++))\s*"  # no digit is tried twice, however many there are
_PLAIN = re.compile(rf"\[{_SHARE},{_SHARE},{_SHARE},{_SHARE}\]")


class Shape(NamedTuple):
    """corners: (x, y) in pixels of the image; two of a box, upper left and lower right, or those of a polygon."""

    label: str
    corners: tuple[tuple[float, float], ...]


class Stated(NamedTuple):
    """outcome: whether regions were found. Where any is out of range or turned over, none is taken: unreadable."""

    outcome: Literal["found", "none", "unreadable"]
    shapes: tuple[Shape, ...] = ()


class _Raw(NamedTuple):
    """A region as it is written: label, and numbers in the order x, y, x, y, ..."""

    label: str
    numbers: Sequence[float]


class _Kind(NamedTuple):
    """raw: what an answer states. scale: the number that stands for the whole side; None: pixels as shown. middle: of a
    bin, what is added to its number.
    """

    raw: Callable[[str], Iterator[_Raw]]
    scale: float | None
    middle: float = 0.0


def read_regions(text: str, kind: str, size: tuple[int, int], shown: tuple[int, int] | None = None) -> Stated:
    """What an answer states.

    Args:
        kind: one of `KINDS`. size: (height, width) of the image. shown: (height, width) of the image as the model got
            it, where the kind states its pixels.

    Raises:
        ValueError: no such kind, or `shown` is missing where it is needed.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    of_kind = KINDS[kind]
    if of_kind.scale is None and shown is None:
        raise ValueError(f"{kind} states pixels of the image as the model got it: give its size")
    extent = (of_kind.scale, of_kind.scale) if of_kind.scale is not None else (shown or size)[::-1]
    shapes = []
    for raw in of_kind.raw(text[:LONGEST]):
        shape = _shape(raw, extent, of_kind.middle, size)
        if shape is None:
            return Stated(UNREADABLE)
        shapes.append(shape)
    return Stated(FOUND, tuple(shapes)) if shapes else Stated(NONE)


def _shape(raw: _Raw, extent: Sequence[float], middle: float, size: tuple[int, int]) -> Shape | None:
    """The region in pixels; None where a number is out of range, or a box is turned over."""
    numbers = [number + middle for number in raw.numbers]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=len(numbers) % 2 == 0))
    if len(numbers) % 2 or len(pairs) < 2:
        return None
    inside = all(0 <= n <= side and math.isfinite(n) for pair in pairs for n, side in zip(pair, extent, strict=True))
    turned = len(pairs) == 2 and any(start >= end for start, end in zip(*pairs, strict=True))
    if not inside or turned:
        return None
    corners = tuple((x / extent[0] * size[1], y / extent[1] * size[0]) for x, y in pairs)
    return Shape(raw.label.strip(), corners)


def _of_json(key: str, *, y_first: bool) -> Callable[[str], Iterator[_Raw]]:
    def raw(text: str) -> Iterator[_Raw]:
        n_named = text.count(f'"{key}"')
        n = 0
        for found in _dicts(text):
            if key in found:
                n += 1
                numbers = found[key]
                fits = isinstance(numbers, list) and len(numbers) == 4 and all(map(_is_number, numbers))
                x0, y0, x1, y1 = numbers if fits else (math.nan,) * 4
                yield _Raw(str(found.get("label", ""))[:200], (y0, x0, y1, x1) if y_first else (x0, y0, x1, y1))
        if n < n_named:  # cut off, or no JSON
            yield _Raw("", ())

    return raw


def _dicts(text: str) -> Iterator[Mapping[str, Any]]:
    """The objects in all JSON that stands in a text."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MOST):
        begin = re.compile(r"[\[{]").search(text, at)
        if begin is None:
            return
        try:
            value, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at = begin.start() + 1
            continue
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pairs(text: str) -> Iterator[_Raw]:
    for found in _PAIRS.finditer(text):
        yield _Raw(found["label"] or "", [float(number) for number in found.groups()[1:]])


def _internvl(text: str) -> Iterator[_Raw]:
    for found in _INTERNVL.finditer(text):
        try:
            boxes = json.loads(found["boxes"])
        except (ValueError, RecursionError):
            boxes: Any = [[]]
        for box in boxes if boxes and isinstance(boxes[0], list) else [boxes]:
            fits = isinstance(box, list) and len(box) == 4 and all(map(_is_number, box))
            yield _Raw(found["label"] or "", box if fits else ())


def _paligemma(text: str) -> Iterator[_Raw]:
    for found in _PALIGEMMA.finditer(text):
        y0, x0, y1, x1 = map(float, _NUMBERS.findall(found[1]))
        yield _Raw(found["label"], (x0, y0, x1, y1))


def _florence(text: str) -> Iterator[_Raw]:
    for found in _FLORENCE.finditer(text):
        yield _Raw(found["label"], [float(number) for number in _NUMBERS.findall(found[2])])


def _plain(text: str) -> Iterator[_Raw]:
    for found in _PLAIN.finditer(text):
        yield _Raw("", [float(number) for number in found.groups()])


KINDS: Mapping[str, _Kind] = {
    "qwen2_vl": _Kind(_pairs, 1000),
    "qwen2_5_vl": _Kind(_of_json("bbox_2d", y_first=False), None),
    "qwen3_vl": _Kind(_of_json("bbox_2d", y_first=False), 1000),
    "internvl": _Kind(_internvl, 1000),
    "gemini": _Kind(_of_json("box_2d", y_first=True), 1000),
    "paligemma": _Kind(_paligemma, 1024),
    "florence2": _Kind(_florence, 1000, 0.5),
    "plain": _Kind(_plain, 1),
}
