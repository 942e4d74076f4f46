"""`verify` reports rows of one's own questions that were changed after the build."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from medfaith.loaders import rle
from tests.support.builders.files import forge, problems

FORGED = {
    "an id twice": (lambda rows: rows[1].update(id=rows[0]["id"]), "1 rows have the id of another row"),
    "a key": (lambda rows: rows[0]["images"][0].update(key="/a.png"), "is not a path below the source's root"),
    "no image": (lambda rows: rows[0].update(images=[]), "it has no image"),
    "no patient": (lambda rows: rows[0].update(patient_id=""), "it has no question or no patient"),
    "a kind": (lambda rows: rows[0].update(kind="closed"), "kind 'closed'"),
    "an answer": (lambda rows: rows[0].update(answer=2), "and the answer 2"),
    "a gold answer": (lambda rows: rows[0].update(gold=["Yes", "No"]), "(['Yes', 'No'])"),
    "a mask": (
        lambda rows: rows[0].update(region=dict(rle.encode(np.ones((3, 3), dtype=bool)))),
        "region: mask of [3, 3]",
    ),
    "boxes": (lambda rows: rows[0].update(boxes=[{"label": "x", "xywh": [0, 0, 1, 1]}]), "boxes without a region"),
    "a box": (lambda rows: rows[0].update(boxes=[{"label": "x", "xywh": [-9, 0, 1, 1]}]), "is not inside of the image"),
    "three numbers": (lambda rows: rows[0].update(boxes=[{"label": "x", "xywh": [0, 0, 1]}]), "expected 4 numbers"),
}


@pytest.mark.parametrize("name", FORGED)
def test_verify_reports_forged_rows(name, phantom_own_build, tmp_path):
    change, message = FORGED[name]
    folder = Path(shutil.copytree(phantom_own_build / "own-table", tmp_path / "own-table"))
    forge(folder, "rows", change)
    assert any(message in problem for problem in problems(folder)["rows", "test"])
