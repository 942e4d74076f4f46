"""Chest ImaGenome 1.0.0, silver dataset: the splits, and the scene graphs that programs made for the other images.

Source: Wu et al., "Chest ImaGenome Dataset for Clinical Reasoning" (2021). Detected boxes are returned unchanged: some
reach beyond their image. An object is skipped if it has no coordinates, or if its box ends before the image's first
row or column. A sentence without any box is skipped, like in the gold dataset.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from . import csv_table, json_text, limits, mimic_cxr
from .chest_imagenome import ACTION, CONTEXTS, CORNERS, Corners, GoldSentence, Mention, check_corners, parse_image_ids
from .errors import InputError

SPLITS = {"train": "train", "validation": "valid", "test": "test", "avoid": "images_to_avoid"}
ZIP, FOLDER = "silver_dataset/scene_graph.zip", "silver_dataset/scene_graph"
SUFFIX = "_SceneGraph.json"
_T = TypeVar("_T")
EXPECTED = "a scene graph with image_id, patient_id, study_id, objects and attributes"


@dataclass(frozen=True, slots=True)
class SilverSentence(GoldSentence):
    """A sentence of a scene graph, with the fields of the gold dataset; the relation of each mention is True."""


class Graph(NamedTuple):
    """The file of a scene graph.

    Attributes:
        where: The path of the file, for messages.
        data: Its bytes.
    """

    where: str
    data: bytes


class SceneGraphs:
    """The scene graphs below a root: scene_graph.zip, or the folder that it unpacks to. A context manager.

    The zip's list of files, a quarter of a million names, is read once.

    Args:
        root: The folder of Chest ImaGenome.

    Raises:
        InputError: The root has neither the zip nor the folder.
    """

    def __init__(self, root: Path) -> None:
        packed, self._folder = root / ZIP, root / FOLDER
        self._zip: zipfile.ZipFile | None = None
        self._members: dict[str, str] = {}
        if limits.has_file(packed):
            try:
                self._zip = zipfile.ZipFile(packed)
            except (OSError, zipfile.BadZipFile) as error:
                raise InputError(packed, f"is no complete zip ({error})", action="download it again") from None
            self._members = {PurePosixPath(name).name: name for name in self._zip.namelist()}
        elif not self._folder.is_dir():
            action = "complete the copy, or name the folder of Chest ImaGenome that holds silver_dataset"
            raise InputError(root, f"holds no {ZIP}", expected=f"{ZIP}, or the folder {FOLDER}", action=action)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._zip is not None:
            self._zip.close()

    def read(self, dicom_id: str) -> list[SilverSentence]:
        """Read the sentences of an image.

        Args:
            dicom_id: The image.

        Returns:
            The sentences in the graph's order; empty if the release has no graph for the image.

        Raises:
            InputError: The graph is damaged, has another form, or belongs to another image.
        """
        graph = self.find(dicom_id)
        return [] if graph is None else parse(graph, dicom_id)

    def read_anatomy(self, dicom_id: str) -> dict[str, Corners]:
        """Read the boxes of all anatomies of an image, also of those that no sentence names.

        Args:
            dicom_id: The image.

        Returns:
            Name of the anatomy -> corners, in the graph's order; empty if the release has no graph for the image.

        Raises:
            InputError: The graph is damaged, has another form, or belongs to another image.
        """
        graph = self.find(dicom_id)
        return {} if graph is None else _parse(graph, dicom_id, _build_anatomy)

    def find(self, dicom_id: str) -> Graph | None:
        """Find the scene graph of an image.

        Args:
            dicom_id: The image.

        Returns:
            The file; None if the release has no graph for the image.

        Raises:
            InputError: The file cannot be read or unpacked.
        """
        name = f"{dicom_id}{SUFFIX}"
        if self._zip is not None:
            if name not in self._members:
                return None
            where = f"{self._zip.filename}:{self._members[name]}"
            size = self._zip.getinfo(self._members[name]).file_size
            if size > limits.TEXT_BYTES:
                raise _build_error(where, f"unpacks to {size:,} bytes; at most {limits.TEXT_BYTES:,} are read")
            try:
                return Graph(where, self._zip.read(self._members[name]))
            # RuntimeError: the file is encrypted, or Python does not support its compression.
            except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                raise _build_error(where, f"cannot be unpacked ({error})") from None
        for path in (self._folder / name, self._folder / "scene_graph" / name):
            if limits.has_file(path):
                try:
                    return Graph(str(path), limits.read_bytes(path, limits.TEXT_BYTES))
                except OSError as error:
                    raise _build_error(str(path), f"cannot be read ({error.strerror})") from None
        return None


def parse(file: Graph, dicom_id: str) -> list[SilverSentence]:
    """Parse the sentences of a scene graph.

    Args:
        file: The file of the graph.
        dicom_id: The image that the graph must belong to.

    Returns:
        The sentences in the graph's order.

    Raises:
        InputError: The graph is damaged, has another form, or belongs to another image.
    """
    return _parse(file, dicom_id, _build_sentences)


def find_split_file(root: Path, split: str) -> Path:
    """Return the path of the list of images of a split.

    Args:
        root: The folder of Chest ImaGenome.
        split: One of SPLITS.

    Returns:
        The path; the file may be missing.

    Raises:
        ValueError: The split is unknown.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r}: expected one of {', '.join(SPLITS)}")
    return root / "silver_dataset" / "splits" / f"{SPLITS[split]}.csv"


def read_split(root: Path, split: str) -> pa.Table:
    """Read the images of a split.

    Args:
        root: The folder of Chest ImaGenome.
        split: train, validation or test, or "avoid": all images of the gold dataset's patients, which are excluded from
            the three splits.

    Returns:
        One row an image, in the file's order, with the string columns subject_id, study_id, dicom_id, path and view.

    Raises:
        InputError: A file is missing or malformed; the error names file, row and column.
        ValueError: The split is unknown.
    """
    path = find_split_file(root, split)
    if not limits.has_file(path):
        name = path.relative_to(root).as_posix()
        raise InputError(root, f"holds no {name}", expected="the release's folders and names", action=ACTION)
    columns = ("subject_id", "study_id", "dicom_id", "path", "ViewPosition")
    table = csv_table.read(path, dict.fromkeys(columns, pa.string()), action=ACTION)
    for column in ("subject_id", "study_id"):
        good = pc.match_substring_regex(table[column], mimic_cxr.NUMBER)
        csv_table.require(good, table[column], path, column, expected="8 digits", action=ACTION)
    parse_image_ids(table["dicom_id"], path, "dicom_id")
    csv_table.require_once(table["dicom_id"], path, "dicom_id", action=ACTION)
    return table.rename_columns(["subject_id", "study_id", "dicom_id", "path", "view"])


def _parse(file: Graph, dicom_id: str, build: Callable[[Mapping[str, Any], str, str], _T]) -> _T:
    """Parse the graph of an image, and build an object from it, its image and its path."""
    try:
        graph = json_text.parse(file.data)
    except ValueError as error:
        raise _build_error(file.where, f"is no JSON ({error})") from None
    try:
        if graph["image_id"] != dicom_id:
            raise _build_error(file.where, f"it is of image {graph['image_id']!r}")
        return build(graph, dicom_id, file.where)
    except (KeyError, TypeError, AttributeError) as error:
        raise _build_error(file.where, f"is not of the release's form ({type(error).__name__}: {error})") from None


def _build_anatomy(graph: Mapping[str, Any], _: str, where: str) -> dict[str, Corners]:
    return dict(_read_objects(graph, where).values())


def _read_objects(graph: Mapping[str, Any], where: str) -> dict[str, tuple[str, Corners]]:
    """Read object id -> name and corners, without the objects that have no place in the image."""
    return {item["object_id"]: (item["bbox_name"], box) for item in graph["objects"] if (box := _read_box(item, where))}


def _build_sentences(graph: Mapping[str, Any], dicom_id: str, where: str) -> list[SilverSentence]:
    objects = _read_objects(graph, where)
    texts: dict[str, str] = {}
    boxes: dict[str, dict[str, Corners]] = {}
    mentions: dict[str, list[Mention]] = {}
    for entry in graph["attributes"]:
        phrases = entry["phrase_IDs"], entry["phrases"], entry["attributes"]
        if len(set(map(len, phrases))) != 1:
            raise _build_error(where, f"phrase_IDs, phrases and attributes of {entry['object_id']!r} differ in length")
        if entry["object_id"] not in objects:
            continue
        name, box = objects[entry["object_id"]]
        _check_text(name, "bbox_name", where)
        for row_id, text, attributes in zip(*phrases, strict=True):
            if not attributes:
                continue
            _check_text(row_id, "phrase_ID", where)
            _check_text(text, "phrase", where, blank=True)
            if texts.setdefault(row_id, text) != text:
                raise _build_error(where, f"two sentences with the id {row_id!r}")
            boxes.setdefault(row_id, {})[name] = box
            mentions.setdefault(row_id, []).extend(_parse_mention(name, item, where) for item in attributes)
    ids = str(graph["patient_id"]), str(graph["study_id"]), dicom_id
    return [SilverSentence(i, *ids, text, boxes[i], tuple(mentions[i])) for i, text in texts.items()]


def _check_text(value: Any, name: str, where: str, *, blank: bool = False) -> None:
    """Raise InputError unless the value is a text; a blank text needs `blank`."""
    if type(value) is not str or not (blank or value.strip()):
        raise _build_error(where, f"the {name} {value!r}, which is no text")


def _read_box(entry: Mapping[str, Any], where: str) -> Corners | None:
    """Read the corners of an object; None if it has no place in the image."""
    values: list[Any] = [entry.get(name) for name in CORNERS]
    if None in values:
        return None
    try:
        x1, y1, x2, y2 = (float(value) if type(value) in (int, float) else math.nan for value in values)
    except OverflowError:  # an integer above 10^308
        x1 = y1 = x2 = y2 = math.inf
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        raise _build_error(where, f"{entry['object_id']!r} lies at {str(values)[:100]}")
    if x1 <= x2 < 0 or y1 <= y2 < 0:
        return None
    check_corners((x1, y1, x2, y2), where, row=None, column=entry["object_id"])
    return x1, y1, x2, y2


def _parse_mention(box: str, attribute: str, where: str) -> Mention:
    """Parse an attribute "category|yes|label"."""
    fields = attribute.split("|")
    if len(fields) != 3 or fields[1] not in CONTEXTS:
        raise _build_error(where, f"the attribute {attribute!r}, and not category|yes|label or category|no|label")
    return Mention(box, fields[2], fields[1], True)


def _build_error(where: str, problem: str) -> InputError:
    return InputError(where, problem, expected=EXPECTED, action=ACTION)
