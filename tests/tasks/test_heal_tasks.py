"""HEAL-MedVQA through lm-eval: reference models with scores derived by hand, and one model that looks at the image."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest

from medfaith import tasks
from medfaith.evaluate_metrics.reading.disease_names import CLASSES
from medfaith.tasks.heal.rows import NORMAL
from tests.support.tasks.evaluating import Says, baseline, evaluate, load

CONFIGS = {"vindr": "heal-medvqa-vindr_cxr", "mimic": "heal-medvqa-mimic_cxr"}
ASKED = ("closed", "open", "tpt", "vpt")
TASKS = [f"{config}_{ask}" for config in CONFIGS for ask in ASKED]


def ask(model: Any, loaded: Any) -> dict[str, dict[str, Any]]:
    return {name.removeprefix("medfaith_heal_"): run for name, run in evaluate(model, loaded).items()}


@pytest.fixture(scope="module")
def runs_by_model(phantom_heal_build) -> dict[str, dict[str, Any]]:
    loaded = load([f"medfaith_heal_{config}" for config in CONFIGS], phantom_heal_build)
    return {name: ask(name, loaded) for name in tasks.BASELINES}


def get_answer(doc: dict[str, Any]) -> str:
    """Return the correct reply: Yes, No or the gold diseases."""
    if doc["question_type"] == "open":
        return ", ".join(doc["diseases"]) or NORMAL
    return "Yes" if doc["kind"] in ("positive", "original") else "No"


def choose_most_frequent(docs: list[dict[str, Any]]) -> str:
    """Choose the most frequent correct reply among the options of all documents; ties go to the first option."""
    shared = [reply for reply in docs[0]["options"] if all(reply in doc["options"] for doc in docs)]
    counts = Counter(map(get_answer, docs))
    return max(shared, key=lambda reply: (counts[reply], -shared.index(reply)))


def choose_at_random(doc: dict[str, Any]) -> str:
    digest = blake2b(f"0:{doc['id']}".encode(), digest_size=8).digest()
    return doc["options"][int.from_bytes(digest, "little") % len(doc["options"])]


def choose_from_other_images(doc: dict[str, Any], docs: list[dict[str, Any]]) -> str:
    """Choose the most frequent correct reply for the same anatomy and disease in other images."""
    other_docs = [candidate for candidate in docs if candidate["image_id"] != doc["image_id"]]
    all_answers = [get_answer(candidate) for candidate in other_docs]
    same_columns = ["anatomy"] if doc["question_type"] == "open" else ["anatomy", "diseases"]
    alike = [
        get_answer(candidate) for candidate in other_docs if all(candidate[name] == doc[name] for name in same_columns)
    ]
    options = doc["options"]
    return min(options, key=lambda text: (-alike.count(text), -all_answers.count(text), options.index(text)))


REPLIES: dict[str, Callable[[list[dict[str, Any]]], list[str]]] = {
    "oracle": lambda docs: [get_answer(doc) for doc in docs],
    "always_yes": lambda docs: ["Yes" if doc["question_type"] == "closed" else CLASSES[0] for doc in docs],
    "negation_attracted": lambda docs: ["No" if doc["question_type"] == "closed" else NORMAL for doc in docs],
    "majority": lambda docs: [choose_most_frequent(docs)] * len(docs),
    "random": lambda docs: [choose_at_random(doc) for doc in docs],
    "question_prior": lambda docs: [choose_from_other_images(doc, docs) for doc in docs],
}


def compute_share(count: int, total: int) -> float:
    return count / total if total else math.nan


def compute_scores(predicted: list[set], gold: list[set]) -> dict[str, float]:
    true = sum(len(s & g) for s, g in zip(predicted, gold, strict=True))
    n_predicted, n_gold = sum(map(len, predicted)), sum(map(len, gold))
    return {
        "precision": compute_share(true, n_predicted),
        "recall": compute_share(true, n_gold),
        "f1": compute_share(2 * true, n_predicted + n_gold),
    }


def compute_expected(ask: str, docs: list[dict[str, Any]], replies: list[str]) -> dict[str, float]:
    if ask == "closed":
        predicted, gold = (
            [{"yes"} if text == "Yes" else set() for text in group] for group in (replies, map(get_answer, docs))
        )
        accuracy = compute_share(sum(map(str.__eq__, replies, map(get_answer, docs))), len(docs))
        scores = {f"yes_no_{name}": value for name, value in compute_scores(predicted, gold).items()}
        return {**scores, "yes_no_accuracy": accuracy, "n_closed_unparsed": 0, "n_closed_declined": 0}
    if ask == "open":
        predicted, gold = [set(text.split(", ")) - {NORMAL} for text in replies], [set(doc["diseases"]) for doc in docs]
        exact = compute_share(sum(map(set.__eq__, predicted, gold)), len(docs))
        scores = {f"open_{name}": value for name, value in compute_scores(predicted, gold).items()}
        return {**scores, "open_exact_match": exact, "n_open_unreadable": 0, "n_open_declined": 0}
    said_yes = {doc["id"] for doc, text in zip(docs, replies, strict=True) if text == "Yes" and is_original(doc)}
    pairs = [(doc["kind"], text) for doc, text in zip(docs, replies, strict=True) if is_partner_of(doc, said_yes)]
    changed = [kind for kind, text in pairs if text == "No"]
    scores = {ask: compute_share(len(changed), len(pairs)), "n_pairs": len(pairs), "n_changed": len(changed)}
    for kind in ("anatomy", "disease") if ask == "tpt" else ():
        scores[f"tpt_{kind}"] = compute_share(changed.count(kind), sum(group == kind for group, _ in pairs))
    unanswered = {
        f"n_{outcome}_{group}": 0 for outcome in ("unparsed", "declined") for group in ("originals", "perturbed")
    }
    return {**scores, "n_true_positives": len(said_yes), **unanswered}


def is_original(doc: dict[str, Any]) -> bool:
    return doc["id"] == doc["original_id"]


def is_partner_of(doc: dict[str, Any], originals: set[str]) -> bool:
    return not is_original(doc) and doc["original_id"] in originals


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", REPLIES)
def test_every_score_of_a_reference_model_can_be_derived_by_hand(runs_by_model, model, task):
    run = runs_by_model[model][task]
    replies = REPLIES[model](run["docs"])
    assert run["replies"] == replies
    expected = compute_expected(task.rpartition("_")[2], run["docs"], replies)
    for name, value in expected.items():
        assert run["scores"][name] == pytest.approx(value, nan_ok=True), name
    assert run["scores"]["n_rows_skipped"] == 0
    intervals = {name for name in run["scores"] if name.endswith(("_ci_low", "_ci_high"))}
    assert math.isnan(run["scores"]["n_images_missing"])  # a reference model asks for no image
    expected_names = {*expected, *intervals, "n_rows_skipped", "n_images_missing", "n_unanswered"}
    assert {name for name, value in run["scores"].items() if not isinstance(value, str)} - {
        "sample_len"
    } == expected_names
    for name in (name.removesuffix("_ci_low") for name in intervals if name.endswith("_ci_low")):
        low, value, high = (run["scores"][f"{name}{end}"] for end in ("_ci_low", "", "_ci_high"))
        assert math.isnan(value) or low <= value <= high


@pytest.mark.parametrize("config", CONFIGS)
def test_the_ends_of_the_scale(runs_by_model, config):
    """TPT and VPT reward only models that say Yes and change to No; a model that never says Yes has no score."""
    scores = {name: {ask: runs[f"{config}_{ask}"]["scores"] for ask in ASKED} for name, runs in runs_by_model.items()}
    golds = Counter(map(get_answer, runs_by_model["oracle"][f"{config}_closed"]["docs"]))
    always, oracle, never = scores["always_yes"], scores["oracle"], scores["negation_attracted"]
    assert oracle["closed"]["yes_no_f1"] == oracle["open"]["open_f1"] == oracle["open"]["open_exact_match"] == 1
    assert oracle["tpt"]["tpt"] == oracle["tpt"]["tpt_anatomy"] == oracle["tpt"]["tpt_disease"] == 1
    assert oracle["vpt"]["vpt"] == oracle["vpt"]["vpt_ci_high"] == 1
    assert 0.6 < oracle["vpt"]["vpt_ci_low"] < 1
    assert always["tpt"]["tpt"] == always["vpt"]["vpt"] == scores["question_prior"]["vpt"]["vpt"] == 0
    assert always["closed"]["yes_no_precision"] == golds["Yes"] / golds.total()
    assert always["closed"]["yes_no_recall"] == 1
    assert math.isnan(never["tpt"]["tpt"])
    assert math.isnan(never["vpt"]["vpt"])
    assert never["tpt"]["n_true_positives"] == never["vpt"]["n_true_positives"] == 0
    for ask in ("tpt", "vpt"):
        n_originals = sum(map(is_original, runs_by_model["oracle"][f"{config}_{ask}"]["docs"]))
        assert oracle[ask]["n_true_positives"] == always[ask]["n_true_positives"] == n_originals > 10


def test_a_region_in_a_reply_is_measured_and_its_answer_read(phantom_heal_build, runs_by_model):
    """The replies are the answers of always_yes, each with the mask of the anatomy."""

    def make_reply(doc: dict[str, Any]) -> str:
        text = "Yes" if doc["question_type"] == "closed" else CLASSES[0]
        return json.dumps({"text": text, "region": dict(doc["region"])})

    run = ask(Says(make_reply), load([f"medfaith_heal_vindr_{ask}" for ask in ("closed", "open")], phantom_heal_build))
    for name, metric in ("vindr_closed", "yes_no_f1"), ("vindr_open", "open_f1"):
        assert {sample[metric]["dice"] for sample in run[name]["samples"]} == {1}
        assert run[name]["scores"] == runs_by_model["always_yes"][name]["scores"]


def test_majority_says_only_what_every_document_offers():
    """Several diseases together are a separate option, which documents without them do not offer."""
    offered = [NORMAL, *CLASSES]
    together = [{"options": [*offered, "Edema, ILD"], "answer": len(offered)}] * 5
    docs = [*together, *[{"options": offered, "answer": 3}] * 2, {"options": offered, "answer": 0}]
    assert baseline("majority").choose(docs) == [3] * len(docs)


@pytest.fixture(scope="module")
def looking(phantom_heal_build, phantom_heal_roots) -> dict[str, Any]:
    names = [f"medfaith_heal_vindr_{ask}" for ask in ASKED if ask != "open"]
    return ask("looks", load(names, phantom_heal_build, phantom_heal_roots))


@pytest.mark.full  # test_image_baselines.py has this model
def test_a_model_that_looks_answers_better_than_always_yes(looking, runs_by_model):
    scores, blind = looking["vindr_closed"]["scores"], runs_by_model["always_yes"]["vindr_closed"]["scores"]
    assert scores["yes_no_accuracy"] > blind["yes_no_accuracy"] + 0.2
    assert scores["yes_no_f1"] > blind["yes_no_f1"] + 0.1


def test_it_turns_to_no_where_the_region_or_the_question_is_replaced(looking):
    scores = looking["vindr_vpt"]["scores"]
    assert scores["vpt"] > 0.7
    assert scores["vpt_ci_low"] > 0.5
    assert scores["n_true_positives"] > 15
    assert looking["vindr_tpt"]["scores"]["tpt"] > 0.5


def test_it_answers_an_untouched_image_as_before(looking):
    """Control for the test above: only the donor's region changes the answers."""
    vpt, closed = looking["vindr_vpt"], looking["vindr_closed"]
    answers_by_id = {doc["id"]: text for doc, text in zip(closed["docs"], closed["replies"], strict=True)}
    untouched = [(doc, text) for doc, text in zip(vpt["docs"], vpt["replies"], strict=True) if is_original(doc)]
    assert len(untouched) > 20
    assert all(text == answers_by_id[doc["id"]] for doc, text in untouched)
