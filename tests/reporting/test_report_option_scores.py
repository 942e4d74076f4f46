"""Figure 5 in the report: gaps, concept-only differences and state similarities, from logs and state files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.loaders.errors import InputError
from tests.support.reporting.option_score_logs import SCORES, TASK, write_scores, write_states
from tests.support.reporting.report_logs import DATE, answered, change_lines, rows_of, write_log, write_report

pytestmark = pytest.mark.usefixtures("tables_only")


def test_gaps_and_concept_differences(tmp_path):
    write_scores(tmp_path, SCORES, n_data=6)
    report = write_report([tmp_path], tmp_path / "out")
    safe, control = rows_of(report, "Figure 5")
    assert safe == [
        "m", "CheXpert direct presence", "4 of 6", "4", "safe", "2", "2.500 [–, –]", "2.500", "100.00", "0.250", "2",
        "–", "–", "–", "0",
    ]  # fmt: skip
    assert control[4:11] == ["control", "1", "-2.000 [–, –]", "-2.000", "0.00", "0.000", "1"]
    assert write_report([tmp_path], tmp_path / "out") == report, "its own files are replaced"


def test_the_interval_is_clustered_by_study(tmp_path):
    rng = np.random.default_rng(0)
    gaps = np.repeat(rng.uniform(1, 9, 10), 2) + rng.uniform(0, 0.1, 20)
    write_scores(tmp_path, [[-10.0, -10.0 + gap, -30.0] for gap in gaps])
    row = rows_of(write_report([tmp_path]), "Figure 5")[0]
    expected = bootstrap_mean(gaps, groups=np.arange(20) // 2)
    assert row[6] == f"{expected.mean:.3f} [{expected.low:.3f}, {expected.high:.3f}]"
    assert row[7] == f"{np.median(gaps):.3f}"
    assert row[9:11] == ["–", "0"], "a log of the options alone has no concept-only difference"


@pytest.mark.parametrize("place", ["recorded", "beside"])
def test_similarities_of_hidden_states(tmp_path, place):
    """The file is at the recorded path or next to the results; texts after the options do not count as distractors."""
    recorded = tmp_path / "elsewhere" / "states.npz"
    states = write_states(recorded if place == "recorded" else tmp_path / "logs" / "states.npz", SCORES)
    write_scores(tmp_path / "logs", SCORES, model_args={"pretrained": "m", "states_path": str(recorded)})
    report = write_report([tmp_path / "logs"])
    for row, subset in zip(rows_of(report, "Figure 5"), ([0, 1], [2]), strict=True):
        to_negated, to_distractor = (
            np.array([1 - cosine(states[i, 0], states[i, option]) for i in subset]) for option in (1, 2)
        )
        assert [float(cell) for cell in row[11:13]] == pytest.approx(
            [to_negated.mean(), to_distractor.mean()], abs=6e-4
        )
        assert row[13:] == [f"{100 * (to_negated > to_distractor).mean():.2f}", str(len(subset))]
    assert "## Notes" not in report


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        ({}, ["2", "1"]),
        ({"task": TASK.replace(":", "_")}, ["2", "1"]),  # where a file system takes no colon
        ({"task": "medfaith_contrabench_option_scores::openi_report_absence"}, ["0", "0"]),
        ({"id": np.array([f"x{i}" for i in range(28)])}, ["0", "0"]),
        ({"state": np.full((28, 4), np.inf, np.float32)}, ["0", "0"]),
    ],
)
def test_questions_without_states_are_counted(tmp_path, changes, n):
    write_states(tmp_path / "s.npz", SCORES, **changes)
    write_scores(tmp_path, SCORES, model_args={"pretrained": "m", "states_path": "s.npz"})
    assert [row[14] for row in rows_of(write_report([tmp_path]), "Figure 5")] == n


def test_missing_states_are_a_note_that_says_where_they_were_looked_for(tmp_path):
    recorded = tmp_path / "gone" / "states.npz"
    write_scores(tmp_path, SCORES, model_args={"pretrained": "m", "states_path": str(recorded)})
    report = write_report([tmp_path])
    assert f"neither at {recorded} nor at {tmp_path / 'states.npz'}" in report
    assert [row[11:] for row in rows_of(report, "Figure 5")] == [["–", "–", "–", "0"]] * 2


BROKEN = {
    "text": lambda path: path.write_text("states"),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "other bytes": lambda path: path.write_bytes(path.read_bytes().replace(b"NUMPY", b"NUMBY")),
    "one array": lambda path: np.save(path.open("wb"), np.zeros(3)),
    "objects": lambda path: write_states(path, SCORES, id=np.array([None] * 28, dtype=object)),
    "no options": lambda path: write_states(path, SCORES, option=None),
    "another length": lambda path: write_states(path, SCORES, option=np.arange(3)),
    "flat states": lambda path: write_states(path, SCORES, state=np.zeros(28, np.float32)),
    "options as text": lambda path: write_states(path, SCORES, option=np.array(["a"] * 28)),
    "states as text": lambda path: write_states(path, SCORES, state=np.array([["a"] * 4] * 28)),
    "an option twice": lambda path: write_states(path, SCORES, option=np.zeros(28, int)),
    "a negative option": lambda path: write_states(path, SCORES, option=-np.ones(28, int)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_of_states_is_an_error_that_names_it(tmp_path, case):
    path = tmp_path / "states.npz"
    write_states(path, SCORES)
    BROKEN[case](path)
    write_scores(tmp_path / "logs", SCORES, model_args={"pretrained": "m", "states_path": str(path)})
    with pytest.raises(InputError) as error:
        write_report([tmp_path / "logs"], tmp_path / "out")
    assert str(path) in str(error.value)
    assert "what to do" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("responses", "expected"),
    [([[score, "False"]] * n, "7 finite scores") for score, n in (("-1.0", 4), ("-1.0", 8), ("nan", 4), ("-inf", 7))]
    + [([["nan", "False"]] * 6 + [["-1.0", "False"]], "7 finite scores")]
    + [(responses, "the scores of options") for responses in ([["x", "False"]] * 7, [[]] * 7, [-1.0] * 7, None)],
)
def test_a_broken_log_of_scores_names_the_line(tmp_path, responses, expected):
    path = write_scores(tmp_path, SCORES)
    broken = {"filtered_resps": responses}
    change_lines(path, lambda lines: [lines[0], json.dumps(json.loads(lines[1]) | broken), *lines[2:]])
    with pytest.raises(InputError, match="row 2, column 'filtered_resps'") as error:
        write_report([tmp_path])
    assert f"are not {expected}" in str(error.value)


def test_the_order_of_lines_does_not_matter(tmp_path):
    """Scores, differences and states stay with their question."""
    write_states(tmp_path / "states.npz", SCORES)
    path = write_scores(tmp_path, SCORES, model_args={"pretrained": "m", "states_path": "states.npz"})
    report = write_report([tmp_path])
    change_lines(path, lambda lines: [lines[i] for i in (2, 0, 3, 1)])
    assert write_report([tmp_path]) == report


def test_rows_without_a_pair_are_in_no_subset(tmp_path):
    """None of 4 rows without a positive counterpart is gold-positive; they have no texts after their options."""
    write_scores(tmp_path, [row[:3] for row in SCORES], columns={"counterpart": -1})
    assert [row[2:6] for row in rows_of(write_report([tmp_path]), "Figure 5")] == [
        ["4", "0", s, "0"] for s in ("safe", "control")
    ]


def test_scores_and_answers_of_one_model_stand_side_by_side(tmp_path):
    """The scores leave the other tables unchanged, do not count as a run of answers, and their newest run counts."""
    write_log(tmp_path / "a", "m", answered("chexpert_presence", 5, 1, 2))
    answer_report = write_report([tmp_path])
    newer = DATE.replace("2026", "2027")
    write_scores(tmp_path / "b", SCORES[:3], model_args={"pretrained": "m", "states_path": "x.npz"})
    write_scores(tmp_path / "b", SCORES, date=newer)
    report = write_report([tmp_path])
    assert {*answer_report.rstrip().split("\n\n## ")} < {*report.split("\n\n## ")}
    assert [row[2] for row in rows_of(report, "Figure 5")] == ["4", "4"]
    assert f"- m, {TASK}: the run of {newer} counts, not that of {DATE}\n" in report
    assert "x.npz" not in report, "only the runs that count are looked at"


@pytest.mark.parametrize("form", ["no_evidence_of", "not_present"])
def test_other_wordings_say_so(tmp_path, form):
    scores = SCORES if form == "no_evidence_of" else [row[:3] for row in SCORES]
    write_scores(tmp_path, scores, columns={"negation_form": form})
    rows = rows_of(write_report([tmp_path]), "Figure 5")
    assert [row[1] for row in rows] == ["CheXpert direct presence (negation_form)"] * 2
    assert [row[10] for row in rows] == (["2", "1"] if form == "no_evidence_of" else ["0", "0"])
