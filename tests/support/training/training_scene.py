"""A build of gold and silver sentences from a small phantom, and a tokenizer with its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from medfaith.builders import wrong_lung
from medfaith.loaders.phantom import chest_imagenome, mimic_cxr
from medfaith.training import data as training_data
from medfaith.training.data import Data
from medfaith.training.texts import word_list
from tests.support.tasks import tiny_gloria

SIDE = 64  # pixels of an image


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
