"""Per-row values of the option-score tasks, and what their prompt asks."""

from __future__ import annotations

import math

import pytest

from medfaith.tasks.contrabench import option_scores, prompts

DOC = {
    "study_id": "s1",
    "images": ["a", "b"],
    "question": "Which finding is present?",
    "options": ["Edema", "No edema", "Fracture"],
    "answer": 0,
    "negated": 1,
    "counterpart": 0,
    "n_rows_skipped": 2,
}


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
    assert values["accuracy"] == accuracy
    assert values.get("negated_rate") == negated_rate
    for name, gap in (("safe", safe), ("control", control)):
        wanted = None if gap is None else pytest.approx(gap)
        assert values[f"n_{name}"] == (gap is not None)
        assert values[f"mean_gap_{name}"] == values[f"median_gap_{name}"] == wanted
        assert values[f"mean_gap_{name}_ci_low"] == values[f"mean_gap_{name}_ci_high"] == [wanted, "s1"]
    assert values["accuracy_ci_low"] == values["accuracy_ci_high"] == [accuracy, "s1"]
    assert values["n_rows_skipped"] == 2


@pytest.mark.parametrize(
    ("items", "mean", "median"),
    [([1.0, None, 2.0, 6.0], 3.0, 2.0), ([None, None], math.nan, math.nan), ([], math.nan, math.nan)],
)
def test_aggregations_leave_out_rows_without_the_value(items, mean, median):
    assert option_scores.mean(items) == pytest.approx(mean, nan_ok=True)
    assert option_scores.median(items) == pytest.approx(median, nan_ok=True)


def test_prompt_asks_for_the_text_and_is_otherwise_b0():
    ours, b0 = option_scores.prompt(DOC).splitlines(), prompts.b0(DOC).splitlines()
    assert ours[:-1] == b0[:-1]
    assert ours[0] == "<image><image>"
    assert (ours[-1], b0[-1]) == (option_scores.TEXT_INSTRUCTION, prompts.INSTRUCTION)
    assert option_scores.choices(DOC)[option_scores.target(DOC)] == "Edema"
