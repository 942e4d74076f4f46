"""Training of UNITER, which resumes after its last complete epoch, and AUROC of its attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from medfaith.evaluate_metrics.localization.input_view import window
from medfaith.evaluate_metrics.localization.score import score_row
from medfaith.loaders.errors import InputError
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.tasks.models.alignment.uniter import RegionBatch, UniterModel, compute_saliency, stack_regions
from medfaith.tasks.models.alignment.uniter_regions import draw_attention

from ..data import Data, Example
from ..rounds import History, Schedule, train_rounds
from ..train import AT_ONCE
from . import losses
from .settings import ROUNDS, UniterOptions

TASKS = ("words", "regions", "match")
SHARES = (0.4, 0.2, 0.4)  # of the batches: 2 to 1 to 2 in UNITER's released configuration
# Values of UNITER's released configuration, like the rate 5e-5. Its 10,000 steps of warm-up are 5% of its steps.
BETAS, WEIGHT_DECAY, CLIP, WARMUP = (0.9, 0.98), 0.01, 5.0, 0.05


class UniterTrainer:
    """A UNITER in training.

    Args:
        model: The model.
        tokenizer: The tokenizer.
        data: The data, whose views are `Crops`.
        pool: The examples from which wrong sentences are drawn.
        options: The options.

    Raises:
        InputError: The pool has one patient only.
    """

    def __init__(
        self, model: UniterModel, tokenizer: Any, data: Data, pool: Sequence[Example], options: UniterOptions
    ) -> None:
        if len({example.patient for example in pool}) < 2:
            problem = "has sentences of one patient for training"
            raise InputError("--data", problem, expected="2 or more: wrong sentences are those of other patients")
        self.model, self.options = model.to(options.device), options
        self._tokenizer, self._data, self._pool = tokenizer, data, pool
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=BETAS, weight_decay=WEIGHT_DECAY)

    def learn(self, epoch: int, n_epochs: int) -> float:
        """Train for one epoch: every sentence once, and one task for each batch.

        All draws depend on the seed and the epoch alone, so that a resumed training has the same.

        Args:
            epoch: The number of earlier epochs.
            n_epochs: The largest number of epochs, which the learning rate depends on.

        Returns:
            The mean of the batches' losses.
        """
        rng = np.random.default_rng([self.options.seed, epoch])
        torch.manual_seed(int(rng.integers(2**63)))
        self.model.train()
        batches = self._split(rng.permutation(len(self._pool)).tolist())
        n_steps = -(-len(batches) // self.options.accumulate)
        batch_losses = []
        for number, batch in enumerate(Progress(batches, title="epoch", unit="batches"), start=1):
            task = str(rng.choice(TASKS, p=SHARES))
            loss = self._compute_loss(task, [self._pool[index] for index in batch], rng)
            (loss / self.options.accumulate).backward()
            batch_losses.append(float(loss.detach()))
            if number % self.options.accumulate == 0 or number == len(batches):
                step = epoch * n_steps + number // self.options.accumulate
                self._step(compute_rate(step, n_epochs * n_steps))
        return float(np.mean(batch_losses))

    def check(self, examples: Sequence[Example]) -> float:
        """Compute the validation loss: the mean over the batches of the sum over the tasks, always with the same draws.

        Args:
            examples: The examples.

        Returns:
            The loss.
        """
        self.model.eval()
        rng = np.random.default_rng(self.options.seed)
        batch_losses = []
        with torch.no_grad():
            for batch in self._split(range(len(examples))):
                batch_examples = [examples[index] for index in batch]
                batch_losses.append(sum(float(self._compute_loss(task, batch_examples, rng)) for task in TASKS))
        return float(np.mean(batch_losses))

    def _split(self, numbers: Sequence[int]) -> list[list[int]]:
        size = self.options.batch_size
        return [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]

    def _step(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate * self.options.lr
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _compute_loss(self, task: str, examples: Sequence[Example], rng: np.random.Generator) -> torch.Tensor:
        device = self.options.device
        regions = load_regions(self._data, examples)
        sentences = [example.sentence for example in examples]
        if task == "match":
            sentences, labels = losses.draw_sentences(examples, self._pool, rng)
            tokens = tokenize(self._tokenizer, sentences).to(device)
            return losses.compute_match_loss(self.model, tokens, regions.to(device), labels.to(device))
        tokens = tokenize(self._tokenizer, sentences)
        if task == "regions":
            is_masked = losses.mask_regions(regions, rng).to(device)
            return losses.compute_region_loss(self.model, tokens.to(device), regions.to(device), is_masked)
        tokens, labels = losses.mask_words(tokens, self._tokenizer, rng)
        return losses.compute_word_loss(self.model, tokens.to(device), labels.to(device), regions.to(device))


def train(
    model: UniterModel,
    tokenizer: Any,
    data: Data,
    partition: dict[str, list[Example]],
    options: UniterOptions,
    checkpoints: Path | None = None,
) -> History:
    """Train the model in place. Its weights are those of the last epoch, and it ends in eval mode.

    The training stops early by the validation loss. On the CPU, equal seeds give equal weights, also if a training was
    stopped and resumed.

    Args:
        model: The model.
        tokenizer: The tokenizer.
        data: The data, whose views are `Crops`.
        partition: Part -> examples.
        options: The options.
        checkpoints: As in `train_rounds`.

    Returns:
        The mean loss of each epoch, of training and of validation.

    Raises:
        InputError: Too few patients, or as in `train_rounds`.
    """
    pool, validation = (select_sentences(partition[name], options) for name in ("train", "validation"))
    trainer = UniterTrainer(model, tokenizer, data, pool, options)
    n_epochs = options.rounds or ROUNDS

    def run_epoch(epoch: int) -> tuple[float, float]:
        return trainer.learn(epoch, n_epochs), trainer.check(validation)

    with torch.random.fork_rng():
        history = train_rounds(
            run_epoch,
            model,
            trainer.optimizer,
            Schedule(n_epochs, options.patience),
            lr=options.lr,
            checkpoints=checkpoints,
        )
    model.eval()
    return history


def select_sentences(examples: Sequence[Example], options: UniterOptions) -> list[Example]:
    """Select the sentences of a part that the training uses.

    Args:
        examples: The examples of the part.
        options: The options.

    Returns:
        All of them, or those about an abnormality.

    Raises:
        InputError: There are none.
    """
    selected = [example for example in examples if "abnormal" in example.subsets or not options.abnormal]
    if not selected:
        raise InputError("--abnormal", "leaves no sentence of a part", action="use more data, or all sentences")
    return selected


def compute_rate(step: int, n_steps: int) -> float:
    """Compute the factor of the learning rate: it rises to 1 in the first 5% of the steps, and then falls to 0.

    Args:
        step: The number of the step, from 1.
        n_steps: The number of steps.

    Returns:
        The factor.

    >>> [round(compute_rate(step, 40), 3) for step in (1, 2, 3, 21, 40)]
    [0.5, 1.0, 0.974, 0.5, 0.0]
    """
    warmup = max(WARMUP * n_steps, 1)
    return step / warmup if step <= warmup else (n_steps - step) / (n_steps - warmup)


def auroc(
    model: UniterModel, tokenizer: Any, data: Data, examples: Iterable[Example], device: str = "cpu"
) -> np.ndarray:
    """Compute the AUROC of each sentence's attention on the pixels of its boxes (section 2.3).

    Args:
        model: The model, which ends in eval mode.
        tokenizer: The tokenizer.
        data: The data, whose views are `Crops`.
        examples: The examples.
        device: The device.

    Returns:
        (n,), NaN where it is undefined.
    """
    model.to(device).eval()
    remaining, values = list(examples), []
    for start in Progress(range(0, len(remaining), AT_ONCE), title="scoring attention", unit="batches"):
        batch = remaining[start : start + AT_ONCE]
        regions = load_regions(data, batch).to(device)
        tokens = tokenize(tokenizer, [example.sentence for example in batch]).to(device)
        with torch.no_grad():
            attention = model(tokens, regions, attention=True).attention
            saliency = compute_saliency(attention, tokens, regions).cpu().numpy()
        images = data.views.load([example.image for example in batch])
        for example, image, row in zip(batch, images, saliency, strict=True):
            pixels = draw_attention(row[: len(image.boxes)], image.boxes, example.size)
            scored = score_row(pixels, window(example.size), example.size, example.boxes, name=example.id)
            values.append(scored["auroc"])
    return np.array(values, dtype=np.float64)


def load_regions(data: Data, examples: Sequence[Example]) -> RegionBatch:
    """Load the regions of the examples' images.

    Args:
        data: The data, whose views are `Crops`.
        examples: The examples.

    Returns:
        The regions, on the CPU.
    """
    return stack_regions(data.views.load([example.image for example in examples]))
