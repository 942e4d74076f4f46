"""Odd folders of every source: nested, linked, doubled, renamed or packed. No label of them is lost in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medfaith.builders import cxr_contrabench
from medfaith.loaders import layouts
from medfaith.loaders.errors import InputError
from tests.support.loaders.odd_folders import COUNTERS, iterate_odd_folders, nest
from tests.support.tiers import keep_quick

SLOW = ("cholect45", "chexlocalize", "chest_imagenome")  # test_damage.py damages a file of each


@pytest.mark.parametrize("source_id", keep_quick(COUNTERS, lambda source_id: source_id not in SLOW))
def test_no_label_of_an_odd_folder_is_lost_in_silence(copied: dict[str, Path], tmp_path: Path, source_id: str):
    """Each folder has all labels: the reader finds all of them, or names the file or folder that it cannot use."""
    count = COUNTERS[source_id]
    counts = count(copied[source_id])
    assert all(counts.values())
    lost, n_read = {}, 0
    for name, root in iterate_odd_folders(copied[source_id], tmp_path):
        try:
            layouts.check_root(source_id, root)
            odd_counts = count(root)
        except InputError:
            continue
        n_read += odd_counts == counts
        if odd_counts != counts:
            lost[name] = odd_counts
    assert lost == {}
    assert n_read >= 3


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("source_id", ["chexpert", "chexlocalize", "rexvqa"])
def test_a_build_names_the_folder_of_a_copy_that_is_deeper(copied: dict[str, Path], tmp_path: Path, source_id, depth):
    root = nest(copied[source_id], tmp_path / "root", depth)
    folder = root.joinpath(*["download"] * depth)
    with pytest.raises(InputError, match=f"--root {source_id}={re.escape(str(folder))}$"):
        cxr_contrabench.build({source_id: root}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
