"""One phantom of every source for all tests of the readers."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def written(
    phantom_roots: dict[str, Path],
    phantom_item_roots: dict[str, Path],
    phantom_heal_roots: dict[str, Path],
    phantom_surgx_roots: dict[str, Path],
    phantom_wrong_lung_roots: dict[str, Path],
) -> dict[str, Path]:
    """Every source of seed 0, by its id. Tests only read it."""
    return phantom_wrong_lung_roots | phantom_surgx_roots | phantom_heal_roots | phantom_roots | phantom_item_roots
