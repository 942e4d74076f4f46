"""Regions that a vision-language model states in words: boxes and polygons, in the coordinates of each model family.

    qwen2_vl    <|object_ref_start|>heart<|object_ref_end|><|box_start|>(x0,y0),(x1,y1)<|box_end|>, 0 to 1000
    qwen2_5_vl  JSON, [{"bbox_2d": [x0, y0, x1, y1], "label": "heart"}], in pixels of the image that the model received
    qwen3_vl    the same JSON, 0 to 1000
    internvl    <ref>heart</ref><box>[[x0, y0, x1, y1]]</box>, 0 to 1000
    gemini      JSON, [{"box_2d": [y0, x0, y1, x1], "label": "heart"}], 0 to 1000; Gemma writes it, too
    paligemma   <loc0123> four times, y0 x0 y1 x1, then the label, in 1024 bins; <seg...> after it needs weights and is
                skipped
    florence2   the label, then <loc_123> four times, x0 y0 x1 y1, or a pair for each corner of a polygon, in 1000 bins
    plain       [x0, y0, x1, y1], 0 to 1
    molmo       <point x="50.1" y="20.4" alt="heart">heart</point>, or <points x1="..." y1="..." x2="..." ...>, 0 to 100

Numbers from 0 on are shares of the image's width and height. Sources: the model cards and processors of these models.
transformers' Florence2PostProcessor takes the middle of a bin.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from .reasoning import extract_answer

FOUND, NONE, UNREADABLE = "found", "none", "unreadable"
LONGEST = 100_000  # longest part of an answer that is read, in characters
MOST = 1_000  # most attempts to parse JSON in an answer

_PAIRS = re.compile(
    r"(?:<\|object_ref_start\|>(?P<label>[^<]{0,200})<\|object_ref_end\|>\s*)?(?:<\|box_start\|>)?"
    r"\(\s*(\d{1,6})\s*,\s*(\d{1,6})\s*\)\s*,\s*\(\s*(\d{1,6})\s*,\s*(\d{1,6})\s*\)"
)
_INTERNVL = re.compile(
    r"(?:<ref>(?P<label>[^<]{0,200})</ref>\s*)?<box>\s*(?P<boxes>\[[\[\]\d\s.,-]{0,2000}\])\s*</box>"
)
_PALIGEMMA = re.compile(r"((?:<loc\d{4}>){4})(?:<seg\d{3}>)*(?P<label>[^<;\n]{0,200})")
_FLORENCE = re.compile(r"(?:<loc_\d{1,4}>){4,2000}")
_NUMBERS = re.compile(r"\d+")
_SHARE = r"\s*(-?(?:\d++(?:\.\d++)?+|\.\d++))\s*"  # possessive quantifiers avoid backtracking over long digits
_POINTS = re.compile(r"<points?\s(?P<attributes>[^<>]{0,10000})>")
_POINT_NUMBER = re.compile(r'\b([xy])(\d{0,3})\s?=\s?"\s?(\d{1,4}(?:\.\d{1,20})?)\s?"')
_ALT = re.compile(r'\balt\s?=\s?"([^"]{0,200})"')
_PLAIN = re.compile(rf"\[{_SHARE},{_SHARE},{_SHARE},{_SHARE}\]")


class Shape(NamedTuple):
    """A region.

    Attributes:
        label: Its label.
        corners: (x, y) in pixels of the image; upper left and lower right of a box, the corners of a polygon, or a
            point.
    """

    label: str
    corners: tuple[tuple[float, float], ...]


class Stated(NamedTuple):
    """The regions in an answer.

    Attributes:
        outcome: Whether regions were found; "unreadable" if any is out of range or inverted.
        shapes: The regions; empty unless found.
    """

    outcome: Literal["found", "none", "unreadable"]
    shapes: tuple[Shape, ...] = ()


class _Raw(NamedTuple):
    """A region in its written form: label, and numbers in the order x, y, x, y, ..."""

    label: str
    numbers: Sequence[float]


class _Kind(NamedTuple):
    """The form of a model family.

    Attributes:
        raw: Iterates over the regions in an answer.
        scale: The number for the full side; None for pixels of the image that the model received.
        written: Format string of a region: its label, and the numbers x0, y0, x1, y1 of a box or x0, y0 of a point.
        middle: The offset from a bin's number to its middle.
        decimals: Number of decimals that are written.
        is_point: Whether the model points at a region, and states no extent.
    """

    raw: Callable[[str], Iterator[_Raw]]
    scale: float | None
    written: str
    middle: float = 0.0
    decimals: int = 0
    is_point: bool = False


def read_regions(text: str, kind: str, size: tuple[int, int], shown: tuple[int, int] | None = None) -> Stated:
    """Read the regions in an answer.

    Args:
        text: The answer; its reasoning does not count.
        kind: One of `KINDS`.
        size: (height, width) of the image.
        shown: (height, width) of the image that the model received, for kinds in its pixels.

    Returns:
        The regions.

    Raises:
        ValueError: An unknown kind, or a missing `shown`.
    """
    form = _get_form(kind)
    extent = _get_extent(kind, shown)
    shapes = []
    for raw in form.raw(extract_answer(text)[:LONGEST]):
        shape = _build_shape(raw, extent, form.middle, size)
        if shape is None:
            return Stated(UNREADABLE)
        shapes.append(shape)
    return Stated(FOUND, tuple(shapes)) if shapes else Stated(NONE)


def write_boxes(
    label: str,
    boxes: Sequence[Sequence[float]],
    kind: str,
    size: tuple[int, int],
    shown: tuple[int, int] | None = None,
) -> str:
    """Write boxes as a model of a kind states them, one a line; a model that points states their middles.

    Args:
        label: Label of the boxes.
        boxes: n boxes [x, y, width, height] in pixels of the image.
        kind: One of `KINDS`.
        size: (height, width) of the image.
        shown: As in `read_regions`.

    Returns:
        The text.

    Raises:
        ValueError: As in `read_regions`.

    >>> write_boxes("heart", [[50, 0, 100, 80]], "qwen3_vl", (400, 200))
    '{"bbox_2d": [250, 0, 750, 200], "label": "heart"}'
    >>> write_boxes("heart", [[50, 0, 100, 80]], "molmo", (400, 200))
    '<point x="50.0" y="10.0" alt="heart">heart</point>'
    """
    form = _get_form(kind)
    extent = _get_extent(kind, shown)
    lines = []
    for x, y, width, height in boxes:
        corners = [(x + width / 2, y + height / 2)] if form.is_point else [(x, y), (x + width, y + height)]
        numbers = []
        for pair in corners:
            for coordinate, full, side in zip(pair, extent, size[::-1], strict=True):
                number = round(coordinate * full / side - form.middle, form.decimals)
                numbers.append(min(max(number, 0), full - 2 * form.middle))
        lines.append(form.written.format(*(n if form.decimals else int(n) for n in numbers), label=label))
    return "\n".join(lines)


def _get_form(kind: str) -> _Kind:
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    return KINDS[kind]


def _get_extent(kind: str, shown: tuple[int, int] | None) -> tuple[float, float]:
    """Get the numbers that a kind writes for the full width and height."""
    scale = KINDS[kind].scale
    if scale is not None:
        return scale, scale
    if shown is None:
        raise ValueError(f"{kind} uses pixels of the image that the model received: give its size")
    return shown[1], shown[0]


def _build_shape(raw: _Raw, extent: Sequence[float], middle: float, size: tuple[int, int]) -> Shape | None:
    """Convert a region to pixels; None if a number is out of range or a box is inverted."""
    numbers = [number + middle for number in raw.numbers]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=len(numbers) % 2 == 0))
    if len(numbers) % 2 or not pairs:
        return None
    is_inside = all(0 <= n <= side and math.isfinite(n) for pair in pairs for n, side in zip(pair, extent, strict=True))
    is_inverted = len(pairs) == 2 and any(start >= end for start, end in zip(*pairs, strict=True))
    if not is_inside or is_inverted:
        return None
    corners = tuple((x / extent[0] * size[1], y / extent[1] * size[0]) for x, y in pairs)
    return Shape(raw.label.strip(), corners)


def _build_json_reader(key: str, *, y_first: bool) -> Callable[[str], Iterator[_Raw]]:
    def iterate_regions(text: str) -> Iterator[_Raw]:
        n_keys = text.count(f'"{key}"')
        n = 0
        for region in _iterate_dicts(text):
            if key in region:
                n += 1
                numbers = region[key]
                is_box = isinstance(numbers, list) and len(numbers) == 4 and all(map(_is_number, numbers))
                x0, y0, x1, y1 = numbers if is_box else (math.nan,) * 4
                yield _Raw(str(region.get("label", ""))[:200], (y0, x0, y1, x1) if y_first else (x0, y0, x1, y1))
        if n < n_keys:  # truncated, or not JSON
            yield _Raw("", ())

    return iterate_regions


def _iterate_dicts(text: str) -> Iterator[Mapping[str, Any]]:
    """Iterate over the objects in all JSON of a text."""
    decoder, position = json.JSONDecoder(), 0
    for _ in range(MOST):
        beginning = re.compile(r"[\[{]").search(text, position)
        if beginning is None:
            return
        try:
            value, position = decoder.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):
            position = beginning.start() + 1
            continue
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict))


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number. Arithmetic of an integer above the largest float would overflow."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max


def _iterate_pairs(text: str) -> Iterator[_Raw]:
    for match in _PAIRS.finditer(text):
        yield _Raw(match["label"] or "", [float(number) for number in match.groups()[1:]])


def _iterate_internvl(text: str) -> Iterator[_Raw]:
    for match in _INTERNVL.finditer(text):
        try:
            boxes = json.loads(match["boxes"])
        except (ValueError, RecursionError):
            boxes: Any = [[]]
        for box in boxes if boxes and isinstance(boxes[0], list) else [boxes]:
            is_box = isinstance(box, list) and len(box) == 4 and all(map(_is_number, box))
            yield _Raw(match["label"] or "", box if is_box else ())


def _iterate_paligemma(text: str) -> Iterator[_Raw]:
    for match in _PALIGEMMA.finditer(text):
        y0, x0, y1, x1 = map(float, _NUMBERS.findall(match[1]))
        yield _Raw(match["label"], (x0, y0, x1, y1))


def _iterate_florence(text: str) -> Iterator[_Raw]:
    end = 0
    for match in _FLORENCE.finditer(text):
        before = text[max(end, match.start() - 200) : match.start()]  # a label in the pattern would be tried everywhere
        yield _Raw(re.split("[<>]", before)[-1], [float(number) for number in _NUMBERS.findall(match[0])])
        end = match.end()


def _iterate_plain(text: str) -> Iterator[_Raw]:
    for match in _PLAIN.finditer(text):
        yield _Raw("", [float(number) for number in match.groups()])


def _iterate_points(text: str) -> Iterator[_Raw]:
    n_tags = 0
    for match in _POINTS.finditer(text):
        n_tags += 1
        label = _ALT.search(match["attributes"])
        numbers = {(axis, n): float(number) for axis, n, number in _POINT_NUMBER.findall(match["attributes"])}
        for n in dict.fromkeys(n for _, n in numbers) or ("",):
            pair = [numbers[axis, n] for axis in "xy" if (axis, n) in numbers]
            yield _Raw(label[1] if label else "", pair if len(pair) == 2 else ())
    if n_tags < len(re.findall(r"<points?\s", text)):  # truncated
        yield _Raw("", ())


_BBOX = '{{"bbox_2d": [{0}, {1}, {2}, {3}], "label": "{label}"}}'

KINDS: Mapping[str, _Kind] = {
    "qwen2_vl": _Kind(
        _iterate_pairs,
        1000,
        "<|object_ref_start|>{label}<|object_ref_end|><|box_start|>({0},{1}),({2},{3})<|box_end|>",
    ),
    "qwen2_5_vl": _Kind(_build_json_reader("bbox_2d", y_first=False), None, _BBOX),
    "qwen3_vl": _Kind(_build_json_reader("bbox_2d", y_first=False), 1000, _BBOX),
    "internvl": _Kind(_iterate_internvl, 1000, "<ref>{label}</ref><box>[[{0}, {1}, {2}, {3}]]</box>"),
    "gemini": _Kind(
        _build_json_reader("box_2d", y_first=True), 1000, '{{"box_2d": [{1}, {0}, {3}, {2}], "label": "{label}"}}'
    ),
    "paligemma": _Kind(_iterate_paligemma, 1024, "<loc{1:04d}><loc{0:04d}><loc{3:04d}><loc{2:04d}> {label}"),
    "florence2": _Kind(_iterate_florence, 1000, "{label}<loc_{0}><loc_{1}><loc_{2}><loc_{3}>", middle=0.5),
    "plain": _Kind(_iterate_plain, 1, "[{0}, {1}, {2}, {3}]", decimals=4),
    "molmo": _Kind(
        _iterate_points, 100, '<point x="{0}" y="{1}" alt="{label}">{label}</point>', decimals=1, is_point=True
    ),
}
