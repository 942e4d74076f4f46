"""Every example in a docstring of the rooms runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import medfaith

MODULES = sorted(
    info.name
    for room in ("builders", "cards", "evaluate_metrics", "loaders", "tasks")
    for info in pkgutil.walk_packages(importlib.import_module(f"medfaith.{room}").__path__, f"medfaith.{room}.")
) + [f"medfaith.{info.name}" for info in pkgutil.iter_modules(medfaith.__path__) if info.name != "__main__"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
