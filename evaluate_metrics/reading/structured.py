"""Answers in fields and tables, with one line for each region: `{"edema": {"right": "no"}}` is "edema right: no"."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from .lung_regions import find_levels, find_sides, is_region

_OBJECT = re.compile(r"\{")
_WORDS = {True: "yes", False: "no", None: "unknown"}
_MOST = 40  # most objects of a text that are read
_LABEL = re.compile(  # a line that only names something: "Right lung:", "**Edema**"
    r"(?P<blanks>[ \t]*)(?P<bullet>(?:[-*•+]|\d+[.)])\s+)?(?:#{1,6} )?(?P<strong>\*\*)?(?P<name>[^\W\d_][^\n:*|]{0,40})"
    r"(?(strong):?\*\*:?|:)\s*"
)
_ITEM = re.compile(r"(?P<blanks>[ \t]*)(?P<bullet>(?:[-*•+]|\d+[.)])\s+)?\**(?P<text>[^\n|]+)")
_KEY = re.compile(r"(?P<key>[^\n:*|]{1,40}?)\**:\**\s*\S")
_TABLE = re.compile(
    r"^[ \t]*(?P<header>\|[^\n]*\|)[ \t]*\n[ \t]*\|[ :|-]+\|[ \t]*\n(?P<rows>(?:[ \t]*\|[^\n]*\|?[ \t]*(?:\n|\Z))+)",
    re.MULTILINE,
)


_PLACE_KEYS = frozenset({"location", "side", "laterality", "region", "site", "position"})
_NAME_KEYS = frozenset({"finding", "name", "label", "disease", "condition", "abnormality", "diagnosis", "pathology"})
_PLACE_LINE = re.compile(
    rf"\n[^\w\n]{{0,8}}(?:{'|'.join(sorted(_PLACE_KEYS))})\**:\**[^\S\n]*(?P<place>[^\n:]+)(?=\n|\Z)", re.IGNORECASE
)


def write_out_regions(text: str) -> str:
    """Write the region of each value next to it, in JSON objects, tables, and lists under a title.

    Args:
        text: The answer.

    Returns:
        The text; without regions in fields, tables and titles, it is the same.

    >>> write_out_regions('{"edema": {"right": false, "left": true}}')
    'edema right: no.\\nedema left: yes.'
    >>> write_out_regions("Left lung:\\n- Edema\\nRight lung:\\n- Clear")
    'Left lung: Edema\\nRight lung: Clear'
    """
    text = _PLACE_LINE.sub(r" (\g<place>)", _write_out_objects(text))
    return "\n".join(_iterate_lines(_TABLE.sub(_write_out_table, text)))


def _write_out_objects(text: str) -> str:
    """Replace each JSON object that has regions as keys."""
    decoder, written, position = json.JSONDecoder(), "", 0
    for _ in range(_MOST):
        match = _OBJECT.search(text, position)
        if match is None:
            break
        try:
            content, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            content, end = None, match.end()
        lines = [*_iterate_fields(content, ())] if content and _has_region(content) else []
        written += text[position : match.start()] + ("\n".join(lines) or text[match.start() : end])
        position = end
    return written + text[position:]


def _has_region(content: Any) -> bool:
    if isinstance(content, dict):
        return bool(_find_place(content)) or any(map(is_region, content)) or any(map(_has_region, content.values()))
    return isinstance(content, list) and any(map(_has_region, content))


def _find_place(content: dict[str, Any]) -> str:
    """Return the texts of fields such as "location" that name a side or a level, with blanks between; "" for none."""
    places = [value for key, value in content.items() if key.casefold() in _PLACE_KEYS and isinstance(value, str)]
    return " ".join(place for place in places if find_sides(place.casefold()) or find_levels(place.casefold()))


def _iterate_fields(content: Any, keys: Sequence[str], place: str = "") -> Iterator[str]:
    if isinstance(content, dict):
        place = _find_place(content) or place
        names = [value for key, value in content.items() if key.casefold() in _NAME_KEYS and isinstance(value, str)]
        fields = {key: value for key, value in content.items() if value not in (*names, place, "")}
        if names and not fields:
            yield f"{', '.join(names)}{place and f' ({place})'}."
        for key, value in fields.items():
            yield from _iterate_fields(value, (*keys, *names, key.replace("_", " ")), place)
    elif isinstance(content, list) and any(isinstance(value, dict | list) for value in content):
        for value in content:
            yield from _iterate_fields(value, keys, place)
    else:
        value = ", ".join(map(str, content)) if isinstance(content, list) else content
        words = _WORDS[value] if value is None or isinstance(value, bool) else value
        yield f"{' '.join(keys)}: {words}{place and f' ({place})'}."


def _write_out_table(table: re.Match[str]) -> str:
    """Write a line for each cell of a column that is headed by a region."""
    _, *names = _split_row(table["header"])
    if not any(map(is_region, names)):
        return table[0]
    rows = [_split_row(row) for row in table["rows"].splitlines()]
    return "".join(
        f"{row[0]} {name}: {value}.\n" for row in rows for name, value in zip(names, row[1:], strict=False) if value
    )


def _split_row(row: str) -> list[str]:
    return [cell.strip(" *") for cell in row.strip().strip("|").split("|")]


def _iterate_lines(text: str) -> Iterator[str]:
    """Write the title of a list before its items, if one of both is a region."""
    title, title_line, is_bulleted, indent = "", "", False, 0
    for line in text.split("\n"):
        item = _ITEM.fullmatch(line)
        is_below = item and title and (len(item["blanks"]) > indent or (item["bullet"] and not is_bulleted))
        key = _KEY.match(item["text"]) if item else None
        label = _LABEL.fullmatch(line)
        if item and is_below and is_region(title) and not (label and is_region(label["name"])):
            yield f"{title}: {item['text']}"
            title_line = ""
        elif item and is_below and key and is_region(key["key"]):
            yield f"{title} {item['text']}"
            title_line = ""
        else:
            if title_line:
                yield title_line
            if label:
                title, title_line = label["name"].strip(), line
                is_bulleted, indent = bool(label["bullet"]), len(label["blanks"])
            else:
                title_line = ""
                title = title if is_below or not line.strip() else ""
                yield line
    if title_line:
        yield title_line
