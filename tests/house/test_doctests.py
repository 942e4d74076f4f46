"""Every docstring example of the rooms runs and prints its expected output."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import medfaith

ROOMS = sorted(info.name for info in pkgutil.iter_modules(medfaith.__path__) if info.ispkg)
ROOMS += ["builders", "cards", "evaluate_metrics", "loaders", "tasks"]


def list_failing(modules: list[str]) -> list[str]:
    """List the modules with a failing example; doctest prints the example."""
    return [name for name in modules if count_failures(name)]


def count_failures(name: str) -> int:
    """Count the failing examples; a module without any is not imported.

    `doctest.testmod` also starts a debugger for each docstring without examples.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    if ">>>" not in Path(spec.origin).read_text(encoding="utf-8"):
        return 0
    module, runner = importlib.import_module(name), doctest.DocTestRunner()
    for docstring in doctest.DocTestFinder().find(module, name):
        if docstring.examples:
            runner.run(docstring)
    return runner.failures


@pytest.mark.parametrize("room", ROOMS)
def test_examples_of_a_room(room):
    package = importlib.import_module(f"medfaith.{room}")
    module_names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    assert module_names
    assert (
        list_failing([package.__name__, *sorted(name for name in module_names if not name.endswith("__main__"))]) == []
    )


def test_examples_of_the_modules_beside_the_rooms():
    names = [info.name for info in pkgutil.iter_modules(medfaith.__path__) if not info.ispkg]
    assert list_failing([f"medfaith.{name}" for name in sorted(names) if name != "__main__"]) == []
