"""Optical flow computed elsewhere, in files."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...loaders.errors import InputError
from .pairs import Flows, Pair

FLO_MAGIC, FLO_UNKNOWN = b"PIEH", 1e9  # Middlebury's .flo: its first bytes, and from where on a component is unknown


class FlowFiles:
    """Flow computed elsewhere: `<folder>/<video>/<frame>_forward.<ext>` and `<frame>_backward.<ext>`.

    <frame>: the first frame's number, six digits. <ext>: npy, (2, H, W) floats; npz, one such array; flo, Middlebury's.
    In pixels, u rightwards and v down, forward on the first frame's grid, backward on the second's. A vector that is
    not finite, or in a .flo above 1e9, is unknown. Raises InputError where the folder is missing.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(folder, "no such folder", expected="<video>/<frame>_forward.npy and so on")
        self.folder = folder

    def identity(self, video: str, pairs: Sequence[Pair]) -> str:
        """The files' names, sizes and times: their contents are not read for it."""
        paths = [path for pair in pairs for path in self._paths(video, pair)]
        listing = [f"{path.name} {(stat := path.stat()).st_size} {stat.st_mtime_ns}" for path in paths]
        return f"files {hashlib.sha256(json.dumps(listing).encode()).hexdigest()}"

    def flows(self, video: str, pairs: Sequence[Pair]) -> Iterator[Flows]:
        for pair in pairs:
            first, second = self._paths(video, pair)
            forward = read_flow(first, size=pair.size)
            yield forward, read_flow(second, size=(forward.shape[1], forward.shape[2]))

    def _paths(self, video: str, pair: Pair) -> tuple[Path, Path]:
        return self._path(video, pair.frame, "forward"), self._path(video, pair.frame, "backward")

    def _path(self, video: str, frame: int, direction: str) -> Path:
        stem = self.folder / video / f"{frame:06d}_{direction}"
        found = [path for reader in READERS if (path := stem.with_name(stem.name + reader)).is_file()]
        if len(found) == 1:
            return found[0]
        problem = "several files for one flow: " + ", ".join(path.name for path in found) if found else "no flow file"
        raise InputError(stem, problem, expected="one of " + ", ".join(stem.name + reader for reader in READERS))


def read_flow(path: Path, *, size: tuple[int, int] | None = None) -> np.ndarray:
    """Flow (2, H, W) float32 of an .npy, .npz or .flo file (see `FlowFiles`); unknown vectors are NaN.

    size: (height, width) that it has to have. Raises InputError for a file that cannot be read, for another shape, and
    where no vector is known.
    """
    try:
        flow = READERS[path.suffix](path)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(path, f"cannot be read: {error}", expected="a flow as medfaith's FlowFiles has it") from error
    if flow.ndim != 3 or flow.shape[0] != 2 or flow.dtype.kind not in "fiu":
        raise InputError(path, f"an array of shape {flow.shape}, {flow.dtype}", expected="numbers (2, height, width)")
    if size is not None and flow.shape[1:] != tuple(size):
        raise InputError(path, f"a flow of {flow.shape[1:]} (height, width)", expected=f"the frame's {tuple(size)}")
    known = np.isfinite(flow).all(0)
    if not known.any():
        raise InputError(path, "no vector of it is known (NaN or infinite throughout)")
    return np.where(known, flow, np.nan).astype(np.float32)


def _read_npy(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)


def _read_npz(path: Path) -> np.ndarray:
    archive = np.load(path, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("not an archive")
    with archive:
        if len(archive.files) != 1:
            raise ValueError(f"an archive of {len(archive.files)} arrays ({', '.join(archive.files)}), not of one")
        return archive[archive.files[0]]


def _read_flo(path: Path) -> np.ndarray:
    """Magic, width and height as int32, then u and v of each pixel along the rows, little-endian float32."""
    data = path.read_bytes()
    if data[:4] != FLO_MAGIC:
        raise ValueError(f"it begins with {data[:4]!r} and not with {FLO_MAGIC!r}")
    if len(data) < 12:
        raise ValueError("it ends within its header")
    width, height = (int(n) for n in np.frombuffer(data, "<i4", count=2, offset=4))
    if min(width, height) < 1 or len(data) != 12 + 8 * width * height:
        raise ValueError(f"{len(data)} bytes are not those of {width} x {height} vectors")
    flow = np.frombuffer(data, "<f4", offset=12).reshape(height, width, 2).transpose(2, 0, 1)
    return np.where(np.abs(flow) > FLO_UNKNOWN, np.nan, flow)


READERS = {".npy": _read_npy, ".npz": _read_npz, ".flo": _read_flo}
