"""`medfaith compare`: figures counted by hand for each benchmark, refused input, and the gate."""

from __future__ import annotations

import json

import pytest

from medfaith.cli import main
from medfaith.evaluate_metrics.confidence.paired import apply_holm, compute_paired_difference
from medfaith.evaluate_metrics.confidence.score import permutation_test
from medfaith.reporting.compare.tables import compare
from tests.support.declined import CANNOT_TELL
from tests.support.reporting.heal_logs import CLOSED, OPEN, TPT_PAIRS, write_heal
from tests.support.reporting.own_logs import CHOICES, OPENED, write_own
from tests.support.reporting.own_logs import CLOSED as OWN_CLOSED
from tests.support.reporting.report_logs import DATE, answered, csv_rows, rows_of, write_log
from tests.support.reporting.surgx_logs import ACTIONS, FRAMES, GRASP, instruments, look, write_surgx
from tests.support.reporting.wrong_lung_logs import PAIR, original, write_wrong_lung

ABSENCE, PRESENCE = "CheXpert report-style absence", "CheXpert direct presence"


def write_absence(folder, name, correct, n=200, **options):
    """Write a log of n answers whose first `correct` are right."""
    columns = {key: options.pop(key) for key in ("layout", "prompt") if key in options}
    return write_log(folder / name, name, answered("chexpert_absence", n, correct, 0, **columns), **options)


def replace_answers(answers, text):
    return [(doc, text) for doc, _ in answers]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two models on all benchmarks."""
    folder = tmp_path_factory.mktemp("runs")
    write_absence(folder, "old", 100)
    write_absence(folder, "new", 60)
    for name, closed, opened, tpt in (
        ("old", CLOSED, OPEN, TPT_PAIRS),
        ("new", replace_answers(CLOSED, "No"), replace_answers(OPEN, "Edema."), replace_answers(TPT_PAIRS, "Yes")),
    ):
        for ask, answers in (("closed", closed), ("open", opened), ("tpt", tpt)):
            write_heal(folder / name, ask, answers, model=name)
    better = [*FRAMES[:3], instruments(3, ["grasper"], [look("grasper", "tp", 0.5, 0.5)], video=42)]
    grasp_actions = [(doc, row | {"predicted": [GRASP]}) for doc, row in ACTIONS]
    for name, frames, actions, aurocs in (
        ("old", FRAMES, ACTIONS, (0.5, 0.25, None)),
        ("new", better, grasp_actions, (0.75, 0.5, 0.5)),
    ):
        write_surgx(folder / name, frames, model=name)
        write_surgx(folder / name, actions, model=name)
        lung = [original(i, f"p{i}", auroc=auroc) for i, auroc in enumerate(aurocs)]
        write_wrong_lung(folder / name, "gold", lung, model=name)
    for answers, text in ((OWN_CLOSED, "No"), (CHOICES, "C"), (OPENED, "pneumothorax")):
        write_own(folder / "old", answers, model="old")
        write_own(folder / "new", replace_answers(answers, text), model="new")
    return folder


# task: metric, rows with both values, groups, rows without, the two models' means
FIGURES = {
    ABSENCE: ("accuracy", 200, 200, 0, 0.5, 0.3),
    "HEAL-MedVQA VinDr closed": ("accuracy", 10, 6, 0, 0.7, 0.6),  # 7 of 10 are right; all No: 6
    "HEAL-MedVQA VinDr open": ("F1 of a row", 4, 4, 0, (1 + 1 / 2 + 1 + 0) / 4, (1 + 2 / 3 + 0 + 1) / 4),
    "HEAL-MedVQA VinDr TPT": ("TPT", 5, 2, 4, 3 / 5, 0),  # pairs of originals that both read Yes: 0 and 1 of a, 4 of d
    "Cholec80-Boxes instruments": ("F1 of a frame", 4, 2, 0, (1 + 1 + 0 + 0) / 4, (1 + 1 + 0 + 1) / 4),
    "CholecT45 triplets": ("triplets found", 3, 2, 1, (1 / 2 + 1 / 2 + 0) / 3, (1 / 2 + 0 + 1 / 2) / 3),
    "That's the Wrong Lung! gold": ("AUROC", 2, 2, 1, 0.375, 0.625),
    "own yes/no": ("accuracy", 9, 9, 0, 5 / 9, 4 / 9),  # all No: 4 of 9 are right
    "own choice": ("accuracy", 5, 5, 0, 2 / 5, 1 / 5),  # all the liver: 1 of 5
    "own open": ("F1 of a row", 4, 4, 0, (1 + 2 / 3 + 4 / 5 + 0) / 4, (1 + 1 + 0 + 0) / 4),
}


def test_each_benchmark_has_its_figure_a_row(runs):
    comparison = compare([runs / "old", runs / "new"])
    counts = {
        line.task: (line.metric, line.found.n, line.found.n_groups, line.found.n_nan) for line in comparison.lines
    }
    assert counts == {task: figures[:4] for task, figures in FIGURES.items()}
    for line in comparison.lines:
        assert line.found[:2] == pytest.approx(FIGURES[line.task][4:]), line.task
    line = next(line for line in comparison.lines if line.task == ABSENCE)
    old, new = [1.0] * 100 + [0.0] * 100, [1.0] * 60 + [0.0] * 140
    assert line.found[2:5] == pytest.approx(compute_paired_difference(new, old)[2:5], abs=0.01)
    assert line.p == permutation_test(new, old).p_value
    assert line.p_holm == pytest.approx(line.p * len(FIGURES))  # it is the smallest
    assert [entry.verdict(0.02) for entry in comparison.lines].count("worse") == 1


def test_models_in_another_order_have_mirrored_bounds(tmp_path):
    """The second log also has the rows in another order, and some answers are better and others worse."""
    right, wrong = (answered("chexpert_absence", 200, n_right, 0) for n_right in (200, 0))
    write_log(tmp_path / "old", "old", [*right[:100], *wrong[100:]])
    write_log(tmp_path / "new", "new", [*wrong[140:], *right[45:140], *wrong[:45]])
    (line,), (mirrored,) = (
        compare([tmp_path / name for name in names]).lines for names in (("old", "new"), ("new", "old"))
    )
    assert line.found[:4] == pytest.approx((0.5, 0.475, -0.025, -0.115), abs=0.02)
    difference, other = line.found, mirrored.found
    assert difference[:3] == (other.after, other.before, -other.difference)
    assert difference[3:] == (-other.high, -other.low, *other[5:])
    assert line[4:] == mirrored[4:]


def test_the_command_prints_the_table_and_is_a_gate(runs, capsys):
    paths = [str(runs / "old"), str(runs / "new")]
    assert main(["compare", *paths]) == 0
    out = capsys.readouterr().out
    assert "Comparison of new with old" in out
    line = next(line for line in out.splitlines() if line.startswith(ABSENCE))
    assert " 200     200  50.00  30.00  -20.00 [" in line
    assert line.endswith("worse")
    assert "Worse by more than" not in out
    assert main(["compare", *paths, "--fail-below", "2"]) == 3
    out = capsys.readouterr().out
    assert f"Worse by more than 2 points: {ABSENCE}\nToo few rows to be sure to see such a loss: HEAL" in out
    assert main(["compare", *paths, "--fail-below", "20"]) == 0  # it is worse by 20 points, and not by more
    assert "Worse by more than 20 points: none" in capsys.readouterr().out
    assert main(["compare", *reversed(paths), "--fail-below", "0"]) == 0


def test_a_model_that_declines_is_worse_with_a_warning(tmp_path, capsys):
    """Declined answers count as wrong, so the difference says nothing of the others."""
    answers = answered("chexpert_absence", 40, 20, 0)
    for name, declined in (("old", 0), ("new", 20)):
        write_log(tmp_path / name, name, [*replace_answers(answers[:declined], CANNOT_TELL), *answers[declined:]])
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "worse" in out
    assert "- WARNING: 20 of 40 answers (50.0%) of new in " in out
    assert "decline to answer" in out
    assert out.count("WARNING") == 1


@pytest.mark.usefixtures("tables_alone")
def test_the_report_has_the_same_table(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("medfaith.reporting.write.files", lambda figures: {})
    paths, out = [str(runs / "old"), str(runs / "new")], tmp_path / "out"
    out.mkdir()
    for earlier in ("report.md", "comparison.csv"):  # a report, which may be replaced
        (out / earlier).touch()
    assert main(["report", *paths, "--markdown", "--compare", "--out", str(out)]) == 0
    table = rows_of(capsys.readouterr().out, "Comparison of new with old")
    assert {row[0]: row[1] for row in table} == {task: figures[0] for task, figures in FIGURES.items()}
    saved = {row["task"]: row for row in csv_rows(out / "comparison.csv")}
    assert float(saved[ABSENCE]["difference"]) == pytest.approx(-0.2)
    assert (saved[ABSENCE]["interval"], saved["HEAL-MedVQA VinDr TPT"]["n_undefined"]) == ("bootstrap", "4")
    assert main(["report", paths[0], "--compare"]) == 2


def test_several_models_are_compared_with_the_first_each_by_itself(tmp_path):
    for name, correct in (("a", 100), ("b", 101), ("c", 20)):
        write_absence(tmp_path, name, correct)
    write_log(tmp_path / "a", "a", answered("chexpert_presence", 40, 10, 5))
    write_log(tmp_path / "c", "c", answered("chexpert_presence", 40, 10, 5))
    comparison = compare([tmp_path / name for name in "abc"], margin=0.05)
    verdicts = {(line.model, line.task): line.verdict(0.05) for line in comparison.lines}
    assert verdicts == {
        ("b", ABSENCE): "same, within ±5", ("c", ABSENCE): "worse", ("c", PRESENCE): "undecided",
    }  # fmt: skip
    assert comparison.notes == [f"{PRESENCE} (accuracy) is left out: only {tmp_path / 'a'} has it"]
    assert [line.p_holm for line in comparison.lines] == pytest.approx(
        apply_holm([line.p for line in comparison.lines])
    ), "the lines of all models are one family"
    (pair_line,) = compare([tmp_path / "a", tmp_path / "b"]).lines
    assert pair_line.p_holm == comparison.lines[0].p_holm  # a third model changes nothing
    assert [row[0] for row in comparison.table().cells()[1]] == ["b", "c", "c"]
    needed = next(note for note in comparison.table().notes if note.startswith("Rows that would show"))
    assert f"{PRESENCE} of c" in needed


def test_the_interval_draws_patients(tmp_path):
    """Two studies of each patient are one group: CheXpert's study is patient/study."""
    answers = answered("chexpert_absence", 80, 40, 0)
    for i, (doc, _) in enumerate(answers):
        doc["study_id"] = f"patient{i // 2:05d}/study{i % 2}"
    write_log(tmp_path / "a", "a", answers)
    write_log(tmp_path / "b", "b", replace_answers(answers, "C"))
    (line,) = compare([tmp_path / "a", tmp_path / "b"]).lines
    assert (line.found.n, line.found.n_groups, line.found.n_differ) == (80, 40, 20)


def set_config(path, **content):
    """Change entries of the run's config in the results."""
    results = path.with_name(f"results_{DATE}.json")
    results.write_text(json.dumps(json.loads(results.read_text()) | content))


TASK = "medfaith_contrabench_chexpert_absence"
# change of the second run: message of the refusal
REFUSED = {
    "layout": (lambda folder: write_absence(folder, "b", 60, layout="original"), "layout original, not shuffled"),
    "prompt": (lambda folder: write_absence(folder, "b", 60, prompt="cot"), "prompt cot, not b0"),
    "version": (
        lambda folder: set_config(write_absence(folder, "b", 60), versions={TASK: 9.0}),
        "version 9.0, not unset",
    ),
    "control": (
        lambda folder: set_config(write_absence(folder, "b", 60), configs={TASK: {"metadata": {"control": "black"}}}),
        "control black, not unset",
    ),
    "system": (
        lambda folder: set_config(write_absence(folder, "b", 60), system_instruction="Hi"),
        "system instruction Hi, not",
    ),
    "rows": (lambda folder: write_absence(folder, "b", 60, n=150), "50 rows are only in the first run"),
    "more rows": (lambda folder: write_absence(folder, "b", 60, n=230), "30 rows are only in the second"),
    "wording": (
        lambda folder: write_log(
            folder / "b", "b", [(d | {"question": "Which?"} if i < 7 else d, t)
                                for i, (d, t) in enumerate(answered("chexpert_absence", 200, 60, 0))]),
        "7 rows have another question, options or gold answer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_runs_that_differ_are_refused_with_what_differs(tmp_path, capsys, kind):
    change, message = REFUSED[kind]
    write_absence(tmp_path, "a", 100)
    change(tmp_path)
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["compare", *paths]) == 2
    error = capsys.readouterr().err
    assert f"{paths[1]}: cannot be compared with {paths[0]}:\n    {ABSENCE}: {message}" in error
    status = main(["compare", *paths, "--common"])
    out = capsys.readouterr().out
    if "rows" in message:
        assert status == 0
        common = {"rows": 150, "more rows": 200, "wording": 193}[kind]
        assert f"- {ABSENCE}: {common} common rows are compared; {message}" in out
    else:
        assert status == 2


def test_what_cannot_be_compared_is_said(runs, tmp_path, capsys):
    write_absence(tmp_path, "a", 10, n=20)
    write_absence(tmp_path / "two", "a", 10, n=20)
    write_absence(tmp_path / "two", "b", 10, n=20)
    write_heal(tmp_path / "heal", "closed", CLOSED)
    write_wrong_lung(tmp_path / "lung", "random_sentences", PAIR)
    for variant in ("box", "centre"):
        options = {"model_args": {"pretrained": "m", "heatmap": variant}}
        write_surgx(tmp_path / "twice" / variant, FRAMES, **options)
    (tmp_path / "empty").mkdir()
    for names, message in (
        (["a"], "a: one run has nothing that it could be compared with"),
        (["a", "two"], "two: holds runs of 2 models (a, b)"),
        (["a", "heal"], "heal: has none of its tasks, but HEAL-MedVQA VinDr closed"),
        (["lung", "a"], "lung: holds no run that can be compared"),
        (["twice", "a"], "twice: holds Cholec80-Boxes instruments twice, with heatmap=box and heatmap=centre"),
        (["a", "empty"], "empty: no sample log of lm-eval is there"),
        (["a", "nowhere"], "nowhere: there is no such file or folder"),
    ):
        assert main(["compare", *(str(tmp_path / name) for name in names)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert "what to do: " in error or "expected: " in error
    for option, value in (("--fail-below", "-1"), ("--margin", "100")):
        with pytest.raises(SystemExit, match="2"):
            main(["compare", "a", "b", option, value])
        assert "expected percentage points from 0 to 100" in capsys.readouterr().err


def test_of_a_run_with_two_layouts_the_common_one_is_compared(tmp_path):
    write_absence(tmp_path, "a", 100)
    write_absence(tmp_path, "b", 90)
    write_absence(tmp_path, "b", 10, layout="original", task=f"{TASK}_original")
    comparison = compare([tmp_path / "a", tmp_path / "b"])
    assert [line.found.after for line in comparison.lines] == [0.45]
    assert comparison.notes == [f"{ABSENCE} (original) is left out: only one run has it"]
    write_absence(tmp_path, "a", 20, layout="original", task=f"{TASK}_original")
    comparison = compare([tmp_path / "a", tmp_path / "b"])
    assert {line.task: line.found.before for line in comparison.lines} == {
        f"{ABSENCE} (shuffled)": 0.5, f"{ABSENCE} (original)": 0.1,
    }  # fmt: skip


def test_one_model_twice_is_told_apart_and_no_difference_has_a_width(tmp_path):
    for n, verdict in ((50, "undecided"), (150, "same, within ±2")):
        write_absence(tmp_path, "m", n // 2, n=n)
        comparison = compare([tmp_path / "m", tmp_path / "m"])
        (line,) = comparison.lines
        assert comparison.first == f"m [{tmp_path / 'm'}]"
        assert (line.found.difference, line.found.way, line.verdict(0.02)) == (0, "wilson", verdict)
        assert line.found.high == pytest.approx(-line.found.low)
        assert line.found.high > 0
        assert line.n_enough > 50
