"""`medfaith audit`: figures counted by hand, selected rows, resumed runs, and refused input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.auditing import figures, sentences, tables
from medfaith.auditing.plan import Task, plan, sample_strata
from medfaith.auditing.run import ask, folder, read_earlier_tasks
from medfaith.auditing.verdicts import Judged, judge
from medfaith.auditing.wordings import compare_wordings
from medfaith.auditing.write import write_blind_clean
from medfaith.cli import main
from medfaith.evaluate_metrics.confidence.image_verdict import ImageVerdict
from medfaith.evaluate_metrics.confidence.place import PlaceVerdict
from medfaith.loaders.errors import MedfaithError
from medfaith.loaders.row_ids import read_ids
from medfaith.tasks.models.answer_counts import count
from medfaith.tasks.run import Model
from tests.support.auditing.same_answers import CLOSED, EDITED, judge_same_answers, patch_declined
from tests.support.reporting.heal_logs import question, write_heal
from tests.support.reporting.report_logs import csv_rows
from tests.support.tasks.evaluating import Says, load
from tests.support.tiers import choose_size

pytestmark = pytest.mark.usefixtures("tables_alone")

OPEN, TPT = (f"medfaith_heal_vindr_{ask}" for ask in ("open", "tpt"))
# Of `finished_audit`: five of two tasks of VinDr-CXR, and of two of MIMIC-CXR.
N_CONDITIONS = choose_size(10, 20)


def test_figures_of_logs_counted_by_hand(tmp_path):
    """Ten questions of ten patients, gold Yes, with known flips under each control and one missing donor."""
    docs = [question(n, "positive") for n in range(10)]
    answers_by_control = {  # Yes is right
        "image": "YYYYYYYYNN",
        "none": "YYYYNNNNNN",
        "blank": "YYNNNNNNYN",
        "other": "YYYYYNNN?",  # the last row has no donor
        "occluded": "NNNYYYNNNN",
        "occluded_elsewhere": "YYYYYYYNYN",
    }
    text_by_letter = {"Y": "Yes", "N": "No", "?": "The picture is blurred."}
    for control, answers in answers_by_control.items():
        rows = [(doc, text_by_letter[letter]) for doc, letter in zip(docs, answers, strict=False)]
        write_heal(folder(tmp_path, CLOSED, control) / "m", "closed", rows, model="m", task=CLOSED)
    ids = tuple(doc["id"] for doc in docs)
    tasks = [Task(CLOSED, "heal-medvqa", ids, "")]
    (audit,), (rule_1_audit,) = (figures.read_audit(tmp_path, ["m"], tasks, 0.05, rule) for rule in (2, 1))
    for checked_audit, expected_other in (
        (audit, (8, -0.375)),
        (rule_1_audit, (9, round(5 / 9 - 8 / 9, 3))),
    ):  # the last answer is unread
        under = {control: checked_audit.under(control) for control in answers_by_control}
        assert {control: (comparison.n, round(comparison.difference, 3)) for control, comparison in under.items()} == {
            "image": (10, 0), "none": (10, -0.4), "blank": (10, -0.5), "other": expected_other,
            "occluded": (10, -0.5), "occluded_elsewhere": (10, 0),
        }  # fmt: skip
    assert rule_1_audit.reliance is not None
    assert rule_1_audit.place is not None
    assert (rule_1_audit.reliance.best, round(rule_1_audit.reliance.found.difference, 3)) == ("none", 0.4)
    assert round(rule_1_audit.place.found.difference, 3) == 0.5
    blind = {
        name: round(comparison.comparison.difference.difference, 3) for name, comparison in audit.use.blind.items()
    }
    assert (audit.use.best, blind) == ("none", {"none": 0.4, "blank": 0.5})
    assert audit.use.other is not None
    assert (audit.use.other.difference.n, audit.use.other.difference.difference) == (8, 0.375)
    effect = audit.edits["occluded"]
    assert (effect.net, effect.floor, effect.flips.n_hits) == (0.5, None, 5)
    assert (audit.without, audit.mirage.n_hits, audit.mirage.n) == ("none", 4, 8)
    assert (audit.unrelated.n_hits, audit.unrelated.n) == (5, 8)  # the answer that cannot be read is in neither
    assert (audit.grounding.n_hits, audit.grounding.n) == (4, 8)  # rows 0, 1, 2 and 6
    expected_other = audit._replace(model="n", answers={**audit.answers, "blank": audit.answers["image"]})
    clean = [ids[n] for n in (4, 5, 6, 7)]  # row 8 is right under blank, and row 9 has no donor
    assert write_blind_clean(tmp_path, [audit], []) == (4, 9)
    assert list(read_ids(tmp_path / "blind_clean.csv")) == clean
    assert write_blind_clean(tmp_path, [audit], [expected_other]) == (0, 9)  # the other one is right on the first eight
    text_by_letter = sentences.write_sentences(judge([audit], 0.05)[0], 0.05)
    assert text_by_letter[0].startswith("Mirage: 4 of 8 (50.00%) [")
    assert "under none" in text_by_letter[0]
    _require_stricter_test(judge([audit], 0.05)[0])


def _require_stricter_test(judged: Judged) -> None:
    """Require the sentence for two kinds of edit, and test (a), with intervals above the margin and open tests."""
    other_test, effect = judged.audit.use.other, judged.audit.edits["occluded"]._replace(low=0.06)
    assert other_test is not None
    above = other_test._replace(difference=other_test.difference._replace(low=0.06, n_groups=40))
    audit = judged.audit._replace(
        use=judged.audit.use._replace(other=above), edits={"occluded": effect, "blurred": effect}
    )
    cases = ("uses", "open", 1), ("open", "open", 1), ("open", "no dependence", 1), ("uses", "depends", 0)
    for image, place, n in cases:
        verdicts = ImageVerdict(image, 0.06, "other", 300), PlaceVerdict(place, 0.06, 300)
        text = " ".join(sentences.write_sentences(Judged(audit, *verdicts, {}), 0.05))
        assert text.count("The interval lies above the margin, but the test is stricter") == n


def test_a_declined_answer_is_no_guess_states_nothing_and_is_a_change(tmp_path, monkeypatch):
    """Ten present and ten absent rows: all right with the image; declined without it and on painted images."""
    patch_declined(monkeypatch)
    docs = [question(n, "positive" if n < 10 else "hallucinated") for n in range(20)]
    text_by_letter = {"Y": "Yes", "N": "No", "D": "No comment."}
    right = "Y" * 10 + "N" * 10
    answers_by_condition = {
        "image": right,
        "none": "D" * 20,
        "other": "N" * 20,
        "occluded": "D" * 20,
        "occluded_elsewhere": right,
    }
    for condition, answers in answers_by_condition.items():
        rows = [(doc, text_by_letter[letter]) for doc, letter in zip(docs, answers, strict=True)]
        write_heal(folder(tmp_path, CLOSED, condition) / "m", "closed", rows, model="m", task=CLOSED)
    (audit,) = figures.read_audit(
        tmp_path, ["m"], [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")], 0.05
    )
    effect = audit.edits["occluded"]
    assert effect.floor is not None
    assert (effect.effect.difference, effect.floor.difference, effect.net) == (1, 0, 1)
    assert [(rate.n_hits, rate.n) for rate in (effect.flips, effect.placebo_flips)] == [(10, 10), (10, 10)]
    assert (audit.mirage.n, audit.grounding.n_hits) == (0, 20)  # also where nothing is lost: see its floor
    assert write_blind_clean(tmp_path, [audit], []) == (10, 20)  # it also answers with another patient's image


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize(("n_read", "verdict"), [(60, "no use"), (59, "unanswered")])
def test_there_is_no_verdict_where_most_answers_are_unread_or_declined(rule, n_read, verdict, tmp_path, monkeypatch):
    patch_declined(monkeypatch)
    docs = [question(n, "positive") for n in range(120)]
    unanswered = ("No comment.", "The picture is blurred.")
    rows = [(doc, "Yes" if n < n_read else unanswered[n % 2]) for n, doc in enumerate(docs)]
    for condition in ("image", "none", "other"):
        write_heal(folder(tmp_path, CLOSED, condition) / "m", "closed", rows, model="m", task=CLOSED)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(tmp_path, ["m"], tasks, 0.05, rule), 0.05)
    assert judged.image.name == verdict
    lines = sentences.write_sentences(judged, 0.05)
    assert lines[0].startswith(f"Unread: {(121 - n_read) // 2} of 120 (")
    sentence = "There is no verdict: most answers are unread or declined. medfaith report shows some."
    assert (sentence in lines) == (verdict == "unanswered")
    printed = tables.overview([judged], 0.05).markdown()
    assert ("no verdict: too much is unread or declined" in printed) == (verdict == "unanswered")


@pytest.mark.parametrize("rule", [1, 2])
@pytest.mark.parametrize(
    ("category", "n_rows", "answer", "controls", "verdict", "cell"),
    [
        ("positive", 120, "Yes", (), "undefined", "not asked"),
        ("positive", 120, "Yes", EDITED, "no dependence", "no"),
        ("positive", 120, "No comment.", EDITED, "unanswered", "no verdict"),
        ("positive", 1, "Yes", EDITED, "open", "cannot be told"),
    ],
    ids=["no edit asked", "no row changes", "all declined", "one patient"],
)
def test_a_place_is_not_asked_only_without_edits(
    rule, category, n_rows, answer, controls, verdict, cell, tmp_path, monkeypatch
):
    judged = judge_same_answers(category, n_rows, answer, controls, tmp_path, monkeypatch, rule=rule)
    assert judged.place.name == verdict
    *_, place = tables.overview([judged], 0.05).markdown().splitlines()[4].strip("| ").split(" | ")
    assert place.startswith(cell)


def test_rows_without_the_finding_leave_the_place_open_and_say_so(tmp_path, monkeypatch):
    judged = judge_same_answers("hallucinated", 30, "No", EDITED, tmp_path, monkeypatch)
    assert judged.place.name == "open"
    lines = sentences.write_sentences(judged, 0.05)
    (sentence,) = (line for line in lines if "depend on the place" in line)
    assert sentence.endswith("no row with what is asked about in the image has answers to an edit.")


def test_a_model_that_is_right_by_the_wording_only_is_named(tmp_path):
    """The model says Yes correctly under the original wording only; No is right in half of the rows."""
    docs = [question(n, "positive" if n % 2 else "hallucinated") for n in range(80)]
    right = [(doc, "Yes" if n % 2 else "No") for n, doc in enumerate(docs)]
    denied = [(doc, "No") for doc in docs]
    rows_by_condition = {"image": right, "none": denied, "other": denied, "wording_1": denied, "wording_2": right}
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    for expected, wording_2 in ((False, right), (True, denied)):
        for condition, rows in (rows_by_condition | {"wording_2": wording_2}).items():
            out = folder(tmp_path / str(expected), CLOSED, condition) / "m"
            write_heal(out, "closed", rows, model="m", task=CLOSED)
        (audit,) = figures.read_audit(tmp_path / str(expected), ["m"], tasks, 0.05)
        compared = compare_wordings(audit, 0.05)
        assert compared is not None
        assert (compared.worst, compared.spread, compared.depends) == ("wording_1", 0.5, True)
        assert (compared.by_wording.n, compared.is_by_wording_only) == (40, expected)


def test_unread_and_declined_answers_are_counted_under_each_control(tmp_path, monkeypatch):
    patch_declined(monkeypatch)
    docs = [question(n, "positive") for n in range(10)]
    answers_by_control = {
        "image": "YYYYYYDD??",
        "none": "DDDDDDDDD?",
        "other": "YYYYYYYYY",
    }  # the last row has no donor
    texts = {"Y": "Yes", "?": "The picture is blurred.", "D": "No comment."}
    for control, answers in answers_by_control.items():
        rows = [(doc, texts[letter]) for doc, letter in zip(docs, answers, strict=False)]
        write_heal(folder(tmp_path, CLOSED, control) / "m", "closed", rows, model="m", task=CLOSED)
    ids = tuple(doc["id"] for doc in docs)
    (audit,) = figures.read_audit(tmp_path, ["m"], [Task(CLOSED, "heal-medvqa", ids, "")], margin=0.05)
    counted = {
        control: (audit.n_of("unread", control), audit.n_of("declined", control)) for control in answers_by_control
    }
    assert counted == {"image": (2, 2), "none": (1, 9), "other": (0, 0)}
    (judged,) = judge([audit], 0.05)
    table = tables.conditions(judged)
    columns = [name for column in table.columns for name in column.names]
    shares = {row[columns.index("control")]: row for row in table.rows}
    for control, expected in {"image": (0.2, 0.2), "none": (0.1, 0.9), "other": (0, 0)}.items():
        row = dict(zip(columns, shares[control], strict=True))
        assert (row["parse_failure_rate"], row["declined_rate"]) == expected
        assert (row["n_unread"], row["n_declined"]) == counted[control]
    texts = sentences.write_sentences(judged, 0.05)
    assert texts[0].startswith("Unread: 2 of 10 (20.00%) answers with the image")
    assert texts[1].startswith("Declined: 2 of 10 (20.00%) answers with the image")
    assert texts[2] == (
        "It declines without an image, as a model should: none 90.00% of the answers (with the image 20.00%)."
    )


def test_tasks_of_a_benchmark_are_pooled_and_a_graded_answer_is_right_from_one_half_on(tmp_path):
    closed = [(question(n, "positive"), text) for n, text in enumerate(("Yes", "No"))]
    opened = [
        (question(n, "abnormal", diseases=["Edema", "ILD"]), text)
        for n, text in enumerate(("Edema and ILD.", "ILD and cardiomegaly.", "Cardiomegaly."))
    ]
    for control in ("image", "blank"):
        write_heal(folder(tmp_path, CLOSED, control) / "m", "closed", closed, model="m", task=CLOSED)
        write_heal(folder(tmp_path, OPEN, control) / "m", "open", opened, model="m", task=OPEN)
    tasks = [
        Task(name, "heal-medvqa", tuple(doc["id"] for doc, _ in rows), "")
        for name, rows in ((CLOSED, closed), (OPEN, opened))
    ]
    (audit,) = figures.read_audit(tmp_path, ["m"], tasks, margin=0.05)
    assert audit.under("blank").after == pytest.approx((1 + 0 + 1 + 0.5 + 0) / 5)
    assert audit.under("blank", OPEN).after == pytest.approx(0.5)
    assert audit.answers["image"].right.tolist() == [1, 0, 1, 1, 0]
    assert len(set(audit.groups.tolist())) == 3  # images, of closed and open questions alike


@given(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=60), st.integers(1, 70))
def test_each_stratum_has_its_share_of_the_rows_asked(names, limit):
    strata, ids = [(name,) for name in names], [str(n) for n in range(len(names))]
    sampled = sample_strata(strata, ids, limit)
    n = min(limit, len(names))
    assert len(set(sampled)) == n
    n_sampled, n_rows = Counter(names[place] for place in sampled), Counter(names)
    assert all(abs(n_sampled[name] - n_rows[name] * n / len(names)) < 1 + 1e-9 for name in n_rows)


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
