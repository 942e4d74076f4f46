"""Rows of CheXlocalize from the command line: verify, audit with a verdict on the place, report, publish."""

from __future__ import annotations

import csv
import shutil

import pytest

from medfaith.cli import main

pytestmark = pytest.mark.usefixtures("tables_alone")

NAME = "cxr-contrabench-chexlocalize"
EDITS = [f"{kind}{place}" for kind in ("occluded", "transplanted") for place in ("", "_elsewhere")]


@pytest.mark.full  # two more audits
@pytest.mark.usefixtures("png_only")
@pytest.mark.parametrize(("model", "place"), [("looks", "depends"), ("looks_elsewhere", "elsewhere")])
def test_the_verdict_on_the_place(model, place, phantom_chexlocalize_build, phantom_chexlocalize_roots, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(phantom_chexlocalize_build / NAME, data / NAME)
    root = f"chexlocalize={phantom_chexlocalize_roots['chexlocalize']}"
    out = tmp_path / "audit"
    arguments = ["--data", str(data), "--root", root, "--benchmarks", "cxr-contrabench", "--model", model]
    assert main(["audit", *arguments, "--limit", "20", "--controls", "none", "other", *EDITS, "--out", str(out)]) == 0
    (verdict,) = csv.DictReader((out / "audit.csv").read_text(encoding="utf-8").splitlines())
    assert (verdict["uses_image"], verdict["depends_on_place"]) == ("uses", place), verdict
    assert (out / "report.html").is_file()
    assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert "CheXlocalize" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")


def test_the_rows_are_sound_and_published_as_a_recipe(phantom_chexlocalize_build, capsys):
    assert main(["verify", str(phantom_chexlocalize_build)]) == 0
    assert main(["publish", str(phantom_chexlocalize_build), "--org", "someone", "--dry-run", "--few-studies"]) == 0
    out = capsys.readouterr().out
    assert "patient64" not in out
    assert "manifest" in out
