"""Shared fixtures of the audit tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def quick_commands(quick_lm_eval: None) -> None:
    """Run all commands of this folder with `quick_lm_eval`."""
