"""Session fixture with one phantom of every source, for all tests of the readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from medfaith.loaders import phantom


@pytest.fixture(scope="session")
def written(
    phantom_roots: dict[str, Path],
    phantom_item_roots: dict[str, Path],
    phantom_heal_roots: dict[str, Path],
    phantom_surgx_roots: dict[str, Path],
    phantom_wrong_lung_roots: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Root folders of all phantoms (seed 0) by source id. Tests only read them."""
    roots = phantom_wrong_lung_roots | phantom_surgx_roots | phantom_heal_roots | phantom_item_roots | phantom_roots
    source_names = [name for name in phantom.SOURCES if name not in roots]
    return roots | phantom.write(tmp_path_factory.mktemp("phantom-rest"), seed=0, sources=source_names)
