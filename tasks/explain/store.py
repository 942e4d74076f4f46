"""Heatmaps on disk, keyed by model, row, what was shown and class: low-resolution grids with their geometry.

    <folder>/<model's key>/model.json          what identifies the model; the key is a hash of it
    <folder>/<model's key>/<row>-<shown>.npz   one row's maps, written whole or not at all

`shown` is a digest (`digest_of`) of what the model was shown of the row: its image, and what else the answer depends
on beside the model. Rows of one id and different frames, of two builds, lie side by side. lm-eval's sample log has of
each answer the reference `<model's key>/<shown>`, and whoever scores the run reads the maps here.
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
ATTENTION = "attention"  # name of the one map of a row about a sentence
AGAIN = "delete the file and run the model again: it computes only what is missing"


class Entry(NamedTuple):
    """One row's heatmaps.

    maps: class -> float32 (h, w), all of one shape, at least 0. geometry: where the grid lies on the frame.
    scores: float64 (k,), one for each class that was asked for, predicted or not; None where none were kept.
    extra: what else the model's class keeps (a reply's text), as JSON.
    """

    maps: dict[str, np.ndarray]
    geometry: Geometry
    scores: np.ndarray | None
    extra: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """The heatmaps of every model in a folder, for reading."""

    folder: Path
    _checked: set[str] = field(default_factory=set, repr=False, compare=False)

    def keys(self) -> list[str]:
        """The keys of the models that have maps here."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{MODEL}"))

    def model(self, key: str) -> dict[str, Any]:
        """What identifies the model of a key. Raises InputError where there is none, or the file is another's."""
        path = self.folder / key / MODEL
        if not path.is_file():
            raise InputError(
                self.folder,
                f"no heatmaps of the model {key!r}",
                expected=f"one of {', '.join(self.keys()) or 'none: the folder has no heatmaps'}",
                action="name the store that this run wrote (store=... in its --model_args)",
            )
        model = _read_json(path)
        if not isinstance(model, dict) or key_of(model) != key:
            raise InputError(path, "describes another model than its folder", action="delete the folder and run again")
        return model

    def has(self, reference: str, row_id: str) -> bool:
        """Whether the row is there. Raises InputError for a reference that is none."""
        return self._path(reference, row_id).is_file()

    def read(self, reference: str, row_id: str) -> Entry:
        """The row's heatmaps of the answer with this reference, `<model's key>/<shown>`.

        Raises InputError naming the reference, if it is none, or the file: missing, cut short, another row's, not maps.
        """
        path = self._path(reference, row_id)
        if path.parent.name not in self._checked:
            self.model(path.parent.name)
            self._checked.add(path.parent.name)
        if not path.is_file():
            found = f"no heatmaps of row {row_id!r} as it was shown to the model"
            raise InputError(path, found, action="run the model on this row with this store")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json_text.parse(str(arrays["about"]))
            return _entry(arrays, about, row_id, reference.partition("/")[2])
        except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(path, f"is cut short or damaged ({error})", action=AGAIN) from error

    def _path(self, reference: str, row_id: str) -> Path:
        if not re.fullmatch("[0-9a-f]{16}/[0-9a-f]{16}", reference):
            raise InputError(
                self.folder,
                f"{reference!r} refers to no heatmaps",
                expected="the model's key and the digest of what it was shown, 16 hexadecimal digits each: key/shown",
                action="run the model again with this store: its answers name what they refer to",
                row=row_id,
            )
        key, _, shown = reference.partition("/")
        return self.folder / key / _file_name(row_id, shown)


class HeatmapStore:
    """The heatmaps of one model, for writing; made with its folder.

    Args:
        folder: where the heatmaps of all models are.
        model: everything that identifies the model and what is asked of it (weights, preprocessing, explainer,
            prompts), as JSON: two models never share a key.
        exact: keep float32, not float16, for maps whose sum or small differences count.

    Raises:
        InputError: the folder of this key describes another model.
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

    def reference(self, shown: str) -> str:
        """What an answer says of its heatmaps: `<key>/<shown>`, for `Store.read`."""
        return f"{self.key}/{shown}"

    def path(self, row_id: str, shown: str) -> Path:
        """The row's file. Raises InputError where `shown` is no digest."""
        return self._reader._path(self.reference(shown), row_id)

    def has(self, row_id: str, shown: str) -> bool:
        """Whether the row is there."""
        return self._reader.has(self.reference(shown), row_id)

    def read(self, row_id: str, shown: str) -> Entry:
        """The row's heatmaps, as `Store.read`."""
        return self._reader.read(self.reference(shown), row_id)

    def write(
        self,
        row_id: str,
        shown: str,
        maps: Mapping[str, np.ndarray],
        geometry: Geometry,
        scores: np.ndarray | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes a row that was shown so, in place of what was there. No map at all (no class predicted) is a row, too.

        Each map is divided by its maximum, so that float16 holds it, and the maximum is kept: a value is restored to
        one part in 2,048 of itself, and to 3e-8 of the map's maximum where it is smaller than 6e-5 of it. Exact maps
        are restored to one part in 8 million.

        Raises:
            InputError: a map is not of shape (h, w), not of the same shape as the others, negative, NaN or infinite;
                `shown` is no digest.
        """
        path = self.path(row_id, shown)
        grids = self._grids(row_id, maps)
        peaks = grids.max(axis=(1, 2), initial=0.0)
        scaled = np.divide(grids, peaks[:, None, None], out=np.zeros_like(grids), where=peaks[:, None, None] > 0)
        about = {
            "row": row_id,
            "shown": shown,
            "classes": list(maps),
            "size": list(geometry.size),
            "window": list(geometry.window),
            "extra": dict(extra or {}),
        }
        arrays = {"maps": scaled.astype(self._dtype), "peaks": peaks, "about": np.array(json.dumps(about))}
        if scores is not None:
            arrays["scores"] = np.asarray(scores, dtype=np.float64)
        with atomic_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]

    def _grids(self, row_id: str, maps: Mapping[str, np.ndarray]) -> np.ndarray:
        """The maps as one float64 array (n, h, w)."""

        def refuse(name: str, found: str) -> InputError:
            expected = "finite numbers of at least 0, in shape (height, width), one shape for all classes of a row"
            return InputError(self.folder, f"the heatmap of {name!r} {found}", expected=expected, row=row_id)

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
    """The heatmaps in a folder, for reading. Raises InputError where there is no such folder."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise InputError(path, "no such folder", expected="the store= that a model was run with")
    return Store(path)


def key_of(model: Mapping[str, Any]) -> str:
    """16 hexadecimal digits: a hash of the model's description, whatever the order of its entries."""
    return digest_of(json.dumps(dict(model), sort_keys=True, allow_nan=False).encode())


def digest_of(*parts: bytes) -> str:
    """16 hexadecimal digits: a hash of the parts put together."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def check_readers(docs: Iterable[Any], folder: str | Path) -> None:
    """Raises InputError where heatmaps that a model keeps in `folder` could not be found when its answers are scored.

    docs: lm-eval documents; where they look is their `heatmaps` (explain.reader.HeatmapReader). The scores of documents
    that ask to `occlude` need none.
    """
    asking = [doc for doc in docs if isinstance(doc, Mapping) and "heatmaps" in doc and not doc.get("occlude")]
    for reader in {doc["heatmaps"] for doc in asking}:
        reader.check(folder)


def _entry(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], row_id: str, shown: str) -> Entry:
    """Raises ValueError where the arrays do not fit one another or hold another row."""
    if (about["row"], about["shown"]) != (row_id, shown):
        raise ValueError(f"it holds row {about['row']!r} as {about['shown']!r}, not {row_id!r} as {shown!r}")
    maps, peaks, classes = arrays["maps"], arrays["peaks"], about["classes"]
    if maps.ndim != 3 or peaks.shape != (len(maps),) or len(classes) != len(maps):
        raise ValueError(f"maps of shape {maps.shape} for {len(classes)} classes")
    if not (np.isfinite(maps).all() and np.isfinite(peaks).all()):
        raise ValueError("a heatmap with NaN or infinity")
    restored = (maps * peaks[:, None, None]).astype(np.float32)
    geometry = Geometry(tuple(about["size"]), tuple(about["window"]))
    return Entry(dict(zip(classes, restored, strict=True)), geometry, arrays.get("scores"), about["extra"])


def _file_name(row_id: str, shown: str) -> str:
    """Safe for any id: readable where it can be, told apart by a hash."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", row_id).lstrip(".")[:80]
    return f"{readable}-{blake2b(row_id.encode(), digest_size=6).hexdigest()}-{shown}.npz"


def _read_json(path: Path) -> Any:
    try:
        return json_text.parse(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(path, f"cannot be read ({error})", action="delete the folder and run again") from error
