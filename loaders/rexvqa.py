"""ReXVQA: multiple-choice questions on chest X-rays, as its official JSON has them.

Source: Pal et al., "ReXVQA: A Large-scale Visual Question Answering Benchmark for Generalist Chest X-ray Understanding"
(2025). The questions are in `metadata/{train,valid,test}_vqa_data.json`, one object of objects; the images, in
`deid_png/`, are those of ReXGradient-160K. Only what a question needs is read: no report text, nothing of the patient.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import json_text
from .errors import ImageError, InputError
from .images import check_key

SPLITS = {"train": "train", "validation": "valid", "test": "test"}
IMAGES = "deid_png"
ACTION = "use the JSON files of the ReXVQA release (metadata/), unchanged"
MAX_OPTIONS = 26


@dataclass(frozen=True, slots=True)
class Item:
    """One question. options: without their letters; answer: index into them; images: (key, view), as listed."""

    id: str
    study_id: str
    question: str
    options: tuple[str, ...]
    answer: int
    task: str
    category: str
    subcategory: str
    images: tuple[tuple[str, str], ...]


def image_paths(key: str) -> tuple[str, ...]:
    """Where the image of a row's key may lie below the user's root, most likely first."""
    return (key, f"images/{key}", key.removeprefix(f"{IMAGES}/"))


def label_file(root: Path, split: str) -> Path:
    """The JSON file of `split` (train, validation, test) below `root`, or `root` itself where it is a file.

    Raises InputError where there is none.
    """
    name = f"{SPLITS[split]}_vqa_data.json"
    places = (root,) if root.is_file() else (root / "metadata" / name, root / name)
    found = next((path for path in places if path.is_file()), None)
    if found is None or (root.is_file() and root.name != name):
        raise InputError(root, f"holds no {name}", expected=f"metadata/{name}", action=ACTION)
    return found


def read_items(path: Path) -> list[Item]:
    """All questions of one file, in its order. Raises InputError naming file, item and field."""
    expected = "a complete JSON object {item id: {question, options, ...}}"
    content = json_text.read(path, expected=expected, action=ACTION, repeats=False)
    if not isinstance(content, dict) or not content:
        raise InputError(path, "holds no items", expected=expected, action=ACTION)
    return [_Reader(path, item_id, fields).item() for item_id, fields in content.items()]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the fields of one item; every error names them."""

    path: Path
    id: str
    fields: Mapping[str, Any]

    def item(self) -> Item:
        if not isinstance(self.fields, dict):
            raise InputError(self._where, "is no object", action=ACTION)
        options = self._options()
        return Item(
            id=self.id,
            study_id=self._text("study_id", "StudyInstanceUID"),
            question=self._text("question"),
            options=options,
            answer=self._answer(options),
            task=self._text("task_name"),
            category=self._text("category", optional=True),
            subcategory=self._text("subcategory", optional=True),
            images=self._images(),
        )

    @property
    def _where(self) -> str:
        return f"{self.path}, item {self.id!r}"

    def _error(self, field: str, found: str, expected: str) -> InputError:
        return InputError(self._where, found, column=field, expected=expected, action=ACTION)

    def _text(self, *names: str, optional: bool = False) -> str:
        """The first of the fields `names` that has a text."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
            if value is not None and not isinstance(value, str):
                raise self._error(name, f"is {value!r}", "a text")
        if optional:
            return ""
        raise self._error(names[0], "is missing or empty", "a text")

    def _list(self, name: str, *, optional: bool = False) -> list[str]:
        """A list of texts. Some copies hold it as a string that looks like the list."""
        value = self.fields.get(name)
        if optional and (value is None or value == ""):
            return []
        if isinstance(value, str):
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                raise self._error(name, f"is {value[:80]!r}", "a list of texts") from None
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self._error(name, f"is {value!r}"[:120], "a list of texts")
        return [text.strip() for text in value]

    def _options(self) -> tuple[str, ...]:
        """The options without the letters "A. ", "B. ", ... that stand before each of them, or before none."""
        listed = self._list("options")
        if not 2 <= len(listed) <= MAX_OPTIONS:
            raise self._error("options", f"has {len(listed)} options", f"2 to {MAX_OPTIONS}")
        letters = [re.match(r"\(?([A-Z])[.):]\s*", text) for text in listed]
        wanted = [chr(ord("A") + i) for i in range(len(listed))]
        if [m and m[1] for m in letters] == wanted:
            listed = [text[m.end() :] for text, m in zip(listed, letters, strict=True) if m]
        elif any(letters):
            raise self._error("options", f"is {listed!r}", f"the letters {', '.join(wanted)} before the options")
        if not all(listed):
            raise self._error("options", f"is {self.fields['options']!r}", "no option without text")
        return tuple(listed)

    def _answer(self, options: tuple[str, ...]) -> int:
        letter = self._text("correct_answer").rstrip(".)")
        if len(letter) != 1 or not 0 <= ord(letter) - ord("A") < len(options):
            last = chr(ord("A") + len(options) - 1)
            raise self._error("correct_answer", f"is {letter!r}", f"a letter from A to {last}")
        return ord(letter) - ord("A")

    def _images(self) -> tuple[tuple[str, str], ...]:
        paths = self._list("ImagePath")
        if not paths:
            raise self._error("ImagePath", "names no image", f"paths like ../{IMAGES}/.../image.png")
        keys = [self._key(path) for path in paths]
        views = self._list("ImageViewPosition", optional=True)
        if views and len(views) != len(keys):
            raise self._error("ImageViewPosition", f"has {len(views)} values", f"one for each of {len(keys)} images")
        return tuple(zip(keys, views or [""] * len(keys), strict=True))

    def _key(self, path: str) -> str:
        """The image's path from `deid_png` on."""
        steps = path.split("/")
        key = "/".join(steps[steps.index(IMAGES) :]) if IMAGES in steps else ""
        try:
            check_key(key, "rexvqa")
        except ImageError:
            raise self._error("ImagePath", f"has {path!r}", f"a path like ../{IMAGES}/.../image.png") from None
        return key
