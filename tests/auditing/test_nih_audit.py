"""HEAL-MedVQA on synthetic ChestX-ray14 through the command line: build, verify, audit, report, publish."""

from __future__ import annotations

import re

import pytest

from medfaith.cli import main
from medfaith.reporting.answers import find_patient
from medfaith.tasks.heal.rows import facts
from tests.support.builders.files import root_words

pytestmark = pytest.mark.usefixtures("tables_alone")

CONTROLS = ("none", "other", "occluded", "occluded_elsewhere", "transplanted", "transplanted_elsewhere")
VERDICTS = {"oracle": ("no", "cannot be told"), "looks": ("yes", "yes")}  # too few patients for a no of the place


@pytest.mark.full  # test_audit.py audits HEAL-MedVQA, tests/builders/test_heal_nih.py has the rows of NIH ChestX-ray14
@pytest.mark.parametrize("model", ["oracle", "looks"])
def test_the_verdict_on_a_reference_model_is_right(model, phantom_nih_build, phantom_nih_roots, tmp_path, capsys):
    arguments = ["--data", str(phantom_nih_build), *root_words(phantom_nih_roots), "--benchmarks", "heal-medvqa"]
    arguments += ["--limit", "80", "--controls", *CONTROLS]
    assert main(["audit", *arguments, "--model", model, "--out", str(tmp_path / "audit")]) == 0
    (row,) = [re.split("  +", line) for line in capsys.readouterr().out.splitlines() if line.startswith("HEAL-MedVQA ")]
    assert tuple(row[-2:]) == VERDICTS[model]
    assert main(["report", str(tmp_path / "audit"), "--markdown"]) == 0
    report = capsys.readouterr().out
    assert "| Model | NIH yes/no F1" in report
    assert re.search(rf"^\| {model} \| NIH \| open-ended \|", report, re.MULTILINE)


@pytest.mark.full  # each step: tests/cards, tests/builders
def test_a_build_from_the_command_line_is_verified_and_may_be_published(
    phantom_nih_roots, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["build", "heal-medvqa", *root_words(phantom_nih_roots), "--out", str(tmp_path)]) == 0
    assert "1 images whose masks CheXmask rates as poor" in capsys.readouterr().out
    assert main(["verify", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert len(re.findall(r"^nih\w* +test .* sound", printed, re.MULTILINE)) == 3
    assert main(["publish", str(tmp_path), "--org", "acme", "--dry-run", "--few-studies"]) == 0
    printed = capsys.readouterr().out
    assert "acme/heal-medvqa-nih_cxr14 (dataset, published as rows)" in printed
    assert "nih_vpt/test-00000-of-00001.parquet" in printed


def test_images_of_one_patient_are_one_group():
    """Another image of the patient is no donor of `other`, and intervals draw patients."""
    keys = ("images/00000013_004.png", "00000013_011.png", "00000014_000.png")
    doc = {
        "question_type": "closed",
        "anatomy": "heart",
        "topic": "heart/Mass",
        "diseases": ["Mass"],
        "id": "nih/test/x",
    }
    doc |= {"options": ["Yes", "No"], "answer": 0, "negated": 1}
    references = [{"source": "nih_cxr14", "key": key, "view": ""} for key in keys]
    donors = [facts(doc | {"images": [reference]}).patient for reference in references]
    assert donors == [find_patient(key) for key in keys] == ["00000013", "00000013", "00000014"]
