"""`medfaith audit`: selected rows, resumed runs, and refused input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from medfaith.auditing import figures, run
from medfaith.auditing.plan import Task, plan
from medfaith.auditing.run import ask, folder, read_earlier_tasks
from medfaith.cli import main
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.row_ids import read_ids
from medfaith.tasks.models.answer_counts import count
from medfaith.tasks.run import Model
from tests.support.auditing.same_answers import CLOSED
from tests.support.reporting.heal_logs import question, write_heal
from tests.support.reporting.report_logs import csv_rows
from tests.support.tasks.evaluating import Says, load
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("tables_alone")

OPEN, TPT = (f"medfaith_heal_vindr_{ask}" for ask in ("open", "tpt"))
# Of `finished_audit`: five of two tasks of VinDr-CXR, and of two of MIMIC-CXR.
N_CONDITIONS = choose_size(10, 20)


@pytest.fixture(scope="module")
def finished_audit(audited_build, phantom_heal_roots, tmp_path_factory):
    """Arguments and folder of a finished audit of a blind model."""
    out = tmp_path_factory.mktemp("audit") / "out"
    roots = [argument for name, root in phantom_heal_roots.items() for argument in ("--root", f"{name}={root}")]
    arguments = [
        *("audit", "--data", str(audited_build), *roots, "--model", "question_prior", "--limit", "15"),
        *("--controls", "none", "noise", "other", "occluded", "--out", str(out), "--benchmarks", "heal-medvqa"),
    ]
    assert main(arguments) == 0
    return arguments, out


def read_docs(out: Path, task: str, control: str) -> list[dict]:
    (path,) = (out / "logs" / task / control).rglob("samples_*.jsonl")
    return [json.loads(line)["doc"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_controls_ask_the_same_rows_in_the_same_way(finished_audit):
    _, out = finished_audit
    plain = {doc["id"]: doc for doc in read_docs(out, CLOSED, "image")}
    assert len(plain) == 15
    assert {doc["options"][doc["answer"]] for doc in plain.values()} == {"Yes", "No"}
    for control in ("none", "noise", "other", "occluded"):
        docs = read_docs(out, CLOSED, control)
        assert {doc["control"] for doc in docs} == {control}
        assert [doc["id"] for doc in docs] == [row_id for row_id in plain if row_id in {doc["id"] for doc in docs}]
        assert all(doc["question"] == plain[doc["id"]]["question"] for doc in docs)
        assert len(docs) == 15 or control == "other"


def test_what_is_saved_and_printed(finished_audit, capsys):
    arguments, out = finished_audit
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    page = before.pop("report.html").decode()  # it says when a log was written
    shutil.rmtree(out / "logs" / OPEN / "noise")  # a kill leaves complete folders only
    (out / "logs" / CLOSED / ".image.lock").touch()  # and its lock may be left
    assert main(arguments) == 0
    assert not [*out.rglob("*.lock")]
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("[")] == [
        f"[8/{N_CONDITIONS}] medfaith_heal_vindr_open, noise: 15 answers; 15 left"
    ]
    assert {path.name: path.read_bytes() for path in out.glob("*.*") if path.name != "report.html"} == before
    assert re.search(r'<td [^>]*class="is-(open|no)" data-title="question_prior, HEAL-MedVQA">', page)
    (row,) = csv_rows(out / "audit.csv")
    assert (row["benchmark"], float(row["reliance"]), float(row["mirage"])) == ("HEAL-MedVQA", 0, 1)
    assert set(before) == {
        "audit.json", "audit.md", "audit.csv", "audit_heal_medvqa.csv", "blind_clean.csv", "rows.csv",
    }  # fmt: skip
    assert "Mirage: " in printed
    verdict, ending = printed.split("\nDoes the model use the image? question_prior\n")
    assert "HEAL-MedVQA:\nMirage: " in verdict
    assert len(ending.splitlines()) < 40
    assert f"{out}/blind_clean.csv: " in ending
    assert main(["report", str(out), "--markdown"]) == 0
    assert "question_prior (b0, noise)" in capsys.readouterr().out


def test_the_summary_has_the_verdicts_and_the_scores_of_other_runs(finished_audit, tmp_path, capsys):
    _, out = finished_audit
    docs = [question(n, "positive") for n in range(4)]
    write_heal(tmp_path, "closed", [(doc, "Yes") for doc in docs], model="other")
    assert main(["report", str(out), str(tmp_path), "--results-yaml", str(tmp_path / "hub"), "--org", "group"]) == 0
    verdicts, scores = capsys.readouterr().out.split("\nScores in %, more is better: other\n")
    assert "Does the model use the image? question_prior\n" in verdicts
    (row,) = [re.split("  +", line) for line in verdicts.splitlines() if line.startswith("HEAL-MedVQA")]
    assert row[-2] in ("no", "cannot be told")
    assert re.search(r"^HEAL-MedVQA VinDr closed: accuracy +100\.00 \[\d\d\.\d\d, 100\.00\] +4$", scores, re.MULTILINE)
    left_out = f"not in the Hub's files: {N_CONDITIONS} of reference models, which have no repository"
    assert left_out in scores.replace("\n  ", " ")
    assert [path.name for path in (tmp_path / "hub").iterdir()] == ["other"]


ONE_ROW = Task("medfaith_heal_vindr_closed", "heal-medvqa", ("1",), digest="")


def test_an_audit_resumes_with_other_limits_of_its_requests(tmp_path):
    """A server that is too slow for 32 requests at a time needs fewer, and its answers stay the same."""

    def begin(**arguments):
        run.begin({"m": Model("medfaith-server", arguments, dict)}, [ONE_ROW], {}, tmp_path)

    begin(model="m", concurrency=32)
    begin(model="m", concurrency=4, timeout=9, max_retries=9)
    with pytest.raises(InputError, match="holds an audit of something else: models was"):
        begin(model="other", concurrency=32)


def test_an_audit_does_not_resume_with_other_weights_of_the_same_name(tmp_path, monkeypatch):
    """Otherwise the steps before and after the change would make one table."""
    taken = []
    monkeypatch.setattr(run, "take", lambda step, **_: taken.append(step.condition))

    def resume(fingerprint):
        loaded = SimpleNamespace(fingerprint=fingerprint)
        run.ask({"m": Model("medfaith-server", {"model": "m"}, lambda: loaded)}, [ONE_ROW], ["other"], {}, tmp_path)

    resume("first")
    resume("first")
    with pytest.raises(InputError, match="holds answers of m with other weights"):
        resume("second")
    assert taken == [None, "other"] * 2
    for condition in (None, "other"):  # a finished audit is judged again without its model
        run.folder(tmp_path, ONE_ROW.name, condition).mkdir(parents=True)
    resume("second")


def test_images_from_another_folder_are_named(tmp_path, capsys):
    """The folder may be a copy on another machine, or hold the same images in another size."""
    for folder_name in ("full", "full", "small"):
        roots = {"vindr_cxr": str(tmp_path / folder_name)}
        run.begin({"m": Model("medfaith-server", {"model": "m"}, dict)}, [ONE_ROW], {"roots": roots}, tmp_path / "out")
    (warning,) = capsys.readouterr().err.splitlines()
    assert f"images of vindr_cxr came from {tmp_path / 'full'}, and now come from {tmp_path / 'small'}" in warning


@pytest.mark.parametrize(("model_type", "n_steps"), [("medfaith-batch", 2), ("medfaith-server", 1)])
def test_answers_in_files_are_read_again(model_type, n_steps, tmp_path, monkeypatch):
    """The same command may name other files, or the same names with other answers in them."""
    steps = []
    monkeypatch.setattr(run, "take", lambda step, **_: steps.append(step.condition))
    run.folder(tmp_path, "medfaith_heal_vindr_closed", None).mkdir(parents=True)
    run.ask({"m": Model(model_type, {"model": "m"}, dict)}, [ONE_ROW], ["other"], {}, tmp_path)
    assert len(steps) == n_steps


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"question_prior": "random"}, "holds an audit of something else: models was"),
        ({"audit": "audit --seed 2"}, "holds an audit of something else: models was"),
        ({"audit": "audit --model_name other"}, "holds an audit of something else: asked was"),
        ({"15": "14"}, "medfaith_heal_vindr_closed had 15 rows, and other ones"),
        ({"question_prior": "no_such_model"}, "there is no such model type"),
        ({"15": "0"}, None),
        ({"--limit": "--tasks"}, "--tasks: medfaith audit sets it"),
        ({"heal-medvqa": "surgxbench"}, "holds no surgxbench-cholec80_boxes"),
        ({"--model": "", "question_prior": ""}, "--model: none is named"),
    ],
)
def test_what_is_refused_leaves_the_audit_as_it_was(changed, message, finished_audit, capsys):
    arguments, out = finished_audit
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    arguments_changed = [word for argument in arguments for word in changed.get(argument, argument).split()]
    if message is None:
        with pytest.raises(SystemExit, match="2"):
            main(arguments_changed)
    else:
        assert main(arguments_changed) == 2
        assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_rows_that_the_record_does_not_count_are_refused(finished_audit, tmp_path):
    for name in ("audit.json", "rows.csv"):
        shutil.copy(finished_audit[1] / name, tmp_path)
    assert [len(task.ids) for task in read_earlier_tasks(tmp_path, [])] == [15, 15]
    rows = (tmp_path / "rows.csv").read_text().splitlines(keepends=True)
    (tmp_path / "rows.csv").unlink()
    assert read_earlier_tasks(tmp_path, []) == []  # an audit that a kill stopped before its rows were written
    (tmp_path / "rows.csv").write_text("".join(rows[:-1]))
    with pytest.raises(MedfaithError, match=r"rows\.csv, column 'task': has 14 rows of (.|\n)*restore the file"):
        read_earlier_tasks(tmp_path, [])


def read_tables(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.*") if path.suffix in (".csv", ".md")}


@pytest.mark.full  # two more audits
def test_a_run_with_other_benchmarks_keeps_the_earlier_tables_with_its_own_margin(
    finished_audit, phantom_chexlocalize_build, tmp_path
):
    arguments, finished = finished_audit
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    chosen = ["--benchmarks", "cxr-contrabench", "--data", str(phantom_chexlocalize_build), "--margin", "7"]
    assert main([*arguments, "--out", str(out), *chosen, "--limit", "4", "--controls", "none"]) == 0
    assert [row["benchmark"] for row in csv_rows(out / "audit.csv")] == ["CXR-ContraBench", "HEAL-MedVQA"]
    text = (out / "audit.md").read_text()
    assert "Mirage: " in text.split("HEAL-MedVQA")[-1]
    assert ("7 points" in text, "5 points" in text) == (True, False)
    ids = {name: set(read_ids(out / f"{name}.csv")) - set(read_ids(finished / f"{name}.csv"))
           for name in ("rows", "blind_clean")}  # fmt: skip
    assert ids["blind_clean"] <= ids["rows"] != set()
    assert {*read_ids(out / "rows.csv")} > {*read_ids(finished / "rows.csv")}
    assert {*read_ids(out / "blind_clean.csv")} >= {*read_ids(finished / "blind_clean.csv")}
    rows = (out / "rows.csv").read_text()
    (out / "rows.csv").write_text("".join(rows.splitlines(keepends=True)[:-1]))
    with pytest.raises(MedfaithError, match=r"rows\.csv, column 'task': has \d+ rows of (.|\n)*restore the file"):
        read_earlier_tasks(out, [])


@pytest.mark.full  # the test before
def test_benchmarks_in_turns_have_the_tables_of_one_run(phantom_heal_build, phantom_chexlocalize_build, tmp_path):
    """Asked one after the other, benchmarks have the tables of one run over both, all of the last margin."""
    data = tmp_path / "data"
    for build in (phantom_heal_build, phantom_chexlocalize_build):
        shutil.copytree(build, data, dirs_exist_ok=True)
    arguments = ["audit", "--data", str(data), "--model", "question_prior", "--limit", "4", "--controls", "none"]
    both, turns = tmp_path / "both", tmp_path / "turns"

    def run(out: Path, margin: str, *benchmarks: str) -> None:
        command = [*arguments, "--rule", "1", "--out", str(out), "--margin", margin, "--benchmarks", *benchmarks]
        assert main(command) == 0

    run(both, "7", "cxr-contrabench", "heal-medvqa")
    run(turns, "5", "heal-medvqa")
    first = read_tables(turns)
    run(turns, "7", "cxr-contrabench")
    assert read_tables(turns) == read_tables(both)
    run(turns, "5", "heal-medvqa")
    assert [row["benchmark"] for row in csv_rows(turns / "audit.csv")] == ["CXR-ContraBench", "HEAL-MedVQA"]
    assert read_tables(turns)["audit_heal_medvqa.csv"] == first["audit_heal_medvqa.csv"]


@pytest.mark.full  # test_what_is_saved_and_printed resumes one
def test_what_a_killed_audit_left_is_not_in_the_way(finished_audit, tmp_path):
    """Killed while writing its record, and while asking under a control that the next run does not ask."""
    arguments, _ = finished_audit
    place = tmp_path / "audit"
    place.mkdir()
    (place / ".audit.json.lock").touch()
    repeated = [*arguments[: arguments.index("--controls")], "--controls", "none", "--out", str(place)]
    assert main(repeated) == 0
    (folder(place, CLOSED, "other").with_name(".other.partial") / "question_prior").mkdir(parents=True)
    assert main(repeated) == 0


@pytest.fixture(scope="module")
def other_audit(finished_audit):
    """Arguments and folder of an audit of another blind model on the rows of `finished_audit`."""
    arguments, out = finished_audit
    other = out.parent / "other"
    arguments = [{"question_prior": "random", str(out): str(other)}.get(word, word) for word in arguments]
    assert main(arguments) == 0
    return arguments, other


def test_rows_are_clean_of_two_models_where_both_are_wrong_without_the_image(finished_audit, other_audit):
    arguments, other = other_audit
    clean, clean_of_other = ({*read_ids(out / "blind_clean.csv")} for out in (finished_audit[1], other))
    verdicts = (other / "audit.csv").read_bytes()
    assert main([*arguments, "--also", str(finished_audit[1])]) == 0
    clean_of_both = {*read_ids(other / "blind_clean.csv")}
    assert clean_of_both == clean & clean_of_other
    assert 0 < len(clean_of_both) < min(len(clean), len(clean_of_other))
    assert (other / "audit.csv").read_bytes() == verdicts  # they are those of this model


@pytest.mark.parametrize(
    ("limit", "record", "message"),
    [
        ("14", {}, f"asked other rows of {CLOSED}"),
        ("15", {"rows": {}}, "asked none of these tasks"),
        ("15", None, "audit.json: cannot be read"),
    ],
)
def test_an_audit_of_other_rows_is_not_joined(limit, record, message, finished_audit, tmp_path, capsys):
    arguments, out = finished_audit
    earlier, new = tmp_path / "earlier", tmp_path / "new"
    earlier.mkdir()
    if record is not None:
        (earlier / "audit.json").write_text(json.dumps(json.loads((out / "audit.json").read_text()) | record))
    arguments = [{"15": limit, str(out): str(new)}.get(word, word) for word in arguments]
    assert main([*arguments, "--also", str(earlier)]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert str(earlier) in printed
    assert not new.exists()


def test_a_folder_with_other_files_is_not_written_to(finished_audit, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    arguments, _ = finished_audit
    assert main([*arguments[: arguments.index("--out")], "--out", str(tmp_path)]) == 2
    assert "holds other files, and no audit" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert main([*arguments, "--also", str(tmp_path)]) == 2
    assert "audit.json: cannot be read" in capsys.readouterr().err


def test_only_the_rows_of_a_file_are_asked_and_reported(finished_audit, tmp_path, capsys):
    arguments, out = finished_audit
    data = arguments[arguments.index("--data") + 1]
    ids = [doc["id"] for doc in read_docs(out, CLOSED, "image")][:4]
    rows_file = tmp_path / "rows.csv"
    rows_file.write_text("\n".join(["id", *ids]) + "\n")
    loaded = load([CLOSED, TPT], Path(data), row_ids=rows_file)["tasks"]
    assert [doc["id"] for doc in loaded[CLOSED].dataset["test"]] == ids
    pairs = [*loaded[TPT].dataset["test"]]
    assert {doc["original_id"] for doc in pairs} <= {*ids}
    assert {doc["kind"] for doc in pairs} > {"original"}
    (partner, *_) = [doc["id"] for doc in pairs if doc["id"] != doc["original_id"]]
    rows_file.write_text(f"id\n{partner}\n")  # a pair is asked together
    asked_ = load([TPT], Path(data), row_ids=rows_file)["tasks"][TPT].dataset["test"]
    assert partner in asked_["id"]
    assert "original" in asked_["kind"]
    rows_file.write_text("\n".join(["id", *ids]) + "\n")
    assert 0 < len(load([CLOSED], Path(data), row_ids=rows_file, control="other")["tasks"][CLOSED].dataset["test"]) <= 4
    capsys.readouterr()
    assert main(["report", str(out), "--markdown", "--rows", str(rows_file)]) == 0
    assert "of 15" not in capsys.readouterr().out
    for text, message in (
        ("id\nvindr/test/nowhere\n", "row 1, column 'id': 'vindr/test/nowhere' is no row of"),
        ("name\nx\n", "the column is missing"),
        ("", "rows.csv"),
    ):
        rows_file.write_text(text)
        assert main(["eval", "--data", data, "--model", "oracle", "--tasks", CLOSED, "--rows", str(rows_file)]) == 2
        assert message in capsys.readouterr().err
    rows_file.write_text("id\nvindr/test/nowhere\n")
    assert main(["report", str(out), "--rows", str(rows_file)]) == 2
    assert "names no row of these logs" in capsys.readouterr().err


@pytest.mark.full  # another audit
def test_a_task_without_images_is_left_out_before_anything_is_asked(
    phantom_heal_build, phantom_heal_roots, tmp_path, capsys
):
    """Without a blind control, there are no blind-clean rows."""
    data, vindr = str(phantom_heal_build), f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    arguments_changed = ["audit", "--data", data, "--model", "looks", "--limit", "2", "--controls", "other"]
    arguments_changed += ["--benchmarks", "heal-medvqa", "--out", str(tmp_path / "out")]
    assert main([*arguments_changed, "--root", vindr]) == 0
    printed = capsys.readouterr().out
    assert printed.count("(mimic_cxr) is needed and its place is not known") == 2
    assert printed.count("holds no heal-medvqa-nih_cxr14") == 2
    assert printed.count("left out:") == 4
    assert "[4/4] medfaith_heal_vindr_open, other" in printed
    assert "No blind control (none, blank, noise) was asked" in printed
    assert not (tmp_path / "out" / "blind_clean.csv").exists()
    assert main([*arguments_changed[:-1], str(tmp_path / "none")]) == 2
    assert "is needed and its place is not known" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_step_with_rows_that_got_no_answer_is_asked_again(phantom_heal_build, tmp_path, capfd):
    class Silent(Says):
        def generate_until(self, requests, disable_tqdm=False):
            count(Counter({"unanswered": 1, "answered": len(requests) - 1}))
            print("bars\rmedfaith-server: 1 unanswered", file=sys.stderr)
            return super().generate_until(requests, disable_tqdm)

    metadata = {"data": str(phantom_heal_build)}
    tasks, _ = plan({"heal-medvqa": [CLOSED]}, metadata, 5)
    with pytest.raises(MedfaithError, match=r"\[1/2\].*with the image: 1 of 5 rows have no answer"):
        ask({"m": Model("m", {}, lambda: Silent("No"))}, tasks, ["none"], metadata, tmp_path)
    assert not folder(tmp_path, CLOSED, None).exists()
    assert "medfaith-server: 1 unanswered" in capfd.readouterr().err  # also in a pipe, which gets no bars
    ask({"m": Model("m", {}, lambda: Says("No"))}, tasks, ["none"], metadata, tmp_path)
    (audit,) = figures.read_audit(tmp_path, ["m"], tasks, 0.05)
    assert (len(audit.rows), audit.under("none").difference) == (5, 0)
