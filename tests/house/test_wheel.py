"""Contents of the wheel: one top-level name, with the rooms' data files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.tiers import choose_size

ROOT = Path(__file__).parents[2]
DATA = ("*.yaml", "*_yaml", "*.toml", "*.md", "*.json")
ROOMS = ("loaders", "builders", "evaluate_metrics", "tasks", "cards", "medfaith")


def test_the_wheel_holds_medfaith_only_and_all_of_it(tmp_path):
    tree = tmp_path / "tree"
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=skipped)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    # `python -m build` starts the backend twice: in the full run it does.
    backend = f"from setuptools.build_meta import build_wheel; build_wheel({str(tmp_path)!r})"
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(tree)]
    command = [sys.executable, *choose_size(["-c", backend], build)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"medfaith"}

    module_paths = [path for pattern in ("*.py", *DATA) for room in ROOMS for path in (tree / room).rglob(pattern)]
    paths = [path.relative_to(tree).as_posix() for path in module_paths]
    assert {path if path.startswith("medfaith/") else f"medfaith/{path}" for path in paths} - names == set()
    for name in ("medfaith/loaders/sources.toml", "medfaith/tasks/contrabench/medfaith_contrabench.yaml"):
        assert name in names
