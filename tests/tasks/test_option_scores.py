"""Per-row values and the prompt of the option-score tasks."""

from __future__ import annotations

import math

import pytest

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.tasks.contrabench import option_scores, prompts
from tests.support.tasks.evaluating import evaluate, figures, load

DOC = {
    "study_id": "s1", "images": ["a", "b"], "question": "Which finding is present?",
    "options": ["Edema", "No edema", "Fracture"], "answer": 0, "negated": 1, "counterpart": 0,
    "n_rows_skipped": 2, "n_images_sent": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "changes", "accuracy", "negated_rate", "safe", "control"),
    [
        ([-5.3, -4.4, -9.0], {}, 0.0, 1.0, 0.9, None),
        ([-4.4, -5.3, -9.0], {}, 1.0, 0.0, None, -0.9),
        ([-5.3, -4.4, -1.0], {}, 0.0, 0.0, None, None),
        ([-5.3, -4.4, -9.0], {"answer": 2}, 0.0, 1.0, None, None),
        ([-5.3, -4.4, -9.0], {"counterpart": -1, "answer": 2}, 0.0, 1.0, None, None),
        ([-4.4, -5.3, -9.0], {"negated": -1, "counterpart": -1}, 1.0, None, None, None),
    ],
)
def test_values_of_one_row(scores, changes, accuracy, negated_rate, safe, control):
    values = option_scores.process_results(DOC | changes, [(score, False) for score in scores])
    result = figures(option_scores.metrics, [values])
    assert result["accuracy"] == accuracy
    assert result.get("negated_rate") == negated_rate
    for name, gap in (("safe", safe), ("control", control)):
        expected = pytest.approx(math.nan if gap is None else gap, nan_ok=True)
        assert result[f"n_{name}"] == (gap is not None)
        assert (result[f"mean_gap_{name}"], result[f"median_gap_{name}"]) == (expected, expected)
    assert values["accuracy_ci_low"] == {"value": accuracy, "study_id": "s1"}
    assert (result["n_rows_skipped"], result["n_images_missing"]) == (2, 1)


@pytest.mark.parametrize(
    ("options", "negated", "counterpart", "texts"),
    [
        (["Edema", "No edema", "Nodule"], 1, 0, ["A.", "B. No", "A. Edema", "B. No edema"]),
        (["Nodule", "No evidence of edema", "Edema"], 1, 2, ["C.", "B. No evidence of", "C. Edema",
                                                              "B. No evidence of edema"]),
        (["Absence of pleural effusion", "Pleural effusion"], 0, 1,
         ["B.", "A. Absence of", "B. Pleural effusion", "A. Absence of pleural effusion"]),
        (["Edema", "Edema is not present", "Nodule"], 1, 0, []),
        (["Edema", "No oedema", "Nodule"], 1, 0, []),
        (["Edema", "Edema", "Nodule"], 1, 0, []),
        (["Edema", "  edema", "Nodule"], 1, 0, []),
        (["Pulmonary edema", "No edema", "Nodule"], 1, 0, []),
        (["A longer text of a finding", "No", "Nodule"], 1, 0, []),
        (["Edema", "No edema", "Nodule"], 1, -1, []),
        (["Edema", "No edema", "Nodule"], -1, -1, []),
    ],
)  # fmt: skip
def test_texts_of_the_concept_difference(options, negated, counterpart, texts):
    doc = DOC | {"options": options, "negated": negated, "counterpart": counterpart}
    assert option_scores.choices(doc) == [*options, *texts]


@pytest.mark.parametrize(
    ("scores", "extra", "safe", "control"),
    [
        ([-5.3, -4.4, -9.0], [-1.0, -2.0, -4.0, -4.5], 0.5, None),
        ([-4.4, -5.3, -9.0], [-1.0, -2.0, -4.0, -4.5], None, 0.5),
        ([-4.4, -5.3, -1.0], [-1.0, -2.0, -4.0, -4.5], None, None),
        ([-5.3, -4.4, -9.0], [], None, None),
    ],
)
def test_concept_difference_of_one_row(scores, extra, safe, control):
    """(-4.5 + 2) - (-4 + 1) = 0.5; a context that scores above all options does not count for an answer."""
    values = option_scores.process_results(DOC, [(score, False) for score in [*scores, *extra]])
    result = figures(option_scores.metrics, [values])
    assert result["accuracy"] == (scores[0] == max(scores))
    for name, difference in (("safe", safe), ("control", control)):
        expected = math.nan if difference is None else difference
        assert result[f"mean_concept_difference_{name}"] == pytest.approx(expected, nan_ok=True)
        assert result[f"n_concept_difference_{name}"] == (difference is not None)


def test_figures_are_of_the_rows_that_have_the_value():
    record = {"study_id": "s", "concept_difference": None, "subsets": ["safe"]}
    rows = [
        record | {"study_id": "s1", "gap": 1.0, "concept_difference": 2.0},
        record | {"study_id": "s1", "gap": 2.0},
        record | {"study_id": "s2", "gap": 6.0, "concept_difference": 4.0},
        record | {"gap": 9.0, "concept_difference": 9.0, "subsets": []},
    ]
    result = option_scores.compute_gap_figures(rows)
    assert (result["mean_gap_safe"], result["median_gap_safe"], result["n_safe"]) == (3, 2, 3)
    assert (result["mean_concept_difference_safe"], result["n_concept_difference_safe"]) == (3, 2)
    interval = bootstrap_mean([1, 2, 6], groups=["s1", "s1", "s2"])
    assert (result["mean_gap_safe_ci_low"], result["mean_gap_safe_ci_high"]) == (interval.low, interval.high)
    assert all(math.isnan(result[name]) for name in ("mean_gap_control", "median_gap_control"))


def test_prompt_asks_for_the_text_and_is_otherwise_b0():
    ours, b0 = option_scores.prompt(DOC).splitlines(), prompts.b0(DOC).splitlines()
    assert ours[:-1] == b0[:-1]
    assert ours[0] == "<image><image>"
    assert (ours[-1], b0[-1]) == (option_scores.TEXT_INSTRUCTION, prompts.INSTRUCTION)
    assert option_scores.choices(DOC)[option_scores.target(DOC)] == "Edema"


@pytest.mark.parametrize(
    ("model", "accuracy", "subset", "gap"), [("oracle", 1, "control", -100), ("negation_attracted", 0, "safe", 100)]
)
def test_baselines_have_the_scores_that_can_be_derived_by_hand(model, accuracy, subset, gap, phantom_build):
    """A chosen option has 0 nats and every other text -100, and the four texts give a difference of 0."""
    runs = evaluate(model, load(["medfaith_contrabench_option_scores"], phantom_build))
    scores = [run["scores"] for run in runs.values()]
    assert len(scores) == 2
    other_subset = {"safe": "control", "control": "safe"}[subset]
    for task_scores in scores:
        n = task_scores["sample_len"]
        assert [task_scores[name] for name in ("accuracy", f"n_{subset}", f"n_{other_subset}")] == [accuracy, n, 0]
        assert task_scores[f"mean_gap_{subset}"] == gap
        assert task_scores[f"mean_concept_difference_{subset}"] == 0
        assert task_scores[f"n_concept_difference_{subset}"] == n
        assert math.isnan(task_scores[f"mean_concept_difference_{other_subset}"])
