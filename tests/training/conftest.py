"""A build of gold and silver sentences from a small phantom, a tokenizer with its words, and a small image encoder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torchvision.models.resnet import Bottleneck, ResNet
from transformers import AutoTokenizer, BertConfig, BertModel

from medfaith import cli
from medfaith.tasks.models.alignment import gloria_image
from medfaith.training.data import Data
from tests.support.tiers import choose_size
from tests.support.training.training_scene import SIDE, Scene, make_scene


@pytest.fixture(scope="session")
def scene(tmp_path_factory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("training"), choose_size(45, 50))


@pytest.fixture(scope="session")
def encoders(scene, tmp_path_factory) -> tuple[Path, Path]:
    """A ResNet that has seen images, in torchvision's format, and a BERT with the scene's tokenizer in its folder."""
    folder = tmp_path_factory.mktemp("encoders")
    shutil.copytree(scene.text_model, folder / "bert")
    with torch.random.fork_rng():
        torch.manual_seed(5)
        resnet = ResNet(Bottleneck, [2, 1, 1, 1], width_per_group=8).train()
        resnet(torch.rand(2, 3, SIDE, SIDE))
        torch.save(resnet.state_dict(), folder / "resnet.pth")
        sizes = {"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 32, "num_hidden_layers": 4}
        n_tokens = len(AutoTokenizer.from_pretrained(folder / "bert"))
        BertModel(BertConfig(**sizes, vocab_size=n_tokens)).save_pretrained(folder / "bert")
    return folder / "resnet.pth", folder / "bert"


@pytest.fixture(scope="session")
def gold(scene) -> Data:
    return scene.read()


@pytest.fixture(scope="module", autouse=True)  # not longer: other folders' tests may come between on a worker
def small_images():
    """Use 4 x 4 regions, not 19 x 19: these tests need no more."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gloria_image, "INPUT", SIDE)
        yield


@pytest.fixture(scope="session")
def command(scene) -> Callable[..., int]:
    """Function that runs `medfaith train` on the scene for one epoch of a tiny model; a repeated option overrides."""

    def run(recipe: str, out: Path, *options: str | Path) -> int:
        usual = {"--data": scene.build, "--root": f"mimic_cxr={scene.roots['mimic_cxr']}", "--epochs": 1}
        usual |= {"--text-model": scene.text_model, "--out": out}
        arguments = [str(word) for option in usual.items() for word in option]
        return cli.main(["train", recipe, "--tiny", *arguments, *map(str, options)])

    return run
