"""Shared fixtures of the audit tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.tiers import choose_size


@pytest.fixture(scope="session", autouse=True)
def quick_commands(quick_lm_eval: None) -> None:
    """Run all commands of this folder with `quick_lm_eval`."""


@pytest.fixture(scope="session")
def audited_build(phantom_heal_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HEAL-MedVQA without MIMIC-CXR in the regular run, where an audit would otherwise load more tasks than it asks."""
    (data := tmp_path_factory.mktemp("audited")).rmdir()
    return Path(shutil.copytree(phantom_heal_build, data, ignore=choose_size(shutil.ignore_patterns("*mimic*"), None)))
