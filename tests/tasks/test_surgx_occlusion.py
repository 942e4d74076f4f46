"""Attention-based occlusion: scores derived by hand, and a tiny CLIP through the real lm-eval."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.evaluate_metrics.reading.surgery import read_reply
from medfaith.loaders import images
from medfaith.tasks.explain.geometry import to_frame
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.surgx.occlusion import compute_occlusion_scores
from medfaith.tasks.surgx.prompts import CLASS_PROMPTS
from tests.support.tasks.evaluating import baseline, evaluate, load
from tests.support.tasks.tiny_contrastive import SURGX_PROMPTS, save_clip


def make_row(video: int, gold: list[str], occluded: Any) -> dict[str, Any]:
    return {"video": video, "gold": gold, "occluded": occluded}


def make_change(before: float, after: float | None, predicted: list[str] | None) -> dict[str, Any]:
    return {"triplet": "a", "before": before, "after": after, "predicted": predicted}


def test_frames_that_lose_their_match_and_the_drop_of_the_others():
    rows = [
        make_row(42, ["a", "b"], make_change(20, 10, ["c", "b"])),  # another true triplet is still there
        make_row(42, ["a"], make_change(30, 24, ["a"])),
        make_row(43, ["a"], make_change(30, 1, ["c"])),
        make_row(43, ["a"], make_change(9, None, None)),
        make_row(43, ["a"], None),
    ]
    scores = compute_occlusion_scores(rows)
    assert {name: scores[name] for name in ("n_covered", "n_lost", "n_without_region")} == {
        "n_covered": 3, "n_lost": 1, "n_without_region": 1,
    }  # fmt: skip
    assert scores["lost"] == pytest.approx(1 / 3)
    assert scores["similarity_drop"] == 8
    assert scores["lost_ci_low"] <= scores["lost"] <= scores["lost_ci_high"]


def test_without_a_right_prediction_nothing_is_defined():
    scores = compute_occlusion_scores([make_row(42, ["a"], None)])
    assert math.isnan(scores["lost"])
    assert math.isnan(scores["similarity_drop"])
    assert scores["n_covered"] == 0


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"triplet": "a"},
        make_change(1, 2, None),
        make_change(1, None, ["a"]),
        {**make_change(1, 2, ["a"]), "before": "x"},
        [1],
        make_change(1, 2, ["a"]) | {"top_after": [2]},
        make_change(1, 2, ["a"]) | {"top_after": [], "painted": 0},
        make_change(1, 2, ["a"]) | {"top_after": None, "painted": 0},
        make_change(1, 2, ["a"]) | {"top_after": [2], "painted": "x"},
    ],
)
def test_a_reply_with_another_occlusion_is_unparsed(broken):
    assert read_reply(json.dumps({"predicted": ["a"], "occluded": broken})).unparsed
    occlusions = make_change(1, 2, ["a"]), make_change(1, 2, ["a"]) | {"top_after": [2], "painted": None}
    assert [
        read_reply(json.dumps({"predicted": ["a"], "occluded": occlusion})).occluded for occlusion in occlusions
    ] == [*occlusions]


@pytest.fixture(scope="module")
def clip_runs(phantom_surgx_build, phantom_surgx_roots, tmp_path_factory) -> dict[str, Any]:
    """Runs of a tiny random CLIP on all three tasks, with its heatmaps."""
    folder = tmp_path_factory.mktemp("clip")
    pretrained, store = save_clip(folder / "model", prompts=SURGX_PROMPTS), folder / "store"
    settings = pretrained / "tokenizer_config.json"  # long enough for the triplets' sentences
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"model_max_length": 40}))
    model = baseline("medfaith-contrastive", pretrained=str(pretrained), store=str(store))
    names = [f"medfaith_surgx_{name}" for name in ("instruments", "triplets", "occlusion")]
    runs = evaluate(model, load(names, phantom_surgx_build, phantom_surgx_roots, heatmaps=store))
    return {"model": model, "store": store} | {name.removeprefix("medfaith_surgx_"): run for name, run in runs.items()}


def test_a_contrastive_model_fills_every_table(clip_runs):
    instruments, triplets = (clip_runs[name]["scores"] for name in ("instruments", "triplets"))
    assert instruments["n_tied"] == triplets["n_tied"] == clip_runs["occlusion"]["scores"]["n_tied"] == 0
    assert instruments["n_tp"] + instruments["n_fp"] == 60, "one instrument above the frame's 90th percentile"
    assert 0 <= instruments["fp_ac"] <= 1
    assert instruments["n_without_map"] == triplets["n_without_map"] == 0
    assert 0 < triplets["ap_i"] <= 1
    assert 0.3 < instruments["visible_share"] < 0.7, "the model crops 28 x 28 of 32 x 57"
    shares = [triplets[f"share_{level}"] for level in ("ivt", "iv", "it", "i", "missed")]
    assert sum(shares) == pytest.approx(1)
    assert 0 <= triplets["ras_global_missed"] <= 1


def test_occlusion_is_scored_without_reading_heatmaps(clip_runs, phantom_surgx_build, phantom_surgx_roots):
    """The model stores heatmaps, but the tasks get no folder: the other tasks stop, this one needs none."""
    task = "medfaith_surgx_occlusion"
    run = evaluate(clip_runs["model"], load([task], phantom_surgx_build, phantom_surgx_roots), limit=8)
    assert run[task]["replies"] == clip_runs["occlusion"]["replies"][:8]


def test_what_is_painted_black_is_what_the_model_looked_at(clip_runs, phantom_surgx_roots):
    """The similarity after occlusion is the model's similarity on a frame whose hottest pixels are set to 0.

    The pixels are the hottest fifth of the model's window. Random weights are seldom right; the test therefore sets the
    gold triplet to the model's second prediction.
    """
    requests, pictures = [], []
    run = clip_runs["triplets"]
    for number, (task_doc, task_reply) in enumerate(zip(run["docs"][:6], run["replies"][:6], strict=True)):
        doc = {**task_doc, "gold": [json.loads(task_reply)["predicted"][1]], "occlude": True}
        reference = {"source": "cholect45", "key": f"data/VID{doc['video']}/{doc['frame']:06d}.png", "view": ""}
        pictures.append(images.open_image(reference, phantom_surgx_roots))
        arguments: Any = (doc["question"], {}, {"visual": [pictures[-1]]})
        requests.append(Instance("generate_until", doc, arguments, number, metadata=("occlusion", number, 1)))
    model = clip_runs["model"]
    changed = 0
    for request, picture, text in zip(requests, pictures, model.generate_until(requests), strict=True):
        doc, reply = request.doc, json.loads(text)
        occluded, index = reply["occluded"], list(doc["classes"]).index(doc["gold"][0])
        assert occluded["triplet"] == reply["predicted"][1] == doc["gold"][0]
        assert occluded["before"] == pytest.approx(reply["scores"][index])
        entry = open_store(clip_runs["store"]).read(reply["heatmaps"], doc["id"])
        (heatmap,) = to_frame(entry.maps[occluded["triplet"]][None], entry.geometry)
        x, y, width, height = entry.geometry.window  # the fifth refers to the window, which is the model's input
        rows, columns = np.arange(heatmap.shape[0])[:, None] + 0.5, np.arange(heatmap.shape[1]) + 0.5
        visible = (rows >= y) & (rows < y + height) & (columns >= x) & (columns < x + width)
        region = visible & (heatmap >= np.quantile(heatmap[visible], 0.8)) & (heatmap > 0)
        if not region.any():
            assert occluded["after"] is occluded["predicted"] is None
            continue
        pixels = np.array(picture)
        pixels[region] = 0
        (after,) = model.scores([Image.fromarray(pixels)], CLASS_PROMPTS["triplets"])
        assert occluded["after"] == pytest.approx(after[index], abs=1e-3)
        assert abs(occluded["after"] - occluded["before"]) > 0
        assert len(occluded["predicted"]) == 5
        assert occluded["top_after"] == pytest.approx(np.sort(after)[:-6:-1], abs=1e-3)
        instrument, inside = occluded["triplet"].split(",")[0], np.zeros_like(visible)
        for box_x, box_y, box_width, box_height in (box["xywh"] for box in doc["boxes"] if box["label"] == instrument):
            inside |= (rows >= box_y) & (rows < box_y + box_height) & (columns >= box_x) & (columns < box_x + box_width)
        share = region[visible & inside].mean() if (visible & inside).any() else None
        assert occluded["painted"] == pytest.approx(share)
        changed += 1
    assert changed > 3
