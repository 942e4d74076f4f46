"""Session fixture with one phantom of every source, for all tests of the readers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medfaith.loaders import phantom
from tests.support.loaders.damage import MANY


@pytest.fixture(scope="session")
def written(
    phantom_roots: dict[str, Path],
    phantom_items_roots: dict[str, Path],
    phantom_chexlocalize_roots: dict[str, Path],
    phantom_heal_roots: dict[str, Path],
    phantom_nih_roots: dict[str, Path],
    phantom_own_roots: dict[str, Path],
    phantom_surgx_roots: dict[str, Path],
    phantom_wrong_lung_roots: dict[str, Path],
    once: Callable[[str, Callable[[Path], Any]], Path],
) -> dict[str, Path]:
    """Root folders of all phantoms (seed 0) by source id. Tests only read them."""
    roots = phantom_wrong_lung_roots | phantom_surgx_roots | phantom_heal_roots | phantom_items_roots | phantom_roots
    roots |= phantom_chexlocalize_roots | phantom_nih_roots | phantom_own_roots
    source_names = [name for name in phantom.SOURCES if name not in roots]
    rest = once("phantom-rest", lambda folder: phantom.write(folder, seed=0, sources=source_names))
    return roots | {name: rest / name for name in source_names}


@pytest.fixture(scope="module")
def copied(written: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of every source with one image and at most three reports or boxes for each image."""
    folder = tmp_path_factory.mktemp("damaged")
    for name, root in written.items():
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        for most, many in MANY:
            left_out = [path for path in files if many(path)][most:]
            files = [path for path in files if path not in left_out]
        for path in files:
            copy = folder / name / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return {name: folder / name for name in written}
