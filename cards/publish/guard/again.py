"""What is staged is what medfaith makes of a build, byte for byte: nothing else can be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ....loaders.atomic import scratch_folder
from ....loaders.errors import InputError
from .found import REBUILD

Generate = Callable[[Path], None]
EXPECTED = "what medfaith makes of the build, byte for byte, and nothing else"


def differences(staged: Path, name: str, generate: Generate) -> Iterator[InputError]:
    """Every file, folder and link of a staged folder that is not made again. generate: makes all of it in a folder."""
    with scratch_folder() as temporary:
        again = temporary / name  # so that the folder of temporary files does not look like one of builds
        again.mkdir()
        generate(again)
        names = {path.relative_to(folder).as_posix() for folder in (staged, again) for path in folder.rglob("*")}
        for place in sorted(names):
            if found := _difference(staged / place, again / place):
                yield InputError(f"{name}/{place}", found, expected=EXPECTED, action=REBUILD)


def _difference(ours: Path, again: Path) -> str:
    """What is wrong with a file, "" where nothing is."""
    if ours.is_symlink():
        return "is a link"
    if not again.exists():
        return "is a folder that does not belong there" if ours.is_dir() else "is no file of this repository"
    if not ours.exists():
        return "is missing"
    if again.is_dir() or not ours.is_file():
        return (
            "" if again.is_dir() and ours.is_dir() else "is neither a file nor a folder, or one in place of the other"
        )
    there, made = ours.read_bytes(), again.read_bytes()
    if there == made:
        return ""
    place = next((n for n, (one, other) in enumerate(zip(there, made, strict=False)) if one != other), len(made))
    return (
        f"has other bytes from line {there.count(10, 0, place) + 1} on"
        if ours.suffix != ".parquet"
        else "has other bytes"
    )
