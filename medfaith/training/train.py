"""Training of a GLoRIA by a recipe, and where its attention lies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from medfaith.evaluate_metrics.localization.input_view import window
from medfaith.evaluate_metrics.localization.score import score_row
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.gloria import GloriaModel
from medfaith.tasks.models.gloria_text import tokenize

from . import losses, texts
from .data import Data, Example, regions, select
from .recipes import Options, Recipe

WEIGHT_DECAY, CLIP = 1e-6, 0.25  # of GLoRIA's released configuration, as are batch_size and lr
AT_ONCE = 32  # sentences of a batch where nothing is learned


@dataclass
class History:
    """The mean loss of the batches of every round."""

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


class Batch(NamedTuple):
    examples: Sequence[Example]
    texts: Sequence[str]  # those of the examples, or others


@dataclass
class Trainer:
    """A model in training. hidden: which words the recipe hides, drawn from this generator."""

    model: GloriaModel
    tokenizer: Any
    data: Data
    recipe: Recipe
    options: Options
    hidden: np.random.Generator

    def batches(self, examples: Sequence[Example], rng: np.random.Generator) -> list[Batch]:
        """The batches of one round: all examples at once, or each image with one of its sentences, in equal batches."""
        recipe = self.recipe
        if recipe.supervised:
            return [Batch(examples, texts.sentences(recipe, examples, examples, rng))]
        of_image = defaultdict(list)
        for example in examples:
            of_image[example.image].append(example)
        drawn = [own[rng.integers(len(own))] for own in of_image.values()]
        said = texts.sentences(recipe, drawn, examples, rng)
        n_batches = min(-(-len(drawn) // self.options.batch_size), len(drawn) // 2)  # no batch of one pair
        places = np.array_split(rng.permutation(len(drawn)), n_batches)
        return [Batch([drawn[n] for n in own], [said[n] for n in own]) for own in places]

    def learn(self, batches: Sequence[Batch], optimizer: torch.optim.Optimizer) -> float:
        self.model.train()
        found = []
        for batch in Progress(batches, title="round", unit="batches", quiet=len(batches) == 1):
            optimizer.zero_grad()
            loss = self._loss(batch, self.recipe)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            optimizer.step()
            found.append(float(loss.detach()))
        return float(np.mean(found))

    def check(self, batches: Sequence[Batch]) -> float:
        """No word is hidden."""
        self.model.eval()
        with torch.no_grad():
            return float(np.mean([float(self._loss(batch, Recipe())) for batch in batches]))

    def _loss(self, batch: Batch, hiding: Recipe) -> torch.Tensor:
        device = self.options.device
        tokens = texts.tokens(hiding, self.tokenizer, batch.examples, batch.texts, self.hidden).to(device)
        images, image_of = _shared(self.data, batch.examples)
        if self.recipe.supervised:
            attention = losses.attention(self.model, images.to(device), tokens, image_of)
            return losses.alignment(attention, regions(batch.examples).to(device))
        encoded = self.model.encode_images(images.to(device))
        return losses.contrastive(*self.model.similarities(encoded, self.model.encode_texts(tokens)))


def train(
    model: GloriaModel, tokenizer: Any, data: Data, parts: dict[str, list[Example]], recipe: Recipe, options: Options
) -> History:
    """Trains the model in place; its weights are those of the last round (footnote 10), and it is left in eval mode.

    A round of a supervised recipe is a step with its 30 examples, of the others an epoch: every image once, with one of
    its sentences, drawn anew. The optimizer is Adam. On the CPU, equal seeds give equal losses.

    Raises:
        InputError: as `data.select`; a loss that is no number.
    """
    chosen, watched = select(recipe, parts, options.seed)
    rng, hidden = (np.random.default_rng([options.seed, stream]) for stream in range(2))
    trainer = Trainer(model, tokenizer, data, recipe, options, hidden)
    history, rounds = History(), options.rounds or recipe.rounds
    with torch.random.fork_rng(), Progress(title="training", total=rounds, unit="rounds") as bar:
        torch.manual_seed(options.seed)
        if recipe.no_attn and model.no_attn_vec is None:
            model.no_attn_vec = nn.Parameter(torch.randn(model.text_encoder.model.config.hidden_size))
        model.to(options.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=options.lr, weight_decay=WEIGHT_DECAY)
        comparable = trainer.batches(watched, rng)  # the same sentences in every round
        while len(history.train) < rounds and not stopped(history.validation, recipe.patience):
            history.train.append(trainer.learn(trainer.batches(chosen, rng), optimizer))
            history.validation.append(trainer.check(comparable))
            if not math.isfinite(history.train[-1] + history.validation[-1]):
                found = f"the loss is no number in round {len(history.train)}"
                raise InputError(f"--lr {options.lr}", found, action="choose a lower one")
            bar.set_postfix(train=history.train[-1], validation=history.validation[-1], refresh=False)
            bar.update()
    return history


def settle(model: GloriaModel, data: Data, examples: Iterable[Example], options: Options) -> None:
    """Gives a model of random weights the batch-norm statistics of the examples' images; no weight changes.

    They are the means over batches of `options.batch_size`. Without them the statistics that come with any training,
    even with one that learns nothing, would count as what it does to attention. Leaves the model in eval mode.
    """
    images = list(dict.fromkeys(example.image for example in examples))
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
    model.to(options.device).train()
    starts = range(0, len(images), options.batch_size)
    with torch.no_grad():
        for start in Progress(starts, title="settling", unit="batches"):
            model.encode_images(data.images(images[start : start + options.batch_size]).to(options.device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


def stopped(losses_so_far: Sequence[float], patience: int) -> bool:
    """Whether the last `patience` losses are none below the least before them.

    >>> stopped([3, 2, 2, 2], 2), stopped([3, 2, 2, 1], 2), stopped([3, 3], 2)
    (True, False, False)
    """
    before, last = losses_so_far[:-patience], losses_so_far[-patience:]
    return bool(before) and min(last) >= min(before)


def auroc(
    model: GloriaModel, tokenizer: Any, data: Data, examples: Iterable[Example], device: str = "cpu"
) -> np.ndarray:
    """AUROC of each sentence's attention on the pixels of its boxes (section 2.3), NaN where it is undefined: (n,)."""
    model.to(device).eval()
    todo, found = list(examples), []
    for start in Progress(range(0, len(todo), AT_ONCE), title="scoring attention", unit="batches"):
        own = todo[start : start + AT_ONCE]
        images, image_of = _shared(data, own)
        tokens = tokenize(tokenizer, [example.sentence for example in own]).to(device)
        with torch.no_grad():
            grids = losses.attention(model, images.to(device), tokens, image_of).cpu().numpy()
        for example, grid in zip(own, grids, strict=True):
            found.append(score_row(grid, window(example.size), example.size, example.boxes, name=example.id)["auroc"])
    return np.array(found, dtype=np.float64)


def _shared(data: Data, examples: Sequence[Example]) -> tuple[torch.Tensor, list[int]]:
    """The images of the examples, each once, and which of them is each example's."""
    numbers = list(dict.fromkeys(example.image for example in examples))
    return data.images(numbers), [numbers.index(example.image) for example in examples]
