"""A build of gold and silver sentences from a small phantom, a tokenizer with its words, and a small image encoder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torchvision.models.resnet import Bottleneck, ResNet
from transformers import AutoTokenizer, BertConfig, BertModel

from medfaith import cli
from medfaith.builders import wrong_lung
from medfaith.loaders.phantom import chest_imagenome, mimic_cxr
from medfaith.tasks.models.alignment import gloria_image
from medfaith.training import data as training_data
from medfaith.training.data import Data
from medfaith.training.texts import word_list
from tests.tasks import tiny_gloria

N_STUDIES, SIDE = 50, 64


class Scene(NamedTuple):
    """A build, the roots of its sources, and a folder with a tokenizer of its vocabulary."""

    build: Path
    roots: dict[str, Path]
    text_model: str

    def read(self, **arguments: Any) -> Data:
        return training_data.read(self.build, self.roots, **arguments)


def make_scene(folder: Path, n_studies: int) -> Scene:
    writers = {wrong_lung.SOURCE: chest_imagenome, wrong_lung.IMAGES: mimic_cxr}
    roots = {name: writer.write(folder / name, seed=0, n=n_studies) for name, writer in writers.items()}
    wrong_lung.build(roots, folder / "data", configs=["gold", "silver"])
    rows = training_data.read(folder / "data", roots).examples
    vocabulary_words = sorted({word for row in rows for word in word_list(row.sentence)} - {*tiny_gloria.LETTERS})
    vocabulary = [
        *tiny_gloria.SPECIAL,
        *vocabulary_words,
        *tiny_gloria.LETTERS,
        *(f"##{letter}" for letter in tiny_gloria.LETTERS),
    ]
    return Scene(folder / "data", roots, tiny_gloria.save_tokenizer(folder / "bert", vocabulary))


@pytest.fixture(scope="session")
def scene(tmp_path_factory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("training"), N_STUDIES)


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
