"""Verify that the staged files are what medfaith generates from a build, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ....loaders.atomic import scratch_folder
from ....loaders.errors import InputError
from .found import REBUILD

Generate = Callable[[Path], None]
EXPECTED = "what medfaith makes of the build, byte for byte, and nothing else"


def find_differences(staged: Path, name: str, generate: Generate) -> Iterator[InputError]:
    """Find every file, folder and link of a staged folder that differs from the generated one.

    Args:
        staged: The staged folder.
        name: The name of the repository.
        generate: Generates all files of the repository in a folder.

    Yields:
        An error for each difference.
    """
    with scratch_folder() as temporary:
        generated = temporary / name  # a folder of its own, named like the repository
        generated.mkdir()
        generate(generated)
        names = {path.relative_to(folder).as_posix() for folder in (staged, generated) for path in folder.rglob("*")}
        for place in sorted(names):
            if problem := _compare(staged / place, generated / place):
                yield InputError(f"{name}/{place}", problem, expected=EXPECTED, action=REBUILD)


def _compare(ours: Path, generated: Path) -> str:
    """Describe the fault of a file; "" if it has none."""
    if ours.is_symlink():
        return "is a link"
    if not generated.exists():
        return "is a folder that does not belong there" if ours.is_dir() else "is no file of this repository"
    if not ours.exists():
        return "is missing"
    if generated.is_dir() or not ours.is_file():
        return (
            ""
            if generated.is_dir() and ours.is_dir()
            else "is neither a file nor a folder, or one in place of the other"
        )
    staged_bytes, generated_bytes = ours.read_bytes(), generated.read_bytes()
    if staged_bytes == generated_bytes:
        return ""
    place = next(
        (
            n
            for n, (staged_byte, generated_byte) in enumerate(zip(staged_bytes, generated_bytes, strict=False))
            if staged_byte != generated_byte
        ),
        len(generated_bytes),
    )
    return (
        f"has other bytes from line {staged_bytes.count(10, 0, place) + 1} on"
        if ours.suffix != ".parquet"
        else "has other bytes"
    )
