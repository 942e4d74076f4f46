"""`medfaith read-results`: results files of CXR-ContraBench's released code become runs with the same figures."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from tests.support.reporting.report_logs import answered, rows_of, write_log, write_report

TASK = "medfaith_contrabench_chexpert_presence"
GOOD = {
    "sample_id": "s1",
    "study_id": "patient00001/study1",
    "question": "Which of the following findings is present on this chest X-ray study?",
    "options": ["A. Edema", "B. Atelectasis", "C. No edema"],
    "gold_letter": "A",
    "pred_letter": "C",
    "exact_match": False,
}


def make_record(doc: dict[str, Any], letter: str, *, is_verified: bool = False) -> dict[str, Any]:
    """Build the record that the authors' code writes for an answer, before or after its verifier."""
    gold = string.ascii_uppercase[doc["answer"]]
    record = {
        "sample_id": doc["id"],
        "study_id": doc["study_id"],
        "question": doc["question"],
        "options": [f"{letter}. {option}" for letter, option in zip("ABC", doc["options"], strict=False)],
        "gold_letter": gold,
        "pred_letter": letter,
        "exact_match": letter == gold,
        "metadata": {"task_name": "presence_probe"},
    }
    if not is_verified:
        return record
    is_repaired = doc["polarity"] == "presence" and letter == string.ascii_uppercase[doc["negated"]]
    verified = {"pred_letter": gold if is_repaired else letter, "verifier_applied": is_repaired}
    return record | verified | {"b0_pred_letter": letter, "b0_exact_match": letter == gold}


def write_results(path: Path, records: Any, **summary: Any) -> Path:
    path.write_text(json.dumps({"summary": {"model": "MedGemma"} | summary, "records": records}), encoding="utf-8")
    return path


@pytest.mark.parametrize("is_verified", [False, True])
@pytest.mark.parametrize("protocol", ["chexpert_presence", "chexpert_absence"])
def test_the_figures_are_those_of_the_same_answers_in_our_log(tmp_path, capsys, protocol, is_verified):
    answers = [(doc, text.strip("()")[:1]) for doc, text in answered(protocol, 40, 12, 20)]
    records = [make_record(doc, letter, is_verified=is_verified) for doc, letter in answers]
    file = write_results(tmp_path / "results.json", records)
    task = f"medfaith_contrabench_{protocol}"
    assert main(["read-results", str(file), "--task", task, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "exact_match: 0 of 40 records differ" in printed
    n_absence = 20 if protocol.endswith("absence") else 0
    assert (f"differ: 0 of presence questions, {n_absence} of absence questions" in printed) is is_verified
    write_log(tmp_path / "own", "MedGemma", answers)
    theirs, ours = (write_report([tmp_path / name]) for name in ("run", "own"))
    assert rows_of(theirs, "Table 9")[0] == rows_of(ours, "Table 9")[0]
    assert [row[4] for row in rows_of(theirs, "Runs")] == ["authors"]


def test_a_letter_of_no_option_is_wrong_and_unread(tmp_path):
    records = [GOOD, GOOD | {"sample_id": "s2", "pred_letter": "E"}, GOOD | {"sample_id": "s3", "pred_letter": None}]
    file = write_results(tmp_path / "results.json", records)
    assert main(["read-results", str(file), "--task", TASK, "--model", "other", "--out", str(tmp_path / "run")]) == 0
    (row,) = rows_of(write_report([tmp_path / "run"]), "Table 9")
    assert (row[0], row[2], row[6]) == ("other", "0.00", "66.67")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "--data"),
        ('{"records": []}', "holds no records"),
        ("{", "results.json"),
        ([GOOD, GOOD | {"sample_id": ""}], "row 2: has no sample_id"),
        ([GOOD, GOOD], "'s1' is in it twice"),
        ([GOOD | {"options": "A. Edema"}], "row 1: options"),
        ([GOOD | {"options": ["Edema"]}], "row 1: options"),
        ([GOOD | {"gold_letter": "D"}], "row 1: gold_letter"),
        ([GOOD | {"question": "Where is it?"}], "row 1: the question 'Where is it.' asks neither"),
        ([GOOD | {"options": ["No edema", "No fracture", "Edema"]}], "row 1: 2 options deny"),
        ([5], "row 1"),
    ],
)
def test_a_broken_file_is_refused_by_record(tmp_path, capsys, content, message):
    path = tmp_path / "results.json"
    if isinstance(content, str):
        path.write_text(content)
    else:
        write_results(path, content)
    assert main(["read-results", str(path), "--task", TASK, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err.replace("?", ".")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("medfaith_heal_vindr_closed", "results.json: is no result file of a harness"),
        ("medfaith_contrabench", "names .* tasks"),
        ("medfaith_contrabench_chexpert_presense", "did you mean"),
    ],
)
def test_a_task_without_such_files_is_refused(tmp_path, capsys, task, message):
    file = write_results(tmp_path / "results.json", [GOOD])
    assert main(["read-results", str(file), "--task", task, "--out", str(tmp_path / "run")]) == 2
    assert message.split(" .*")[0] in capsys.readouterr().err


def test_a_model_without_a_name_is_refused(tmp_path, capsys):
    file = write_results(tmp_path / "results.json", [GOOD], model="")
    assert main(["read-results", str(file), "--task", TASK, "--out", str(tmp_path / "run")]) == 2
    assert "--model" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mine.txt", "run"])
def test_nothing_of_the_users_is_replaced(tmp_path, capsys, name):
    """The folder of a file, and a file in the place of the folder."""
    file = write_results(tmp_path / "results.json", [GOOD])
    out = tmp_path / "run"
    path = out / name if name != out.name else out
    path.parent.mkdir(exist_ok=True)
    path.write_text("kept")
    assert main(["read-results", str(file), "--task", TASK, "--out", str(out)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert path.read_text() == "kept"


def test_a_run_of_the_same_folder_is_replaced(tmp_path):
    for model in ("a", "b"):
        file = write_results(tmp_path / "results.json", [GOOD], model=model)
        assert main(["read-results", str(file), "--task", TASK, "--out", str(tmp_path / "run")]) == 0
    assert [row[0] for row in rows_of(write_report([tmp_path / "run"]), "Table 9")] == ["b"]
