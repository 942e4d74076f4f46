"""Heatmaps on disk by model, row, model input and class: low-resolution grids with their geometry.

    <folder>/<model's key>/model.json           description of the model; the key is its hash
    <folder>/<model's key>/<row>-<digest>.npz   one row's maps, written atomically

The digest (`digest_of`) covers the model's input for the row: its image, and everything else that the answer depends on
other than the model. Rows with one id and different frames, from two builds, have different files. In lm-eval's sample
log, each answer has the reference `<model's key>/<digest>`, by which scoring reads the maps.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...loaders import json_text
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from .geometry import Geometry

MODEL = "model.json"
ATTENTION = "attention"  # name of the only map of a row about a sentence
REGIONS = "regions"  # name of the attention of boxes, among the further data of such a row
AGAIN = "delete the file and run the model again: it computes only what is missing"


class Entry(NamedTuple):
    """One row's heatmaps.

    Attributes:
        maps: Class -> float32 (h, w), all of one shape, at least 0.
        geometry: Place of the grid on the frame.
        scores: float64 (k,), one for each class of the question, predicted or not; or None.
        extra: Further data of the model's class (a reply's text), as JSON.
    """

    maps: dict[str, np.ndarray]
    geometry: Geometry
    scores: np.ndarray | None
    extra: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The heatmaps of all models in a folder, for reading.

    Attributes:
        folder: The folder.
    """

    folder: Path
    _checked_keys: set[str] = field(default_factory=set, repr=False, compare=False)

    def keys(self) -> list[str]:
        """List the keys of the models with heatmaps."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{MODEL}"))

    def model(self, key: str) -> dict[str, Any]:
        """Read the description of a model.

        Args:
            key: Key of the model.

        Returns:
            The description as the model wrote it.

        Raises:
            InputError: The model is missing, or the file describes another model.
        """
        path = self.folder / key / MODEL
        if not path.is_file():
            raise InputError(
                self.folder,
                f"no heatmaps of the model {key!r}",
                expected=f"one of {', '.join(self.keys()) or 'none: the folder has no heatmaps'}",
                action="name the store that this run wrote (store=... in its --model_args)",
            )
        model = _read_json(path)
        try:
            is_described = isinstance(model, dict) and key_of(model) == key
        except ValueError:  # an infinite number or NaN, which no model writes
            is_described = False
        if not is_described:
            raise InputError(path, "describes another model than its folder", action="delete the folder and run again")
        return model

    def has(self, reference: str, row_id: str) -> bool:
        """Check whether a row is stored.

        Args:
            reference: Reference of the answer.
            row_id: Id of the row.

        Returns:
            Whether the row's file exists; its content is not checked.

        Raises:
            InputError: The reference is invalid.
        """
        return self.path(reference, row_id).is_file()

    def read(self, reference: str, row_id: str) -> Entry:
        """Read the row's heatmaps of an answer.

        Args:
            reference: Reference of the answer, `<model's key>/<digest>`.
            row_id: Id of the row.

        Returns:
            The heatmaps, with their geometry.

        Raises:
            InputError: The reference is invalid, or the file is missing, truncated, of another row, or has no maps.
        """
        path = self.path(reference, row_id)
        if path.parent.name not in self._checked_keys:
            self.model(path.parent.name)
            self._checked_keys.add(path.parent.name)
        if not path.is_file():
            problem = f"no heatmaps of row {row_id!r} as it was shown to the model"
            raise InputError(path, problem, action="run the model on this row with this store")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            metadata = json_text.parse(str(arrays["about"]))
            return _build_entry(arrays, metadata, row_id, reference.partition("/")[2])
        except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(path, f"is cut short or damaged ({error})", action=AGAIN) from error

    def path(self, reference: str, row_id: str) -> Path:
        """Build the path of the row's file.

        Args:
            reference: Reference of the answer.
            row_id: Id of the row.

        Returns:
            The path; the file may be missing.

        Raises:
            InputError: The reference is invalid.
        """
        if not re.fullmatch("[0-9a-f]{16}/[0-9a-f]{16}", reference):
            raise InputError(
                self.folder,
                f"{reference!r} refers to no heatmaps",
                expected="the model's key and the digest of what it was shown, 16 hexadecimal digits each: key/shown",
                action="run the model again with this store: its answers name what they refer to",
                row=row_id,
            )
        key, _, digest = reference.partition("/")
        return self.folder / key / _file_name(row_id, digest)


class HeatmapStore:
    """The heatmaps of one model, for writing. Its folder is created with it.

    Args:
        folder: Folder of all models' heatmaps.
        model: Everything that identifies the model and its task (weights, preprocessing, explainer, prompts), as JSON.
            Different models never share a key.
        exact: Whether to store float32 instead of float16, for maps whose sum or small differences matter.

    Raises:
        InputError: The folder of this key describes another model.
    """

    def __init__(self, folder: str | Path, model: Mapping[str, Any], *, exact: bool = False) -> None:
        self.folder, self.key = Path(folder).expanduser(), key_of(model)
        self._dtype = np.float32 if exact else np.float16
        self._reader = Store(self.folder)
        path = self.folder / self.key / MODEL
        if path.exists():
            self._reader.model(self.key)
        else:
            with atomic_file(path) as partial:
                partial.write_text(json.dumps(dict(model), indent=2, sort_keys=True), encoding="utf-8")

    def reference(self, digest: str) -> str:
        """Build the reference of an answer to its heatmaps, `<key>/<digest>`, for `Store.read`.

        Args:
            digest: Digest of the model's input.

        Returns:
            The reference.
        """
        return f"{self.key}/{digest}"

    def path(self, row_id: str, digest: str) -> Path:
        """Build the path of the row's file.

        Args:
            row_id: Id of the row.
            digest: Digest of the model's input.

        Returns:
            The path; the file may be missing.

        Raises:
            InputError: The digest is invalid.
        """
        return self._reader.path(self.reference(digest), row_id)

    def has(self, row_id: str, digest: str) -> bool:
        """Check whether a row is stored.

        Args:
            row_id: Id of the row.
            digest: Digest of the model's input.

        Returns:
            Whether the row's file exists; its content is not checked.
        """
        return self._reader.has(self.reference(digest), row_id)

    def read(self, row_id: str, digest: str) -> Entry:
        """Read the row's heatmaps, as `Store.read`.

        Args:
            row_id: Id of the row.
            digest: Digest of the model's input.

        Returns:
            The heatmaps, with their geometry.
        """
        return self._reader.read(self.reference(digest), row_id)

    def write(
        self,
        row_id: str,
        digest: str,
        maps: Mapping[str, np.ndarray],
        geometry: Geometry,
        scores: np.ndarray | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a row's heatmaps and replace an earlier version. A row may have no maps (no class predicted).

        Each map is divided by its maximum, to fit into float16, and the maximum is stored. Values are restored to a
        relative error of 1 / 2,048, or to 3e-8 of the map's maximum for values below 6e-5 of it. Exact maps are
        restored to a relative error of 1 / 8 million.

        Args:
            row_id: Id of the row.
            digest: Digest of the model's input.
            maps: Heatmap (h, w) by class.
            geometry: Place of the grid on the frame.
            scores: Scores of the classes, or None.
            extra: Further data, as JSON.

        Raises:
            InputError: A map has a wrong shape, another shape than the others, or a value that is negative, NaN or
                infinite; or the digest is invalid.
        """
        path = self.path(row_id, digest)
        grids = self._join_grids(row_id, maps)
        peaks = grids.max(axis=(1, 2), initial=0.0)
        scaled_grids = np.divide(grids, peaks[:, None, None], out=np.zeros_like(grids), where=peaks[:, None, None] > 0)
        metadata = {
            "row": row_id,
            "shown": digest,
            "classes": list(maps),
            "size": list(geometry.size),
            "window": list(geometry.window),
            "extra": dict(extra or {}),
        }
        arrays = {"maps": scaled_grids.astype(self._dtype), "peaks": peaks, "about": np.array(json.dumps(metadata))}
        if scores is not None:
            arrays["scores"] = np.asarray(scores, dtype=np.float64)
        with atomic_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)

    def _join_grids(self, row_id: str, maps: Mapping[str, np.ndarray]) -> np.ndarray:
        """Join the maps to one float64 array (n, h, w)."""

        def refuse(name: str, problem: str) -> InputError:
            expected = "finite numbers of at least 0, in shape (height, width), one shape for all classes of a row"
            return InputError(self.folder, f"the heatmap of {name!r} {problem}", expected=expected, row=row_id)

        grids = {name: np.asarray(grid, dtype=np.float64) for name, grid in maps.items()}
        shape = next(iter(grids.values())).shape if grids else (0, 0)
        for name, grid in grids.items():
            if grid.ndim != 2 or not grid.size or grid.shape != shape:
                raise refuse(name, f"has shape {grid.shape}")
            if not np.isfinite(grid).all():
                raise refuse(name, "has NaN or infinity")
            if (grid < 0).any():
                raise refuse(name, "has a negative value")
        return np.stack(list(grids.values())) if grids else np.zeros((0, 0, 0))


def open_store(folder: str | Path) -> Store:
    """Open the heatmaps in a folder for reading.

    Args:
        folder: The folder.

    Returns:
        The store; its files are read on request.

    Raises:
        InputError: The folder is missing.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(path, "no such folder", expected="the store= that a model was run with")
    return Store(path)


def key_of(model: Mapping[str, Any]) -> str:
    """Hash the description of a model, independently of the order of its entries.

    Args:
        model: The description.

    Returns:
        16 hexadecimal digits.
    """
    return digest_of(json.dumps(dict(model), sort_keys=True, allow_nan=False).encode())


def digest_of(*contents: bytes) -> str:
    """Hash the concatenation of contents.

    Args:
        *contents: The contents.

    Returns:
        16 hexadecimal digits.
    """
    digest = blake2b(digest_size=8)
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def check_readers(docs: Iterable[Any], folder: str | Path) -> None:
    """Check that scoring will find the heatmaps that a model stores in a folder.

    Documents that ask to `occlude` need no heatmaps for their scores.

    Args:
        docs: lm-eval documents, whose `heatmaps` is a reader (explain.reader.HeatmapReader).
        folder: Folder in which the model stores heatmaps.

    Raises:
        InputError: A document reads heatmaps from another folder.
    """
    asking = [doc for doc in docs if isinstance(doc, Mapping) and "heatmaps" in doc and not doc.get("occlude")]
    for reader in {doc["heatmaps"] for doc in asking}:
        reader.check(folder)


def _build_entry(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any], row_id: str, digest: str) -> Entry:
    """Build an entry. Raise ValueError if the arrays do not fit one another or belong to another row."""
    if (metadata["row"], metadata["shown"]) != (row_id, digest):
        raise ValueError(f"it holds row {metadata['row']!r} as {metadata['shown']!r}, not {row_id!r} as {digest!r}")
    maps, peaks, classes = arrays["maps"], arrays["peaks"], metadata["classes"]
    if maps.ndim != 3 or peaks.shape != (len(maps),) or len(classes) != len(maps):
        raise ValueError(f"maps of shape {maps.shape} for {len(classes)} classes")
    if not (np.isfinite(maps).all() and np.isfinite(peaks).all()):
        raise ValueError("a heatmap with NaN or infinity")
    restored = (maps * peaks[:, None, None]).astype(np.float32)
    geometry = Geometry(tuple(metadata["size"]), tuple(metadata["window"]))
    return Entry(dict(zip(classes, restored, strict=True)), geometry, arrays.get("scores"), metadata["extra"])


def _file_name(row_id: str, digest: str) -> str:
    """Build a file name that is safe for any id: readable characters, and a hash that makes it unique."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", row_id).lstrip(".")[:80]
    return f"{readable}-{blake2b(row_id.encode(), digest_size=6).hexdigest()}-{digest}.npz"


def _read_json(path: Path) -> Any:
    try:
        return json_text.parse(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", action="delete the folder and run again") from error
