"""Training of a GLoRIA by a recipe, and AUROC of its attention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from medfaith.evaluate_metrics.localization.input_view import window
from medfaith.evaluate_metrics.localization.score import score_row
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.alignment.gloria import GloriaModel
from medfaith.tasks.models.alignment.gloria_text import tokenize

from . import losses, texts
from .data import Data, Example, regions, select
from .recipes import Options, Recipe
from .rounds import History, Schedule, train_rounds

WEIGHT_DECAY, CLIP = 1e-6, 0.25  # values of GLoRIA's released configuration, like batch_size and lr
AT_ONCE = 32  # sentences of an evaluation batch


class Batch(NamedTuple):
    """Examples with their texts."""

    examples: Sequence[Example]
    texts: Sequence[str]  # the sentences of the examples, or random ones


@dataclass
class Trainer:
    """A model in training.

    Attributes:
        model: The model.
        tokenizer: The tokenizer.
        data: The data.
        recipe: The recipe.
        options: The options.
        hidden: The generator of masks.
    """

    model: GloriaModel
    tokenizer: Any
    data: Data
    recipe: Recipe
    options: Options
    hidden: np.random.Generator

    def batches(self, examples: Sequence[Example], rng: np.random.Generator) -> list[Batch]:
        """Build the batches of a round: all examples at once, or equal batches of each image with one of its sentences.

        Args:
            examples: The examples.
            rng: The generator.

        Returns:
            The batches; one batch for a supervised recipe.
        """
        recipe = self.recipe
        if recipe.supervised:
            return [Batch(examples, texts.sentences(recipe, examples, examples, rng))]
        by_image = defaultdict(list)
        for example in examples:
            by_image[example.image].append(example)
        sampled = [group[rng.integers(len(group))] for group in by_image.values()]
        sampled_texts = texts.sentences(recipe, sampled, examples, rng)
        n_batches = min(-(-len(sampled) // self.options.batch_size), len(sampled) // 2)  # two or more pairs a batch
        splits = np.array_split(rng.permutation(len(sampled)), n_batches)
        return [Batch([sampled[n] for n in group], [sampled_texts[n] for n in group]) for group in splits]

    def learn(self, batches: Sequence[Batch], optimizer: torch.optim.Optimizer) -> float:
        """Train for one round, and return the mean loss.

        Args:
            batches: The batches of the round.
            optimizer: The optimizer.

        Returns:
            The mean of the batches' losses.
        """
        self.model.train()
        batch_losses = []
        for batch in Progress(batches, title="round", unit="batches", quiet=len(batches) == 1):
            optimizer.zero_grad()
            loss = self._compute_loss(batch, self.recipe)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            optimizer.step()
            batch_losses.append(float(loss.detach()))
        return float(np.mean(batch_losses))

    def check(self, batches: Sequence[Batch]) -> float:
        """Compute the mean validation loss, without masks.

        Args:
            batches: The batches.

        Returns:
            The mean of the batches' losses.
        """
        self.model.eval()
        with torch.no_grad():
            return float(np.mean([float(self._compute_loss(batch, Recipe())) for batch in batches]))

    def _compute_loss(self, batch: Batch, hiding: Recipe) -> torch.Tensor:
        device = self.options.device
        tokens = texts.tokens(hiding, self.tokenizer, batch.examples, batch.texts, self.hidden).to(device)
        images, image_of = _load_images(self.data, batch.examples)
        if self.recipe.supervised:
            attention = losses.attention(self.model, images.to(device), tokens, image_of)
            return losses.alignment(attention, regions(batch.examples).to(device))
        encoded = self.model.encode_images(images.to(device))
        return losses.contrastive(*self.model.similarities(encoded, self.model.encode_texts(tokens)))


def train(
    model: GloriaModel,
    tokenizer: Any,
    data: Data,
    partition: dict[str, list[Example]],
    recipe: Recipe,
    options: Options,
    checkpoints: Path | None = None,
) -> History:
    """Train the model in place. Its weights are those of the last round (footnote 10), and it ends in eval mode.

    A round of a supervised recipe is one step with its 30 examples. A round of another recipe is one epoch: every image
    once, with one of its sentences, sampled anew. The optimizer is Adam. On the CPU, equal seeds give equal losses,
    even if the training was stopped and resumed.

    Args:
        model: The model.
        tokenizer: The tokenizer.
        data: The data.
        partition: Part -> examples.
        recipe: The recipe.
        options: The options.
        checkpoints: As in `train_rounds`.

    Returns:
        The mean loss of each round, of training and of validation.

    Raises:
        InputError: As in `data.select` and `train_rounds`.
    """
    train_examples, validation_examples = select(recipe, partition, options.seed)
    rng, hidden = (np.random.default_rng([options.seed, stream]) for stream in range(2))
    trainer = Trainer(model, tokenizer, data, recipe, options, hidden)
    n_rounds = options.rounds or recipe.rounds
    schedule = Schedule(n_rounds, recipe.patience)
    if recipe.supervised:  # a state is written more slowly than one step is done
        schedule = Schedule(n_rounds, recipe.patience, unit="round", save_every=recipe.patience)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        if recipe.no_attn and model.no_attn_vec is None:
            model.no_attn_vec = nn.Parameter(torch.randn(model.text_encoder.model.config.hidden_size))
        model.to(options.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=options.lr, weight_decay=WEIGHT_DECAY)
        validation_batches = trainer.batches(validation_examples, rng)  # the same sentences in every round

        def run_round(_: int) -> tuple[float, float]:
            return trainer.learn(trainer.batches(train_examples, rng), optimizer), trainer.check(validation_batches)

        return train_rounds(
            run_round,
            model,
            optimizer,
            schedule,
            lr=options.lr,
            checkpoints=checkpoints,
            generators={"sentences": rng, "masks": hidden},
        )


def settle(model: GloriaModel, data: Data, examples: Iterable[Example], options: Options) -> None:
    """Set the batch-norm statistics of a model with random weights to those of the examples' images.

    The statistics are means over batches of `options.batch_size`. No weight changes, and the model ends in eval mode.
    Without this step, any training would change the statistics, even one that learns nothing, and the change would
    count as an effect on attention.

    Args:
        model: The model.
        data: The data.
        examples: The examples.
        options: The options.
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


def auroc(
    model: GloriaModel, tokenizer: Any, data: Data, examples: Iterable[Example], device: str = "cpu"
) -> np.ndarray:
    """Compute the AUROC of each sentence's attention on the pixels of its boxes (section 2.3).

    Args:
        model: The model, which ends in eval mode.
        tokenizer: The tokenizer.
        data: The data.
        examples: The examples.
        device: The device.

    Returns:
        (n,), NaN where it is undefined.
    """
    model.to(device).eval()
    remaining, values = list(examples), []
    for start in Progress(range(0, len(remaining), AT_ONCE), title="scoring attention", unit="batches"):
        batch = remaining[start : start + AT_ONCE]
        images, image_of = _load_images(data, batch)
        tokens = tokenize(tokenizer, [example.sentence for example in batch]).to(device)
        with torch.no_grad():
            grids = losses.attention(model, images.to(device), tokens, image_of).cpu().numpy()
        for example, grid in zip(batch, grids, strict=True):
            values.append(score_row(grid, window(example.size), example.size, example.boxes, name=example.id)["auroc"])
    return np.array(values, dtype=np.float64)


def _load_images(data: Data, examples: Sequence[Example]) -> tuple[torch.Tensor, list[int]]:
    """Load the distinct images of the examples, and the index of each example's image."""
    numbers = list(dict.fromkeys(example.image for example in examples))
    return data.images(numbers), [numbers.index(example.image) for example in examples]
