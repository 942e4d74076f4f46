"""Optical flow from files that another program computed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...loaders.errors import InputError
from .pairs import Flows, Pair

FLO_MAGIC, FLO_UNKNOWN = (
    b"PIEH",
    1e9,
)  # Middlebury's .flo: its first bytes, and the limit above which a component is unknown


class FlowFiles:
    """Flow in `<folder>/<video>/<frame>_forward.<ext>` and `<frame>_backward.<ext>`.

    <frame> is the first frame's number with six digits. <ext> is npy for (2, H, W) floats, npz for one such array, or
    flo for Middlebury's format. Flow is in pixels, u to the right and v down. The forward flow uses the first frame's
    grid, the backward flow the second's. A vector is unknown if it is not finite, or above 1e9 in a .flo.

    Args:
        folder: The folder.

    Raises:
        InputError: The folder is missing.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(folder, "no such folder", expected="<video>/<frame>_forward.npy and so on")
        self.folder = folder

    def identity(self, video: str, pairs: Sequence[Pair]) -> str:
        """Describe the files by name, size and time, without reading them.

        Args:
            video: The name of the video.
            pairs: Its pairs of frames.

        Returns:
            A text with a hash.

        Raises:
            InputError: A file is missing, or a flow has several files.
        """
        paths = [path for pair in pairs for path in self._list_paths(video, pair)]
        listing = [f"{path.name} {(stat := path.stat()).st_size} {stat.st_mtime_ns}" for path in paths]
        return f"files {hashlib.sha256(json.dumps(listing).encode()).hexdigest()}"

    def flows(self, video: str, pairs: Sequence[Pair]) -> Iterator[Flows]:
        """Read the flow of each pair in turn.

        Args:
            video: The name of the video.
            pairs: Its pairs of frames.

        Yields:
            Forward and backward flow.

        Raises:
            InputError: A file is missing or faulty.
        """
        for pair in pairs:
            forward_path, backward_path = self._list_paths(video, pair)
            forward = read_flow(forward_path, size=pair.size)
            yield forward, read_flow(backward_path, size=(forward.shape[1], forward.shape[2]))

    def _list_paths(self, video: str, pair: Pair) -> tuple[Path, Path]:
        return self._find_path(video, pair.frame, "forward"), self._find_path(video, pair.frame, "backward")

    def _find_path(self, video: str, frame: int, direction: str) -> Path:
        stem = self.folder / video / f"{frame:06d}_{direction}"
        paths = [path for reader in READERS if (path := stem.with_name(stem.name + reader)).is_file()]
        if len(paths) == 1:
            return paths[0]
        problem = "several files for one flow: " + ", ".join(path.name for path in paths) if paths else "no flow file"
        raise InputError(stem, problem, expected="one of " + ", ".join(stem.name + reader for reader in READERS))


def read_flow(path: Path, *, size: tuple[int, int] | None = None) -> np.ndarray:
    """Read an .npy, .npz or .flo file (see `FlowFiles`).

    Args:
        path: The file.
        size: Expected height and width in pixels; None allows any.

    Returns:
        The flow: float32 (2, H, W). Unknown vectors are NaN.

    Raises:
        InputError: The file cannot be read, has another shape, or has no known vector.
    """
    try:
        flow = READERS[path.suffix](path)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(path, f"cannot be read: {error}", expected="a flow as medfaith's FlowFiles has it") from error
    if flow.ndim != 3 or flow.shape[0] != 2 or flow.dtype.kind not in "fiu":
        raise InputError(path, f"an array of shape {flow.shape}, {flow.dtype}", expected="numbers (2, height, width)")
    if size is not None and flow.shape[1:] != tuple(size):
        raise InputError(path, f"a flow of {flow.shape[1:]} (height, width)", expected=f"the frame's {tuple(size)}")
    is_known = np.isfinite(flow).all(0)
    if not is_known.any():
        raise InputError(path, "no vector of it is known (NaN or infinite throughout)")
    return np.where(is_known, flow, np.nan).astype(np.float32)


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
    """Read magic, width and height as int32, then u and v of each pixel along the rows, little-endian float32."""
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
