"""LoRA fine-tuning: learned tokens, a killed training, and the adapter under the tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from safetensors.torch import load_file

from medfaith.cli import main
from medfaith.loaders.atomic import atomic_folder
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from medfaith.tasks.models.vlm.prompt_inputs import IGNORED, answer, append_answer, make_batch, question
from medfaith.tasks.models.vlm.trainable import load_vlm
from medfaith.training.lora.rows import examples
from medfaith.training.lora.train import adapted
from medfaith.training.settings import Lora
from tests.support.tasks.family_kinds import TINY

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TINY["llava"].save(tmp_path_factory.mktemp("lora") / "tiny")


@pytest.fixture
def command(model: Path, phantom_heal_build: Path, phantom_heal_roots: Any, tmp_path: Path) -> list[str]:
    return [
        "train", "lora", "--benchmark", "heal", "--pretrained", str(model), "--data", str(phantom_heal_build),
        "--root", f"vindr_cxr={phantom_heal_roots['vindr_cxr']}", "--limit", "8", "--epochs", "2", "--batch-size", "4",
        "--lr", "0.01", "--save-every", "2", "--device", "cpu", "--out", str(tmp_path / "adapter"),
    ]  # fmt: skip


KINDS = [("llava", "llava"), ("qwen_vl", "qwen2_5_vl"), ("idefics3", "smolvlm")]


@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS[1:])], ids="-".join
)
@pytest.mark.parametrize("with_template", [False, True], ids=["base", "chat"])
def test_the_prompt_is_the_tasks_own_and_its_answer_alone_is_learned(
    kind: tuple[str, str], with_template: bool, tmp_path: Path, phantom_heal_build: Path, phantom_heal_roots: Any
):
    """The prompt equals lm-eval's, token by token; batch rows, tiles included, are padded at the right."""
    file, name = kind
    folder = TINY[file].TINY[name](tmp_path / "model", **TINY[file].IN_DETAIL)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    processor.chat_template = processor.chat_template if with_template else None
    all_examples = examples("heal", str(phantom_heal_build), phantom_heal_roots, limit=6)
    lm: Any = cast(Any, HFVisionLM)(str(folder), device="cpu", image_string=TINY[file].PLACEHOLDER)
    rows = []
    for example in (all_examples[0], all_examples[4]):
        inputs = question(processor, example.images, example.prompt)
        text = example.prompt
        if with_template:
            text = lm.apply_chat_template([{"role": "user", "content": text}])
            lm.chat_applied = True
        if file != "qwen_vl" or with_template:  # without a template Qwen-VL wants marks around an image
            expected = dict(lm.tok_batch_multimodal_encode([text], [example.images]))
            assert inputs["input_ids"].tolist() == expected["input_ids"].tolist()
        rows.append(append_answer(inputs, answer(processor, example.target), config))
        learned = rows[-1]["labels"][0]
        learned_text = processor.tokenizer.decode(learned[learned != IGNORED], skip_special_tokens=True)
        assert (learned_text.strip(), learned[-1]) == (example.target, processor.tokenizer.eos_token_id)
    batch = make_batch(rows, processor.tokenizer.pad_token_id)
    assert batch["input_ids"].shape == batch["labels"].shape == batch["attention_mask"].shape
    model, _ = load_vlm(str(folder))
    with torch.no_grad():
        together = model(**batch, use_cache=False).loss
        separate = [model(**row, use_cache=False).loss for row in rows]
    weights = [(row["labels"] != IGNORED).sum() for row in rows]
    mean = sum(loss * n for loss, n in zip(separate, weights, strict=True)) / sum(weights)
    assert float(together) == pytest.approx(float(mean), rel=1e-3)


@pytest.mark.full
def test_a_killed_training_goes_on_and_its_adapter_is_asked(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert main(command) == 0
    weights = load_file(tmp_path / "adapter" / WEIGHTS)
    record = json.loads((tmp_path / "adapter" / "medfaith.json").read_text())
    assert (record["steps"], record["rows"]["n"], len(record["seen"])) == (4, 8, 8)
    assert record["losses"][-1]["loss"] > 0
    assert str(tmp_path) not in json.dumps(record)
    assert any(weight.abs().max() > 0 for name, weight in weights.items() if "lora_B" in name), "it has learned"
    step, n_steps = transformers.Trainer.training_step, [0]

    def killed(*args: Any, **kwargs: Any) -> Any:
        n_steps[0] += 1
        if n_steps[0] == 4:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    repeated = [*command[:-1], str(tmp_path / "again")]
    with atomic_folder(tmp_path / "busy"):
        assert main([*command[:-1], str(tmp_path / "busy")]) == 2
    assert "busy: is being written by another process" in capsys.readouterr().err
    assert not (tmp_path / "busy.checkpoints").exists()
    with monkeypatch.context() as patch:
        patch.setattr(transformers.Trainer, "training_step", killed)
        with pytest.raises(SystemExit, match="130"):
            main(repeated)
    assert not (tmp_path / "again").exists()
    capsys.readouterr()
    assert main([*repeated, "--rank", "4"]) == 2
    assert "is of a training with another rank" in capsys.readouterr().err
    assert main(repeated) == 0
    resumed = load_file(tmp_path / "again" / WEIGHTS)
    assert weights.keys() == resumed.keys()
    assert all(torch.equal(weights[name], resumed[name]) for name in weights)
    assert not (tmp_path / "again.checkpoints").exists()
    pretrained = command[command.index("--pretrained") + 1]
    lm: Any = cast(Any, HFVisionLM)(pretrained, peft=str(tmp_path / "again"), device="cpu", image_string="<image>")
    plain: Any = cast(Any, HFVisionLM)(pretrained, device="cpu", image_string="<image>")
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        assert not torch.allclose(lm.model(ids).logits, plain.model(ids).logits)
    generation = {"until": [], "do_sample": False, "max_gen_toks": 2}
    request = Instance(cast(Any, "generate_until"), {"id": "r"}, ("Edema?", generation, {"visual": []}), 0, ("t", 0, 1))
    assert len(lm.generate_until([request], disable_tqdm=True)) == 1


@pytest.mark.full  # another training
def test_all_weights_may_be_trained_and_are_then_asked(command: list[str], tmp_path: Path):
    arguments = ["full" if word == "lora" else word for word in command]
    assert main([*arguments[:-1], str(tmp_path / "model")]) == 0
    record = json.loads((tmp_path / "model" / "medfaith.json").read_text())
    assert record["losses"][-1]["loss"] < record["losses"][0]["loss"] or record["steps"] < 10
    assert "rank" not in record
    cast(Any, HFVisionLM)(str(tmp_path / "model"), device="cpu", image_string="<image>")


def test_only_the_language_model_has_new_weights(model: Path):
    names = [
        name for name, weight in adapted(load_vlm(str(model))[0], Lora(), 0).named_parameters() if weight.requires_grad
    ]
    assert names
    assert all("lora_" in name and "language_model" in name for name in names)


def test_a_training_that_went_astray_writes_nothing(command: list[str], tmp_path: Path, capsys: Any):
    assert main([*command[:-1], str(tmp_path / "astray"), "--lr", "1e30"]) == 2
    assert "a learning rate of 1e+30: led to a loss, or to weights, that are no numbers" in capsys.readouterr().err
    assert not (tmp_path / "astray").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--benchmark": "contrabench"}, "--root: does not name chexpert"),
        ({"--source": "mimic"}, "--root: does not name mimic_cxr"),
        ({"--device": "cuda"}, "--device cuda: is not there"),
        ({"--pretrained": "nowhere/at-all"}, "nowhere/at-all: cannot be loaded"),
        ({"--data": "nowhere"}, "nowhere"),
        ({"--out": "{model}"}, "is there already"),
        ({"--out": "no/such/folder"}, "is in no folder that exists"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    changes: dict[str, str], message: str, command: list[str], model: Path, capsys: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = list(command)
    for option, value in changes.items():
        value = value.format(model=model)  # noqa: PLW2901
        if option in arguments:
            arguments[arguments.index(option) + 1] = value
        else:
            arguments += [option, value]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "adapter").exists()
