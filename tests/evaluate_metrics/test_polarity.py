"""Scores of polarity: a case counted by hand, undefined values, bad rows, and invariants."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.polarity.errors import can_err, chose_negated, is_error
from medfaith.evaluate_metrics.polarity.score import Samples, polarity_scores, score_predictions
from medfaith.evaluate_metrics.polarity.verifier import REASONS, verify_answer
from medfaith.evaluate_metrics.reading.choice import Answer
from tests.support.declined import DECLINED
from tests.support.evaluate_metrics.modules import compute_by_module

NAN = float("nan")
PRESENCE = "Which of the following findings is present on this chest X-ray study?"
ABSENCE = "Which of the following findings is absent on this chest X-ray study?"


def make_row(question=PRESENCE, options=("Edema", "No edema", "Atelectasis"), answer=0, negated=1, **over):
    polarity = {PRESENCE: "presence", ABSENCE: "absence"}.get(question, "other")
    base = {
        "question": question,
        "options": options if isinstance(options, str) else [*options],
        "answer": answer,
        "negated": negated,
    }
    return {**base, "counterpart": 0, "polarity": polarity, "finding": "Edema", **over}


def test_a_table_counted_by_hand():
    aorta = ("No ascending aortic enlargement", "Ascending aortic enlargement", "Aortic knob enlargement")
    absence_row = make_row(
        "What is least likely present?", ("Edema", "No edema", "Atelectasis"), answer=1, finding="Other"
    )
    cases = [
        ("A", make_row()),  # right
        ("B", make_row()),  # reversal, repaired
        (
            "No edema",
            make_row(options=("Atelectasis", "Edema", "No edema"), answer=1, negated=2, counterpart=1),
        ),  # same
        ("A", make_row(options=aorta, answer=1, negated=0, counterpart=1, finding="Aorta")),  # reversal, not repaired
        ("B", make_row(answer=2, counterpart=0)),  # reversal, its counterpart put, still wrong
        ("C", make_row(ABSENCE)),  # wrong, no negation
        ("B", make_row(ABSENCE)),  # contradiction, repaired
        (
            "C",
            make_row(ABSENCE, ("Atelectasis", "Edema", "No edema"), answer=1, negated=2),
        ),  # contradiction, slot 0 drifts
        ("B", absence_row),  # right with the negated option, worsened by the original trigger
        ("", make_row()),
        ("A or B", make_row()),
        ("E", make_row(ABSENCE)),
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
        ("B", {"polarity": "other"}, (0, 1, NAN, NAN, 1.0)),
        ("B", {"answer": 1}, (0, 0, NAN, NAN, NAN)),  # right: no reversal, and none could be
    ],
)
def test_rates_of_one_row(text, over, expected):
    scores = score_predictions([text], [make_row(**over)])
    assert [scores[name] for name in RATES] == pytest.approx(expected, nan_ok=True)


def test_per_sample_tells_the_reading_and_the_verdict():
    predictions = ["B", "C", "A or B"]
    per_sample = score_predictions(predictions, [make_row()] * 3, per_sample=True)["per_sample"]
    assert per_sample[0] == {
        "choice": 1, "outcome": "answered", "stage": per_sample[0]["stage"], "unread_reason": "", "evidence": "letter",
        "correct": False, "verified_choice": 0, "verified_correct": True, "fired": True, "reason": "fired",
    }  # fmt: skip
    assert per_sample[0]["stage"]
    assert [sample["reason"] for sample in per_sample] == ["fired", "not_the_negated_option", "no_prediction"]
    unread = per_sample[2]
    assert (unread["choice"], unread["outcome"], unread["unread_reason"]) == (None, "unread", "ambiguous")


# question's polarity, negated option, right option, chosen option -> can be a reversal, is one; contradiction likewise
RULE = [
    ("presence", 1, 0, 1, (True, True, False, False)),
    ("presence", 1, 0, 0, (True, False, False, False)),
    ("presence", 1, 0, -1, (True, False, False, False)),
    ("presence", 1, 1, 1, (False, False, False, False)),  # right: the question's answer is the negated option
    ("presence", -1, 0, -1, (False, False, False, False)),
    ("absence", 1, 0, 1, (False, False, True, True)),
    ("absence", 1, 2, 1, (False, False, True, True)),
    ("absence", 1, 1, 1, (False, False, False, False)),
    ("absence", 1, 1, 0, (False, False, False, False)),
    ("other", 1, 0, 1, (False, False, False, False)),
]


def test_the_rule_of_errors():
    for polarity, negated, answer, choice, expected in RULE:
        fields = {"polarity": polarity, "negated": negated, "answer": answer}
        flags = [
            f
            for kind in ("reversal", "contradiction")
            for f in (can_err(kind, **fields), is_error(kind, choice, **fields))
        ]
        assert tuple(map(bool, flags)) == expected, (fields, choice)
    polarity, negated, answer, choice, expected = map(np.array, zip(*RULE, strict=True))
    fields = {"polarity": polarity, "negated": negated, "answer": answer}
    assert is_error("reversal", choice, **fields).tolist() == expected[:, 1].tolist()
    assert chose_negated(choice, negated=negated).tolist() == ((choice == 1) & (negated == 1)).tolist()


def make_samples(*rows):
    """Make samples of presence questions with options "X" (right) and "No X".

    Args:
        rows: Tuples of (choice, outcome, reason, evidence). A choice of "No X" is verified unless read from prose.
    """
    choice, outcome, reason, evidence = (np.array(column) for column in zip(*rows, strict=True))
    n = len(rows)
    return Samples(
        choice=choice, verified=np.where((choice == 1) & (evidence != "prose"), 0, choice), answer=np.zeros(n, int),
        negated=np.ones(n, int), counterpart=np.zeros(n, int), polarity=np.array(["presence"] * n), outcome=outcome,
        reason=reason, evidence=evidence, finding=np.array(["Edema"] * n),
    )  # fmt: skip


def test_declined_unread_and_prose_are_counted_apart():
    cases = [
        (0, "answered", "", "letter"),
        (1, "answered", "", "letter"),
        (1, "answered", "", "text"),
        (1, "answered", "", "prose"),
        (1, "answered", "", ""),  # from an old log without the evidence
        (-1, "declined", "", ""),
        (-1, "declined", "", ""),
        (-1, "unread", "none", ""),
        (-1, "unread", "empty", ""),
        (-1, "unread", "ambiguous", ""),
        (-1, "unread", "out_of_range", ""),
        (-1, "unread", "cut", ""),
    ]
    scores = polarity_scores(make_samples(*cases))
    expected = {
        "n": 12, "n_correct": 1, "n_wrong": 11, "n_presence": 12, "n_unparsed": 2, "n_ambiguous": 1, "n_invalid": 1,
        "n_cut": 1, "parse_failure_rate": 5 / 12, "n_declined": 2, "declined_rate": 2 / 12, "n_from_letter": 2,
        "n_from_text": 1, "n_from_prose": 1, "n_reversals": 3, "reversal_rate": 3 / 12, "n_reversals_from_prose": 1,
        "reversal_rate_from_prose": 1 / 12, "n_wrong_with_negated": 3, "n_wrong_with_negated_from_prose": 1,
        "wrong_with_negated_rate": 3 / 11, "n_repairable_reversals": 3, "n_reversals_verified": 0,
        "n_reversals_from_prose_verified": 1, "n_correct_verified": 4, "n_contradictions_from_prose": 0,
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("evidence", "verify_prose", "expected"),
    [
        ("letter", False, (0, True, "fired")),
        ("text", False, (0, True, "fired")),
        ("", False, (0, True, "fired")),
        ("prose", False, (1, False, "read_from_prose")),
        ("prose", True, (0, True, "fired")),
    ],
)
def test_the_verifier_leaves_prose_alone_unless_asked(evidence, verify_prose, expected):
    answer = Answer(1, "answered", evidence=evidence)
    verdict = verify_answer(PRESENCE, ["Edema", "No edema", "Atelectasis"], answer, verify_prose=verify_prose)
    assert verdict == expected
    assert verdict.reason in REASONS


def test_only_what_it_would_change_is_said_to_be_from_prose():
    options = ["Edema", "No edema", "Atelectasis"]
    reasons = [
        verify_answer(PRESENCE, options, Answer(choice, "answered", evidence="prose")).reason for choice in (0, 1, 2)
    ]
    assert reasons == ["not_the_negated_option", "read_from_prose", "not_the_negated_option"]


def test_an_answer_in_prose_is_a_reversal_from_prose():
    for verify_prose, accuracy in ((False, 0.0), (True, 1.0)):
        scores = score_predictions(["There is no edema."], [make_row()], verify_prose=verify_prose)
        summary = scores["n_reversals"], scores["n_reversals_from_prose"], scores["accuracy_verified"]
        assert summary == (0, 1, accuracy)


@pytest.mark.parametrize("text", DECLINED)
def test_a_refusal_is_declined_and_the_verifier_makes_nothing_of_it(text):
    scores = score_predictions([text], [make_row()], verify_prose=True)
    names = ("n_declined", "parse_failure_rate", "n_reversals", "n_reversals_from_prose", "accuracy_verified")
    assert [scores[name] for name in names] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"answer": 3}, "'answer': 3; expected an index into its 3 options$"),
        ({"answer": -1}, "'answer': -1; expected an index into its 3 options$"),
        ({"negated": 3}, "'negated': 3; expected an index into its 3 options or -1$"),
        ({"counterpart": -2}, "'counterpart': -2; expected an index into its 3 options or -1$"),
        ({"answer": 0.5}, "'answer': 0.5; expected an index into its 3 options$"),
        ({"answer": True}, "'answer': True; expected an index into its 3 options$"),
        ({"answer": "1"}, "'answer': '1'; expected an index into its 3 options$"),
        ({"answer": None}, "'answer': None; expected an index into its 3 options$"),
        ({"negated": 1.0}, "'negated': 1.0; expected an index into its 3 options or -1$"),
        ({"counterpart": False}, "'counterpart': False; expected an index into its 3 options or -1$"),
        ({"polarity": "Presence"}, "'polarity': 'Presence'; expected one of presence, absence, other$"),
        ({"polarity": None}, "'polarity': None; expected one of presence, absence, other$"),
        ({"options": "Edema"}, "'options': 'Edema'; expected a list of texts$"),
        ({"options": ["Edema", 3]}, r"'options': \['Edema', 3\]; expected a list of texts$"),
    ],
)
def test_a_bad_row_is_named(over, message):
    """Also by the module of evaluate, whose storage would turn 0.5 into 0."""
    arguments = ["A", "A"], [make_row(), make_row(**over)]
    for compute in (score_predictions, partial(compute_by_module, "polarity")):
        with pytest.raises(ValueError, match=f"row 2, column {message}"):
            compute(*arguments)


def test_integers_of_numpy_are_integers():
    reference = make_row(answer=np.int64(0), negated=np.int32(1))
    assert score_predictions(["A"], [reference])["n_correct"] == 1


def test_the_module_takes_prose_where_asked():
    scores = [
        compute_by_module("polarity", ["A"], [make_row()], verify_prose=verify_prose) for verify_prose in (False, True)
    ]
    assert [result["n"] for result in scores] == [1, 1]


responses = st.sampled_from(["A", "B", "C", "", "Edema", "No edema", "There is no edema", "A or B", "E", None])
questions = st.sampled_from([PRESENCE, ABSENCE, "What is this?", "Which finding is least likely present?"])
rows = st.builds(
    lambda question, answer, finding: make_row(question, answer=answer, finding=finding),
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
    options = {"trigger": trigger, "replacement": replacement}
    scores = score_predictions([text for text, _ in cases], [reference for _, reference in cases], **options)
    counts = [name for name in scores if name == "n" or name.startswith("n_")]
    for name in counts:  # findings partition the rows
        assert scores[name] == sum(group[name] for group in scores["by_finding"].values())
    assert scores["n_correct"] + scores["n_wrong"] == scores["n"]
    assert scores["n_correct_verified"] - scores["n_correct"] == scores["n_improved"] - scores["n_worsened"]
    assert scores["n_improved"] + scores["n_worsened"] <= scores["n_changed"]
    assert scores["n_repairable_reversals"] <= scores["n_reversals"]
    assert scores["n_reversals_verified"] <= scores["n_reversals"]
    unread = sum(scores[name] for name in ("n_unparsed", "n_ambiguous", "n_invalid", "n_cut"))
    assert unread == round(scores["parse_failure_rate"] * scores["n"])
    from_all = sum(scores[f"n_from_{evidence}"] for evidence in ("letter", "text", "prose"))
    assert from_all + scores["n_declined"] + unread == scores["n"]
    errors = [scores[f"n_{kind}s{end}"] for kind in ("reversal", "contradiction") for end in ("", "_from_prose")]
    negated = scores["n_wrong_with_negated"] + scores["n_wrong_with_negated_from_prose"]
    assert sum(errors) <= negated <= scores["n_wrong"]
    random.shuffle(cases)
    shuffled_scores = score_predictions([text for text, _ in cases], [reference for _, reference in cases], **options)
    assert {name: scores[name] for name in counts} == {name: shuffled_scores[name] for name in counts}
