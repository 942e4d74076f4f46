"""That's the Wrong Lung! through lm-eval: reference models with scores and deltas derived from the rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from medfaith import tasks
from medfaith.cli import main
from medfaith.evaluate_metrics.localization.input_view import mask
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.reader import HeatmapReader
from medfaith.tasks.explain.store import HeatmapStore, open_store
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.models.reference.sentence_maps import KINDS, attention
from medfaith.tasks.wrong_lung import adapter
from medfaith.tasks.wrong_lung import rows as documents
from tests.support.builders.files import edited, root_words, rows_of
from tests.support.tasks.evaluating import baseline, evaluate, figures, load, results_of, samples_of

GROUP, REPOSITORY = "medfaith_wrong_lung", "wrong-lung-chest_imagenome"
N_ROWS = 42  # ends at a report boundary; tasks of pairs have the same number of pairs
ASKED = {
    "box": ("gold", "swap_left_right", "random_sentences", "synthetic"),
    "mirror": ("gold",),
    "uniform": ("gold", "random_boxes", "synthetic_swapped_conditions"),
    "image_only": ("swap_left_right", "random_sentences", "shuffle_in_report"),
}


@pytest.fixture(scope="module")
def runs(phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Scores and samples of the oracle, by kind of attention and task."""
    store, runs_by_kind = tmp_path_factory.mktemp("attention"), {}
    for kind, names in ASKED.items():
        model, runs_by_kind[kind] = baseline("oracle", store=str(store), heatmap=kind), {}
        for name in names:
            task = f"{GROUP}_{name}"
            loaded = load([task], phantom_wrong_lung_build, phantom_wrong_lung_roots, heatmaps=store)
            n_docs = N_ROWS * (1 if name == "gold" else 2)
            runs_by_kind[kind][name] = evaluate(model, loaded, n_docs)[task]
    return runs_by_kind


@pytest.fixture(scope="module")
def rows(phantom_wrong_lung_build) -> Callable[[str], list[dict[str, Any]]]:
    """Rows of a config that `runs` has asked."""
    return lambda config: rows_of(phantom_wrong_lung_build / REPOSITORY, config)[:N_ROWS]


def mask_boxes(row: dict[str, Any], column: str = "boxes") -> np.ndarray:
    return mask([box["xywh"] for box in row[column]], (row["height"], row["width"])).ravel()


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def test_attention_on_the_boxes_is_right_everywhere(runs):
    scores = runs["box"]["gold"]["scores"]
    for subset in ("", "_abnormal", "_one_lung", "_mdrb"):
        assert scores[f"auroc{subset}"] == scores[f"average_precision{subset}"] == 1
        assert 0 < scores[f"auroc{subset}_ci_low"] < scores[f"auroc{subset}_ci_high"] == 1
    assert scores["n_scored"] == len(runs["box"]["gold"]["samples"]) == N_ROWS
    assert scores["n_without_map"] == scores["n_degenerate"] == scores["n_rows_skipped"] == 0
    assert scores["no_attn"] == pytest.approx(0, abs=1e-9)


def test_the_oracle_follows_a_swapped_side_and_loses_what_the_rows_say(runs, rows):
    """On a swapped row, the oracle's AUROC equals scikit-learn's AUROC of the other side's boxes."""
    scores = runs["box"]["swap_left_right"]["scores"]
    swapped = rows("swap_left_right")
    for subset in ("", "_one_lung"):
        subset_rows = [row for row in swapped if not subset or row["subsets"]["one_lung"]]
        pairs = [(mask_boxes(row), mask_boxes(row, "described")) for row in subset_rows]
        ranked = mean([float(roc_auc_score(*pair)) for pair in pairs])
        precise = mean([float(average_precision_score(*pair)) for pair in pairs])
        assert scores[f"delta_auroc{subset}"] == pytest.approx(ranked - 1)
        assert scores[f"delta_average_precision{subset}"] == pytest.approx(precise - 1)
    assert scores["delta_auroc_one_lung"] < -0.5
    assert scores["n_pairs"] == len(swapped)
    assert scores["n_undefined"] == 0


def test_the_oracle_is_as_good_on_synthetic_sentences_and_tells_a_random_one_from_the_own(runs):
    synthetic, scores = (runs["box"][task]["scores"] for task in ("synthetic", "random_sentences"))
    assert (synthetic["delta_auroc"], synthetic["auroc"]) == (0, 1)
    for subset in ("", "_abnormal", "_one_lung", "_mdrb"):
        assert scores[f"local_accuracy{subset}"] == scores[f"global_accuracy{subset}"] == 1
        assert scores[f"delta_auroc{subset}"] < 0 < scores[f"kl{subset}"]


@pytest.mark.parametrize("perturbation", ["swap_left_right", "random_sentences"])
def test_a_model_that_ignores_the_text_does_not_move(runs, perturbation):
    scores = runs["image_only"][perturbation]["scores"]
    for subset in ("", "_abnormal", "_one_lung", "_mdrb"):
        assert scores[f"delta_auroc{subset}"] == scores[f"delta_average_precision{subset}"] == 0
        low, high = (scores[f"delta_auroc{subset}_ci_{end}"] for end in ("low", "high"))
        assert -low == high > 0  # a change could be too rare to be seen in these rows
    if perturbation == "random_sentences":
        assert scores["kl"] == 0
        assert math.isnan(scores["local_accuracy"])  # this model has no similarity


def test_boxes_that_a_report_exchanges_do_not_move_it_on_average(runs):
    """The model cannot distinguish the report's sentences: each box set gets one score, whatever its sentence."""
    run = runs["image_only"]["shuffle_in_report"]
    values = [sample["delta_auroc"]["values"]["auroc"] for sample in run["samples"]]
    assert run["scores"]["delta_auroc"] == pytest.approx(0, abs=1e-12)
    assert values[::2] != values[1::2]


def test_uniform_attention_ranks_nothing(runs, rows):
    scores = runs["uniform"]["gold"]["scores"]
    assert scores["auroc"] == 0.5
    assert scores["entropy"] == pytest.approx(math.log(361), abs=1e-6)
    assert scores["iou_5"] == scores["iou_30"] == 0
    shares = [mask_boxes(row).mean() for row in rows("gold")]
    assert scores["precision_5"] == pytest.approx(mean(shares)), "all pixels are tied"
    for name in ("random_boxes", "synthetic_swapped_conditions"):
        assert runs["uniform"][name]["scores"]["delta_auroc"] == 0


def test_the_mirror_looks_at_the_other_lung(runs, rows):
    gold = rows("gold")
    masks = [(mask_boxes(row), mask_boxes(row).reshape(224, 224)[:, ::-1].ravel()) for row in gold]
    expected = mean([float(roc_auc_score(*pair)) for pair in masks])
    scores = runs["mirror"]["gold"]["scores"]
    assert scores["auroc"] == pytest.approx(expected)
    assert scores["auroc_one_lung"] < 0.5 < scores["auroc"]


def test_each_perturbed_row_stands_behind_its_original(runs):
    samples = sorted(runs["box"]["swap_left_right"]["samples"], key=lambda sample: sample["doc_id"])
    for original, changed in zip(samples[::2], samples[1::2], strict=True):
        assert original["doc"]["perturbation"] is None
        assert changed["doc"]["original_id"] == original["doc"]["id"]
        assert changed["doc"]["boxes"] == original["doc"]["boxes"]


def test_a_kind_that_is_none_is_refused(phantom_wrong_lung_build, tmp_path):
    loaded = load([f"{GROUP}_gold"], phantom_wrong_lung_build, heatmaps=tmp_path)
    with pytest.raises(InputError, match=r"heatmap=corner(.|\n)*box, uniform, image_only, mirror"):
        evaluate(baseline("oracle", store=str(tmp_path), heatmap="corner"), loaded)


def test_a_perturbed_row_without_its_original_is_refused(phantom_wrong_lung_build, tmp_path):
    build, config = phantom_wrong_lung_build / REPOSITORY, "swap_left_right"
    (row, *_) = rows_of(build, config, "test")
    edited(build, tmp_path, "gold", lambda table: table.filter(pc.field("id") != row["original_id"]))
    message = rf"'{config}', row {row['id']}: is a perturbation of '{row['original_id']}'(.|\n)*one run"
    with pytest.raises(InputError, match=message):
        documents.load(REPOSITORY, config, split="test", data=str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_attention_sums_to_one_or_is_none(kind, rows, phantom_wrong_lung_roots):
    for row in rows("gold")[:5]:
        lazy_images = LazyImages(row["id"], [row["image"]], phantom_wrong_lung_roots)
        grid, geometry = attention(kind, row | {"images": lazy_images, "described": row["boxes"]})
        assert grid.sum() == pytest.approx(1)
        assert geometry.size == (row["height"], row["width"])
    nothing, _ = attention("box", row | {"described": []})
    assert not nothing.any()


@pytest.mark.full  # test_wrong_lung_held_out.py runs some from the command line
def test_all_tasks_run_from_the_command_line(phantom_wrong_lung_build, tmp_path):
    """Every metric that a YAML file declares is a number, for each task of the group; two rows are enough."""
    arguments = ["eval", "--data", str(phantom_wrong_lung_build), "--heatmaps", str(tmp_path / "maps"), "--model"]
    arguments += ["oracle", "--tasks", GROUP, "--limit", "5", "--output_path", str(tmp_path / "results")]
    assert main([*arguments, "--log_samples"]) == 0
    scores_by_task = {name.removeprefix(f"{GROUP}_"): scores for name, scores in results_of(tmp_path).items()}
    names = {path.stem.removeprefix(f"{GROUP}_") for path in (tasks.include_path() / "wrong_lung").glob("*.yaml")}
    assert scores_by_task.keys() | {GROUP} == names | {GROUP}
    assert scores_by_task["gold"]["auroc,none"] == 1
    assert scores_by_task["trimmed"]["n_pairs,none"] == 2
    sample = samples_of(tmp_path, f"{GROUP}_random_sentences")[0]
    assert sample["delta_auroc"]["values"]["auroc"] == 1
    assert adapter.unpacked(sample["delta_auroc"]["attention"]).sum() == pytest.approx(1)
    assert sample["delta_auroc_one_lung"] == ""


@pytest.fixture(scope="module")
def aligned(phantom_wrong_lung_build, phantom_wrong_lung_roots, gloria, tmp_path_factory) -> tuple[list[str], Path]:
    """Arguments and output folder of a tiny GLoRIA run by `medfaith eval`."""
    folder = tmp_path_factory.mktemp("aligned")
    checkpoint, tokenizer = gloria[True]
    arguments = [
        "eval", "--data", str(phantom_wrong_lung_build), *root_words(phantom_wrong_lung_roots), "--limit", "6",
        "--tasks", f"{GROUP}_gold,{GROUP}_random_sentences", "--model", "medfaith-alignment", "--batch_size", "4",
        "--output_path", str(folder / "results"), "--log_samples", "--heatmaps", str(folder / "attention"),
        "--model_args", f"pretrained=gloria:{checkpoint},text_model={tokenizer}",
    ]  # fmt: skip
    assert main(arguments) == 0
    return arguments, folder


def test_attention_goes_to_the_store_and_scores_to_the_log(aligned):
    for sample in samples_of(aligned[1], f"{GROUP}_gold"):
        reply, values = json.loads(sample["filtered_resps"][0]), sample["auroc"]["values"]
        entry = open_store(aligned[1] / "attention").read(reply["heatmaps"], sample["doc"]["id"])
        assert entry.maps["attention"].shape == (19, 19)
        assert values["no_attn"] == pytest.approx(1 - entry.maps["attention"].sum(), abs=1e-6)
        assert 0 <= values["no_attn"] < 1
        assert 0 < values["auroc"] < 1
        assert [values["local"], values["global"]] == [reply["local"], reply["global"]]


def test_results_are_means_of_the_log(aligned):
    results = results_of(aligned[1])
    gold = [sample["auroc"]["values"]["auroc"] for sample in samples_of(aligned[1], f"{GROUP}_gold")]
    assert results[f"{GROUP}_gold"]["auroc,none"] == pytest.approx(np.mean(gold))
    pairs = [sample["delta_auroc"]["values"] for sample in samples_of(aligned[1], f"{GROUP}_random_sentences")]
    originals, perturbed = pairs[::2], pairs[1::2]
    right = np.mean([a["global"] > b["global"] for a, b in zip(originals, perturbed, strict=True)])
    assert results[f"{GROUP}_random_sentences"]["global_accuracy,none"] == right
    assert results[f"{GROUP}_random_sentences"]["kl,none"] > 0


@pytest.mark.full  # another run
def test_another_folder_for_the_attention_is_refused_before_the_run(aligned, capsys):
    arguments, folder = aligned
    at = arguments.index("--heatmaps")
    assert main([*arguments[:at], "--model_args", f"{arguments[-1]},store={folder / 'attention'}"]) == 2
    assert "--heatmaps DIR" in capsys.readouterr().err


def test_a_run_without_a_folder_for_the_attention_counts_what_it_cannot_score(phantom_wrong_lung_build):
    task = f"{GROUP}_swap_left_right"
    scores = evaluate("always_yes", load([task], phantom_wrong_lung_build), limit=20)[task]["scores"]
    assert scores["n_without_map"] == scores["sample_len"] == 20
    assert scores["n_undefined"] == scores["n_pairs"] == 10
    assert math.isnan(scores["delta_auroc"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, ()) for text in ("Yes", "", "[1]", "null", "{broken", '{"heatmaps": 3}')),
        ('{"heatmaps": null, "local": "high", "global": true}', ()),
        ('{"heatmaps": "a/b", "local": NaN, "global": 0.25}', ("a/b", None, 0.25)),
    ],
)
def test_replies_without_attention_or_with_similarities_that_are_no_numbers(text, expected):
    assert adapter.read_reply(text) == adapter.Reply(*expected)


@pytest.mark.parametrize("shape", [(1, 1), (19, 19), (3, 7)])
def test_attention_survives_the_log(shape):
    grid = np.random.default_rng(0).random(shape, dtype=np.float32)
    assert np.array_equal(adapter.unpacked(json.loads(json.dumps(adapter.packed(grid)))), grid)


def test_one_row_alone_is_undefined_not_an_error():
    """A limit may cut a pair, or leave a subset empty."""
    row = {"id": "a", "original_id": None, "perturbation": None, "cluster": "p", "state": "scored"}
    doc = {"n_rows_skipped": 0, "n_rows_left_out": 2, "images": ["a"], "n_images_sent": 1}
    row |= {"subsets": dict.fromkeys(("abnormal", "one_lung", "mdrb"), False), "values": {"auroc": 1.0}}
    values = adapter.RANDOM_SENTENCES.values(doc, row)
    scores = figures(adapter.random_sentences_metrics, [values])
    defined = {name: value for name, value in scores.items() if not math.isnan(value)}
    zero = "n_pairs n_undefined n_without_map n_degenerate n_rows_skipped n_images_missing n_unanswered"
    assert defined == dict.fromkeys(zero.split(), 0) | {"n_scored": 1, "n_rows_left_out": 2}


def test_attention_is_spread_over_pixels_as_was_asked(phantom_wrong_lung_build, phantom_wrong_lung_roots, tmp_path):
    """On a coarse grid, nearest upsampling ranks pixels differently; an unknown option value is refused."""
    roots = {source: str(root) for source, root in phantom_wrong_lung_roots.items()}
    load_options = {"config": "gold", "split": "test", "data": str(phantom_wrong_lung_build), "roots": roots}
    values_by_upsampling = {}
    for upsampling in adapter.SCORING["upsampling"]:
        doc = documents.load(REPOSITORY, upsampling=upsampling, **load_options)["test"][0]
        grid, geometry = attention("image_only", doc)
        store = HeatmapStore(tmp_path, {"model": upsampling}, exact=True)
        store.write(doc["id"], "0" * 16, {"attention": grid}, geometry)
        reply = json.dumps({"heatmaps": store.reference("0" * 16)})
        doc["heatmaps"] = HeatmapReader(str(tmp_path))
        values_by_upsampling[upsampling] = adapter.gold_results(doc, [reply])["auroc"]["values"]
        without = adapter.gold_results(doc | {"precision_ties": "excluded"}, [reply])["auroc"]["values"]
        changed = {name for name, value in without.items() if value != values_by_upsampling[upsampling][name]}
        assert {name.rpartition("_")[0] for name in changed} == {"precision"}
    assert values_by_upsampling["bilinear"]["auroc"] != values_by_upsampling["nearest"]["auroc"]
    for option, value in (("upsampling", "cubic"), ("precision_ties", "some")):
        with pytest.raises(InputError, match=f"option {option}: is '{value}'"):
            documents.load(REPOSITORY, **load_options, **{option: value})


def test_only_the_oracle_knows_where_boxes_are(phantom_wrong_lung_build, tmp_path):
    task = f"{GROUP}_random_sentences"
    loaded = load([task], phantom_wrong_lung_build, heatmaps=tmp_path)
    scores = evaluate(baseline("random", store=str(tmp_path)), loaded, limit=6)[task]["scores"]
    assert scores["auroc"] == 0.5
    assert math.isnan(scores["local_accuracy"])


def test_a_sentence_is_asked_as_a_question_that_yes_answers(phantom_wrong_lung_build):
    docs = load([f"{GROUP}_gold"], phantom_wrong_lung_build)["tasks"][f"{GROUP}_gold"].test_docs().with_format(None)
    assert docs.num_rows > 0
    for doc in docs:
        assert doc["sentence"] in doc["question"]
        assert [doc["options"][doc[column]] for column in ("answer", "negated")] == ["Yes", "No"]
