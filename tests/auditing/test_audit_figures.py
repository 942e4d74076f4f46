"""Figures and verdicts of an audit, counted by hand from its logs."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.auditing import figures, sentences, tables
from medfaith.auditing.plan import Task, sample_strata
from medfaith.auditing.run import folder
from medfaith.auditing.verdicts import Judged, judge
from medfaith.auditing.wordings import compare_wordings
from medfaith.auditing.write import write_blind_clean
from medfaith.evaluate_metrics.confidence.image_verdict import ImageVerdict
from medfaith.evaluate_metrics.confidence.place import PlaceVerdict
from medfaith.loaders.row_ids import read_ids
from tests.support.auditing.same_answers import CLOSED, EDITED, judge_same_answers, patch_declined
from tests.support.reporting.heal_logs import question, write_heal

pytestmark = pytest.mark.usefixtures("tables_alone")

OPEN = "medfaith_heal_vindr_open"


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


ANSWERS = {  # of 120 rows; "N" where a condition is not named
    "declines with half of the other images": (
        {"other": "D" * 60 + "N" * 60}, "reacts", ("although without an image, or with another one",)),
    "declines under one blind control": (
        {"image": "Y" * 120, "none": "Y" * 80 + "D" * 40, "cropped": "Y" * 120}, "uses",
        ("better than under every blind control that it answers.", "blank: +100.00 [", "declined under none that")),
    "declines after a harmless change": (
        {"image": "Y" * 120, "cropped": "D" * 120}, "recalls",
        ("-100.00 [", "]; an answer that is missing under one of the two counts as wrong.")),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_declined_answers_and_what_the_sentences_say(case, tmp_path, monkeypatch):
    patch_declined(monkeypatch)
    answers_by_condition, name, expected = ANSWERS[case]
    docs = [question(n, "positive") for n in range(120)]
    texts = {"Y": "Yes", "N": "No", "D": "No comment."}
    for condition in ("image", "none", "blank", "other", "cropped"):
        answers = answers_by_condition.get(condition, "N" * 120)
        rows = [(doc, texts[letter]) for doc, letter in zip(docs, answers, strict=True)]
        write_heal(folder(tmp_path, CLOSED, condition) / "m", "closed", rows, model="m", task=CLOSED)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(tmp_path, ["m"], tasks, 0.05), 0.05)
    text = "\n".join(sentences.write_sentences(judged, 0.05))
    assert judged.image.name == name
    assert all(part in text for part in expected), text


@pytest.mark.parametrize("n_rows", [4, 5])
def test_few_patients_have_no_other_patient_who_speaks_against(n_rows, tmp_path):
    docs = [question(n, "positive") for n in range(n_rows)]
    for condition, answer in {"image": "Yes", "none": "Yes", "other": "No"}.items():
        out = folder(tmp_path, CLOSED, condition) / "m"
        write_heal(out, "closed", [(doc, answer) for doc in docs], model="m", task=CLOSED)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(tmp_path, ["m"], tasks, 0.05), 0.05)
    text = "\n".join(sentences.write_sentences(judged, 0.05))
    assert judged.image.name == "open"
    assert "one more patient" not in text


@pytest.mark.parametrize(
    ("n_donors", "name", "sentence"),
    [
        (200, "uses", "Its own image against another patient's: +20.00 ["),
        (10, "open", "; they show 10 other images, and "),
        (10, "open", "] (over the 10 other images that the rows show); against none: "),
        (3, "open", "; they show 3 other images, and 5 are the least."),
        (1, "open", "; they show 1 other image, and 5 are the least."),
        (1, "open", " another patient's: +20.00 [–, –] (over the 1 other image that the rows show); against none: "),
    ],
)
def test_the_images_that_other_shows_are_read_from_the_log(n_donors, name, sentence, tmp_path):
    """The model is right in half of the rows, and with another image wrong for seven of ten images."""
    docs = [question(n, "positive") for n in range(200)]
    for condition in ("image", "none", "other"):
        rows = [
            (
                doc | {"images": f"vindr_cxr:test/donor{n % n_donors}.dicom"} if condition == "other" else doc,
                "Yes" if (n % 2 if condition == "image" else n % 10 > 6) else "No",
            )
            for n, doc in enumerate(docs)
        ]
        out = folder(tmp_path, CLOSED, condition) / "m"
        control = condition.replace("image", "")
        write_heal(out, "closed", rows, model="m", task=CLOSED, control=control)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(tmp_path, ["m"], tasks, 0.05), 0.05)
    assert judged.image.name == name
    text = "\n".join(sentences.write_sentences(judged, 0.05))
    assert sentence in text, text
    assert "10 patients" not in text


def test_a_place_without_absent_rows_has_no_floor(tmp_path, monkeypatch):
    judged = judge_same_answers("positive", 120, "Yes", EDITED, tmp_path, monkeypatch)
    (sentence,) = (line for line in sentences.write_sentences(judged, 0.05) if "depend on the place" in line)
    assert "(no artefact floor, for want of rows where it is absent: occluded +0.00 [" in sentence


@pytest.mark.parametrize(("n_patients", "is_limited"), [(10, True), (60, False)])
def test_no_use_of_few_patients_holds_for_these_alone(n_patients, is_limited, tmp_path):
    docs = [question(n, "positive", image=n % n_patients) for n in range(60)]
    for condition in ("image", "none", "other"):
        out = folder(tmp_path, CLOSED, condition) / "m"
        write_heal(out, "closed", [(doc, "Yes") for doc in docs], model="m", task=CLOSED)
    tasks = [Task(CLOSED, "heal-medvqa", tuple(doc["id"] for doc in docs), "")]
    (judged,) = judge(figures.read_audit(tmp_path, ["m"], tasks, 0.05), 0.05)
    text = "\n".join(sentences.write_sentences(judged, 0.05))
    assert "The model makes no use of the image" in text
    assert ("; this holds for these 10 patients alone." in text) == is_limited


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
        (judged,) = judge([audit], 0.05)
        first, second = (line for line in sentences.write_sentences(judged, 0.05, compared) if "ording" in line)
        assert re.fullmatch(r"Wordings: worst 50\.00 \(.*1\), best 100\.00 \(.*\), spread 50\.00 points\.", first)
        assert second.startswith(
            "It is right by the wording only: " if expected else "Its score depends on the wording"
        )


def test_a_model_with_one_score_under_all_wordings(tmp_path, monkeypatch):
    judged = judge_same_answers("positive", 20, "Yes", ("cropped", "wording_1", "wording_2"), tmp_path, monkeypatch)
    compared = compare_wordings(judged.audit, 0.05)
    assert compared is not None
    lines = sentences.write_sentences(judged, 0.05, compared)
    assert [line for line in lines if "ording" in line] == ["Wordings: the score is 100.00 under each of the 3."]
    (change,) = (line for line in lines if "harmless" in line)
    assert change.startswith("Under the harmless change cropped its score changes by +0.00 (none differs)")


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
