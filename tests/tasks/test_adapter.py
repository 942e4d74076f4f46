"""From a document to its metrics: prompt, three readings of one answer, intervals."""

from __future__ import annotations

import json
from typing import Any

import lm_eval
import pytest
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager

from medfaith.builders.cxr_contrabench.wording import NEGATION_FORMS, QUESTION_FORMS, negated_option
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.tasks import include_path, register_models
from medfaith.tasks.contrabench import adapter, fewshot, prompts


def document(polarity="presence", form="canonical_no", question_form="original", order=(0, 1, 2)) -> dict:
    options = ["Edema", negated_option("edema", form), "Pleural effusion"]
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
    }


def test_the_prompt_has_one_placeholder_an_image_and_every_option():
    assert prompts.b0(document()) == (
        "<image><image>\n"
        "Which of the following findings is present on this chest X-ray study?\n"
        "A. Edema\nB. No edema\nC. Pleural effusion\n"
        "Answer with the letter of the correct option."
    )
    assert prompts.target(document(order=(1, 2, 0))) == "C"


@pytest.mark.parametrize(
    ("name", "polarity", "words"),
    [
        ("cot", "absence", ["ABSENT / NOT PRESENT", "choose the finding name, not", "Final answer: [A/B/C]"]),
        ("cot", "presence", ["absence or presence?", "choose the present finding", "Final answer: [A/B/C]"]),
        ("instruct", "presence", ["Mind the polarity", prompts.INSTRUCTION]),
    ],
)
def test_other_prompts_keep_the_question_and_all_images(name, polarity, words):
    doc = document(polarity)
    text = getattr(prompts, name)(doc)
    assert text.startswith("<image><image>\n")
    assert text.count("<image>") == 2
    for part in [doc["question"], "A. Edema\nB. No edema\nC. Pleural effusion", *words]:
        assert part in text


POOL = [
    {"id": f"p{i}", "finding": f, "question": "Which?", "options": ["X", f"No {f}"], "answer": 0}
    for i, f in enumerate(["edema"] * 6 + ["nodule"])
]


@pytest.mark.parametrize("row_id", [f"row{i}" for i in range(20)])
def test_exemplars_are_of_two_findings_and_depend_on_the_row_alone(row_id):
    drawn = fewshot.exemplars(row_id, POOL)
    assert drawn == fewshot.exemplars(row_id, POOL[::-1])
    assert len(drawn) == 3
    assert {row["finding"] for row in drawn} == {"edema", "nodule"}
    assert all(fewshot.text(row).endswith("Answer: A") for row in drawn)


def test_three_shot_sends_text_before_the_question_and_images_with_it():
    doc = document() | {"exemplars": [fewshot.text(row) for row in fewshot.exemplars("x", POOL)]}
    text = prompts.three_shot(doc)
    assert text.endswith(prompts.b0(doc))
    assert text.count("Answer: ") == 3
    assert "<image>" not in text.split("Answer: A")[2]
    assert text.count("<image>") == 2


def readings(text: str, doc: dict) -> dict[str, dict]:
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
        ("B", "absence", "clear_of", (0, 1, 2), (1, 0, 1, 0)),  # Table 21: here it does
        ("B", "absence", "not_present", (0, 1, 2), (1, 1, 1, 0)),
        ("C", "absence", "canonical_no", (2, 0, 1), (2, 0, 1, 1)),  # slot 0 is the distractor; slot-agnostic finds X
        ("no idea", "presence", "canonical_no", (0, 1, 2), (None, None, None, None)),
    ],
)
def test_four_readings_of_one_answer(text, polarity, form, order, choices):
    read = readings(text, document(polarity, form, order=order))
    assert tuple(r["choice"] for r in read.values()) == choices
    assert {r["before"] for r in read.values()} == {choices[0]}


@pytest.mark.parametrize("polarity", ["presence", "absence"])
@pytest.mark.parametrize("form", NEGATION_FORMS)
@pytest.mark.parametrize("question_form", QUESTION_FORMS["presence"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_extended_m1_repairs_every_form_that_the_builder_emits_and_worsens_none(polarity, form, question_form, order):
    doc = document(polarity, form, question_form, order)
    for letter in "ABC":
        values = adapter.process_results(doc, adapter.m1_extended([[letter]], [doc]))
        assert values["n_worsened"] == 0
        assert values["accuracy"] == float(letter != "ABC"[order.index(2)])


@pytest.mark.parametrize(("question_form", "fires"), [("original", True), ("p1", False), ("p2", True), ("p3", False)])
def test_the_literal_trigger_covers_the_paraphrases_that_table_12_says_it_covers(question_form, fires):
    read = readings("B", document("absence", question_form=question_form))
    assert (read["m1"]["choice"] == 0) is fires
    assert read["m1_extended"]["choice"] == 0


def test_metrics_of_one_row():
    doc = document()
    (before,), (after,) = adapter.b0([["B"]], [doc]), adapter.m1([["B"]], [doc])
    values = adapter.process_results(doc, [before])
    assert (values["accuracy"], values["reversal_rate"], values["n_reversals"], values["n_improved"]) == (
        0.0,
        1.0,
        1,
        0,
    )
    values = adapter.process_results(doc, [after])
    assert (values["accuracy"], values["reversal_rate"], values["n_reversals"], values["n_improved"]) == (
        1.0,
        0.0,
        0,
        1,
    )
    assert values["accuracy_ci_low"] == [1.0, "patient1/study1"]
    control = doc | {"negated": -1, "counterpart": -1, "options": ["Edema", "Fracture", "Nodule"]}
    values = adapter.process_results(control, adapter.b0([["yes"]], [control]))
    assert values["parse_failure_rate"] == 1.0
    assert not [name for name in values if "reversal" in name]


def test_intervals_are_clustered_by_study():
    items = [(float(study % 2), f"s{study}") for study in range(20) for _ in range(5)]
    expected = bootstrap_mean([v for v, _ in items], groups=[s for _, s in items], n_resamples=2000, seed=42)
    assert (adapter.ci_low(items), adapter.ci_high(items)) == (expected.low, expected.high)
    alone = bootstrap_mean([v for v, _ in items])
    assert expected.high - expected.low > 1.5 * (alone.high - alone.low)


@pytest.fixture(scope="module")
def results(phantom_build, phantom_roots):
    register_models()
    metadata = {"data": str(phantom_build), "roots": {name: str(root) for name, root in phantom_roots.items()}}
    manager = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)

    def run(model: str) -> dict[str, dict]:
        evaluate: Any = lm_eval.evaluate
        result = evaluate(get_model(model)(), task_dict=manager.load(["medfaith_contrabench"]), bootstrap_iters=0)
        return {k.removeprefix("medfaith_contrabench_"): v for k, v in result["results"].items()}

    return {model: run(model) for model in ("oracle", "negation_attracted", "always_yes", "majority", "random")}


PROTOCOLS = {
    "chexpert_presence": "reversal",
    "chexpert_absence": "contradiction",
    "openi_report_absence": "contradiction",
}


@pytest.mark.parametrize(("task", "error"), PROTOCOLS.items())
def test_baselines_have_the_scores_that_can_be_derived_by_hand(results, task, error):
    """In the published layout the target comes first, so that whoever answers A is right."""
    expected = {"oracle": (1, 0, 1), "negation_attracted": (0, 1, 1), "always_yes": (1, 0, 1), "majority": (1, 0, 1)}
    for model, (accuracy, error_rate, verified) in expected.items():
        scores = results[model][task]
        assert scores["accuracy,b0"] == accuracy
        assert scores[f"{error}_rate,b0"] == error_rate
        assert scores[f"n_{error}s,b0"] == error_rate * scores["sample_len"]
        assert (scores["accuracy,m1"], scores["accuracy,m1_extended"]) == (verified, verified)
        assert (scores[f"{error}_rate,m1"], scores["n_worsened,m1"]) == (0, 0)
        assert scores["accuracy_ci_low,b0"] == scores["accuracy_ci_high,b0"] == accuracy
    scores = results["random"][task]
    assert scores["accuracy,m1"] == pytest.approx(scores["accuracy,b0"] + scores[f"{error}_rate,b0"])
    assert scores["accuracy_ci_low,b0"] < scores["accuracy,b0"] < scores["accuracy_ci_high,b0"]


def test_the_control_has_no_polarity_errors(results):
    scores = results["oracle"]["chexpert_positive_only"]
    assert scores["accuracy,b0"] == 1
    assert not [name for name in scores if "reversal" in name]


def test_every_group_runs_on_the_phantom(tmp_path):
    """All prompts and protocols, with the oracle: every document has its prompt, and the right letter is right."""
    from medfaith.builders import cxr_contrabench
    from medfaith.loaders import phantom

    roots = phantom.write(tmp_path / "phantom", sources=("chexpert", "openi", "chexstruct", "rexvqa"))
    cxr_contrabench.build(roots, tmp_path / "data")
    register_models()
    manager = TaskManager(
        include_path=str(include_path()), include_defaults=False, metadata={"data": str(tmp_path / "data")}
    )
    groups = ["cot", "instruct", "3shot", "3shot_images", "stress", "chexstruct", "rexvqa", "y0"]
    evaluate: Any = lm_eval.evaluate
    oracle = get_model("oracle")()
    result = evaluate(oracle, task_dict=manager.load([f"medfaith_contrabench_{g}" for g in groups]), bootstrap_iters=0)
    scores = {name: task["accuracy,b0"] for name, task in result["results"].items() if "accuracy,b0" in task}
    assert len(scores) == 3 + 3 + 2 + 2 + 16 + 2 + 6 + 6
    assert set(scores.values()) == {1}
    shots = result["samples"]["medfaith_contrabench_3shot::chexpert_presence"][0]
    assert shots["doc"]["prompt"] == "3shot"
    assert shots["arguments"][0][0].count("Answer: ") == 3
