"""What a build wrote, file by file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digests(folder: Path) -> dict[str, str]:
    """sha256 of each file by its path below the folder, without locks."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
