"""Limits on the size of files that somebody else made: above any need of their formats, below any harm.

docs/security.md has the same table.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from .errors import InputError

REPORT_BYTES = 1 << 20  # one radiology report; the longest of MIMIC-CXR has some 10 KB
REPORTS_BYTES = 1 << 28  # OpenI's unpacked archive: 3,955 reports of a few KB each
TEXT_BYTES = 1 << 24  # a list of class names, the boxes of an image, or the labels of a video
JSON_BYTES = 1 << 30  # a JSON file; COCO results of all of MIMIC-CXR have some 100 MB
TABLE_BYTES = 1 << 32  # an unpacked csv; the largest, of CheXmask, has some 2 GB
OPTIONS = 26  # of a question, lettered from A to Z
OPTION_CHARACTERS = 1_000  # an option, or a sentence of one's own on the annotation page
QUESTION_CHARACTERS = 10_000  # a question; ReXVQA's longest has some 300
REQUEST_BYTES = 1 << 20  # the body of a request to the annotation page, whose largest has some 10 KB
LINE_BYTES = 1 << 22  # a row of a table that is read by lines; CheXmask has some 30 KB for the masks of an image
MASK_PIXELS = 1 << 24  # one mask of an array of 159
# One image: below Pillow's own warning (89 megapixels), five times the largest radiographs (about 4,300 x 3,600).
IMAGE_PIXELS = 80_000_000
JPEG_SCANS = 200  # scans of a jpg, each over all of its pixels; programs that write jpgs make about ten


def require_file(path: Path) -> None:
    """Raise an error unless the path is a regular file. Reading from a pipe would wait without end.

    Args:
        path: The file.

    Raises:
        OSError: The path is missing, something other than a regular file, or no UTF-8 text.
    """
    if not is_utf8(path):
        raise OSError(errno.EILSEQ, "its path is no UTF-8 text: rename it", str(path))
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def is_utf8(path: Path) -> bool:
    """Return whether a path is UTF-8 text. Old drives and archives have names in other encodings.

    Args:
        path: The path.

    Returns:
        False if a byte of the path cannot be decoded: build.json and Arrow cannot hold it.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def has_file(path: Path) -> bool:
    """Return whether there is a file of a name. A folder or a pipe of that name is not missing.

    Args:
        path: The file.

    Returns:
        True for a file; False if nothing has the name.

    Raises:
        InputError: The name is a folder, a pipe, or a link to nothing: a build without it would lack rows in silence.
    """
    if path.is_file():
        return True
    if not os.path.lexists(path):
        return False
    problem = "is a folder" if path.is_dir() else "is a link to nothing" if path.is_symlink() else "is no regular file"
    raise InputError(path, problem, expected="a file", action="replace it by the file, or remove the name")


def read_bytes(path: Path, limit: int) -> bytes:
    """Read all bytes of a file of at most `limit` bytes.

    Args:
        path: The file.
        limit: The largest number of bytes to accept.

    Returns:
        The content of the file.

    Raises:
        OSError: The file cannot be read, is not a regular file, or has more than `limit` bytes.
    """
    require_file(path)
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes, which is the limit", str(path))
    return content
