"""Localization: rows by hand and against scipy, pairs and candidates, the module, bad inputs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr
from scipy.stats import entropy as scipy_entropy
from scipy.stats import pearsonr
from sklearn.metrics import roc_auc_score

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.localization import pairs, score
from medfaith.evaluate_metrics.localization.input_view import mask, scores, window
from medfaith.evaluate_metrics.localization.predictions import score_predictions
from tests.support.evaluate_metrics.modules import compute_by_module
from tests.support.tiers import choose_size, keep_quick

NAN = float("nan")
SIZE = (256, 256)
LEFT, RIGHT = [128, 0, 128, 256], [0, 0, 128, 256]  # of the patient


@st.composite
def grids(draw, shape=None, total=None):
    shape = shape or (draw(st.integers(1, 8)), draw(st.integers(1, 8)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cells = rng.random(shape) ** draw(st.sampled_from([1, 8])) * (rng.random(shape) < draw(st.sampled_from([0.5, 1])))
    cells.flat[0] += 0.01
    return cells / cells.sum() * (draw(st.sampled_from([1, 0.6, 0.01])) if total is None else total)


@given(grids())
def test_entropy_is_that_of_scipy_and_at_most_uniform(grid):
    outside = 1 - grid.sum()
    assert score.entropy(grid) == pytest.approx(scipy_entropy([*grid.ravel(), max(outside, 0)]), abs=1e-9)
    assert 0 <= score.entropy(grid) <= math.log(grid.size + (outside > 1e-6)) + 1e-9
    assert score.no_attn(grid) == pytest.approx(max(outside, 0), abs=1e-9)


def test_entropy_of_even_attention_is_the_published_one():
    assert round(score.entropy(np.full((19, 19), 1 / 361)), 3) == 5.889  # Table 10, +Rand Sents: ln 361
    assert round(score.entropy(np.full((19, 19), 1 / 362)), 3) == 5.892  # ln 362: "No Attn" as one more cell


@given(st.data(), st.booleans())
def test_divergence_is_symmetric_never_negative_and_that_of_scipy(data, kl_no_attn):
    shape = (3, 4)
    grid_a, grid_b = data.draw(grids(shape)), data.draw(grids(shape))
    divergence = score.compute_symmetric_kl(grid_a, grid_b, kl_no_attn=kl_no_attn)
    assert divergence == score.compute_symmetric_kl(grid_b, grid_a, kl_no_attn=kl_no_attn)
    assert divergence >= 0
    assert score.compute_symmetric_kl(grid_a, grid_a, kl_no_attn=kl_no_attn) == 0
    p, q = score.distribution(grid_a), score.distribution(grid_b)
    if min(p[:-1].min(), q[:-1].min()) > score.FLOOR and (p[-1] > 0) == (q[-1] > 0):
        terms = (rel_entr(p, q) + rel_entr(q, p)) / 2  # scipy scales neither to sum to 1
        assert divergence == pytest.approx(terms.sum() if kl_no_attn else terms[:-1].sum(), abs=1e-9)


def test_divergence_is_finite_where_a_cell_is_zero_and_counts_no_attn_only_if_asked():
    assert score.compute_symmetric_kl([[1, 0]], [[0, 1]]) == pytest.approx(23 * math.log(2))
    assert score.compute_symmetric_kl([[0.5]], [[0.25]]) == pytest.approx(0.25 * math.log(2) / 2)
    assert score.compute_symmetric_kl([[0.5]], [[0.25]], kl_no_attn=True) == pytest.approx(0.25 * math.log(3) / 2)
    with pytest.raises(ValueError, match=r"attention of shapes \(1, 2\) and \(2, 2\)"):
        score.compute_symmetric_kl([[0.5, 0.5]], EVEN)


@pytest.mark.parametrize(("total", "expected"), [(1 - 5e-7, 0), (1 + 5e-5, 0), (1 - 1e-5, 1e-5), (0.25, 0.75)])
def test_rounding_of_a_sum_is_no_attention_on_nothing(total, expected):
    assert score.no_attn([[total / 2, total / 2]]) == pytest.approx(expected, abs=1e-12)
    assert score.distribution([[total]]).sum() == 1


@settings(max_examples=choose_size(8, 20))
@given(grids(), st.sampled_from(["bilinear", "nearest"]))
def test_a_row_is_the_upsampled_map_against_the_mask(grid, upsampling):
    box, covered = [150, 20, 200, 200], [-10, 0, 400, 280]
    row = score.score_row(grid, covered, (300, 400), [box], upsampling=upsampling)
    inside, ranked = mask([box], (300, 400)), scores(grid, (300, 400), covered, upsampling)
    assert row["auroc"] == pytest.approx(roc_auc_score(inside.ravel(), ranked.ravel()), abs=1e-12)
    assert row["state"] == "scored"
    assert set(row) == {*score.METRICS, "state"}


EVEN = np.full((2, 2), 0.25)
ON_LEFT = np.array([[0, 0.5], [0, 0.5]])
HALF = math.log(2)


@pytest.mark.parametrize(
    ("grid", "boxes", "state", "auroc", "nats", "no_attn"),
    [
        (None, [LEFT], "without_map", None, None, None),
        (EVEN, [LEFT], "scored", 0.5, 2 * HALF, 0),
        (EVEN * 0, [LEFT], "degenerate", None, 0, 1),
        (EVEN, [], "without_box", None, 2 * HALF, 0),
        (EVEN, [[500, 0, 10, 10]], "without_box", None, 2 * HALF, 0),
        (EVEN, [LEFT, RIGHT], "scored", None, 2 * HALF, 0),  # every pixel is labelled
        (ON_LEFT / 2, [LEFT], "scored", 1, 1.5 * HALF, 0.5),
        (ON_LEFT, [RIGHT], "scored", 0, HALF, 0),
        (ON_LEFT, [[128, 0, 128, 128]], "scored", 5 / 6, HALF, 0),  # a quarter; a third of the rest ties with it
    ],
)
def test_rows_worked_out_by_hand(grid, boxes, state, auroc, nats, no_attn):
    row = score.score_row(grid, window(SIZE), SIZE, boxes, upsampling="nearest")
    values = [row[name] for name in ("state", "auroc", "entropy", "no_attn")]
    assert values == [state, auroc, None if nats is None else pytest.approx(nats), no_attn]
    assert {row[name] is None for name in score.RANKED if name != "auroc"} == {state != "scored"}


def test_options_reach_what_they_change():
    for ties, precision in {"excluded": None, "included": 0.5}.items():
        row = score.score_row(EVEN, window(SIZE), SIZE, [LEFT], upsampling="nearest", precision_ties=ties)
        assert row["precision_5"] == precision
    halves = [make_prediction(ON_LEFT / share) for share in (1, 2)]
    references = [make_reference("b", [LEFT]), make_reference("b:r", [LEFT], "b", "random_sentences")]
    without, counted = (score_predictions(halves, references, kl_no_attn=kl_no_attn) for kl_no_attn in (False, True))
    assert without["random_sentences"]["all"]["kl"] == pytest.approx(HALF / 4)
    assert counted["random_sentences"]["all"]["kl"] > 1  # 0 and a half of the attention is on no region


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": [[NAN, 0.5]]}, "a7: attention with NaN, infinity or a negative number"),
        ({"grid": [[-0.1, 0.5]]}, "a7: attention with NaN"),
        ({"grid": [[0.6, 0.5]]}, "a7: attention that sums to 1.1; expected 1 less"),
        ({"grid": [0.6, 0.4]}, r"a7: a grid of attention of shape \(2,\)"),
        ({"grid": [["x"]]}, "a7: no grid of attention"),
        ({"boxes": [[0, 0, 0, 4]]}, "a7: box 1"),
        ({"boxes": [[0, 0, 4]], "grid": None}, "a7: boxes of shape"),
        ({"window": [0, 0, 0, 4]}, "a7: window"),
        ({"window": None}, "a7: attention without a window"),
        ({"size": (0, 4)}, "a7: size"),
        ({"upsampling": "cubic"}, "a7: upsampling 'cubic'"),
        ({"precision_ties": "some"}, "a7: precision_ties 'some': expected"),
    ],
)
def test_bad_rows_are_named(changes, message):
    given_ = {"grid": EVEN, "window": [0, 0, 9, 9], "size": (9, 9), "boxes": [[0, 0, 4, 4]]} | changes
    with pytest.raises(ValueError, match=message):
        score.score_row(**given_, name="a7")


def make_row(id_, values, original_id=None, perturbation=None, cluster="p1", **subsets):
    names = {"id": id_, "original_id": original_id, "perturbation": perturbation, "cluster": cluster}
    subsets = dict.fromkeys(pairs.SUBSETS[1:], False) | subsets
    return names | {"subsets": subsets, "state": "scored", "values": dict.fromkeys(pairs.VALUES) | values}


ROWS = [
    make_row("a", {"auroc": 0.8, "local": 0.5, "global": 0.9}, abnormal=True),
    make_row("b", {"auroc": 0.6, "local": 0.5}, cluster="p2", abnormal=True, one_lung=True),
    make_row("c", {"auroc": None, "local": 0.1}, cluster="p2"),
    make_row("a:r", {"auroc": 0.5, "local": 0.4, "global": 0.9, "kl": 0.3}, "a", "random_sentences", abnormal=True),
    make_row("b:r", {"auroc": 0.7, "local": 0.6}, "b", "random_sentences", "p2", abnormal=True, one_lung=True),
    make_row("c:r", {"auroc": 0.7, "local": 0.0, "kl": 0.1}, "c", "random_sentences", "p2"),
    make_row("d:r", {"auroc": 0.1, "local": 0.1}, "d", "random_sentences", "p3"),
    make_row("a:s", {"auroc": 0.2}, "a", "synthetic", abnormal=True),
    make_row("a:x", {"auroc": 0.3}, "a:s", "synthetic_swapped_conditions", abnormal=True),
]


def test_pairs_by_hand():
    deltas = pairs.deltas(ROWS, n_resamples=200)
    assert list(deltas) == ["random_sentences", "synthetic", "synthetic_swapped_conditions"]
    names = ("n_pairs", "n_unpaired", "n_delta_auroc", "delta_auroc", "delta_local", "kl", "n_kl")
    all_, abnormal, lung, diverse = (deltas["random_sentences"][subset] for subset in pairs.SUBSETS)
    assert [all_[name] for name in names] == pytest.approx([3, 1, 2, -0.1, -0.1 / 3, 0.2, 2])
    assert abnormal["delta_auroc"] == pytest.approx(-0.1)
    assert [lung["delta_auroc"], lung["delta_auroc_ci_low"]] == pytest.approx([0.1, NAN], nan_ok=True)  # one patient
    assert [diverse[name] for name in names[:4]] == pytest.approx([0, 0, 0, NAN], nan_ok=True)
    swapped = deltas["synthetic_swapped_conditions"]["all"]
    assert swapped["delta_auroc"] == pytest.approx(0.1)  # its original is the synthetic sentence
    assert "kl" not in swapped
    with pytest.raises(ValueError, match="a: this id occurs twice"):
        pairs.pairs([*ROWS, ROWS[0]])


def test_candidates_by_hand():
    accuracies = pairs.candidate_accuracy(ROWS, n_resamples=200)
    names = ("local_accuracy", "global_accuracy", "n_global_accuracy")
    assert [accuracies["all"][name] for name in names] == [pytest.approx(2 / 3), 0, 1]  # equal is not greater
    assert accuracies["abnormal"]["local_accuracy"] == 0.5
    unknown = [row | {"values": row["values"] | {"local": NAN}} for row in ROWS]  # as None
    assert pairs.candidate_accuracy(unknown)["all"]["n_local_accuracy"] == 0
    undefined = accuracies["mdrb"], pairs.candidate_accuracy(ROWS, perturbation="none")["all"]
    assert all(math.isnan(scores["local_accuracy"]) for scores in undefined)


def test_summary_by_hand():
    means = pairs.summarise(ROWS[:3])
    assert (means["auroc"], means["n_auroc"], means["n_rows"], means["n_clusters"]) == (pytest.approx(0.7), 2, 3, 2)
    assert {means[f"n_{state}"] for state in score.STATES} == {3, 0}
    assert pairs.summarise(ROWS[:3], "one_lung")["auroc"] == 0.6
    assert math.isnan(pairs.summarise([])["auroc"])
    with pytest.raises(ValueError, match="subset 'left': expected one of all, abnormal, one_lung, mdrb"):
        pairs.summarise(ROWS, "left")


def test_intervals_draw_whole_patients():
    rng = np.random.default_rng(0)
    values, patients = rng.random(40), [f"p{number % 7}" for number in range(40)]
    rows = [
        make_row(str(n), {"auroc": float(v)}, cluster=p) for n, (v, p) in enumerate(zip(values, patients, strict=True))
    ]
    summary = pairs.summarise(rows, n_resamples=300, seed=3, confidence_level=0.9)
    expected = bootstrap_mean(values, groups=patients, n_resamples=300, seed=3, confidence_level=0.9, bounds=(0, 1))
    assert (summary["auroc"], summary["auroc_ci_low"], summary["auroc_ci_high"]) == expected[:3]


def test_intervals_of_two_patients_keep_to_what_is_possible():
    """Student's of 10 and 50 points would be -224 to 284 points; entropy and divergence are not below 0."""
    rows = [make_row(name, {"auroc": 0.4, "entropy": 2.0 * (name == "a")}, cluster=name) for name in "ab"]
    rows += [
        make_row("a:x", {"auroc": 0.5, "kl": 0.1}, "a", "x", "a"),
        make_row("b:x", {"auroc": 0.9, "kl": 3.0}, "b", "x", "b"),
    ]
    change, summary = pairs.deltas(rows)["x"]["all"], pairs.summarise(rows[:2])
    expected = bootstrap_mean([0.1, 0.5], groups=list("ab"), bounds=(-1, 1))
    assert (change["delta_auroc_ci_low"], change["delta_auroc_ci_high"]) == pytest.approx(expected[1:3])
    assert -1 <= change["delta_auroc_ci_low"] < 0.3 < change["delta_auroc_ci_high"] <= 1
    assert change["kl_ci_low"] == summary["entropy_ci_low"] == 0


@given(st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_correlations_are_those_of_scipy_over_what_both_have(n, seed):
    rng = np.random.default_rng(seed)
    names, table = ("auroc", "iou_5", "local"), rng.random((n, 3)).round(2)
    table[rng.random((n, 3)) < 0.3] = NAN
    cells = [[None if math.isnan(value) else value for value in line] for line in table.tolist()]
    correlations = pairs.correlations(
        [make_row(str(i), dict(zip(names, line, strict=True))) for i, line in enumerate(cells)], names
    )
    assert list(correlations) == [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])]
    for (r, count), columns in zip(correlations.values(), ((0, 1), (0, 2), (1, 2)), strict=True):
        complete = table[:, columns][~np.isnan(table[:, columns]).any(axis=1)]
        defined = len(complete) > 1 and (np.ptp(complete, axis=0) > 0).all()
        expected = pearsonr(*complete.T).statistic if defined else NAN
        assert (r, count) == (pytest.approx(expected, abs=1e-9, nan_ok=True), len(complete))


def make_reference(id_, boxes, original_id=None, perturbation=None, cluster="p1", **changes):
    names = {"id": id_, "original_id": original_id, "perturbation": perturbation, "cluster": cluster}
    image = {"size": list(SIZE), "boxes": [{"label": "lung", "xywh": box} for box in boxes]}
    return names | image | {"abnormal": False, "one_lung": True, "mdrb": False} | changes


def make_prediction(grid, covered=None, local=None, overall=None):
    attention = None if grid is None else np.asarray(grid).tolist()
    return {"attention": attention, "window": covered, "local": local, "global": overall}


PREDICTIONS = [
    make_prediction(None),
    make_prediction(ON_LEFT, local=0.5),
    make_prediction(ON_LEFT[:, ::-1], local=0.4, overall=1.0),
    make_prediction(ON_LEFT, list(window(SIZE))),
    make_prediction(np.full((3, 3), 1 / 9)),
]
REFERENCES = [
    make_reference("a", [LEFT]),
    make_reference("b", [LEFT], cluster="p2", abnormal=True),
    make_reference("b:r", [LEFT], "b", "random_sentences", cluster="p2", abnormal=True),
    make_reference("b:x", [RIGHT], "b", "random_boxes", cluster="p2", abnormal=True),
    make_reference("a:r", [LEFT], "a", "random_sentences"),
]


def test_predictions_by_hand():
    scores = score_predictions(PREDICTIONS, REFERENCES, upsampling="nearest", per_sample=True)
    assert list(scores) == ["original", "random_sentences", "random_boxes", "per_sample"]
    expected = {
        "original": {"auroc": 1, "n_auroc": 1, "n_without_map": 1, "iou_5": 0, "precision_5": 1},  # half are tied
        "random_sentences": {
            "auroc": 0.25, "delta_auroc": -1, "n_pairs": 2, "local_accuracy": 1, "n_local_accuracy": 1,
            "kl": 22 * HALF, "n_kl": 1,
        },
    }  # fmt: skip
    for condition, values in expected.items():
        assert {name: scores[condition]["all"][name] for name in values} == pytest.approx(values)
    assert scores["random_boxes"]["abnormal"]["kl"] == 0
    assert "local_accuracy" not in scores["random_boxes"]["all"]
    assert [row["state"] for row in scores["per_sample"]] == ["without_map", *["scored"] * 4]
    assert scores["original"]["mdrb"]["n_rows"] == 0


# Whatever is missing in the first row.
@pytest.mark.parametrize("start", keep_quick(range(5), lambda start: start in (0, 3)))
def test_module_agrees_with_the_function(start):
    predictions, references = (rows[start:] + rows[:start] for rows in (PREDICTIONS, REFERENCES))
    options = {"upsampling": "nearest", "precision_ties": "excluded", "kl_no_attn": True, "per_sample": True}
    options |= {"n_resamples": 50}
    expected = score_predictions(predictions, references, **options)
    assert repr(compute_by_module("localization", predictions, references, **options)) == repr(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "a"}, "a: this id occurs twice"),
        ({"original_id": "a"}, "b: original_id 'a' and perturbation None; expected both, or neither"),
        ({"perturbation": "x"}, "b: original_id None and perturbation 'x'"),
        ({"original_id": "a", "perturbation": "original"}, "b: original_id 'a' and perturbation 'original'"),
        ({"size": [0, 4]}, "b: size"),
        ({"boxes": [{"label": "lung", "xywh": [0, 0, -1, 1]}]}, "b: box 1"),
    ],
)
def test_bad_references_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        score_predictions(PREDICTIONS[:2], [REFERENCES[0], REFERENCES[1] | changes])
