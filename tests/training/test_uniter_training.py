"""Training of UNITER: masks and losses by hand, a resumed training, and the way from a build to the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch.nn import functional
from transformers import AutoTokenizer

from medfaith import cli
from medfaith.loaders.errors import InputError
from medfaith.tasks.explain.store import open_store
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.tasks.models.alignment.uniter import Sizes, UniterModel, load_uniter, stack_regions
from medfaith.training.data import Data, Example
from medfaith.training.uniter import losses, transport
from medfaith.training.uniter.crops import Crops
from medfaith.training.uniter.settings import UniterOptions
from medfaith.training.uniter.train import BETAS, UniterTrainer, load_regions, select_sentences, train
from tests.support.tasks import tiny_gloria
from tests.support.tasks.evaluating import results_of, samples_of
from tests.support.tasks.tiny_uniter import build_model, draw_regions

TEXTS = ["Small right pleural effusion.", "Lungs are clear."]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return AutoTokenizer.from_pretrained(tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert")))


def make_example(number: int) -> Example:
    return Example(str(number), f"p{number // 2}", number, f"text {number}", (9, 9), [], [], frozenset())


def test_masked_word_pieces_are_replaced_as_in_bert(tokenizer):
    tokens = tokenize(tokenizer, TEXTS * 2000)
    masked, labels = losses.mask_words(tokens, tokenizer, np.random.default_rng(0))
    is_masked = labels != losses.IGNORED
    assert is_masked.any(dim=1).all()
    assert torch.equal(labels[is_masked], tokens.ids[is_masked])
    assert torch.equal(masked.ids[~is_masked], tokens.ids[~is_masked])
    special = torch.isin(tokens.ids, torch.tensor(tokenizer.all_special_ids))
    assert not (is_masked & special & (tokens.ids != tokenizer.unk_token_id)).any()
    n_pieces = np.array([4, 3])
    chance = np.mean(n_pieces * 0.15 + 0.85**n_pieces) / n_pieces.mean()  # or the one that every sentence has
    assert is_masked.sum() / (2000 * n_pieces.sum()) == pytest.approx(chance, abs=0.02)
    assert (masked.ids[is_masked] == tokenizer.mask_token_id).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (masked.ids[is_masked] == tokens.ids[is_masked]).float().mean() == pytest.approx(0.1, abs=0.03)


def test_masked_regions_are_regions_and_no_padding():
    regions = stack_regions(draw_regions([1, 4]))
    masks = torch.stack([losses.mask_regions(regions, np.random.default_rng(n)) for n in range(500)])
    assert masks.any(dim=2).all()
    assert not (masks & (regions.mask == 0)).any()
    assert masks[:, 1].float().mean() == pytest.approx(0.15 + 0.85**4 / 4, abs=0.03)


def test_about_half_of_the_sentences_are_of_another_patient():
    examples = [make_example(number) for number in range(1000)]
    sentences, labels = losses.draw_sentences(examples, examples, np.random.default_rng(0))
    for example, sentence, label in zip(examples, sentences, labels.tolist(), strict=True):
        patient = examples[int(sentence.removeprefix("text "))].patient
        assert sentence == example.sentence if label else patient != example.patient
    assert labels.float().mean() == pytest.approx(0.5, abs=0.07)


def test_losses_equal_plain_torch(tokenizer):
    model, tokens = build_model(len(tokenizer)), tokenize(tokenizer, TEXTS)
    regions = stack_regions(draw_regions([3, 2]))
    labels = torch.full_like(tokens.ids, losses.IGNORED)
    labels[0, 2], labels[1, 1] = 7, 9
    with torch.no_grad():
        joint = model(tokens, regions)
        table = model.words.word_embeddings.weight
        rows = [(model.word_head(joint.words[row, column]) @ table.T + model.word_bias, label)
                for row, column, label in ((0, 2, 7), (1, 1, 9))]  # fmt: skip
        expected = -sum(float(logits.log_softmax(dim=0)[label]) for logits, label in rows) / 2
        assert float(losses.compute_word_loss(model, tokens, labels, regions)) == pytest.approx(expected, rel=1e-5)

        model.regions.masked.fill_(0.25)
        is_masked = torch.tensor([[False, True, False], [True, False, False]])
        hidden = regions.features.clone()
        hidden[0, 1], hidden[1, 0] = 0.25, 0.25
        states = model(tokens, regions._replace(features=hidden)).regions
        errors = [
            (model.region_head(states[n, k]) @ model.regions.features.weight + model.feature_bias
             - regions.features[n, k]).square().mean()
            for n, k in ((0, 1), (1, 0))
        ]  # fmt: skip
        region_loss = losses.compute_region_loss(model, tokens, regions, is_masked)
        assert float(region_loss) == pytest.approx(float(sum(errors)) / 2, rel=1e-5)

        logits = joint.pooled @ model.matching.weight.T + model.matching.bias
        distances = transport.compute_distance(joint.words, joint.regions, tokens.mask, regions.mask)
        expected = float(
            functional.cross_entropy(logits, torch.tensor([1, 0])) + 0.1 * (distances[0] - distances[1]) / 2
        )
        match_loss = losses.compute_match_loss(model, tokens, regions, torch.tensor([1, 0]))
        assert float(match_loss) == pytest.approx(expected, rel=1e-5)


def test_a_transport_plan_has_even_masses_and_nearly_the_lowest_cost():
    """The lowest cost is that of linear programming. Padded words and regions have no mass."""
    rng = np.random.default_rng(0)
    costs = torch.from_numpy(rng.random((5, 6, 4)))
    word_mask, region_mask = torch.ones(5, 6), torch.ones(5, 4)
    word_mask[:, 5], region_mask[0, 3] = 0, 0
    plans = transport.find_plan(costs, word_mask, region_mask)
    for plan, cost, n_regions in zip(plans.numpy(), costs.numpy(), [3, 4, 4, 4, 4], strict=True):
        assert not plan[5:].any()
        assert not plan[:, n_regions:].any()
        np.testing.assert_allclose(plan[:, :n_regions].sum(axis=0), 1 / n_regions, atol=1e-6)
        np.testing.assert_allclose(plan[:5].sum(axis=1), 1 / 5, atol=0.02)
        sums = np.concatenate([np.kron(np.eye(5), np.ones(n_regions)), np.tile(np.eye(n_regions), 5)])
        masses = np.concatenate([np.full(5, 1 / 5), np.full(n_regions, 1 / n_regions)])
        lowest = linprog(cost[:5, :n_regions].ravel(), A_eq=sums, b_eq=masses).fun
        assert float((plan * cost).sum()) == pytest.approx(lowest, abs=0.02)


@pytest.fixture(scope="module")
def crops(scene) -> Data:
    """The gold sentences of the scene with the regions of their images."""
    return scene.read(make_views=partial(Crops, root=scene.roots["chest_imagenome"], config="gold"))


@pytest.fixture(scope="module")
def pairs(crops) -> list[Example]:
    """Different sentences about an abnormality, each with its image, one of each patient."""
    by_text = {example.sentence: example for example in crops.examples if "abnormal" in example.subsets}
    return list({example.patient: example for example in by_text.values()}.values())


def test_the_state_of_an_untrained_pair_depends_on_its_image(crops, pairs, scene):
    """Otherwise matching starts with a gradient that is lost in the noise of the batches, and never learns."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(scene.text_model)
    model = UniterModel(Sizes(len(tokenizer), layers=2, heads=2, hidden=64)).eval()
    with torch.no_grad():
        states = model(tokenize(tokenizer, [pairs[0].sentence] * 8), load_regions(crops, pairs[:8])).pooled
    assert float(states.std(dim=0).norm() / states.norm(dim=1).mean()) > 0.01


@pytest.mark.full
def test_matching_learns_a_few_pairs_by_heart(crops, pairs, scene):
    """After 20 seconds, an image fits its own sentence better than the sentence of another patient."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(scene.text_model)
    model = UniterModel(Sizes(len(tokenizer), layers=2, heads=2, hidden=64), dropout=0)
    optimizer, rng = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=BETAS), np.random.default_rng(0)
    regions = load_regions(crops, pairs)
    for _ in range(400):
        sentences, labels = losses.draw_sentences(pairs, pairs, rng)
        losses.compute_match_loss(model, tokenize(tokenizer, sentences), regions, labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    sentences = [example.sentence for example in pairs]
    with torch.no_grad():
        right, wrong = (
            model.predict_match(model(tokenize(tokenizer, texts), regions).pooled).diff(dim=1)
            for texts in (sentences, sentences[1:] + sentences[:1])
        )
    assert float((right > wrong).float().mean()) > 0.9


@pytest.fixture(scope="session")
def uniter_command(scene) -> Callable[..., int]:
    """Function that trains a tiny UNITER on the scene for two epochs; a repeated option overrides."""

    def run(out: Path, *options: str | Path) -> int:
        usual = {"--data": scene.build, "--text-model": scene.text_model, "--out": out, "--epochs": 2, "--lr": 1e-3}
        usual |= {"--layers": 2, "--heads": 2, "--hidden-size": 16, "--batch-size": 16}
        arguments = [str(word) for option in usual.items() for word in option]
        roots = [word for name, root in scene.roots.items() for word in ("--root", f"{name}={root}")]
        return cli.main(["train", "uniter", *arguments, *roots, *map(str, options)])

    return run


@pytest.fixture(scope="module")
def trained(uniter_command, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "uniter.ckpt"
    assert uniter_command(out) == 0
    return out


def test_a_training_leaves_the_checkpoint_and_a_record_like_those_of_the_other_recipes(trained, scene):
    assert sorted(path.name for path in trained.parent.iterdir()) == ["uniter.ckpt", "uniter.ckpt.json"]
    record = json.loads((trained.parent / "uniter.ckpt.json").read_text())
    assert record["recipe"]["name"] == "uniter"
    assert [len(record["loss"][name]) for name in ("train", "validation")] == [2, 2]
    assert record["loss"]["validation"][1] < record["loss"]["validation"][0]
    parts = {name: sorted({example.patient for example in members}) for name, members in scene.read().parts.items()}
    assert record["patients"] == parts
    assert record["seen"] == sorted({*parts["train"], *parts["validation"]})
    assert 0.5 < record["auroc"]["all"]["before"] < 1


class Killed(BaseException):
    """The end of a process, of which no command makes a message."""


def test_a_killed_training_resumes_and_ends_as_if_it_had_not_been(
    trained, uniter_command, tmp_path, monkeypatch, capsys
):
    learn = UniterTrainer.learn
    out = tmp_path / "uniter.ckpt"

    def kill_second(trainer: UniterTrainer, epoch: int, n_epochs: int) -> float:
        if epoch == 1:
            raise Killed
        return learn(trainer, epoch, n_epochs)

    with monkeypatch.context() as patch:
        patch.setattr(UniterTrainer, "learn", kill_second)
        with pytest.raises(Killed):
            uniter_command(out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["uniter.ckpt.checkpoints"]
    assert uniter_command(out, "--seed", 1) == 2
    assert "is of a training with another options" in capsys.readouterr().err
    epochs: list[int] = []
    monkeypatch.setattr(
        UniterTrainer, "learn", lambda trainer, epoch, n: epochs.append(epoch) or learn(trainer, epoch, n)
    )
    assert uniter_command(out) == 0
    assert epochs == [1]
    for name in ("uniter.ckpt", "uniter.ckpt.json"):
        assert (tmp_path / name).read_bytes() == (trained.parent / name).read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.full  # another training
def test_silver_sentences_have_the_boxes_of_their_scene_graphs(uniter_command, tmp_path):
    out = tmp_path / "silver.ckpt"
    options = ("--config", "silver", "--image-cache", 0, "--accumulate", 3, "--epochs", 1, "--batch-size", 4)
    assert uniter_command(out, *options, "--dropout", 0, "--patience", 3) == 0
    record = json.loads((tmp_path / "silver.ckpt.json").read_text())
    assert record["seen"] == []
    assert (record["options"]["dropout"], record["options"]["patience"]) == (0, 3)


def test_abnormal_leaves_out_the_other_sentences_of_training_and_validation():
    normal, abnormal = make_example(0), make_example(1)._replace(subsets=frozenset({"abnormal"}))
    assert select_sentences([normal, abnormal], UniterOptions(abnormal=True)) == [abnormal]
    assert select_sentences([normal, abnormal], UniterOptions()) == [normal, abnormal]
    with pytest.raises(InputError, match="--abnormal: leaves no sentence"):
        select_sentences([normal], UniterOptions(abnormal=True))


def test_dropout_is_that_of_hidden_states_and_attention():
    model = UniterModel(Sizes(vocabulary=9, layers=1, heads=1, hidden=4), dropout=0.25)
    rates = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert rates == {0.25}


def test_training_stops_after_epochs_without_a_lower_loss(crops, tokenizer, monkeypatch, tmp_path):
    monkeypatch.setattr(UniterTrainer, "learn", lambda trainer, epoch, n: 1.0)
    monkeypatch.setattr(UniterTrainer, "check", lambda trainer, examples: 1.0)
    model = build_model(len(tokenizer))
    history = train(model, tokenizer, crops, crops.parts, UniterOptions(patience=3), tmp_path / "state.pt")
    assert len(history.train) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--limit 1", "--limit: leaves no sentence"),
        ("--device none", "--device none: cannot be used"),
        ("--hidden-size 15", "hidden size: is 15"),
        ("--text-model /nowhere", "/nowhere"),
        ("--out /nowhere/u.ckpt", "--out /nowhere/u.ckpt: is not a file in a folder"),
        ("--root chest_imagenome=/nowhere", "/nowhere does not exist"),
        ("--root mimic_cxr=/nowhere", "/nowhere does not exist"),
        ("--lr 1e30", "--lr 1e+30: the loss is no number in epoch 1"),
    ],
)
def test_bad_input_is_named_and_no_checkpoint_is_written(uniter_command, tmp_path, capsys, options, message):
    assert uniter_command(tmp_path / "uniter.ckpt", *options.split()) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "uniter.ckpt").exists()


def test_without_boxes_the_command_says_what_is_missing(scene, tmp_path, capsys):
    arguments = ["train", "uniter", "--data", str(scene.build), "--out", str(tmp_path / "u.ckpt")]
    assert cli.main([*arguments, "--root", f"mimic_cxr={scene.roots['mimic_cxr']}"]) == 2
    assert (
        "--root chest_imagenome=PATH: is missing\n  expected: the folder of Chest ImaGenome" in capsys.readouterr().err
    )


@pytest.fixture(scope="module")
def scored(trained, scene, tmp_path_factory) -> Path:
    """Folder of the logs of the trained UNITER."""
    folder = tmp_path_factory.mktemp("scored")
    arguments: list[Any] = [
        "eval", "--data", scene.build, "--root", f"mimic_cxr={scene.roots['mimic_cxr']}",
        "--tasks", "medfaith_wrong_lung_gold", "--model", "medfaith-alignment", "--patients", f"{trained}.json",
        "--output_path", folder / "results", "--log_samples", "--heatmaps", folder / "maps", "--model_args",
        f"pretrained=uniter:{trained},text_model={scene.text_model},boxes={scene.roots['chest_imagenome']}",
    ]  # fmt: skip
    assert cli.main([*map(str, arguments)]) == 0
    return folder


def test_held_out_sentences_are_scored_as_the_training_scored_them(scored, trained, scene):
    task = "medfaith_wrong_lung_gold"
    record = json.loads(Path(f"{trained}.json").read_text())
    samples = samples_of(scored, task)
    assert results_of(scored)[task]["auroc,none"] == pytest.approx(record["auroc"]["all"]["after"], abs=1e-5)
    store = open_store(scored / "maps")
    for sample in samples:
        reply, row = json.loads(sample["filtered_resps"][0]), sample["auroc"]
        entry = store.read(reply["heatmaps"], sample["doc"]["id"])
        shares = np.array(entry.extra["regions"])
        assert shares.sum() == pytest.approx(1)
        assert row["values"]["entropy"] == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-5)
        assert (row["values"]["no_attn"], row["values"]["local"], row["takes_boxes"]) == (0, None, True)
    assert load_uniter(trained).sizes.hidden == 16


def test_the_report_stars_the_model_and_finds_its_row_of_the_paper(scored, tmp_path, capsys):
    assert cli.main(["report", str(scored / "results"), "--markdown"]) == 0
    report = capsys.readouterr().out
    localization, paper = (
        next(part for part in report.split("\n## ") if part.startswith(title))
        for title in ("Wrong Lung Tables 1 and 3", "That's the Wrong Lung!, next to the paper")
    )
    assert "| uniter:uniter.ckpt (held-out patients)★ |" in localization
    assert "★: the input of this model has the reference boxes of all anatomies" in localization
    assert "| uniter:uniter.ckpt (held-out patients) | Table 3 |" in paper
    assert "84.92" in paper
