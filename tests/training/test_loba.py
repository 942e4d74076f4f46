"""LobA's <SEG> (HEAL-MedVQA, section 4.1): its losses, its masks on the image, what learns, and a killed training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from lm_eval.api.instance import Instance
from PIL import Image
from safetensors.torch import load_file
from scipy.spatial.distance import dice as scipy_dice
from sklearn.metrics import log_loss

from medfaith.builders import heal_medvqa
from medfaith.cli import main
from medfaith.loaders import rle
from medfaith.loaders.atomic import atomic_folder
from medfaith.loaders.errors import InputError
from medfaith.tasks.decoding.loba import model, predict
from medfaith.tasks.decoding.loba.encode import SEG, Encoder, Example
from medfaith.tasks.heal.localization import read_reply
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.models.vlm.prompt_inputs import IGNORED
from medfaith.training.loba import losses, rows, train
from medfaith.training.loba.rows import Examples
from tests.support.builders.files import edited
from tests.support.tasks import tiny_models
from tests.support.training import tiny_sam

REPOSITORY = "heal-medvqa-vindr_cxr"


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> tuple[str, str]:
    """Folders of a LLaVA and a SAM."""
    folder = tmp_path_factory.mktemp("loba")
    return str(tiny_models.save_llava(folder / "vlm")), str(tiny_sam.save(folder / "sam"))


@pytest.fixture(scope="module")
def examples(phantom_heal_build: Path, phantom_heal_roots: dict[str, Path]) -> Examples:
    roots = {name: phantom_heal_roots[name] for name in heal_medvqa.NEEDS["vindr"]}
    return Examples(str(phantom_heal_build), "vindr", "train", roots)


@pytest.fixture(scope="module")
def encoder(names) -> Encoder:
    return model.start(*names).encoder


def draw_masks() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.normal(0, 2, (3, 4, 5))), torch.from_numpy(rng.random((3, 4, 5)) < 0.4)


def test_losses_are_those_of_other_libraries():
    logits, masks = draw_masks()
    p, g = 1 / (1 + np.exp(-logits.numpy())), masks.numpy()
    plain = [
        1 - 2 * (prediction * mask).sum() / (prediction.sum() + mask.sum())
        for prediction, mask in zip(p, g, strict=True)
    ]
    hard = [scipy_dice((prediction > 0.5).ravel(), mask.ravel()) for prediction, mask in zip(p, g, strict=True)]
    assert float(losses.bce_loss(logits, masks)) == pytest.approx(log_loss(g.ravel(), p.ravel()))
    assert float(losses.dice_loss(logits, masks, smooth=0)) == pytest.approx(np.mean(plain))
    assert float(losses.dice_loss(logits.sign() * 100, masks, smooth=0)) == pytest.approx(np.mean(hard))
    text = torch.tensor(2.0)
    objective = losses.objective(text, logits, masks, 0.3)
    assert float(objective.total) == pytest.approx(2 + 0.3 * (float(objective.bce) + float(objective.dice)))


def test_an_empty_mask_teaches_to_predict_nothing():
    empty, logits = torch.zeros(1, 4, 5), torch.zeros(1, 4, 5, requires_grad=True)
    loss = losses.dice_loss(logits, empty)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert float(loss.detach()) == pytest.approx(1 - 1 / (10 + 1))
    assert (gradient > 0).all()
    assert float(losses.dice_loss(torch.full((1, 4, 5), -99.0), empty)) == pytest.approx(0)


@pytest.mark.parametrize("size", [(8, 16), (16, 8), (16, 16)])
def test_a_mask_of_the_images_pixels_comes_back_exactly(encoder, size):
    """SAM's images have 32 pixels here and its masks 16: each mask pixel is one pixel of the image."""
    mask = np.random.default_rng(1).random(size) < 0.5
    image = Image.fromarray(np.where(mask, 255, 0).astype(np.uint8))
    pixels = encoder.pixels(image, mask)
    labels, grey = pixels["labels"][0].numpy(), pixels["pixel_values"][0].mean(0).numpy()
    expected = np.zeros((16, 16), dtype=bool)
    expected[: size[0], : size[1]] = mask
    height, width = 2 * size[0], 2 * size[1]
    middle = (grey[:height, :width].max() + grey[:height, :width].min()) / 2
    assert np.array_equal(labels, expected)
    assert np.array_equal(grey[:height, :width] > middle, np.kron(mask, np.ones((2, 2))) > 0)
    assert not grey[height:].any()
    assert not grey[:, width:].any()
    assert np.array_equal(encoder.mask(torch.from_numpy(2.0 * labels - 1), pixels), mask)


def test_rows_become_prompts_targets_and_masks(examples, encoder):
    closed, opened = examples[0], examples[len(examples) - 1]
    assert closed.prompt.endswith(" Answer yes or no.")
    assert closed.target.startswith(f"The location of the {closed.anatomy} is at {SEG}. The answer is ")
    assert opened.prompt.endswith("or say that there is none.")
    assert closed.mask.shape == closed.image.size[::-1]
    assert len(examples.ids) == len({*examples.ids}) == len(examples)
    batch = encoder([closed, opened])
    learned = [row[row != IGNORED] for row in batch["labels"]]
    texts = [encoder.tokenizer.decode(row) for row in learned]
    assert texts == [f"{example.target}</s>" for example in (closed, opened)]
    assert ((batch["input_ids"] == batch["labels"]) | (batch["labels"] == IGNORED)).all()
    assert batch["attention_mask"].sum(1).max() == batch["input_ids"].shape[1]
    assert batch["masks"].shape == (2, 16, 16)


def test_masks_teach_the_projection_the_decoder_and_lora_alone(names, examples):
    loba = model.start(*names)
    batch = loba.encoder([examples[0], examples[1]])
    masks = batch.pop("masks")
    output = loba(**batch)
    assert output.logits.shape == masks.shape
    losses.bce_loss(output.logits, masks).backward()
    learned = {name for name, weight in loba.named_parameters() if weight.grad is not None and weight.grad.any()}
    for module in (
        "projection.0",
        "projection.2",
        "sam.mask_decoder.transformer",
        "lora_B",
        "embed_tokens.token_adapter",
    ):
        assert any(module in name for name in learned), module
    trained = {name for name, weight in loba.named_parameters() if weight.requires_grad}
    assert learned <= trained
    assert not [name for name in trained if "base_layer" in name or "vision" in name or "prompt_encoder" in name]
    (text_gradient,) = torch.autograd.grad(loba(**batch).text, [find_output_row(loba)])
    assert text_gradient.shape == (1, 32)
    assert text_gradient.any()


def find_output_row(loba: model.Loba) -> torch.Tensor:
    """Find <SEG>'s row of the output layer, shape (1, hidden size)."""
    return next(weight for name, weight in loba.named_parameters() if "lm_head.token_adapter.trainable" in name)


def make_say_seg(loba: model.Loba, example: Example) -> model.Loba:
    """Set <SEG>'s output row so that the model says <SEG> first."""
    with torch.no_grad():
        state = loba.vlm(
            **loba.encoder.question(example.image, example.prompt), output_hidden_states=True
        ).hidden_states[-1]
        find_output_row(loba).copy_(100 * state[0, -1:])
    return loba.eval()


@pytest.mark.full  # another training
def test_a_saved_model_localizes_as_before_and_as_in_training(names, examples, tmp_path):
    example = examples[0]
    loba = make_say_seg(model.start(*names, seed=3), example)
    loba.save(tmp_path)
    held = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert held >= {"adapter_config.json", "adapter_model.safetensors", "segmenter.safetensors"}
    assert names[0] not in (tmp_path / "adapter" / "adapter_config.json").read_text()
    assert not any("vision" in name for name in load_file(tmp_path / "segmenter.safetensors"))
    loaded = model.load(tmp_path, *names)
    prediction, loaded_prediction = (
        predict.localize(localizer, example.image, example.prompt, max_new_tokens=6) for localizer in (loba, loaded)
    )
    assert prediction.text.startswith(SEG)
    assert prediction.text == loaded_prediction.text
    assert prediction.mask is not None
    assert prediction.mask.dtype == bool
    assert prediction.mask.shape == example.mask.shape
    assert np.array_equal(prediction.mask, loaded_prediction.mask)
    batch = loba.encoder([example._replace(target=SEG)])
    batch.pop("masks")
    with torch.no_grad():
        logits = loaded(**batch).logits[0]
    assert np.array_equal(loba.encoder.mask(logits, loba.encoder.pixels(example.image)), prediction.mask)
    with torch.no_grad():
        find_output_row(loaded).zero_()
    assert predict.localize(loaded, example.image, example.prompt, max_new_tokens=3).mask is None


class KilledError(Exception):
    """Stand-in for the end of a process."""


@pytest.mark.full  # the same of UNITER: test_uniter_training.py
def test_a_killed_training_ends_as_one_that_was_not(names, examples, tmp_path, monkeypatch):
    options = train.Options(steps=5, batch=2, save_every=2, log_every=1, lr=1e-2, seed=1)

    def run(out: Path, options: train.Options = options) -> dict[str, Any]:
        return train.train(model.start(*names, dropout=0.1, seed=1), examples, out, options, {"data": "phantom"})

    record = run(tmp_path / "whole")
    with atomic_folder(tmp_path / "busy"), pytest.raises(InputError, match="written by another process"):
        run(tmp_path / "busy")
    assert not (tmp_path / "busy.checkpoints").exists()
    count = iter(range(99))
    objective = losses.objective

    def dies(*args: Any) -> losses.Loss:
        if next(count) == 3:
            raise KilledError
        return objective(*args)

    with monkeypatch.context() as patched:
        patched.setattr(train, "objective", dies)
        with pytest.raises(KilledError):
            run(tmp_path / "killed")
    assert not (tmp_path / "killed").exists()
    checkpoints = tmp_path / "killed.checkpoints"
    shutil.copytree(checkpoints / "checkpoint-2", checkpoints / "checkpoint-4")
    (checkpoints / "checkpoint-4" / "trainer_state.json").write_text("{")  # killed while it was written
    with pytest.raises(InputError, match=r"with another lr\n.*same arguments"):
        run(tmp_path / "killed", train.Options(**{**train.asdict(options), "lr": 1e-3}))
    resumed = run(tmp_path / "killed")
    assert resumed == record
    assert json.loads((tmp_path / "killed" / "record.json").read_text()) == record
    assert record["rows"] == {"n": len(examples), "sha256": train.compute_digest(examples.ids)}
    assert (record["model"], record["sam"], record["data"], record["weight"]) == ("vlm", "sam", "phantom", 1.0)
    assert [log["step"] for log in record["losses"]] == [1, 2, 3, 4, 5]
    assert not checkpoints.exists()
    for file in ("segmenter.safetensors", "adapter/adapter_model.safetensors"):
        weights, resumed_weights = (load_file(tmp_path / name / file) for name in ("whole", "killed"))
        assert weights.keys() == resumed_weights.keys()
        assert all(torch.equal(weights[name], resumed_weights[name]) for name in weights), file


@pytest.mark.parametrize(
    ("region", "message"),
    [
        (None, r"row r1, column 'region': size None"),
        (dict(rle.encode(np.ones((4, 5)))), r"row r1: its image has 7 x 4 pixels\n.*5 x 4, the size of its mask"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(region, message):
    doc = {"id": "r1", "region": region, "images": [Image.new("RGB", (7, 4))]}
    with pytest.raises(InputError, match=message):
        rows.build_example(doc)


def test_a_build_with_a_row_without_a_mask_is_refused(phantom_heal_build, phantom_heal_roots, tmp_path):
    def remove_first_region(table: pa.Table) -> pa.Table:
        regions = pa.array([None, *table["region"].to_pylist()[1:]], table.field("region").type)
        return table.set_column(table.column_names.index("region"), table.field("region"), regions)

    edited(phantom_heal_build / REPOSITORY, tmp_path, "vindr", remove_first_region, split="train")
    with pytest.raises(InputError, match=rf"{REPOSITORY}, row .*, column 'region': has no mask"):
        Examples(str(tmp_path), "vindr", "train", phantom_heal_roots)


def test_models_that_are_none_are_refused(names, tmp_path):
    vlm, sam = names
    for model_names, message in (
        ((vlm, vlm), r"vlm: is a model of type 'llava'\n  expected: a SAM"),
        ((vlm, str(tmp_path)), r"cannot be loaded \(.*\n  expected: a SAM"),
        ((sam, sam), r"sam: cannot be loaded \(.*\n  expected: a model of images and text"),
    ):
        with pytest.raises(InputError, match=message):
            model.start(*model_names)
    with pytest.raises(InputError, match="has no adapter"):
        model.load(tmp_path, vlm, sam)


@pytest.mark.full  # each step: the tests before
def test_the_command_trains_a_model_that_then_says_where_it_looks(
    names: tuple[str, str], phantom_heal_build: Path, phantom_heal_roots: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """It loads the trained weights; a reply has the region at the size of the row's mask."""
    vlm, sam = names
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    command = [
        "train", "loba", "--pretrained", vlm, "--sam", sam, "--train-encoder", "--data", str(phantom_heal_build),
        "--root", root, "--limit", "4", "--batch-size", "2", "--device", "cpu", "--lr", "0.01",
        "--out", str(tmp_path / "loba"),
    ]  # fmt: skip
    assert main(command) == 0
    assert "trained in 2 steps on 4 rows" in capsys.readouterr().out
    assert main(command) == 2
    assert "is there already" in capsys.readouterr().err
    options = {"device": "cpu", "image_string": "<image>", "dtype": "float32", "sam": sam}
    lm: Any = cast(Any, HFVisionLM)(vlm, decoding="loba", regions=f"loba:{tmp_path / 'loba'}", **options)
    trained = model.load(tmp_path / "loba", vlm, sam)
    ids = torch.tensor([[trained.encoder.seg, 5, 6]])
    with torch.inference_mode():
        torch.testing.assert_close(lm.model(ids).logits, trained.vlm(input_ids=ids).logits, atol=1e-5, rtol=1e-4)
    image = Image.new("RGB", (60, 40), (90, 90, 90))
    mask = np.zeros((40, 60), dtype=bool)
    mask[10:30, 20:50] = True
    doc = {"id": "r", "region": rle.encode(np.ones((40, 60), dtype=bool))}
    generation = {"until": [], "do_sample": False, "max_gen_toks": 2}
    request = Instance(
        cast(Any, "generate_until"), doc, ("<image>Edema?", generation, {"visual": [image]}), 0, ("t", 0, 1)
    )
    for predicted_mask, region in ((None, None), (mask, mask)):
        located = predict.Located({}, torch.tensor([]), predicted_mask)
        with monkeypatch.context() as patch:
            patch.setattr(predict, "locate", lambda *_, located=located: located)
            lm._located.clear()
            (reply,) = lm.generate_until([request], disable_tqdm=True)
        reading = read_reply(reply)
        assert (reading.region is None) is (region is None)
        assert region is None or np.array_equal(rle.decode(cast(Any, reading.region)).astype(bool), region)
    assert main([*command[:-1], str(tmp_path / "no" / "loba")]) == 2
