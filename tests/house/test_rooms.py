"""Allowed imports between rooms: data flows one way, and a metric imports no other room."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "loaders": set(),
    "builders": {"loaders"},
    "evaluate_metrics": set(),
    "tasks": {"loaders", "evaluate_metrics"},
    "cards": {"loaders", "builders", "evaluate_metrics", "tasks"},
    "medfaith": {"loaders", "builders", "evaluate_metrics", "tasks", "cards"},
}


def find_package(folder: Path) -> str:
    """Find the dotted name under which a folder of a room is installed."""
    path_parts = folder.relative_to(ROOT).parts
    return ".".join(path_parts if path_parts[0] == "medfaith" else ("medfaith", *path_parts))


@cache
def find_imported_modules(path: Path, source: str) -> set[str]:
    """Find the absolute dotted names of all imports of a file, with the rooms below `medfaith`."""
    package, names = find_package(path.parent).split("."), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def list_files(room: str) -> list[Path]:
    paths = sorted((ROOT / room).rglob("*.py"))
    assert paths
    return paths


def select_rooms(names: set[str]) -> set[str]:
    name_parts = [name.split(".") for name in names]
    return {p[1] for p in name_parts if p[0] == "medfaith" and len(p) > 1 and p[1] in ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_before_it(room):
    offenders = {}
    for path in list_files(room):
        names = find_imported_modules(path, path.read_text(encoding="utf-8"))
        later = select_rooms(names) - {room} - ROOMS[room]
        bare = {name.split(".")[0] for name in names} & (set(ROOMS) - {"medfaith"})  # instead of medfaith.<room>
        if later | bare:
            offenders[path.relative_to(ROOT).as_posix()] = sorted(later | bare)
    assert offenders == {}


@pytest.mark.parametrize(
    ("place", "source", "expected"),
    [
        ("loaders/x.py", "from ..builders import y", {"builders"}),
        ("loaders/phantom/x.py", "from ...builders.z import y", {"builders"}),
        ("loaders/x.py", "from .errors import InputError", {"loaders"}),
        ("evaluate_metrics/a/score.py", "from medfaith.tasks import rows", {"tasks"}),
        ("evaluate_metrics/a/score.py", "import medfaith.loaders.chexpert", {"loaders"}),
        ("medfaith/cli.py", "from medfaith import cards", {"cards"}),
        ("builders/__init__.py", "import numpy", set()),
    ],
)
def test_the_import_reader_sees_every_form(place, source, expected):
    assert select_rooms(find_imported_modules(ROOT / place, source)) == expected


def test_no_test_imports_another_test():
    """Shared parts are in tests/support. pytest would execute an imported test module a second time."""
    offenders = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not re.search(r"^[ \t]*(from|import)\b[^\n(]*(\([^)]*)?\b(conftest\b|test_)", source, re.MULTILINE):
            continue
        names = find_imported_modules(path, source)
        stems = {part for name in names if "tests" in name.split(".") for part in name.split(".")}
        if imported := sorted(stem for stem in stems if stem == "conftest" or stem.startswith("test_")):
            offenders[path.relative_to(ROOT).as_posix()] = imported
    assert offenders == {}


def test_progress_is_shown_in_one_way():
    offenders = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in list_files(room)
        if any(name.split(".")[0] == "tqdm" for name in find_imported_modules(path, path.read_text(encoding="utf-8")))
    }
    assert offenders == {"loaders/progress.py"}


def test_every_package_is_listed_in_pyproject():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    assert listed == {find_package(path.parent) for room in ROOMS for path in list_files(room)}
