"""Packed files, which are known by their content and not by their name."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from . import limits, placeholders

GZIP = b"\x1f\x8b"  # the first bytes of its files


def open_unpacked(path: Path) -> io.BufferedIOBase:
    """Open a file for reading, and unpack it if its content is gzip's, whatever its name.

    Browsers unpack a .gz and keep its name, and people rename .csv.gz to .csv.

    Args:
        path: The file.

    Returns:
        The open stream.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    return gzip.open(path, "rb") if detect_compression(path) == "gzip" else path.open("rb")


def detect_compression(path: Path) -> str | None:
    """Detect gzip by the first bytes, and other kinds by the suffix, as Arrow does.

    Args:
        path: The file.

    Returns:
        The value of `compression` that Arrow's `input_stream` takes.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
        InputError: The file is a placeholder of another.
    """
    limits.require_file(path)
    with path.open("rb") as file:
        if (head := file.read(placeholders.HEAD_BYTES)).startswith(GZIP):
            return "gzip"
    placeholders.refuse_placeholder(path, head)
    return None if path.suffix == ".gz" else "detect"
