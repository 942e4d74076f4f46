"""Means and agreement compared with independent implementations, and the tables built from them."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import cohen_kappa_score

from medfaith.annotate.agreement import agreement, compute_model_scores, compute_ordinal_alpha
from medfaith.annotate.answers import open_answers, read_files
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.reading.agreement import compute_cohen_kappa
from medfaith.loaders.errors import InputError
from medfaith.reporting.wrong_lung.annotations import build_annotation_tables
from tests.support.annotate.annotator_answers import judgement

POINTS = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0])


@given(st.lists(st.tuples(POINTS, POINTS), min_size=1, max_size=30))
def test_kappa_is_scikit_learns(pairs):
    ratings_a, ratings_b = np.array(pairs).T
    expected = float("nan")
    if len(set(ratings_a) | set(ratings_b)) > 1:
        expected = cohen_kappa_score(ratings_a, ratings_b, labels=[1, 2, 3, 4, 5], weights="quadratic")
    assert compute_cohen_kappa(ratings_a, ratings_b, squared=True) == pytest.approx(expected, nan_ok=True)


@given(arrays(float, st.tuples(st.integers(2, 5), st.integers(1, 12)), elements=POINTS | st.just(float("nan"))))
def test_alpha_is_the_krippendorff_packages(ratings):
    pairable = ratings[:, (~np.isnan(ratings)).sum(axis=0) >= 2]
    expected = float("nan")
    if len(np.unique(pairable[~np.isnan(pairable)])) > 1:
        expected = krippendorff.alpha(
            reliability_data=ratings, value_domain=[1, 2, 3, 4, 5], level_of_measurement="ordinal"
        )
    assert compute_ordinal_alpha(ratings) == pytest.approx(expected, nan_ok=True)


def test_agreement_of_nobody_is_undefined():
    assert math.isnan(compute_cohen_kappa([], []))
    assert math.isnan(compute_ordinal_alpha(np.zeros((2, 0))))


def make_judgements(points, annotator="ann", **changes):
    return [
        judgement(
            n, annotator=annotator, recall=rating, precision=6 - rating, intuitiveness=min(rating + 1, 5), **changes
        )
        for n, rating in enumerate(points)
    ]


def test_means_of_report_sentences_and_of_custom_prompts_apart():
    scores = compute_model_scores([*make_judgements([1, 2, 5], model="b"), *make_judgements([4], model="a"),
                          *make_judgements([3, 3], model="a", row_id=None, custom=True)], seed=1)  # fmt: skip
    assert [(score.model, score.custom, score.n, score.n_instances, score.n_annotators) for score in scores] == [
        ("a", False, 1, 1, 1), ("b", False, 3, 3, 1), ("a", True, 2, 2, 1),
    ]  # fmt: skip
    assert [scores[1].means[name].mean for name in ("recall", "precision", "intuitiveness")] == pytest.approx(
        [8 / 3, 10 / 3, 10 / 3]
    )
    assert math.isnan(scores[0].means["recall"].low)  # one patient shows no spread


def test_intervals_draw_patients():
    judgements = [*make_judgements([1, 1, 5, 5], patient_id="p"), *make_judgements([2, 3], "other", patient_id="q")]
    (score,) = compute_model_scores(judgements, seed=7)
    assert score.means["recall"] == bootstrap_mean([1, 1, 5, 5, 2, 3], groups=list("ppppqq"), seed=7, bounds=(1, 5))
    assert score.means["recall"].low < 2, "two patients tell little"
    assert score.n_annotators == 2


def test_two_annotators_have_kappa_and_three_alpha_over_what_they_share():
    two = [*make_judgements([1, 2, 5, 4]), *make_judgements([1, 3, 5], "other")]
    pair_rows = agreement(two)
    assert [(row.question, row.measure, row.n_annotators, row.n_items) for row in pair_rows] == [
        ("recall", "kappa", 2, 3), ("precision", "kappa", 2, 3), ("intuitiveness", "kappa", 2, 3),
    ]  # fmt: skip
    assert pair_rows[0].value == pytest.approx(
        cohen_kappa_score([1, 2, 5], [1, 3, 5], weights="quadratic", labels=range(1, 6))
    )
    trio_rows = agreement([*two, *make_judgements([2], "third")])
    data = [[1, 2, 5, 4], [1, 3, 5, np.nan], [2, np.nan, np.nan, np.nan]]
    expected = krippendorff.alpha(reliability_data=data, value_domain=range(1, 6), level_of_measurement="ordinal")
    assert (trio_rows[0].measure, trio_rows[0].n_annotators, trio_rows[0].n_items) == ("alpha", 3, 3)
    assert trio_rows[0].value == pytest.approx(expected)


def test_custom_prompts_have_no_agreement():
    custom = {"row_id": None, "custom": True}
    assert agreement([*make_judgements([1, 2], **custom), *make_judgements([1, 2], "other", **custom)]) == []
    assert agreement(make_judgements([1, 2, 3])) == []


def write_file(path, judgements):
    with open_answers(path) as (answers, _):
        for entry in judgements:
            answers.judge(entry)
    return path


def test_tables_of_two_files(tmp_path):
    first_file = write_file(
        tmp_path / "1.jsonl", [*make_judgements([1, 2, 5]), *make_judgements([3], row_id=None, custom=True)]
    )
    second_file = write_file(tmp_path / "2.jsonl", make_judgements([1, 3, 5], "other"))
    with second_file.open("a") as cut:
        cut.write('{"kind": "judg')
    figure, custom, agreed = build_annotation_tables(*read_files([first_file, second_file, first_file]))
    assert figure.name == "wrong_lung_figure_04_annotations"
    assert list(figure.rows[0][:5]) == ["m", 6, 3, 2, pytest.approx(17 / 6)]
    assert "| m | 6 | 3 | 2 | 2.83 [1.12, 4.84] |" in figure.markdown()
    assert "cut short" in figure.markdown()
    assert list(custom.rows[0][:5]) == ["m", 1, 1, 1, 3.0]
    assert "| m | 1 | 1 | 1 | 3.00 [–, –] |" in custom.markdown()
    assert [row[1] for row in agreed.rows] == ["kappa"] * 3
    assert figure.csv().splitlines()[0].startswith("model,n,n_instances,n_annotators,recall,recall_ci_low")


def test_files_that_are_no_two_annotators(tmp_path):
    first_file, same = (write_file(tmp_path / f"{n}.jsonl", make_judgements([1])) for n in (1, 2))
    with pytest.raises(InputError, match=r"2\.jsonl: 'ann' judges image0 here and in .*1\.jsonl"):
        read_files([first_file, same])
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(InputError, match="has no judgement"):
        read_files([empty])
