"""How much is read of a file that somebody else made: more than its format has ever needed, and less than does harm.

docs/security.md has the same table.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

REPORT_BYTES = 1 << 20  # of one radiology report; the longest of MIMIC-CXR has some 10 KB
REPORTS_BYTES = 1 << 28  # of OpenI's unpacked archive: 3,955 reports of a few KB each
TEXT_BYTES = 1 << 24  # of a list of class names, of the boxes of an image, of the labels of a video
JSON_BYTES = 1 << 30  # of a JSON file: COCO results of all of MIMIC-CXR have some 100 MB
TABLE_BYTES = 1 << 32  # of an unpacked csv: the largest, of CheXpert and MIMIC-CXR, have less than 100 MB
MASK_PIXELS = 1 << 24  # of a mask in an array, of which there are 159
# Of an image. Below Pillow's own warning (89 megapixels), five times the largest radiographs (about 4,300 x 3,600).
IMAGE_PIXELS = 80_000_000
JPEG_SCANS = 200  # of a jpg, each over all of its pixels; programs that write them make about ten


def require_file(path: Path) -> None:
    """Raises OSError for what is there and is no file. A pipe would be waited for without end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_bytes(path: Path, most: int) -> bytes:
    """What a file holds. Raises OSError where it cannot be read, is no file, or has more than `most` bytes."""
    require_file(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes, which is the limit", str(path))
    return content
