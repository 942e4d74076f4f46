"""`medfaith build heal-medvqa` and `medfaith verify` as a user runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medfaith.cli import main

PROBLEMS = {"FAULTY", "DIFFERS"}


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def build(roots: dict[str, Path], *arguments: str) -> list[str]:
    given = [part for name, root in roots.items() for part in ("--root", f"{name}={root}")]
    return ["build", "heal-medvqa", *given, *arguments]


def of(roots: dict[str, Path], prefix: str) -> dict[str, Path]:
    return {name: root for name, root in roots.items() if name.startswith(prefix)}


def test_build_and_verify_print_verdicts_and_what_was_left_out(phantom_heal_roots, tmp_path, capsys):
    out = tmp_path / "data"
    assert main(build(phantom_heal_roots, "--out", str(out), "--workers", "2")) == 0
    printed = capsys.readouterr().out
    for config in ("vindr", "vindr_tpt", "vindr_vpt", "mimic", "mimic_tpt", "mimic_vpt"):
        assert sum(line.split()[:2] == [config, "test"] or config in line.split() for line in printed.splitlines()) >= 2
    assert "heal-medvqa-vindr_cxr: left out, or counted: 1 empty mask: trachea\n" in printed
    assert "heal-medvqa-mimic_cxr: left out, or counted: 1 studies without a report\n" in printed
    assert printed.endswith(f"written to {out}\n")
    assert main(["verify", str(out)]) == 0
    again = capsys.readouterr().out
    assert not [word for word in PROBLEMS if word in printed + again]
    record = json.loads((out / "heal-medvqa-mimic_cxr" / "build.json").read_text())
    assert str(tmp_path) not in json.dumps(record)
    assert record["arguments"]["views"] == ["AP", "PA"]


def test_verify_takes_a_folder_with_both_benchmarks(phantom_build, phantom_heal_build, tmp_path, capsys):
    for folder in (phantom_build, phantom_heal_build):
        shutil.copytree(folder, tmp_path / "data", dirs_exist_ok=True)
    assert main(["verify", str(tmp_path / "data")]) == 0
    printed = capsys.readouterr().out
    for config in ("chexpert_presence", "openi_report_absence", "vindr_tpt", "mimic_vpt"):
        assert config in printed
    part = next((tmp_path / "data").glob("heal-medvqa-vindr_cxr/vindr_vpt/test-*.parquet"))
    part.write_bytes(b"PAR1")
    assert main(["verify", str(tmp_path / "data")]) == 2
    assert "is no readable Parquet" in capsys.readouterr().err


def test_every_option_reaches_the_build(phantom_heal_roots, tmp_path):
    options = [
        "--measure",
        "box",
        "--threshold",
        "0.3",
        "--places",
        "anatomical",
        "--anatomy",
        "heart",
        "--anatomy",
        "left lower lung",
    ]
    more = ["--view", "AP", "--labeler", "negbio", "--detection-threshold", "0.1", "--agreement", "any", "--seed", "4"]
    assert main(build(phantom_heal_roots, "--config", "mimic", "--out", str(tmp_path), *options, *more)) == 0
    record = json.loads((tmp_path / "heal-medvqa-mimic_cxr" / "build.json").read_text())
    assert record["seed"] == 4
    assert record["arguments"] == {
        "measure": "box",
        "threshold": 0.3,
        "places": "anatomical",
        "agreement": "any",
        "anatomies": ["heart", "left lower lung"],
        "views": ["AP"],
        "labeler": "negbio",
        "detection_threshold": 0.1,
    }
    assert not (tmp_path / "heal-medvqa-vindr_cxr").exists()


def _rewrite(path: Path, change) -> None:
    path.write_text(change(path.read_text()))


BAD_INPUT = {
    "an unknown class": (
        "vindr_cxr",
        lambda root: _rewrite(
            root / "annotations" / "annotations_test.csv", lambda t: t.replace("Cardiomegaly", "Gout")
        ),
        ["annotations_test.csv", "row", "'class_name'", "Gout"],
    ),
    "a mask that is no RLE": (
        "vindr_cxr_anatomy",
        lambda root: _rewrite(root / "anatomy.json", lambda t: t.replace('"counts": "', '"counts": "0', 1)),
        ["anatomy.json", "row 1 of annotations", "what to do"],
    ),
    "a COCO file cut short": (
        "vindr_cxr_anatomy",
        lambda root: _rewrite(root / "anatomy.json", lambda t: t[: len(t) // 2]),
        ["anatomy.json", "what to do"],
    ),
    "no masks": ("vindr_cxr_anatomy", lambda root: (root / "anatomy.json").unlink(), ["holds no masks", "*.json"]),
}


@pytest.mark.parametrize("fault", BAD_INPUT)
def test_bad_input_is_explained_with_status_2_and_nothing_is_written(fault, phantom_heal_roots, tmp_path, capsys):
    source_id, damage, words = BAD_INPUT[fault]
    roots = of(phantom_heal_roots, "vindr")
    shutil.copytree(roots[source_id], tmp_path / source_id)
    damage(tmp_path / source_id)
    out = tmp_path / "out"
    assert main(build(roots | {source_id: tmp_path / source_id}, "--out", str(out))) == 2
    error = capsys.readouterr().err
    for word in ["medfaith: ", *words]:
        assert word in error
    assert "Traceback" not in error
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["needs all sources of one of its configs", "how to get it", "vindr_cxr_anatomy"]),
        (["--config", "vindr"], ["--root vindr_cxr=PATH"]),
        (["--config", "nothing"], ["--config nothing", "vindr, mimic"]),
        (["--measure", "dice"], ["--measure dice", "iou, box"]),
        (["--threshold", "7"], ["--threshold 7.0", "from 0 to 1"]),
        (["--root", "vindr_cxr=absent"], ["absent does not exist"]),
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "heal-medvqa", *arguments]) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--anatomy", "spleen"], ["spleen", "trachea"]), (["--view", "XY"], ["--view XY"])]
)
def test_an_anatomy_or_a_view_that_there_is_not(phantom_heal_roots, tmp_path, capsys, arguments, words):
    out = tmp_path / "out"
    assert main(build(of(phantom_heal_roots, "mimic"), *arguments, "--out", str(out))) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error
    assert not out.exists()


def test_help_names_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["build", "heal-medvqa", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "--measure",
        "iou (as published), or box",
        "--threshold THRESHOLD lowest measure of a relation (default: 0.05)",
        "majority, any or all",
        "--anatomy A",
        "(default: AP, PA)",
        "chexpert or negbio",
        "lowest score (default: 0.25)",
        "--seed SEED chooses questions, swaps and donors (default: 0)",
    ):
        assert words in text


def test_no_progress_bar_in_a_pipe(phantom_heal_roots, tmp_path):
    command = [sys.executable, "-m", "medfaith", *build(of(phantom_heal_roots, "vindr"), "--out", str(tmp_path / "x"))]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
