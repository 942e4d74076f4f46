"""Scores of polarity: a case counted by hand, undefined values, bad rows, and invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.polarity.score import score_predictions

NAN = float("nan")
PRESENCE = "Which of the following findings is present on this chest X-ray study?"
ABSENCE = "Which of the following findings is absent on this chest X-ray study?"


def row(question=PRESENCE, options=("Edema", "No edema", "Atelectasis"), answer=0, negated=1, **over):
    polarity = {PRESENCE: "presence", ABSENCE: "absence"}.get(question, "other")
    base = {"question": question, "options": list(options), "answer": answer, "negated": negated}
    return {**base, "counterpart": 0, "polarity": polarity, "finding": "Edema", **over}


def test_a_table_counted_by_hand():
    aorta = ("No ascending aortic enlargement", "Ascending aortic enlargement", "Aortic knob enlargement")
    other = row("What is least likely present?", ("Edema", "No edema", "Atelectasis"), answer=1, finding="Other")
    cases = [
        ("A", row()),  # right
        ("B", row()),  # reversal, repaired
        ("No edema", row(options=("Atelectasis", "Edema", "No edema"), answer=1, negated=2, counterpart=1)),  # same
        ("A", row(options=aorta, answer=1, negated=0, counterpart=1, finding="Aorta")),  # reversal, not repaired
        ("B", row(answer=2, counterpart=0)),  # reversal, its counterpart put, still wrong
        ("C", row(ABSENCE)),  # wrong, no negation
        ("B", row(ABSENCE)),  # contradiction, repaired
        ("C", row(ABSENCE, ("Atelectasis", "Edema", "No edema"), answer=1, negated=2)),  # contradiction, slot 0 drifts
        ("B", other),  # right with the negated option, worsened by the original trigger
        ("", row()),
        ("A or B", row()),
        ("E", row(ABSENCE)),
    ]
    scores = score_predictions([text for text, _ in cases], [reference for _, reference in cases])
    expected = {
        "n": 12, "n_correct": 2, "n_presence": 7, "n_reversals": 4, "n_absence": 4, "n_contradictions": 2,
        "n_wrong": 10, "n_wrong_with_negated": 6, "n_repairable_reversals": 3, "n_unparsed": 1, "n_ambiguous": 1,
        "n_invalid": 1, "n_correct_verified": 4, "n_reversals_verified": 1, "n_contradictions_verified": 0,
        "n_wrong_with_negated_verified": 1, "n_changed": 6, "n_improved": 3, "n_worsened": 1, "accuracy": 2 / 12,
        "reversal_rate": 4 / 7, "contradiction_rate": 2 / 4, "wrong_with_negated_rate": 6 / 10,
        "parse_failure_rate": 3 / 12, "coverage": 6 / 12, "accuracy_delta": 2 / 12,
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    assert {name: group["n"] for name, group in scores["by_finding"].items()} == {"Aorta": 1, "Edema": 10, "Other": 1}
    assert scores["by_finding"]["Other"]["n_worsened"] == 1


ONLY_ABSENT = {"options": ["Edema", "Atelectasis"], "negated": -1, "counterpart": -1}
RATES = ("n_reversals", "n_wrong_with_negated", "reversal_rate", "contradiction_rate", "wrong_with_negated_rate")


@pytest.mark.parametrize(
    ("text", "over", "expected"),
    [
        ("A", {}, (0, 0, 0.0, NAN, NAN)),
        ("no idea", ONLY_ABSENT, (0, 0, NAN, NAN, 0.0)),  # an unread choice never equals an option that is not there
        ("B", {"polarity": "unknown"}, (0, 1, NAN, NAN, 1.0)),
    ],
)
def test_rates_of_one_row(text, over, expected):
    scores = score_predictions([text], [row(**over)])
    assert [scores[name] for name in RATES] == pytest.approx(expected, nan_ok=True)


def test_per_sample_tells_the_reading_and_the_verdict():
    predictions = ["B", "C", "A or B"]
    per_sample = score_predictions(predictions, [row()] * 3, per_sample=True)["per_sample"]
    assert per_sample[0] == {
        "choice": 1, "outcome": "parsed", "correct": False, "verified_choice": 0, "verified_correct": True,
        "fired": True, "reason": "fired",
    }  # fmt: skip
    assert [sample["reason"] for sample in per_sample] == ["fired", "not_the_negated_option", "no_prediction"]
    assert (per_sample[2]["choice"], per_sample[2]["outcome"]) == (None, "ambiguous")


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"answer": 3}, "'answer': 3; expected an index into its 3 options$"),
        ({"answer": -1}, "'answer': -1; expected an index into its 3 options$"),
        ({"negated": 3}, "'negated': 3; expected an index into its 3 options or -1$"),
        ({"counterpart": -2}, "'counterpart': -2; expected an index into its 3 options or -1$"),
    ],
)
def test_a_bad_row_is_named(over, message):
    with pytest.raises(ValueError, match=f"row 2, column {message}"):
        score_predictions(["A", "A"], [row(), row(**over)])


responses = st.sampled_from(["A", "B", "C", "", "Edema", "No edema", "There is no edema", "A or B", "E", None])
questions = st.sampled_from([PRESENCE, ABSENCE, "What is this?", "Which finding is least likely present?"])
rows = st.builds(
    lambda question, answer, finding: row(question, answer=answer, finding=finding),
    questions,
    st.integers(0, 2),
    st.sampled_from(["Edema", "Atelectasis", "Pneumothorax"]),
)


@given(
    st.lists(st.tuples(responses, rows), min_size=1, max_size=20),
    st.sampled_from(["original", "extended"]),
    st.sampled_from(["slot0", "slot_agnostic"]),
    st.randoms(use_true_random=False),
)
def test_counts_add_up(cases, trigger, replacement, random):
    how = {"trigger": trigger, "replacement": replacement}
    scores = score_predictions([text for text, _ in cases], [reference for _, reference in cases], **how)
    counts = [name for name in scores if name == "n" or name.startswith("n_")]
    for name in counts:  # findings partition the rows
        assert scores[name] == sum(group[name] for group in scores["by_finding"].values())
    assert scores["n_correct"] + scores["n_wrong"] == scores["n"]
    assert scores["n_correct_verified"] - scores["n_correct"] == scores["n_improved"] - scores["n_worsened"]
    assert scores["n_improved"] + scores["n_worsened"] <= scores["n_changed"]
    assert scores["n_repairable_reversals"] <= scores["n_reversals"]
    assert scores["n_reversals_verified"] <= scores["n_reversals"]
    random.shuffle(cases)
    again = score_predictions([text for text, _ in cases], [reference for _, reference in cases], **how)
    assert {name: scores[name] for name in counts} == {name: again[name] for name in counts}
