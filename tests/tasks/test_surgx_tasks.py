"""SurgXBench through lm-eval: reference models with scores derived from the rows, answers in words, broken answers."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.api.instance import Instance

from medfaith import tasks
from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.cholec_triplets import TRIPLETS
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.geometry import Geometry
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.explain.store import HeatmapStore, open_store
from medfaith.tasks.models.reference.frame_maps import KINDS
from tests.support.tasks.evaluating import Says, baseline, evaluate, load
from tests.support.tiers import choose_size, keep_quick

ASKED = ("instruments", "triplets", "triplets_t50")
DRAWN = choose_size(tuple(kind for kind in KINDS if kind != "centre"), KINDS)


@pytest.fixture(scope="module")
def ask(phantom_surgx_build):
    """Run a model on tasks, loaded once per heatmap folder; return scores and documents by task."""

    @functools.cache
    def load_tasks(names: tuple[str, ...], heatmaps: Path | None) -> Any:
        options = {"heatmaps": heatmaps} if heatmaps else {}
        return load([f"medfaith_surgx_{name}" for name in names], phantom_surgx_build, **options)

    def run(model: Any, *names: str, heatmaps: Path | None = None) -> dict[str, Any]:
        runs = evaluate(model, load_tasks(names, heatmaps))
        return {name.removeprefix("medfaith_surgx_"): task_run for name, task_run in runs.items()}

    return run


@pytest.fixture(scope="module")
def runs_by_heatmap(ask, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Runs of the oracle with each kind of heatmap, in one store."""
    store = tmp_path_factory.mktemp("heatmaps")
    return {kind: ask(baseline("oracle", store=str(store), heatmap=kind), *ASKED, heatmaps=store) for kind in DRAWN}


@pytest.mark.parametrize("kind", keep_quick(KINDS, lambda kind: kind in DRAWN))
@pytest.mark.parametrize("task", ASKED)
def test_the_oracle_names_what_is_there(runs_by_heatmap, kind, task):
    scores = runs_by_heatmap[kind][task]["scores"]
    names = ["f1", "precision", "recall"] if task == "instruments" else ["coverage", "ap_ivt", "ap_i", "share_ivt"]
    assert [scores[name] for name in names] == [1] * len(names)
    assert scores["n_unparsed"] == scores["n_without_map"] == scores["n_rows_skipped"] == 0


def test_a_heatmap_on_the_box_is_aligned_and_a_uniform_one_looks_nowhere(runs_by_heatmap):
    box, uniform = (runs_by_heatmap[kind]["instruments"]["scores"] for kind in ("box", "uniform"))
    assert box["tp_aa"] == box["tp_ac"] == box["tp_aa_ci_high"] == 1
    assert box["tp_aa_ci_low"] == pytest.approx(0.4, abs=0.05)  # few videos
    assert math.isnan(box["fp_ac"])
    assert box["n_fp"] == box["n_degenerate"] == 0 < box["n_tp"]
    assert math.isnan(uniform["tp_aa"])
    assert uniform["n_degenerate"] == uniform["n_tp"] == box["n_tp"]
    assert box["visible_share"] == 1
    for task in ("triplets", "triplets_t50"):
        box, uniform = (runs_by_heatmap[kind][task]["scores"] for kind in ("box", "uniform"))
        assert box["ras_local_ivt"] == 1
        assert math.isnan(uniform["ras_local_ivt"])
        assert uniform["n_degenerate"] == uniform["n_gold"] - uniform["n_without_motion"] > 10


def mask_attention(kind: str, height: int, width: int) -> np.ndarray:
    """Mask the pixels with the attention of a heatmap that does not depend on the frame."""
    if kind == "corner":
        region = np.zeros((height, width), dtype=bool)
        region[: height // 10, : width // 10] = True
        return region
    y, x = np.mgrid[:height, :width]
    near = -(((y + 0.5) / height - 0.5) ** 2) - ((x + 0.5) / width - 0.5) ** 2
    return near >= np.quantile(near, 0.8)


def mask_boxes(boxes: Sequence[dict], height: int, width: int) -> np.ndarray:
    mask = np.zeros((height, width), dtype=bool)
    for x, y, w, h in (box["xywh"] for box in boxes):
        mask[round(y) : round(y + h), round(x) : round(x + w)] = True
    return mask


@pytest.mark.parametrize("kind", keep_quick(["corner", "centre"], lambda kind: kind in DRAWN))
def test_scores_of_heatmaps_that_ignore_the_frame(runs_by_heatmap, kind):
    """Heatmaps are stored in half precision, which moves a few pixels over the threshold."""
    aa, ac, ras = [], [], []
    runs = runs_by_heatmap[kind]
    for doc in (sample["doc"] for task in ("instruments", "triplets") for sample in runs[task]["samples"]):
        region = mask_attention(kind, doc["height"], doc["width"])

        def compute_share(mask: np.ndarray, region: np.ndarray = region) -> float:
            return (region & mask).sum() / region.sum()

        for name in doc["gold"]:
            own_boxes = [box for box in doc["boxes"] if box["label"] == name.split(",")[0]]
            on_own = mask_boxes(own_boxes, doc["height"], doc["width"])
            if doc["ask"] == "instruments":
                aa.append(compute_share(on_own))
                ac.append(compute_share(mask_boxes(doc["boxes"], doc["height"], doc["width"])))
            elif doc["motion"] is not None:
                ras.append(compute_share(rle.decode(doc["motion"]) | on_own))
    scores = runs["instruments"]["scores"]
    assert scores["tp_aa"] == pytest.approx(np.mean(aa), abs=0.005)
    assert scores["tp_ac"] == pytest.approx(np.mean(ac), abs=0.005)
    assert scores["tp_aa"] < scores["tp_ac"] < 0.5
    assert runs["triplets"]["scores"]["ras_local_ivt"] == pytest.approx(np.mean(ras), abs=0.005)


@pytest.mark.full  # a run of each model
def test_every_reference_model_runs_without_heatmaps(ask):
    for name in tasks.BASELINES:
        runs = ask(name, "instruments", "triplets")
        for run in runs.values():
            assert run["scores"]["n_unparsed"] == 0
        if name == "oracle":
            assert runs["instruments"]["scores"]["f1"] == runs["triplets"]["scores"]["coverage"] == 1
            assert runs["instruments"]["scores"]["n_without_map"] == runs["instruments"]["scores"]["n_tp"]
            assert math.isnan(runs["triplets"]["scores"]["ap_ivt"]), "words rank no class"
        if name == "always_yes":
            docs = [sample["doc"] for sample in runs["instruments"]["samples"]]
            n_right = sum("grasper" in doc["gold"] for doc in docs)
            scores = runs["instruments"]["scores"]
            n_gold = sum(len(doc["gold"]) for doc in docs)
            assert (scores["precision"], scores["recall"]) == (n_right / len(docs), n_right / n_gold)
        if name == "negation_attracted":
            assert runs["instruments"]["scores"]["recall"] == runs["triplets"]["scores"]["coverage"] == 0


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("A scalpel.", {"n_unparsed": 60, "n_declined": 0, "n_tp": 0, "n_fp": 0}),
        ('{"predicted": ["hook"', {"n_unparsed": 60, "n_tp": 0}),
        ("No tools are visible.", {"n_unparsed": 0, "n_tp": 0, "n_fp": 0, "recall": 0}),
        ('{"heatmaps": null, "text": "There is a grasper."}', {"n_unparsed": 0, "n_tied": 0}),
        ('{"predicted": [], "tied": true}', {"n_unparsed": 0, "n_tied": 60, "n_tp": 0, "n_fp": 0, "recall": 0}),
    ],
)
def test_answers_without_classes(ask, reply, expected):
    scores = ask(Says(reply), "instruments")["instruments"]["scores"]
    assert {name: scores[name] for name in expected} == expected
    if "grasper" in reply:
        assert scores["n_tp"] + scores["n_fp"] == 60 == scores["n_without_map"]


def test_the_written_triplets_of_a_language_model_all_count(ask):
    """A sixth line counts, too: the paper scores the entire generated set."""
    triplets = ["grasper,pack,gallbladder", "hook,cut,peritoneum", "bipolar,grasp,liver", "clipper,clip,cystic_plate"]

    def make_reply(doc: dict[str, Any]) -> str:
        return "\n".join(text.replace(",", " ") for text in [*triplets, "irrigator,aspirate,fluid", *doc["gold"]])

    scores = ask(Says(make_reply), "triplets")["triplets"]["scores"]
    assert scores["coverage"] == scores["share_ivt"] == 1


def format_scores(doc: dict[str, Any], order: Sequence[str]) -> str:
    scores = [0.0] * len(doc["classes"])
    for rank, name in enumerate(order):
        scores[list(doc["classes"]).index(name)] = 100.0 - rank
    return json.dumps({"predicted": list(order[:5]), "scores": scores})


def test_levels_of_a_model_that_scores_classes(ask):
    """Predictions share instrument and verb with a true triplet, but not the target."""

    def list_near_misses(doc: dict[str, Any]) -> list[str]:
        gold = [tuple(name.split(",")) for name in doc["gold"]]
        return [str(t) for t in TRIPLETS if t[:2] in {g[:2] for g in gold} and tuple(t) not in gold][:5]

    run = ask(Says(lambda doc: format_scores(doc, list_near_misses(doc))), "triplets")["triplets"]
    scores, same = run["scores"], []
    for doc in (sample["doc"] for sample in run["samples"]):
        predicted = {tuple(name.split(",")[:2]) for name in list_near_misses(doc)}
        same += [tuple(name.split(",")[:2]) in predicted for name in doc["gold"]]
    assert scores["share_ivt"] == scores["coverage"] == 0
    assert scores["share_iv"] == pytest.approx(np.mean(same))
    assert 0.3 < scores["share_iv"] < 1
    assert sum(scores[f"share_{level}"] for level in ("ivt", "iv", "it", "i", "missed")) == pytest.approx(1)
    assert scores["n_without_map"] + scores["n_without_motion"] + scores["n_without_prediction"] == scores["n_gold"]


def test_the_sample_log_names_no_place_and_holds_each_row_once(phantom_surgx_build, tmp_path):
    """--heatmaps reaches the model together with its other arguments."""
    store, out = tmp_path / "heatmaps", tmp_path / "results"
    command = ["eval", "--data", str(phantom_surgx_build), "--heatmaps", str(store), "--model", "oracle"]
    command += ["--model_args", '{"heatmap": "corner"}', "--tasks", "medfaith_surgx", "--log_samples"]
    assert main([*command, "--output_path", str(out)]) == 0
    logs = sorted(out.rglob("samples_*.jsonl"))
    assert len(logs) == 2
    for log in logs:
        text = log.read_text()
        assert str(tmp_path) not in text
        assert str(phantom_surgx_build) not in text
        assert max(map(len, text.splitlines())) < 12_000
        for sample in map(json.loads, text.splitlines()):
            metric_values = [value for value in sample.values() if isinstance(value, dict) and "id" not in value]
            n = sum("gold" in value for value in metric_values)
            assert n == 1, "the row's values are logged under one metric"
    kinds = [json.loads(path.read_text())["heatmap"] for path in store.rglob("model.json")]
    assert set(kinds) == {"corner"}


def test_heatmaps_that_cannot_be_found_are_a_message(ask, tmp_path):
    model = baseline("oracle", store=str(tmp_path / "one"))
    with pytest.raises(InputError, match=r"store=.*one: .*their folder was not named(.|\n)*--heatmaps DIR"):
        ask(model, "instruments")
    with pytest.raises(InputError, match=r"store=.*one: heatmaps are read from another folder, .*two"):
        ask(model, "instruments", heatmaps=tmp_path / "two")
    assert not list(tmp_path.rglob("*.npz")), "before the first answer"
    refers = Says(json.dumps({"heatmaps": f"{'0' * 16}/{'1' * 16}", "predicted": ["hook"]}))
    with pytest.raises(InputError, match=r"their folder was not named(.|\n)*--heatmaps DIR"):
        ask(refers, "instruments")
    with pytest.raises(InputError, match="no such folder"):
        ask(refers, "instruments", heatmaps=tmp_path / "two")


def test_one_folder_by_two_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for store in ("store", "./a/../store", "~/store", "link", tmp_path / "store"):
        HeatmapReader("store").check(store)
        HeatmapReader(str(tmp_path / "store")).check(store)
    with pytest.raises(InputError, match="store=stores: heatmaps are read from another folder, store"):
        HeatmapReader("store").check("stores")


def test_heatmaps_of_other_boxes_lie_beside_one_another(tmp_path):
    """Builds of the same rows from different labels have separate heatmaps, and existing heatmaps are not redrawn."""
    doc = {"id": "r", "classes": ["hook"], "options": ["hook"], "answer": 0, "reply_in_words": True}
    doc |= {"height": 20, "width": 30, "question": "?", "study_id": "s", "negated": 0}
    model = baseline("oracle", store=str(tmp_path))

    def draw_heatmap(x: float) -> str:
        boxes = [{"label": "hook", "xywh": [x, 2.0, 5.0, 5.0]}]
        arguments: Any = ("", {})
        (reply,) = model.generate_until([Instance("generate_until", doc | {"boxes": boxes}, arguments, 0)])
        return json.loads(reply)["heatmaps"]

    references = [draw_heatmap(x) for x in (1.0, 20.0)]
    maps = [open_store(tmp_path).read(reference, "r").maps["hook"] for reference in references]
    assert [grid.nonzero()[1].min() for grid in maps] == [1, 20]
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert draw_heatmap(1.0) == references[0]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")} == written


def test_heatmaps_of_another_frame_are_refused(ask, tmp_path):
    store = HeatmapStore(tmp_path, {"model": "other"})

    def write_reply(doc: dict[str, Any]) -> str:
        store.write(doc["id"], "0" * 16, {"hook": np.eye(4)}, Geometry.whole((50, 60)))
        return json.dumps({"heatmaps": store.reference("0" * 16), "predicted": ["hook"]})

    with pytest.raises(InputError, match=r"heatmaps of an image of 60 x 50 pixels(.|\n)*expected: 214 x 120"):
        ask(Says(write_reply), "instruments", heatmaps=tmp_path)


def test_prompts_are_those_of_the_paper(ask):
    runs = ask(Says("A hook."), "instruments", "triplets")
    text = {name: str(run["samples"][0]["arguments"]) for name, run in runs.items()}
    tools = "What surgical tools do you see? Choose from: Grasper, Bipolar, Hook, Scissors, Clipper, Irrigator, Bag"
    assert tools in text["instruments"]
    assert "A grasper can dissect, grasp, pack or retract." in text["triplets"]
    assert "abdominal_wall_cavity" in text["triplets"]
    assert "null" not in text["triplets"]


def test_an_unknown_heatmap_is_refused_with_and_without_a_folder(tmp_path):
    for options in ({}, {"store": str(tmp_path)}):
        with pytest.raises(InputError, match=r"heatmap=nose: no such heatmap(.|\n)*box, uniform, centre, corner"):
            baseline("oracle", heatmap="nose", **options)


def test_a_heatmap_of_sentences_is_refused_for_a_frame(ask, tmp_path):
    with pytest.raises(InputError, match=r"heatmap=mirror: is none of a frame(.|\n)*box, uniform, centre, corner"):
        ask(baseline("oracle", store=str(tmp_path), heatmap="mirror"), ASKED[0], heatmaps=tmp_path)


@pytest.mark.full  # two more runs
def test_rows_of_two_sources_and_seeds_keep_their_own_heatmaps(ask, runs_by_heatmap, tmp_path):
    ids = [{doc["id"] for doc in runs_by_heatmap["box"][task]["docs"]} for task in ("triplets", "triplets_t50")]
    assert not ids[0] & ids[1]
    models = [baseline("random", seed=seed, store=str(tmp_path)) for seed in (0, 1)]
    runs = [ask(model, "instruments", heatmaps=tmp_path)["instruments"] for model in models]
    keys = [{json.loads(reply)["heatmaps"].partition("/")[0] for reply in run["replies"]} for run in runs]
    assert len(keys[0]) == len(keys[1]) == 1
    assert keys[0] != keys[1]
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.npz")]
    assert max(sizes) < 5_000, "a frame of 120 x 214 has 51,360 bytes a map in half precision"
