"""The Visual Perturbation Test: a case counted by hand, its kinds, and the module."""

import math
from pathlib import Path

import evaluate
import pytest

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean
from medfaith.evaluate_metrics.vpt.score import score_predictions

ROOM = Path(__file__).resolve().parents[2] / "evaluate_metrics"


def row(original_id, kind="original"):
    return {"original_id": original_id, "kind": kind, "image_id": original_id[0]}


HAND = [
    ("Yes", row("a1")),
    ("Yes, it does.", row("a2")),
    ("Yes", row("b1")),
    ("No", row("c1")),
    ("...", row("c2")),
    ("Yes", row("d1")),  # without a partner
    ("No, it is clear.", row("a1", "region")),
    ("Yes", row("a2", "region")),
    ("I cannot tell", row("b1", "region")),
    ("No", row("c1", "region")),
    ("No", row("c2", "region")),
]


def test_a_table_counted_by_hand():
    scores = score_predictions([text for text, _ in HAND], [reference for _, reference in HAND])
    interval = bootstrap_mean([1, 0, 0], groups=["a", "a", "b"])
    assert scores == {
        "vpt": 1 / 3, "vpt_ci_low": interval.low, "vpt_ci_high": interval.high, "n_pairs": 3, "n_changed": 1,
        "n_unparsed_perturbed": 1, "n_without_partner": 1, "n_images": 2, "n_originals": 6, "n_true_positives": 4,
        "n_unparsed_originals": 1, "n_without_original": 0,
    }  # fmt: skip


def test_undefined_is_nan():
    scores = score_predictions(["Yes"], [row("a1")])
    assert (math.isnan(scores["vpt"]), scores["n_pairs"], scores["n_without_partner"]) == (True, 0, 1)


def test_textual_kinds_are_another_metric():
    with pytest.raises(ValueError, match="expected one of original, region"):
        score_predictions(["Yes"], [row("a1", "anatomy")])


def test_seed_and_resamples_reach_the_bootstrap():
    references = [row(f"{letter}1", kind) for letter in "abcdefgh" for kind in ("original", "region")]
    predictions = ["Yes" if number % 2 == 0 or number % 3 == 0 else "No" for number in range(16)]
    bounds = {
        score_predictions(predictions, references, n_resamples=n, seed=seed)["vpt_ci_low"]
        for n, seed in ((3, 1), (3, 2), (50, 1))
    }
    assert len(bounds) == 3
    narrow, wide = (score_predictions(predictions, references, confidence_level=level) for level in (0.5, 0.99))
    assert narrow["vpt_ci_high"] - narrow["vpt_ci_low"] < wide["vpt_ci_high"] - wide["vpt_ci_low"]


def test_module_agrees_with_the_function():
    predictions, references = [text for text, _ in HAND], [reference for _, reference in HAND]
    module = evaluate.load(str(ROOM / "vpt"))
    assert module.compute(predictions=predictions, references=references, per_sample=True) == score_predictions(
        predictions, references, per_sample=True
    )
