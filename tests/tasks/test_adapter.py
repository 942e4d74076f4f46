"""From a document to its metrics: prompt, three readings of one answer, intervals."""

from __future__ import annotations

import json

import pytest

from medfaith.builders.cxr_contrabench.wording import NEGATION_FORMS, QUESTION_FORMS, format_negated_option
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.reading.choice import Answer
from medfaith.tasks.contrabench import adapter, fewshot, prompts
from tests.support.declined import DECLINED
from tests.support.tasks.evaluating import evaluate, figures, load


def build_document(polarity="presence", form="canonical_no", question_form="original", order=(0, 1, 2)) -> dict:
    options = ["Edema", format_negated_option("edema", form), "Pleural effusion"]
    return {
        "id": "x",
        "study_id": "patient1/study1",
        "images": ["one", "two"],
        "polarity": polarity,
        "question": QUESTION_FORMS[polarity][question_form],
        "options": [options[i] for i in order],
        "answer": order.index(0),
        "negated": order.index(1),
        "counterpart": order.index(0),
        "n_rows_skipped": 0,
        "n_images_sent": 2,
    }


def test_the_prompt_has_one_placeholder_an_image_and_every_option():
    assert prompts.b0(build_document()) == (
        "<image><image>\n"
        "Which of the following findings is present on this chest X-ray study?\n"
        "A. Edema\nB. No edema\nC. Pleural effusion\n"
        "Answer with the letter of the correct option."
    )
    assert prompts.target(build_document(order=(1, 2, 0))) == "C"


@pytest.mark.parametrize(
    ("name", "polarity", "phrases"),
    [
        ("cot", "absence", ["ABSENT / NOT PRESENT", "choose the finding name, not", "Final answer: [A/B/C]"]),
        ("cot", "presence", ["absence or presence?", "choose the present finding", "Final answer: [A/B/C]"]),
        ("instruct", "presence", ["Mind the polarity", prompts.INSTRUCTION]),
    ],
)
def test_other_prompts_keep_the_question_and_all_images(name, polarity, phrases):
    doc = build_document(polarity)
    text = getattr(prompts, name)(doc)
    assert text.startswith("<image><image>\n")
    assert text.count("<image>") == 2
    for phrase in [doc["question"], "A. Edema\nB. No edema\nC. Pleural effusion", *phrases]:
        assert phrase in text


POOL = [
    {"id": f"p{i}", "finding": f, "question": "Which?", "options": ["X", f"No {f}"], "answer": 0}
    for i, f in enumerate(["edema"] * 6 + ["nodule"])
]


def test_exemplars_are_of_two_findings_and_depend_on_the_row_alone():
    for row_id in (f"row{i}" for i in range(20)):
        exemplars = fewshot.sample_exemplars(row_id, POOL)
        assert exemplars == fewshot.sample_exemplars(row_id, POOL[::-1])
        assert len(exemplars) == 3
        assert {row["finding"] for row in exemplars} == {"edema", "nodule"}
        assert all(fewshot.format_exemplar(row).endswith("Answer: A") for row in exemplars)


def test_three_shot_sends_text_before_the_question_and_images_with_it():
    doc = build_document() | {
        "exemplars": [fewshot.format_exemplar(row) for row in fewshot.sample_exemplars("x", POOL)]
    }
    text = prompts.three_shot(doc)
    assert text.endswith(prompts.b0(doc))
    assert text.count("Answer: ") == 3
    assert "<image>" not in text.split("Answer: A")[2]
    assert text.count("<image>") == 2


def read_with_filters(text: str, doc: dict) -> dict[str, dict]:
    return {
        name: json.loads(getattr(adapter, name)([[text]], [doc])[0])
        for name in ("b0", "m1", "m1_slot_agnostic", "m1_extended")
    }


@pytest.mark.parametrize(
    ("text", "polarity", "form", "order", "choices"),
    [
        ("B", "presence", "canonical_no", (0, 1, 2), (1, 0, 0, 0)),
        ("B. No edema", "absence", "canonical_no", (0, 1, 2), (1, 0, 0, 0)),
        ("A", "presence", "canonical_no", (0, 1, 2), (0, 0, 0, 0)),
        ("C", "presence", "canonical_no", (0, 1, 2), (2, 2, 2, 2)),
        ("B", "presence", "absence_of", (0, 1, 2), (1, 1, 1, 0)),  # Table 20: the literal trigger does not cover it
        ("B", "absence", "clear_of", (0, 1, 2), (1, 0, 1, 0)),  # Table 21: the literal trigger covers it
        ("B", "absence", "not_present", (0, 1, 2), (1, 1, 1, 0)),
        ("C", "absence", "canonical_no", (2, 0, 1), (2, 0, 1, 1)),  # slot 0 is the distractor; slot-agnostic finds X
        ("no idea", "presence", "canonical_no", (0, 1, 2), (None, None, None, None)),
    ],
)
def test_four_readings_of_one_answer(text, polarity, form, order, choices):
    readings = read_with_filters(text, build_document(polarity, form, order=order))
    assert tuple(r["choice"] for r in readings.values()) == choices
    assert {r["before"] for r in readings.values()} == {choices[0]}


@pytest.mark.parametrize("polarity", ["presence", "absence"])
@pytest.mark.parametrize("form", NEGATION_FORMS)
def test_extended_m1_repairs_every_form_that_the_builder_emits_and_worsens_none(polarity, form):
    for question_form in QUESTION_FORMS["presence"]:
        for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
            doc = build_document(polarity, form, question_form, order)
            for letter in "ABC":
                values = adapter.process_results(doc, adapter.m1_extended([[letter]], [doc]))
                assert values["n_worsened"] == 0
                assert values["accuracy"] == float(letter != "ABC"[order.index(2)])


@pytest.mark.parametrize(("question_form", "fires"), [("original", True), ("p1", False), ("p2", True), ("p3", False)])
def test_the_literal_trigger_covers_the_paraphrases_that_table_12_says_it_covers(question_form, fires):
    readings = read_with_filters("B", build_document("absence", question_form=question_form))
    assert (readings["m1"]["choice"] == 0) is fires
    assert readings["m1_extended"]["choice"] == 0


def test_metrics_of_one_row():
    doc = build_document()
    names = ("accuracy", "reversal_rate", "n_reversals", "n_improved")
    for apply_filter, expected in ((adapter.b0, (0, 1, 1, 0)), (adapter.m1, (1, 0, 0, 1))):
        values = adapter.process_results(doc, apply_filter([["B"]], [doc]))
        assert tuple(values[name] for name in names) == expected
    assert values["accuracy_ci_low"] == {"value": 1.0, "study_id": "patient1/study1"}
    control = doc | {"negated": -1, "counterpart": -1, "options": ["Edema", "Fracture", "Nodule"]}
    values = adapter.process_results(control, adapter.b0([["yes"]], [control]))
    assert values["parse_failure_rate"] == 1.0
    assert not [name for name in values if "reversal" in name]


def format_reading(choice, before=None, outcome="answered", evidence="letter", **more):
    """Encode a reading the way filters pass it to the metrics."""
    return json.dumps({"choice": choice, "before": choice if before is None else before, "outcome": outcome,
                       "reason": "", "evidence": evidence, "verifier": "not_applied", **more})  # fmt: skip


# polarity, right option, reading, expected values; the negated option is 1
ROWS = [
    ("presence", 0, format_reading(1), {"n_reversals": 1, "n_reversals_from_prose": 0, "reversal_rate": 1}),
    ("presence", 0, format_reading(1, evidence="text"), {"n_reversals": 1, "n_reversals_from_prose": 0}),
    ("presence", 0, format_reading(1, evidence="prose"),
     {"n_reversals": 0, "reversal_rate": 0, "n_reversals_from_prose": 1, "reversal_rate_from_prose": 1}),
    ("presence", 0, format_reading(0), {"n_reversals": 0, "n_reversals_from_prose": 0, "n_improved": 0}),
    ("presence", 0, format_reading(0, 1), {"n_reversals": 0, "n_improved": 1, "n_worsened": 0}),
    ("presence", 1, format_reading(1), {"accuracy": 1, "n_reversals": None, "n_reversals_from_prose": None}),
    ("presence", 1, format_reading(0, 1), {"accuracy": 0, "n_reversals": None, "n_worsened": 1}),
    ("absence", 2, format_reading(1), {"n_contradictions": 1, "contradiction_rate": 1, "n_reversals": None}),
    ("absence", 2, format_reading(1, evidence="prose"), {"n_contradictions": 0, "n_contradictions_from_prose": 1}),
    ("other", 0, format_reading(1), {"n_reversals": None, "n_contradictions": None}),
    ("presence", 0, format_reading(None, outcome="declined", evidence=""),
     {"declined_rate": 1, "parse_failure_rate": 0, "n_reversals": 0, "accuracy": 0}),
    ("presence", 0, format_reading(None, outcome="unread", evidence=""),
     {"declined_rate": 0, "parse_failure_rate": 1, "n_reversals": 0, "accuracy": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("polarity", "answer", "reading", "expected"), ROWS)
def test_errors_follow_the_rule_of_the_metric(polarity, answer, reading, expected):
    doc = build_document() | {"polarity": polarity, "negated": 1, "answer": answer}
    values = adapter.process_results(doc, [reading])
    assert {name: values.get(name) for name in expected} == expected


def test_filters_hand_on_how_an_answer_was_read():
    (reading,) = adapter.m1([["B"]], [build_document()])
    assert json.loads(reading) == {
        "choice": 0, "before": 1, "outcome": "answered", "reason": "", "evidence": "letter", "verifier": "fired",
    }  # fmt: skip
    (unread,) = adapter.m1([["A or B"]], [build_document()])
    assert json.loads(unread) == {
        "choice": None, "before": None, "outcome": "unread", "reason": "ambiguous", "evidence": "",
        "verifier": "no_prediction",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["m1", "m1_slot_agnostic", "m1_extended", "m2", "packet_m1"])
def test_no_verifier_replaces_a_choice_read_from_sentences(name):
    (reading,) = getattr(adapter, name)([["There is no edema."]], [build_document()])
    reading = json.loads(reading)
    assert (reading["choice"], reading["before"], reading["evidence"]) == (1, 1, "prose")
    assert reading["verifier"].startswith("read_from_prose")


def test_the_location_repair_leaves_sentences_alone():
    doc = build_document() | {"question": "Which finding is seen in the left lung?"}
    doc["options"] = ["Right pleural effusion", "Left pleural effusion", "Cardiomegaly"]
    for evidence, choice, reason in (("letter", 1, "fired"), ("prose", 0, "read_from_prose")):
        repaired = adapter._apply_m2(doc["question"], doc["options"], Answer(0, "answered", evidence=evidence))
        assert repaired == (choice, f"no_negated_option/{reason}")


@pytest.mark.parametrize("text", DECLINED)
def test_a_refusal_is_declined_under_every_filter(text):
    for name in ("b0", "m1", "m1_slot_agnostic", "m1_extended", "m2", "packet_b0", "packet_m1", "y0"):
        (reading,) = getattr(adapter, name)([[text]], [build_document()])
        values = adapter.process_results(build_document(), [reading])
        assert (values["declined_rate"], values["parse_failure_rate"], values["n_reversals"]) == (1, 0, 0)


def test_intervals_are_clustered_by_study():
    holds = [study % 2 == 1 for study in range(20) for _ in range(5)]
    studies = [f"s{study}" for study in range(20) for _ in range(5)]
    expected = bootstrap_mean(holds, groups=studies, bounds=(0, 1), n_resamples=2000, seed=42)
    rows = [adapter.with_interval("accuracy", *row) for row in zip(holds, studies, strict=True)]
    ends = (expected.low, expected.high)
    scores = figures(adapter.metrics, rows)
    assert (scores["accuracy_ci_low"], scores["accuracy_ci_high"]) == ends
    unclustered = bootstrap_mean(holds)
    assert expected.high - expected.low > 1.5 * (unclustered.high - unclustered.low)


@pytest.fixture(scope="module")
def results(phantom_build, phantom_roots):
    loaded = load(["medfaith_contrabench", "medfaith_contrabench_original"], phantom_build, phantom_roots)
    models = ("oracle", "negation_attracted", "always_yes", "majority", "random")
    runs = {model: evaluate(model, loaded, limit=30) for model in models}
    return lambda model, task: runs[model][f"medfaith_contrabench_{task}"]


PROTOCOLS = {
    "chexpert_presence": "reversal",
    "chexpert_absence": "contradiction",
    "openi_report_absence": "contradiction",
}


@pytest.mark.parametrize(("protocol", "error"), PROTOCOLS.items())
@pytest.mark.parametrize("group", ["", "original::"])
def test_baselines_have_the_scores_that_can_be_derived_by_hand(results, group, protocol, error):
    """Always answering A is right if the target comes first: always in the original order, else in one row of three."""
    task = f"{group}{protocol}"
    docs = results("oracle", task)["docs"]
    right_is_first, negated_is_first = ([doc[index] == 0 for doc in docs] for index in ("answer", "negated"))
    slot_0 = [min(i for i in range(3) if i != doc["negated"]) == doc["answer"] for doc in docs]  # M1 on absence
    n = len(docs)
    repaired_share = 1 if protocol == "chexpert_presence" else sum(slot_0) / n
    put_right = sum(f and (s or error == "reversal") for f, s in zip(negated_is_first, slot_0, strict=True))
    expected = {
        "oracle": (1, 0, 1, 1),
        "negation_attracted": (0, 1, repaired_share, 1),
        "always_yes": (sum(right_is_first) / n, sum(negated_is_first) / n, (sum(right_is_first) + put_right) / n,
                       (sum(right_is_first) + sum(negated_is_first)) / n),
    }  # fmt: skip
    if group:
        assert expected["always_yes"] == (1, 0, 1, 1)
    for model, (accuracy, error_rate, verified, extended) in expected.items():
        scores = results(model, task)["scores"]
        assert scores["accuracy,b0"] == pytest.approx(accuracy)
        assert scores["always_a_accuracy,b0"] == pytest.approx(sum(right_is_first) / n)
        assert scores[f"{error}_rate,b0"] == pytest.approx(error_rate)
        assert scores[f"n_{error}s,b0"] == round(error_rate * scores["sample_len"])
        assert (scores["accuracy,m1"], scores["accuracy,m1_extended"]) == pytest.approx((verified, extended))
        assert (scores[f"{error}_rate,m1"], scores["n_worsened,m1"]) == (0, 0)
        assert scores["accuracy_ci_low,b0"] <= scores["accuracy,b0"] <= scores["accuracy_ci_high,b0"]
    scores = results("random", task)["scores"]
    assert scores["accuracy,m1_extended"] == pytest.approx(scores["accuracy,b0"] + scores[f"{error}_rate,b0"])
    assert scores["accuracy_ci_low,b0"] < scores["accuracy,b0"] < scores["accuracy_ci_high,b0"]
    answers = [doc["answer"] for doc in docs]
    most = max(answers.count(answer) for answer in range(3)) / n
    assert results("majority", task)["scores"]["accuracy,b0"] == pytest.approx(most)


def test_the_control_has_no_polarity_errors(results):
    scores = results("oracle", "chexpert_positive_only")["scores"]
    assert scores["accuracy,b0"] == 1
    assert not [name for name in scores if "reversal" in name]


@pytest.mark.parametrize(
    ("group", "n_tasks"),
    [
        ("cot", 3), ("3shot_images", 2), ("chexstruct", 2),
        *(pytest.param(*group, marks=pytest.mark.full)
          for group in (("instruct", 3), ("3shot", 2), ("stress", 16), ("rexvqa", 6), ("y0", 6))),
    ],
)  # fmt: skip
def test_every_group_runs_on_the_phantom(group, n_tasks, contrabench_of_all_sources):
    """Run all prompts and protocols with the oracle: each document has its prompt, and the correct letter scores 1."""
    _, data = contrabench_of_all_sources
    result = evaluate("oracle", load([f"medfaith_contrabench_{group}"], data), limit=2)
    assert len(result) == n_tasks
    assert {run["scores"]["accuracy,b0"] for run in result.values()} == {1}
    if group == "3shot":
        shots = result["medfaith_contrabench_3shot::chexpert_presence"]["samples"][0]
        assert shots["doc"]["prompt"] == "3shot"
        assert shots["arguments"][0][0].count("Answer: ") == 3
