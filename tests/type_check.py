"""Run pyright on the installed layout of the package: every room below `medfaith`, where it can follow all imports.

In the repository, the rooms are top-level folders that setuptools maps under one name; pyright follows folders only. It
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
BESIDE = ("tests", "benchmarks", "docs")


def main(*arguments: str) -> int:
    """Run pyright, print its output, and return its exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        laid = Path(scratch).resolve()
        copy_sources(laid)
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *arguments]
        done = subprocess.run(command, cwd=laid, capture_output=True, text=True, check=False)
    print(translate_paths(done.stdout + done.stderr, laid), end="")
    return done.returncode


def copy_sources(folder: Path) -> None:
    """Copy the sources into an empty folder, the rooms below `medfaith`."""
    for source, target in (
        ("medfaith", "medfaith"),
        *((room, f"medfaith/{room}") for room in ROOMS),
        *((name, name) for name in BESIDE),
    ):
        shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", folder / "pyproject.toml")


def translate_paths(text: str, laid: Path) -> str:
    """Translate the copy's paths in pyright's output to paths of the repository.

    >>> print(translate_paths("/x/medfaith/loaders/a.py:1:1 - error\\n/x/medfaith/cli.py:2:2 - error", Path("/x")))
    loaders/a.py:1:1 - error
    medfaith/cli.py:2:2 - error
    """
    for room in ROOMS:
        text = text.replace(f"{laid.as_posix()}/medfaith/{room}/", f"{room}/")
    return text.replace(f"{laid.as_posix()}/", "")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
