"""Regions of many images on disk, because the regions of all of MIMIC-CXR would need several GB of memory."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ...loaders import rle
from ...loaders.errors import InputError
from .relations import Regions


class Spool:
    """An unnamed file in the folder for temporary files (TMPDIR). It disappears with the last of its regions."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as its regions are read
        self._end = 0

    def keep(self, regions: Mapping[str, rle.Rle]) -> Regions:
        """Store regions in the file. Their names and positions stay in memory.

        Args:
            regions: The COCO RLE of each anatomy.

        Returns:
            The same regions, read from the file on access.

        Raises:
            InputError: The disk is full.
        """
        regions = regions if isinstance(regions, Regions) else Regions(regions)
        packed = [regions.get_packed(number) for number in range(len(regions))]
        ends = array("Q", accumulate(map(len, packed), initial=self._end))
        self._write(b"".join(packed))
        return _Spooled(self, regions.names, regions.size, ends)

    def _write(self, data: bytes) -> None:
        remaining = memoryview(data)
        try:
            while remaining:  # one call may write only a part
                n_written = os.pwrite(self._file.fileno(), remaining, self._end)
                remaining, self._end = remaining[n_written:], self._end + n_written
        except OSError as error:
            problem = f"the masks of a build cannot be written there ({error.strerror}); nothing was changed"
            action = "free some space, or set TMPDIR to a folder on another disk"
            raise InputError(tempfile.gettempdir(), problem, action=action) from None

    def read(self, begin: int, end: int) -> bytes:
        """Read bytes from the file. Several threads may read at once.

        Args:
            begin: The position of the first byte.
            end: The position after the last byte.

        Returns:
            The bytes.
        """
        return os.pread(self._file.fileno(), end - begin, begin)


class _Spooled(Regions):
    """The regions of one image, read from the file on access."""

    __slots__ = ("_ends", "_spool")

    def __init__(self, spool: Spool, names: tuple[str, ...], size: tuple[int, int], ends: Sequence[int]) -> None:
        self.names, self.size, self._spool, self._ends = names, size, spool, ends

    def get_packed(self, number: int) -> bytes:
        return self._spool.read(self._ends[number], self._ends[number + 1])
