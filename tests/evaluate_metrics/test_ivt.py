"""Instrument scores and triplet AP against scikit-learn and ivtmetrics; undefined values, invariants, bad input."""

import math
import re
from typing import Any

import evaluate
import ivtmetrics.recognition
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from medfaith.evaluate_metrics.ivt import score, triplets
from medfaith.evaluate_metrics.reading import surgical_names as vocabulary
from medfaith.evaluate_metrics.reading.surgical_names import COMPONENTS, INSTRUMENTS, TRIPLETS
from medfaith.loaders import cholec_triplets
from tests.support.evaluate_metrics.modules import ROOM, compute_by_module
from tests.support.tiers import choose_size, keep_quick

SETS = st.sets(st.sampled_from(INSTRUMENTS))
RATES = ("precision", "recall", "f1")


def make_random_videos(seed, n_videos=3, n=25, levels=6):
    """Draw scores with many ties, gold with absent classes, and shuffled video labels."""
    rng = np.random.default_rng(seed)
    gold = (rng.random((n_videos * n, 100)) < rng.choice([0, 0.02, 0.2], size=100)).astype(int)
    scores = rng.integers(levels, size=gold.shape) / levels + 0.3 * gold * rng.random(gold.shape).round(1)
    return scores, gold, rng.permutation(np.repeat(np.arange(n_videos), n))


@pytest.fixture
def oracle(monkeypatch):
    """Return a function that feeds ivtmetrics by video.

    The fixture patches scikit-learn to return -0.0 for absent classes, the behaviour that ivtmetrics was written for.
    """

    def average_precision(targets, predictions, average):
        values = average_precision_score(targets, predictions, average=average)
        return np.where(targets.sum(axis=0) > 0, values, -0.0)

    monkeypatch.setattr(ivtmetrics.recognition, "average_precision_score", average_precision)

    def feed_videos(scores, gold, videos):
        recognition = ivtmetrics.Recognition(100)
        for video in dict.fromkeys(videos.tolist()):
            recognition.update(gold[videos == video], scores[videos == video])
            recognition.video_end()
        return recognition

    return feed_videos


def make_references(gold, videos):
    return [
        {"triplets": [TRIPLETS[class_id] for class_id in np.flatnonzero(row)], "video": f"VID{video}"}
        for row, video in zip(gold, videos, strict=True)
    ]


def test_the_table_is_that_of_ivtmetrics_and_of_the_loader():
    bank = ivtmetrics.Recognition(100).bank
    assert np.array_equal(COMPONENTS, bank[:, 1:4])
    assert tuple(map(str, cholec_triplets.TRIPLETS)) == TRIPLETS
    assert vocabulary.TRIPLET_INSTRUMENTS == cholec_triplets.INSTRUMENTS
    assert (vocabulary.VERBS, vocabulary.TARGETS) == (cholec_triplets.VERBS, cholec_triplets.TARGETS)


def test_part_classes_are_numbered_as_in_the_data_sets():
    bank = ivtmetrics.Recognition(100).bank
    class_ids = {
        component: ap.class_ids.tolist() for component, ap in triplets.triplet_ap(*make_random_videos(0)).items()
    }
    assert class_ids == {
        component: np.unique(bank[:, i]).tolist() for i, component in enumerate(("ivt", "i", "v", "t", "iv", "it"))
    }
    names = [triplets.class_name(component, number) for component, number in (("iv", 12), ("it", 89))]
    assert names == ["bipolar,dissect", "irrigator,null_target"]


@given(st.lists(st.tuples(st.sampled_from([-1.5, 0.0, 0.1, 0.3, 1 / 3, 7.0]), st.booleans()), min_size=1))
def test_average_precision_is_that_of_scikit_learn_with_ties(pairs):
    scores, gold = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    ours = triplets.average_precision(scores, gold)
    if gold.any():
        assert ours == pytest.approx(average_precision_score(gold, scores), abs=1e-12)
    else:
        assert math.isnan(ours)


@pytest.mark.parametrize("seed", keep_quick(range(3), lambda seed: seed == 0))
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning", "ignore:No positive class")
def test_triplet_ap_is_that_of_ivtmetrics(oracle, seed):
    scores, gold, videos = make_random_videos(seed, n_videos=1 + seed, n=12)
    recognition = oracle(scores, gold, videos)
    for component, ap in triplets.triplet_ap(scores, gold, videos).items():
        assert_agreement(ap, recognition, component, ignore_null=False)
    without_null = triplets.triplet_ap(scores, gold, videos, ignore_null=True)
    assert np.isnan(without_null["ivt"].per_video).any()
    for component in ("v", "ivt"):
        assert_agreement(without_null[component], recognition, component, ignore_null=True)


def assert_agreement(ap, recognition, component, ignore_null):
    by_video = recognition.compute_video_AP(component, ignore_null=ignore_null)
    pooled = recognition.compute_global_AP(component, ignore_null=ignore_null)
    np.testing.assert_allclose(ap.per_class, by_video["AP"], atol=1e-12)
    assert ap.mean == pytest.approx(by_video["mAP"], abs=1e-12)
    np.testing.assert_allclose(ap.pooled_per_class, pooled["AP"], atol=1e-12)
    assert ap.pooled_mean == pytest.approx(pooled["mAP"], abs=1e-12)


def test_means_over_videos_come_before_means_over_classes():
    """Two videos, two classes by hand: class 0 has AP 1 and 1/2, class 1 occurs in the second only, with AP 1/3."""
    components = np.array([[0, 0, 0], [1, 1, 1]])
    scores = [[0.9, 0], [0.1, 0], [0.9, 0.2], [0.5, 0.3], [0.1, 0.1]]
    gold = [[1, 0], [0, 0], [0, 0], [1, 0], [0, 1]]
    ap = triplets.triplet_ap(scores, gold, ["b", "b", "a", "a", "a"], components=components)["ivt"]
    assert ap.per_video == pytest.approx(np.array([[1, math.nan], [1 / 2, 1 / 3]]), nan_ok=True)
    assert ap.per_class == pytest.approx(np.array([3 / 4, 1 / 3]))
    assert ap.mean == pytest.approx((3 / 4 + 1 / 3) / 2)
    assert ap.video_means == pytest.approx(np.array([1, (1 / 2 + 1 / 3) / 2]))


@pytest.mark.parametrize("n", [0, 3])
def test_no_frames_and_no_positives_are_undefined(n):
    for ap in triplets.triplet_ap(np.zeros((n, 100)), np.zeros((n, 100)), ["a"] * n).values():
        assert np.isnan([ap.mean, ap.pooled_mean]).all()
        assert ap.per_video.shape == (min(n, 1), len(ap.class_ids))


@pytest.mark.parametrize("k", [1, 5, 100])
def test_coverage_is_the_top_k_of_ivtmetrics(oracle, k):
    scores, gold, videos = make_random_videos(3, levels=10**9)
    coverage = score.triplet_coverage(score.top_k(scores, k), [np.flatnonzero(row) for row in gold], groups=videos)
    assert coverage["coverage"] == pytest.approx(oracle(scores, gold, videos).topK(k), abs=1e-12)
    assert coverage["coverage_ci_low"] <= coverage["coverage"] <= coverage["coverage_ci_high"]
    assert coverage["n_gold_triplets"] == gold.sum()


def test_coverage_by_hand():
    coverage = score.triplet_coverage([["hook,cut,liver", TRIPLETS[3]], []], [[TRIPLETS[3]], [TRIPLETS[4]]])
    assert (coverage["coverage"], coverage["n_covered"]) == (0.5, 1)
    assert math.isnan(score.triplet_coverage([[1]], [[]])["coverage"])
    assert score.top_k([[0.0, 2.0, 1.0, 2.0]], k=3).tolist() == [[1, 3, 2]], "equal scores are ranked by id"
    assert score.top_k(np.ones((1, 100))).tolist() == [[0, 1, 2, 3, 4]]


@settings(max_examples=choose_size(8, 25))
@given(st.lists(st.tuples(SETS, SETS), min_size=1, max_size=20))
def test_rates_are_those_of_scikit_learn(pairs):
    predicted, gold = zip(*pairs, strict=True)
    predicted_flags, true = ([[name in names for name in INSTRUMENTS] for names in sets] for sets in (predicted, gold))
    scores = score.instrument_scores(predicted, gold, n_resamples=10)
    options = {"labels": range(7), "zero_division": np.nan}
    by_class: list[Any] = list(precision_recall_fscore_support(true, predicted_flags, average=None, **options))
    for number, rate in enumerate(RATES):
        for column, name in enumerate(INSTRUMENTS):
            expected_rate = by_class[number][column]
            assert scores["per_class"][name][rate] == pytest.approx(expected_rate, abs=1e-12, nan_ok=True)
        micro = precision_recall_fscore_support(true, predicted_flags, average="micro", **options)[number]
        assert scores[rate] == pytest.approx(micro, abs=1e-12, nan_ok=True)
        defined = by_class[number][~np.isnan(by_class[number])]
        assert scores[f"n_classes_{rate}"] == len(defined)
        assert scores[f"macro_{rate}"] == pytest.approx(defined.mean() if len(defined) else math.nan, nan_ok=True)


def test_counts_of_a_case_by_hand():
    predicted = [{"hook", "grasper"}, {"hook"}, None, set(), {"clipper"}]
    gold = [{"hook"}, {"grasper"}, {"hook"}, set(), {"clipper"}]
    scores = score.instrument_scores(predicted, gold)
    expected = {
        "n": 5, "n_unparsed": 1, "n_empty_predictions": 2, "n_empty_references": 1, "n_true_positives": 2,
        "n_false_positives": 2, "n_false_negatives": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5, "n_classes_f1": 3,
    }  # fmt: skip
    assert {name: scores[name] for name in expected} == expected
    assert scores["per_class"]["hook"]["n_false_negatives"] == 1
    assert math.isnan(scores["per_class"]["bipolar"]["f1"])


def test_declined_answers_score_as_unread_ones_and_are_counted_apart():
    predicted, gold = [{"hook"}, None, None, None], [{"hook"}] * 4
    outcomes = ["answered", "declined", "unread", "declined"]
    scores = score.instrument_scores(predicted, gold, outcomes=outcomes)
    assert (scores["n_unparsed"], scores["n_declined"], scores["recall"]) == (1, 2, 1 / 4)
    unread = score.instrument_scores(predicted, gold)
    assert (unread["n_unparsed"], unread["n_declined"]) == (3, 0)
    assert {name for name in scores if repr(scores[name]) != repr(unread[name])} == {"n_unparsed", "n_declined"}
    with pytest.raises(ValueError, match="1 outcomes for 4 frames"):
        score.instrument_scores(predicted, gold, outcomes=["unread"])


def test_a_refusal_is_declined():
    references = [{"classes": ["hook"], "video": "41"}]
    scores = score.score_instruments(["I'm sorry, but I can't help with that."], references, per_sample=True)
    assert (scores["n_unparsed"], scores["n_declined"], scores["n_answered_none"]) == (0, 1, 0)
    assert scores["per_sample"] == [{"predicted": None, "outcome": "declined"}]


def test_intervals_draw_whole_videos():
    predicted, gold = [{"hook"}] * 40, [{"hook"}] * 20 + [{"grasper"}] * 20
    by_video = score.instrument_scores(predicted, gold, groups=["a"] * 20 + ["b"] * 20)
    ends = by_video["precision_ci_low"], by_video["precision_ci_high"]
    assert ends == pytest.approx((0, 1), abs=0.02), "two videos tell next to nothing"
    by_frame = score.instrument_scores(predicted, gold)
    assert 0.3 < by_frame["precision_ci_low"] < 0.5 < by_frame["precision_ci_high"] < 0.7
    one_video = score.instrument_scores(predicted, gold, groups=["a"] * 40)
    assert math.isnan(one_video["f1_ci_low"])
    runs = [repr(score.instrument_scores(predicted, gold, seed=seed, n_resamples=50)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_answers_are_read_and_counted():
    answers = ["Hook", "No tools.", "blurred", '{"predicted": ["bipolar"]}', '{"scores": [0.1]}', "{", None, "bag"]
    references = [{"classes": ["hook"], "video": "41"}] * len(answers)
    scores = score.score_instruments(answers, references, classes=INSTRUMENTS[:6], per_sample=True)
    outcomes = ["answered", "answered", "unread", "given", "unread", "unread", "unread", "answered"]
    predicted = [["hook"], [], None, ["bipolar"], None, None, None, []]
    rows = [(record["outcome"], record["predicted"]) for record in scores["per_sample"]]
    assert rows == list(zip(outcomes, predicted, strict=True))
    assert (scores["n_unparsed"], scores["n_answered_none"], scores["n_outside_classes"]) == (4, 1, 1)
    assert (scores["precision"], scores["recall"]) == (1 / 2, 1 / 8)


def test_triplet_scores_and_samples():
    scores, gold, videos = make_random_videos(5)
    references = make_references(gold, videos)
    result = score.score_triplets(scores.tolist(), references, per_sample=True)
    aps = triplets.triplet_ap(scores, gold, videos)
    for component, ap in aps.items():
        ours = [result[name] for name in (f"ap_{component}", f"ap_{component}_pooled", f"n_classes_{component}")]
        assert ours == [ap.mean, ap.pooled_mean, np.sum(~np.isnan(ap.per_class))]
        by_video = {
            f"VID{video}": mean for video, mean in zip(dict.fromkeys(videos.tolist()), ap.video_means, strict=True)
        }
        assert {video: row[f"ap_{component}"] for video, row in result["per_video"].items()} == by_video
    assert list(result["per_class"]["ivt"]) == list(TRIPLETS)
    assert result["per_class"]["i"]["hook"] == aps["i"].per_class[2]
    assert sum(len(record["covered"]) for record in result["per_sample"]) == result["n_covered"]
    assert all(set(record["covered"]) <= set(record["top_k"]) for record in result["per_sample"])
    assert result["n_videos"] == 3


def test_the_module_gives_what_the_functions_give():
    scores, gold, videos = make_random_videos(6, n_videos=2, n=4)
    references = make_references(gold, videos)
    options: Any = {"k": 3, "ignore_null": True, "n_resamples": 20}
    result = compute_by_module("ivt", scores.tolist(), references, config="triplets", **options)
    assert repr(result) == repr(score.score_triplets(scores.tolist(), references, **options))
    references = [{"classes": ["hook"], "video": "a"}, {"classes": [], "video": "b"}]
    module: Any = evaluate.load(str(ROOM / "ivt"))
    answer_scores = module.compute(predictions=["hook", None], references=references)
    assert (answer_scores["f1"], answer_scores["n_unparsed"]) == (1, 1)
    with pytest.raises(ValueError, match="configuration 'triplet'; expected instruments or triplets"):
        compute_by_module("ivt", [], [], config="triplet")


ONES = np.ones((2, 100))
NAN, NO_NUMBER = ONES.copy(), ONES.copy()
NAN[1, 7], NO_NUMBER[0, 3] = np.nan, np.inf
FRAMES = [{"triplets": [], "classes": [], "video": "a"}] * 2
ap, rates, coverage = triplets.triplet_ap, score.instrument_scores, score.triplet_coverage
instruments, scored = score.score_instruments, score.score_triplets


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ap(NAN, ONES, ["a", "a"]), "scores, row 2, triplet 7: nan; expected a finite number"),
        (lambda: ap(NO_NUMBER, ONES, ["a", "a"]), "scores, row 1, triplet 3: inf; expected a finite number"),
        (lambda: ap(ONES[:, 1:], ONES, ["a", "a"]), "scores, row 1: 99 numbers; expected 100, one a triplet"),
        (lambda: ap(ONES, ONES[:, 1:], ["a", "a"]), "gold, row 1: 99 numbers; expected 100"),
        (lambda: ap(ONES, ONES / 2, ["a", "a"]), "gold, row 1, triplet 0: 0.5; expected 0 or 1"),
        (lambda: ap(ONES, ONES[:1], ["a", "a"]), "1 gold for 2 frames: give one for each"),
        (lambda: ap(ONES, ONES, ["a"]), "1 videos for 2 frames: give one for each"),
        (lambda: score.top_k(ONES, 101), "k 101: expected 1 to 100, the number of classes"),
        (lambda: score.top_k(ONES, 0), "k 0: expected 1 to 100, the number of classes"),
        (lambda: score.top_k(ONES[0]), r"scores: shape \(100,\); expected one row a frame"),
        (lambda: coverage([[1]], [[1], [2]]), "1 predicted for 2 frames: give one for each"),
        (lambda: rates([{"hook"}], []), "1 predicted for 0 frames: give one for each"),
        (lambda: rates([{"hook"}], [{"hook"}], groups="ab"), "2 groups for 1 frames"),
        (lambda: rates([set(), {"Hook"}], [set(), set()]), "predicted, row 2: 'Hook'; expected one of the 7 classes"),
        (lambda: rates([set()], [{"bag"}]), "gold, row 1: 'bag'; expected one of the 7 classes"),
        (lambda: instruments(['{"predicted": ["knife"]}'], FRAMES[:1]), "predicted, row 1: 'knife'; expected one of"),
        (lambda: scored([[1.0] * 100, [1.0]], FRAMES), "predictions, row 2: 1 numbers; expected 100"),
        (
            lambda: scored(ONES, [FRAMES[0], FRAMES[1] | {"triplets": ["a,b"]}]),
            "references, row 2: 'a,b'; expected one",
        ),
    ],
)
def test_bad_input_names_its_place(call, message):
    with pytest.raises(ValueError, match=re.sub(r"\+", r"\\+", message)):
        call()
