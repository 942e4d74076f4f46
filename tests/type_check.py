"""Run pyrefly on the installed layout of the package: every room below `medfaith`, where it can follow all imports.

In the repository, the rooms are top-level folders that setuptools maps under one name; pyrefly follows folders only. It
reads a copy in the installed layout, and its messages name the files of the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("loaders", "builders", "evaluate_metrics", "tasks", "cards")
ALLOWED_BEFORE = ("tests", "benchmarks", "docs")


def main(*arguments: str) -> int:
    """Run pyrefly, print its output, and return its exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        copy_sources(Path(scratch))
        command = [sys.executable, "-m", "pyrefly", "check", "--python-interpreter-path", sys.executable, *arguments]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    print(translate_paths(done.stdout + done.stderr), end="")
    return done.returncode


def copy_sources(folder: Path) -> None:
    """Copy the sources into an empty folder, the rooms below `medfaith`."""
    for source, target in (
        ("medfaith", "medfaith"),
        *((room, f"medfaith/{room}") for room in ROOMS),
        *((name, name) for name in ALLOWED_BEFORE),
    ):
        shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")


def translate_paths(text: str) -> str:
    """Translate the copy's paths in pyrefly's output to paths of the repository.

    >>> print(translate_paths(" --> medfaith/loaders/a.py:1:1\\n --> medfaith/cli.py:2:2"))
     --> loaders/a.py:1:1
     --> medfaith/cli.py:2:2
    """
    for room in ROOMS:
        text = text.replace(f"--> medfaith/{room}/", f"--> {room}/")
    return text


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
