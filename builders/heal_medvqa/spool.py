"""Regions of many images on the disk: those of all of MIMIC-CXR would take several GB of memory."""

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
    """A file without a name in the folder for temporary files (TMPDIR). It is gone with the last of its regions."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as its regions are read
        self._end = 0

    def keep(self, regions: Mapping[str, rle.Rle]) -> Regions:
        """The same regions; only their names and where they lie stay in memory.

        Raises InputError where the disk is full.
        """
        regions = regions if isinstance(regions, Regions) else Regions(regions)
        parts = [regions.part(number) for number in range(len(regions))]
        ends = array("Q", accumulate(map(len, parts), initial=self._end))
        self._write(b"".join(parts))
        return _Spooled(self, regions.names, regions.size, ends)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:  # one write may take less than it is given
                written = os.pwrite(self._file.fileno(), left, self._end)
                left, self._end = left[written:], self._end + written
        except OSError as error:
            found = f"the masks of a build cannot be written there ({error.strerror}); nothing was changed"
            action = "free some space, or set TMPDIR to a folder on another disk"
            raise InputError(tempfile.gettempdir(), found, action=action) from None

    def read(self, begin: int, end: int) -> bytes:
        """What lies there. Several threads may read."""
        return os.pread(self._file.fileno(), end - begin, begin)


class _Spooled(Regions):
    """The regions of one image, read when they are asked for."""

    __slots__ = ("_ends", "_spool")

    def __init__(self, spool: Spool, names: tuple[str, ...], size: tuple[int, int], ends: Sequence[int]) -> None:
        self.names, self.size, self._spool, self._ends = names, size, spool, ends

    def part(self, number: int) -> bytes:
        return self._spool.read(self._ends[number], self._ends[number + 1])
