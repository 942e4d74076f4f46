"""Textual and visual perturbation tests: reading yes and no, cases by hand, undefined values, invariants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.tpt.score import KINDS, score_outcomes, score_predictions
from medfaith.evaluate_metrics.vpt.score import score_outcomes as score_visual
from medfaith.evaluate_metrics.vpt.score import score_predictions as vpt
from tests.support.declined import DECLINED
from tests.support.evaluate_metrics.modules import compute_by_module


def make_row(original_id, kind="original", image_id=None):
    return {"original_id": original_id, "kind": kind, "image_id": image_id or f"i-{original_id}"}


HAND = [
    ("Yes", make_row("q1")),
    ("No.", make_row("q1", "anatomy")),  # turned
    ("Yes", make_row("q1", "disease")),
    ("yes, there is", make_row("q2")),
    ("no", make_row("q2", "anatomy")),  # turned
    ("The image is blurred.", make_row("q2", "disease")),  # unread: did not turn
    ("No", make_row("q3")),  # no true positive
    ("No", make_row("q3", "anatomy")),
    ("Yes and no", make_row("q4")),  # unread: no true positive
    ("No", make_row("q4", "disease")),
    ("Yes", make_row("q5")),  # without a disease partner
    ("Yes", make_row("q5", "anatomy")),
    ("No", make_row("q6", "disease")),  # without an original
]


def test_a_table_counted_by_hand():
    scores = score_predictions([text for text, _ in HAND], [reference for _, reference in HAND], per_sample=True)
    per_sample = scores.pop("per_sample")
    counts = {name: value for name, value in scores.items() if name.startswith("n_")}
    assert counts == {
        "n_pairs": 5, "n_changed": 2, "n_unparsed_perturbed": 1, "n_declined_perturbed": 0, "n_without_partner": 0,
        "n_images": 3, "n_pairs_anatomy": 3, "n_changed_anatomy": 2, "n_unparsed_perturbed_anatomy": 0,
        "n_declined_perturbed_anatomy": 0, "n_without_partner_anatomy": 0,
        "n_images_anatomy": 3, "n_pairs_disease": 2, "n_changed_disease": 0, "n_unparsed_perturbed_disease": 1,
        "n_declined_perturbed_disease": 0,
        "n_without_partner_disease": 1, "n_images_disease": 2, "n_originals": 5, "n_true_positives": 3,
        "n_unparsed_originals": 1, "n_declined_originals": 0, "n_without_original": 1,
    }  # fmt: skip
    assert (scores["tpt"], scores["tpt_anatomy"], scores["tpt_disease"]) == (2 / 5, 2 / 3, 0.0)
    assert scores["tpt_ci_low"] <= scores["tpt"] <= scores["tpt_ci_high"]
    assert per_sample[0] == {"outcome": "yes", "true_positive": True, "changed": None}
    assert [sample["changed"] for sample in per_sample] == [
        None, True, False, None, True, False, None, None, None, None, None, False, None,
    ]  # fmt: skip


VISUAL = [
    ("Yes", make_row("a1")), ("Yes, it does.", make_row("a2")), ("Yes", make_row("b1")), ("No", make_row("c1")),
    ("...", make_row("c2")),
    ("Yes", make_row("d1")),  # without a partner
    ("No, it is clear.", make_row("a1", "region")), ("Yes", make_row("a2", "region")),
    ("It is sharp", make_row("b1", "region")),
    ("No", make_row("c1", "region")), ("No", make_row("c2", "region")),
]  # fmt: skip


def test_a_visual_table_counted_by_hand():
    scores = vpt(
        [text for text, _ in VISUAL],
        [{**reference, "image_id": reference["original_id"][0]} for _, reference in VISUAL],
    )
    interval = bootstrap_mean([1, 0, 0], groups=["a", "a", "b"], bounds=(0, 1))
    assert scores == {
        "vpt": 1 / 3, "vpt_ci_low": interval.low, "vpt_ci_high": interval.high, "n_pairs": 3, "n_changed": 1,
        "n_unparsed_perturbed": 1, "n_declined_perturbed": 0, "n_without_partner": 1, "n_images": 2,
        "n_originals": 6, "n_true_positives": 4,
        "n_unparsed_originals": 1, "n_declined_originals": 0, "n_without_original": 0,
    }  # fmt: skip


def test_seed_resamples_and_level_reach_the_bootstrap():
    references = [make_row(f"{number}", kind) for number in range(48) for kind in ("original", "region")]
    predictions = ["Yes" if number % 2 == 0 or number % 3 == 0 else "No" for number in range(96)]
    for options in ({"n_resamples": 3, "seed": 1}, {"n_resamples": 50, "confidence_level": 0.5}):
        interval = bootstrap_mean([number % 3 > 0 for number in range(1, 96, 2)], **options)
        scores = vpt(predictions, references, **options)
        assert (scores["vpt"], scores["vpt_ci_low"], scores["vpt_ci_high"]) == interval[:3]


@pytest.mark.parametrize(
    ("score", "references", "message"),
    [
        (
            score_predictions,
            [make_row("q1"), make_row("q1", "region")],
            "row 2, column 'kind': 'region'; .* anatomy, disease",
        ),
        (
            vpt,
            [make_row("q1"), make_row("q1", "anatomy")],
            "row 2, column 'kind': 'anatomy'; expected one of original, region",
        ),
        (vpt, [make_row("q1"), make_row("q1")], "'q1' has 2 originals"),
    ],
)
def test_bad_rows_are_named(score, references, message):
    with pytest.raises(ValueError, match=message):
        score(["Yes", "No"], references)


def test_the_interval_draws_whole_images():
    """Twenty questions of each of ten images that all answer alike: 10 independent units, not 200."""
    names = [(f"q{number}", number // 20) for number in range(200)]
    references = [
        reference
        for name, image in names
        for reference in (make_row(name, image_id=f"i{image}"), make_row(name, "anatomy", "another"))
    ]
    predictions = [text for _, image in names for text in ("Yes", "No" if image % 2 else "Yes")]
    clustered = score_predictions(predictions, references)
    unclustered = score_predictions(
        predictions, [reference | {"image_id": reference["original_id"]} for reference in references]
    )
    assert (clustered["tpt"], clustered["n_images"], unclustered["n_images"]) == (0.5, 10, 200)
    width, unclustered_width = (scores["tpt_ci_high"] - scores["tpt_ci_low"] for scores in (clustered, unclustered))
    assert width > 3 * unclustered_width


answers = st.sampled_from(["Yes", "No", "", "Yes and no", None, "There is no edema."])


def test_declined_answers_do_not_turn_and_are_counted_apart():
    references = [make_row(name, kind) for name in ("q1", "q2", "q3") for kind in ("original", "anatomy", "disease")]
    outcomes = ["yes", "declined", "no", "declined", "no", "no", "unread", "no", "no"]
    scores = score_outcomes(outcomes, references, per_sample=True)
    names = ("n_originals", "n_true_positives", "n_declined_originals", "n_unparsed_originals", "n_pairs", "n_changed")
    assert [scores[name] for name in names] == [3, 1, 1, 1, 2, 1]
    names = ("n_declined_perturbed", "n_declined_perturbed_anatomy", "n_declined_perturbed_disease", "tpt")
    assert [scores[name] for name in names] == [1, 1, 0, 1 / 2]
    assert [sample["outcome"] for sample in scores["per_sample"]] == outcomes
    visual = score_visual(["yes", "declined"], [make_row("q1"), make_row("q1", "region")])
    assert (visual["vpt"], visual["n_declined_perturbed"], visual["n_unparsed_perturbed"]) == (0, 1, 0)


def test_a_refusal_is_declined():
    scores = score_predictions(
        ["Yes", DECLINED[0], DECLINED[1]], [make_row("q1"), make_row("q1", "anatomy"), make_row("q2")]
    )
    assert (scores["n_declined_perturbed"], scores["n_declined_originals"], scores["tpt"]) == (1, 1, 0)


@given(
    st.lists(st.tuples(answers, st.sampled_from(["original", *KINDS]), st.integers(0, 5)), max_size=25),
    st.randoms(use_true_random=False),
)
def test_counts_add_up_and_order_does_not_matter(cases, random):
    numbers = [number if kind == "original" else None for _, kind, number in cases]
    once = [number is None or number not in numbers[:i] for i, number in enumerate(numbers)]
    table = [
        (text, make_row(f"q{number}", kind))
        for (text, kind, number), is_kept in zip(cases, once, strict=True)
        if is_kept
    ]
    scores = score_predictions([text for text, _ in table], [reference for _, reference in table])
    for name in ("n_pairs", "n_changed", "n_unparsed_perturbed"):
        assert scores[name] == scores[f"{name}_anatomy"] + scores[f"{name}_disease"]
    assert scores["n_changed"] + scores["n_unparsed_perturbed"] <= scores["n_pairs"]
    assert scores["n_true_positives"] + scores["n_unparsed_originals"] <= scores["n_originals"]
    random.shuffle(table)
    shuffled_scores = score_predictions([text for text, _ in table], [reference for _, reference in table])
    assert shuffled_scores == pytest.approx(scores, nan_ok=True)


@pytest.mark.parametrize(("name", "score", "cases"), [("tpt", score_predictions, HAND), ("vpt", vpt, VISUAL)])
def test_module_agrees_with_the_function(name, score, cases):
    predictions, references = zip(*cases, strict=True)
    assert compute_by_module(name, predictions, references, per_sample=True) == score(
        predictions, references, per_sample=True
    )
