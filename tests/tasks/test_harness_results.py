"""`medfaith read-results` with result files of lmms-eval and VLMEvalKit: the figures are those of our own run."""

from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from medfaith.cli import main
from medfaith.tasks.harnesses import lmms_eval, results, vlmevalkit
from tests.support.builders.files import root_words
from tests.support.reporting.report_logs import rows_of, write_report
from tests.support.tasks.evaluating import ANSWERS, Says, evaluate, load
from tests.support.tiers import keep_quick

PRESENCE = "medfaith_contrabench_chexpert_presence"
COT = "medfaith_contrabench_cot::chexpert_absence"
PROMPT = "Model (prompt of VLMEvalKit)"
LETTERS = "medfaith_contrabench_letter_scores::chexpert_presence"
OPEN, CLOSED, VPT = (f"medfaith_heal_vindr_{name}" for name in ("open", "closed", "vpt"))


@pytest.fixture(scope="module")
def read_asked_rows(places, tmp_path_factory):
    """Returns the rows of a task as the command for lmms-eval writes them; it runs once for each task."""

    @functools.cache
    def read(task: str) -> Any:
        data, roots = places(task)
        folder = tmp_path_factory.mktemp("lmms") / "tasks"
        assert lmms_eval.main(["--task", task, "--data", str(data), *root_words(roots), "--out", str(folder)]) == 0
        rows: Any = datasets.load_from_disk(str(folder / "rows" / task.replace("::", "_")))
        return rows["test"].select_columns(["id", lmms_eval.TEXT]).to_list()

    return read


@pytest.fixture(scope="module")
def read_asked_table(places, tmp_path_factory):
    """Returns the rows of a task as the command for VLMEvalKit writes them; it runs once for each task."""

    @functools.cache
    def read(task: str) -> pd.DataFrame:
        data, roots = places(task)
        table = tmp_path_factory.mktemp("vlmevalkit") / "asked.tsv"
        arguments = [task, "--data", str(data), *root_words(roots), "--embed", "--out", str(table)]
        assert vlmevalkit.main(arguments) == 0
        return pd.read_csv(table, sep="\t").drop(columns="image")

    return read


@pytest.fixture
def write_samples(read_asked_rows, tmp_path):
    """Writes the sample log of lmms-eval for scripted answers; returns it and the answers by row id."""

    def write(task: str, **fields: Any) -> tuple[Path, dict[str, str]]:
        rows = read_asked_rows(task)
        answers = dict(zip((row["id"] for row in rows), itertools.cycle(ANSWERS)))
        path = tmp_path / f"20261128_101010_samples_{task.replace('::', '_')}.jsonl"
        # As EvaluationTracker.save_results_samples: without the row, and without resps equal to filtered_resps.
        lines = [
            {"doc_id": number, "target": "x", "filtered_resps": answers[row["id"]], "doc_hash": "0"}
            | {"input": row[lmms_eval.TEXT]}
            | fields
            for number, row in enumerate(rows)
        ]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return path, answers

    return write


@pytest.fixture
def write_predictions(read_asked_table, tmp_path):
    """Writes VLMEvalKit's prediction file for scripted answers; returns it and the answers by row id."""

    def write(task: str, suffix: str, **columns: Any) -> tuple[Path, dict[str, str]]:
        frame = read_asked_table(task)
        cycle = ["A", "B. No", "Answer: C", "(B)", "I see.", "The answer is A"]
        answers = dict(zip(frame["id"], itertools.cycle(cycle)))
        frame = frame.assign(prediction=list(answers.values()), **columns)
        path = tmp_path / f"Model_contrabench{suffix}"
        if suffix == ".xlsx":
            frame.to_excel(path, index=False)
        elif suffix == ".tsv":
            frame.to_csv(path, sep="\t", index=False, quoting=1)
        else:
            path.write_text(json.dumps(frame.to_dict("records")), encoding="utf-8")
        return path, answers

    return write


def read_results(file: Path, task: str, data: Path, out: Path, *options: str) -> int:
    arguments = ["--task", task, "--data", str(data), "--model", "Model", "--out", str(out), *options]
    return main(["read-results", str(file), *arguments])


def get_scores(run: Path) -> dict[str, float]:
    (path,) = run.glob("*/results_*.json")
    ((_, scores),) = json.loads(path.read_text(encoding="utf-8"))["results"].items()
    return {key: value for key, value in scores.items() if isinstance(value, float)}


def assert_scores_equal(run: Path, task: str, places, answer) -> None:
    data, roots = places(task)
    expected = evaluate(Says(answer), load([task.split("::", maxsplit=1)[0]], data, roots))[task]
    scores = {key.removesuffix(",none"): value for key, value in get_scores(run).items() if "stderr" not in key}
    assert len(scores) > 3
    for name, value in scores.items():
        assert value == expected["scores"][name] or (math.isnan(value) and math.isnan(expected["scores"][name]))


@pytest.mark.parametrize("task", keep_quick([PRESENCE, COT, CLOSED, OPEN, VPT], lambda task: task == VPT))
def test_the_figures_of_lmms_evals_answers_are_lm_evals(task, write_samples, places, tmp_path, capsys):
    file, answers = write_samples(task)
    assert read_results(file, task, places(task)[0], tmp_path / "run") == 0
    assert f"{len(answers):,} answers of Model" in capsys.readouterr().out
    # The whole group is asked, of which this task is one.
    assert_scores_equal(tmp_path / "run", task, places, lambda doc: answers.get(doc["id"], ""))
    assert "Model" in str(write_report([tmp_path / "run"]))


@pytest.mark.parametrize("suffix", keep_quick([".xlsx", ".tsv", ".json"], lambda suffix: suffix == ".xlsx"))
def test_the_figures_of_vlmevalkits_answers_are_lm_evals(suffix, write_predictions, places, tmp_path, capsys):
    file, answers = write_predictions(PRESENCE, suffix)
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 0
    assert f"{len(answers)} answers of {PROMPT}, written" in capsys.readouterr().out
    assert_scores_equal(tmp_path / "run", PRESENCE, places, lambda doc: answers[doc["id"]])
    (row,) = rows_of(write_report([tmp_path / "run"]), "Table 9")
    assert row[0] == PROMPT  # tables do not mix it with answers to our prompt


def test_an_answer_of_a_workbook_that_looks_like_a_formula_is_read(tmp_path):
    pd.DataFrame({"prediction": ["=A", "=1+1", "B"]}).to_excel(path := tmp_path / "a.xlsx", index=False)
    assert [record["prediction"] for record in results._read_records(path)] == ["=A", "=1+1", "B"]


@pytest.mark.full  # eval of all questions
def test_letters_of_yes_and_no_become_words(write_predictions, places, tmp_path):
    """VLMEvalKit asks for a letter where our task asks for Yes or No."""
    meanings = {"A": "Yes", "B. No": "No", "(B)": "No", "The answer is A": "Yes"}
    file, answers = write_predictions(VPT, ".tsv")
    assert read_results(file, VPT, places(VPT)[0], tmp_path / "run") == 0
    assert_scores_equal(tmp_path / "run", VPT, places, lambda doc: meanings.get(text := answers[doc["id"]], text))


def test_rows_without_an_answer_are_counted(write_predictions, places, tmp_path, capsys):
    file, answers = write_predictions(PRESENCE, ".tsv")
    lines = file.read_text(encoding="utf-8").splitlines()
    n, failed = len(answers), "Failed to obtain answer via API."
    lines[1] = lines[1].replace('"A"', f'"{failed}"') if lines[1].endswith('"A"') else lines[1]
    file.write_text("\n".join([lines[0], *lines[1:6]]), encoding="utf-8")
    frame = pd.read_csv(file, sep="\t")
    frame.loc[0, "prediction"] = failed
    frame.to_csv(file, sep="\t", index=False)
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 0
    printed = capsys.readouterr().out
    assert f"{n - 5:,} of {n:,} rows have no answer" in printed
    assert "1 answers failed in VLMEvalKit" in printed
    (log,) = (tmp_path / "run").glob("*/samples_*.jsonl")
    docs = [json.loads(line)["doc"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert {doc["id"] for doc in docs if doc["answer_outcome"] == "unanswered"} == {frame["id"][0]}
    assert len({doc["id"] for doc in docs}) == 5


def test_lmms_evals_answers_to_other_questions_are_refused(write_samples, places, tmp_path, capsys):
    file, _ = write_samples(PRESENCE, input="Which of the following is absent?")
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert "row 1: has the input 'Which of the following is absent?'" in error
    assert "--data" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(question="Which is absent?"), "row 1: has the question"),
        (lambda frame: frame.assign(A=frame["B"], B=frame["A"]), "row 1: has the A"),
        (lambda frame: frame.assign(answer="C"), "has the answer"),
        (lambda frame: frame.assign(id="openi/1"), "the task has no row openi/1"),
        (lambda frame: pd.concat([frame, frame.head(1)]), "again"),
        (lambda frame: frame.drop(columns="prediction"), "row 1: lacks prediction"),
        (lambda frame: frame.head(0), "holds no answers"),
    ],
)
def test_vlmevalkits_answers_to_other_questions_are_refused(
    change, message, write_predictions, places, tmp_path, capsys
):
    file, _ = write_predictions(PRESENCE, ".tsv")
    change(pd.read_csv(file, sep="\t")).to_csv(file, sep="\t", index=False)
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "harness", "record"),
    [
        ("a.jsonl", results.LMMS_EVAL, {"doc_id": 0, "input": "?", "filtered_resps": ["A \ud83d"]}),
        ("a.json", results.VLMEVALKIT, {"id": "a", "question": "?", "answer": "A", "prediction": "A \ud83d"}),
    ],
)
def test_half_a_character_of_an_answer_is_replaced(name, harness, record, tmp_path):
    (tmp_path / name).write_text(json.dumps(record if harness == results.LMMS_EVAL else [record]), encoding="utf-8")
    (answer,) = results.read_answers(tmp_path / name, harness)
    assert answer.text == "A \ufffd"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{", "row 1"),
        ("a.jsonl", "[1]", "row 1"),
        ("a.jsonl", '{"doc_id": 0}', "row 1: lacks 'filtered_resps'"),
        ("a.jsonl", '{"doc_id": 0, "filtered_resps": [1, 2]}', "row 1: has filtered_resps [1, 2]"),
        ("a.jsonl", '{"doc_id": 0, "filtered_resps": "A"}', "row 1: holds neither the row nor its input"),
        ("a.jsonl", '{"doc_id": 1e400, "filtered_resps": "A", "input": "?"}', "row 1: has doc_id inf"),
        ("a.jsonl", '{"doc_id": 0.5, "filtered_resps": "A", "input": "?"}', "row 1: has doc_id 0.5"),
        ("a.jsonl", '{"doc_id": 10000, "filtered_resps": "A", "input": "?"}', "no row 10000"),
        ("a.jsonl", "", "holds no answers"),
        ("a.json", "[1]", "is no list of objects"),
        ("a.json", "[", "cannot be read as JSON"),
        ("a.xlsx", "no workbook", "cannot be read"),
        ("a.tsv", "id\tquestion\n1\t2\t3\t4\n5\n6\t7\t8\t9\t10", "a.tsv"),
        ("missing.xlsx", None, "missing.xlsx: there is no such file"),
    ],
)
def test_a_broken_file_is_refused(name, content, message, places, tmp_path, capsys):
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", PRESENCE, "--model", "Model"], "--data"),
        (["--task", PRESENCE, "--data", "BUILD"], "--model"),
        (["--task", LETTERS, "--data", "BUILD", "--model", "Model"], "more than answers"),
    ],
)
def test_what_is_needed_is_named(options, message, places, tmp_path, capsys):
    file = tmp_path / "a.jsonl"
    file.write_text('{"doc_id": 0, "filtered_resps": "A"}')
    arguments = [str(places(PRESENCE)[0]) if word == "BUILD" else word for word in options]
    assert main(["read-results", str(file), *arguments, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err


def test_openpyxl_is_named_where_it_is_missing(write_predictions, places, tmp_path, capsys, monkeypatch):
    file, _ = write_predictions(PRESENCE, ".xlsx")
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    assert read_results(file, PRESENCE, places(PRESENCE)[0], tmp_path / "run") == 2
    assert "uv pip install openpyxl" in capsys.readouterr().err
