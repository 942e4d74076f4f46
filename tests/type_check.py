"""Runs pyright on the package as it is installed: every room below `medfaith`, where all imports can be followed.

In the repository the rooms lie side by side, and setuptools maps them under one name; pyright follows folders only. So
it reads a copy in that shape, and what it says names the files of the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("loaders", "builders", "evaluate_metrics", "tasks", "cards")
BESIDE = ("tests", "benchmarks", "docs")


def main(*arguments: str) -> int:
    """pyright's exit status; prints what it found."""
    with tempfile.TemporaryDirectory() as scratch:
        laid = Path(scratch).resolve()
        lay(laid)
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *arguments]
        done = subprocess.run(command, cwd=laid, capture_output=True, text=True, check=False)
    print(named_as_here(done.stdout + done.stderr, laid), end="")
    return done.returncode


def lay(folder: Path) -> None:
    """Copies the sources into an empty folder, the rooms below `medfaith`."""
    for source, target in (
        ("medfaith", "medfaith"),
        *((room, f"medfaith/{room}") for room in ROOMS),
        *((name, name) for name in BESIDE),
    ):
        shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")


def named_as_here(text: str, laid: Path) -> str:
    """What pyright says of the copy, with the places of the repository.

    >>> print(named_as_here("/x/medfaith/loaders/a.py:1:1 - error\\n/x/medfaith/cli.py:2:2 - error", Path("/x")))
    loaders/a.py:1:1 - error
    medfaith/cli.py:2:2 - error
    """
    for room in ROOMS:
        text = text.replace(f"{laid.as_posix()}/medfaith/{room}/", f"{room}/")
    return text.replace(f"{laid.as_posix()}/", "")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
