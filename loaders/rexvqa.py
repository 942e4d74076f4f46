"""ReXVQA: multiple-choice questions on chest X-rays, from its official JSON.

Source: Pal et al., "ReXVQA: A Large-scale Visual Question Answering Benchmark for Generalist Chest X-ray Understanding"
(2025). The questions are in `metadata/{train,valid,test}_vqa_data.json`, one object of objects; the images, in
`deid_png/`, are ReXGradient-160K's. Only the fields of a question are read: no report text, and no data on the patient.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import json_text, layouts
from .errors import ImageError, InputError
from .images import check_key

SPLITS = {"train": "train", "validation": "valid", "test": "test"}
IMAGES = "deid_png"
ACTION = "use the JSON files of the ReXVQA release (metadata/), unchanged"
MAX_OPTIONS = 26


@dataclass(frozen=True, slots=True)
class Item:
    """One question.

    Attributes:
        id: The id of the item.
        study_id: The id of its study.
        question: The text.
        options: The options without their letters.
        answer: Index of the correct option.
        task: The name of the task.
        category: The category, or "".
        subcategory: The subcategory, or "".
        images: (key, view) in the order of the file.
    """

    id: str
    study_id: str
    question: str
    options: tuple[str, ...]
    answer: int
    task: str
    category: str
    subcategory: str
    images: tuple[tuple[str, str], ...]


def list_image_paths(key: str) -> tuple[str, ...]:
    """List the candidate paths of an image below the root.

    Args:
        key: The key of a row's image.

    Returns:
        The paths, most likely first.
    """
    return layouts.list_image_paths("rexvqa", key)


def label_file(root: Path, split: str) -> Path:
    """Find the JSON file of a split.

    Args:
        root: The folder of ReXVQA, or the file.
        split: train, validation or test.

    Returns:
        The path.

    Raises:
        InputError: The file is missing.
    """
    name = f"{SPLITS[split]}_vqa_data.json"
    json_path = root if root.is_file() else layouts.find_label_file("rexvqa", root, split)
    if json_path is None or (root.is_file() and root.name != name):
        raise InputError(root, f"holds no {name}", expected=f"metadata/{name}", action=ACTION)
    return json_path


def read_items(path: Path) -> list[Item]:
    """Read all questions of a file.

    Args:
        path: The JSON file.

    Returns:
        The questions, in the file's order.

    Raises:
        InputError: An item is malformed; the error names file, item and field.
    """
    expected = "a complete JSON object {item id: {question, options, ...}}"
    content = json_text.read(path, expected=expected, action=ACTION, repeats=False)
    if not isinstance(content, dict) or not content:
        raise InputError(path, "holds no items", expected=expected, action=ACTION)
    return [_Reader(path, item_id, fields).read_item() for item_id, fields in content.items()]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Read the fields of one item; every error names the field."""

    path: Path
    id: str
    fields: Mapping[str, Any]

    def read_item(self) -> Item:
        if not isinstance(self.fields, dict):
            raise InputError(self._where, "is no object", action=ACTION)
        options = self._read_options()
        return Item(
            id=self.id,
            study_id=self._read_text("study_id", "StudyInstanceUID"),
            question=self._read_text("question"),
            options=options,
            answer=self._read_answer(options),
            task=self._read_text("task_name"),
            category=self._read_text("category", optional=True),
            subcategory=self._read_text("subcategory", optional=True),
            images=self._read_images(),
        )

    @property
    def _where(self) -> str:
        return f"{self.path}, item {self.id!r}"

    def _build_error(self, field: str, problem: str, expected: str) -> InputError:
        return InputError(self._where, problem, column=field, expected=expected, action=ACTION)

    def _read_text(self, *names: str, optional: bool = False) -> str:
        """Read the first of the fields `names` that has a text."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
            if value is not None and not isinstance(value, str):
                raise self._build_error(name, f"is {value!r}", "a text")
        if optional:
            return ""
        raise self._build_error(names[0], "is missing or empty", "a text")

    def _read_list(self, name: str, *, optional: bool = False) -> list[str]:
        """Read a list of texts. Some copies store it as a string that looks like the list."""
        value = self.fields.get(name)
        if optional and (value is None or value == ""):
            return []
        if isinstance(value, str):
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                raise self._build_error(name, f"is {value[:80]!r}", "a list of texts") from None
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self._build_error(name, f"is {value!r}"[:120], "a list of texts")
        return [text.strip() for text in value]

    def _read_options(self) -> tuple[str, ...]:
        """Read the options without the letters "A. ", "B. ", ..., which precede all of them or none."""
        listed = self._read_list("options")
        if not 2 <= len(listed) <= MAX_OPTIONS:
            raise self._build_error("options", f"has {len(listed)} options", f"2 to {MAX_OPTIONS}")
        letters = [re.match(r"\(?([A-Z])[.):]\s*", text) for text in listed]
        expected_letters = [chr(ord("A") + i) for i in range(len(listed))]
        if [m and m[1] for m in letters] == expected_letters:
            listed = [text[m.end() :] for text, m in zip(listed, letters, strict=True) if m]
        elif any(letters):
            raise self._build_error(
                "options", f"is {listed!r}", f"the letters {', '.join(expected_letters)} before the options"
            )
        if not all(listed):
            raise self._build_error("options", f"is {self.fields['options']!r}", "no option without text")
        return tuple(listed)

    def _read_answer(self, options: tuple[str, ...]) -> int:
        letter = self._read_text("correct_answer").rstrip(".)")
        if len(letter) != 1 or not 0 <= ord(letter) - ord("A") < len(options):
            last = chr(ord("A") + len(options) - 1)
            raise self._build_error("correct_answer", f"is {letter!r}", f"a letter from A to {last}")
        return ord(letter) - ord("A")

    def _read_images(self) -> tuple[tuple[str, str], ...]:
        paths = self._read_list("ImagePath")
        if not paths:
            raise self._build_error("ImagePath", "names no image", f"paths like ../{IMAGES}/.../image.png")
        keys = [self._build_key(path) for path in paths]
        views = self._read_list("ImageViewPosition", optional=True)
        if views and len(views) != len(keys):
            raise self._build_error(
                "ImageViewPosition", f"has {len(views)} values", f"one for each of {len(keys)} images"
            )
        return tuple(zip(keys, views or [""] * len(keys), strict=True))

    def _build_key(self, path: str) -> str:
        """Build a key: the image's path from `deid_png` on."""
        steps = path.split("/")
        key = "/".join(steps[steps.index(IMAGES) :]) if IMAGES in steps else ""
        try:
            check_key(key, "rexvqa")
        except ImageError:
            raise self._build_error("ImagePath", f"has {path!r}", f"a path like ../{IMAGES}/.../image.png") from None
        return key
