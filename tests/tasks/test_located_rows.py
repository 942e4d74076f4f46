"""Controls of CXR-ContraBench's rows with regions: edited pixels, donors of tissue, and masks in logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from PIL import Image

from medfaith.builders.cxr_contrabench.chexpert import FINDINGS, TARGETS
from medfaith.loaders import chexpert, rle
from medfaith.loaders.errors import ImageError
from medfaith.tasks.contrabench import rows as contrabench
from medfaith.tasks.controls import REGIONS, TARGET, UnsupportedControlError
from medfaith.tasks.controls.donors import DONOR
from medfaith.tasks.controls.rows import controlled
from tests.support.builders.files import rows_of
from tests.support.tiers import keep_quick

NAME, CONFIG = "cxr-contrabench-chexlocalize", "chexlocalize_positive_only"


def load(data: Path, roots: dict[str, Path], **options: Any) -> dict[str, dict[str, Any]]:
    places = {name: str(root) for name, root in roots.items()}
    arguments = {"config": CONFIG, "split": "validation", "data": str(data), "roots": places, **options}
    docs: Any = contrabench.load(NAME, **arguments)["test"]
    return {doc["id"]: doc for doc in docs}


@pytest.mark.parametrize(
    "control",
    keep_quick(
        [name for name in REGIONS if not name.startswith("transplanted")], lambda name: name.startswith("occluded")
    ),
)
def test_an_edit_changes_its_place(control, phantom_chexlocalize_build, phantom_chexlocalize_roots):
    plain = load(phantom_chexlocalize_build, phantom_chexlocalize_roots)
    docs = load(phantom_chexlocalize_build, phantom_chexlocalize_roots, control=control)
    regions = {row["id"]: row["region"] for row in rows_of(phantom_chexlocalize_build / NAME, CONFIG, "validation")}
    assert len(docs) > 30
    for row_id, doc in [*docs.items()][:12]:
        mask = rle.decode(regions[row_id])
        before, after = (np.asarray(row["images"][0].convert("RGB"), int) for row in (plain[row_id], doc))
        is_changed = (before != after).any(axis=2)
        if control == "only_target":
            assert not is_changed[mask].any()
            assert len(np.unique(after[~mask], axis=0)) == 1
        elif control.endswith("_elsewhere"):
            assert is_changed.any()
            assert is_changed[mask].mean() < 0.1, "an edit may fade a little beyond its place"
        else:
            assert is_changed[mask].mean() > 0.5
            assert is_changed[mask].mean() > is_changed[~mask].mean()


def test_a_resized_image_is_refused_before_the_first_answer(
    phantom_chexlocalize_build, phantom_chexlocalize_roots, tmp_path
):
    row = rows_of(phantom_chexlocalize_build / NAME, CONFIG, "validation")[-1]
    key = row["images"][0]["key"]
    roots = phantom_chexlocalize_roots | {"chexlocalize": tmp_path}
    for each in rows_of(phantom_chexlocalize_build / NAME, CONFIG, "validation"):
        path = tmp_path / each["images"][0]["key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (each["width"], each["height"])
        Image.new("L", (10, 10) if path == tmp_path / key else size).save(path)
    assert load(phantom_chexlocalize_build, roots)  # plain questions can be asked
    for control in ("occluded", "transplanted@50"):
        with pytest.raises(ImageError, match=f"image '{key}' .*: 10 x 10 pixels; expected {row['width']} x"):
            load(phantom_chexlocalize_build, roots, control=control)


def test_a_log_has_no_mask(phantom_chexlocalize_build, phantom_chexlocalize_roots):
    for doc in load(phantom_chexlocalize_build, phantom_chexlocalize_roots, control="occluded").values():
        assert TARGET not in doc
        assert str(doc["region"]) == "a mask"
        assert doc["region"]["size"] == [doc["height"], doc["width"]]


def test_tissue_comes_from_a_study_without_the_finding(phantom_chexlocalize_build, phantom_chexlocalize_roots):
    root = phantom_chexlocalize_roots["chexlocalize"]
    label_path = chexpert.label_file(root, "test")
    assert label_path is not None
    labels = {row["key"]: row for row in chexpert.read_labels(label_path, "test").to_pylist()}
    rows = Dataset.from_list(
        [row | {TARGET: row["region"]} for row in rows_of(phantom_chexlocalize_build / NAME, CONFIG)]
    )
    changed: Any = controlled(rows, "transplanted", contrabench.facts)
    assert len(changed) > 60
    findings = set()
    for row in changed:
        donor = labels[row[DONOR]["image"]["key"]]
        assert donor[TARGETS[row["finding"]]] == 0
        assert donor["study_id"].split("/")[0] != row["study_id"].split("/")[0]
        findings.add(row["finding"])
    assert findings == {*FINDINGS}


def test_rows_without_a_region_have_no_such_control(phantom_build, phantom_chexlocalize_build):
    plain = {"config": "chexpert_presence", "split": "validation", "data": str(phantom_build)}
    with pytest.raises(UnsupportedControlError, match="do not say where"):
        contrabench.load("cxr-contrabench-chexpert", control="occluded", **plain)
    with pytest.raises(UnsupportedControlError, match="ask about no side"):
        load(phantom_chexlocalize_build, {}, control="flipped")
