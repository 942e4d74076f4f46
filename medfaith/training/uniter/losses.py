"""Pre-training losses of UNITER (Chen et al., ECCV 2020, section 3.2).

Masked region classification is left out: its classes are those of an object detector, which boxes of anatomies do not
have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, mse_loss

from medfaith.tasks.models.alignment.gloria_text import Tokens
from medfaith.tasks.models.alignment.uniter import RegionBatch, UniterModel

from ..data import Example
from .transport import compute_distance

MASKED = 0.15  # probability that a word piece or a region is masked
REPLACED, RANDOM = 0.8, 0.1  # share of the masked word pieces that become [MASK], and a random piece
WRONG = 0.5  # probability that an image gets a wrong sentence
TRANSPORT_WEIGHT = 0.1  # weight of word-region alignment in the released code
IGNORED = -100  # label of a word piece that is not predicted


def mask_words(tokens: Tokens, tokenizer: Any, rng: np.random.Generator) -> tuple[Tokens, torch.Tensor]:
    """Mask word pieces, at least one of each sentence, as BERT does.

    Args:
        tokens: The sentences.
        tokenizer: The tokenizer.
        rng: The generator.

    Returns:
        The masked tokens, and the labels (n, t): the true ids of masked pieces, and IGNORED elsewhere.
    """
    n_words = np.array(tokens.n_words)[:, None]
    word = tokens.word.numpy()
    is_masked = _choose((word > 0) & (word < n_words - 1), rng)
    ids = tokens.ids.numpy()
    fate = rng.random(ids.shape)
    masked_ids = np.where(is_masked & (fate < REPLACED), tokenizer.mask_token_id, ids)
    is_random = is_masked & (fate >= REPLACED) & (fate < REPLACED + RANDOM)
    masked_ids = np.where(is_random, rng.integers(len(tokenizer), size=ids.shape), masked_ids)
    labels = np.where(is_masked, ids, IGNORED)
    return tokens._replace(ids=torch.from_numpy(masked_ids)), torch.from_numpy(labels)


def mask_regions(regions: RegionBatch, rng: np.random.Generator) -> torch.Tensor:
    """Mask regions, at least one of each image.

    Args:
        regions: The regions.
        rng: The generator.

    Returns:
        Bool (n, k).
    """
    return torch.from_numpy(_choose(regions.mask.numpy() > 0, rng))


def draw_sentences(
    examples: Sequence[Example], pool: Sequence[Example], rng: np.random.Generator
) -> tuple[list[str], torch.Tensor]:
    """Draw the sentences of a batch, about half of them from other patients.

    Args:
        examples: The examples.
        pool: The examples to draw from, of two or more patients.
        rng: The generator.

    Returns:
        A sentence for each example, and the labels (n,): 1 for its own sentence, 0 for a wrong one.
    """

    def draw_wrong(patient: str) -> str:
        while (drawn := pool[int(rng.integers(len(pool)))]).patient == patient:
            pass
        return drawn.sentence

    is_wrong = rng.random(len(examples)) < WRONG
    drawn_sentences = [
        draw_wrong(example.patient) if wrong else example.sentence
        for example, wrong in zip(examples, is_wrong, strict=True)
    ]
    return drawn_sentences, torch.from_numpy(~is_wrong).long()


def compute_word_loss(model: UniterModel, tokens: Tokens, labels: torch.Tensor, regions: RegionBatch) -> torch.Tensor:
    """Compute the loss of masked language modelling, conditioned on all regions.

    Args:
        model: The model.
        tokens: The masked tokens.
        labels: The labels of `mask_words`.
        regions: The regions.

    Returns:
        A scalar: the mean cross entropy of the masked word pieces.
    """
    states = model(tokens, regions).words
    is_masked = labels != IGNORED
    return cross_entropy(model.predict_words(states[is_masked]), labels[is_masked])


def compute_region_loss(
    model: UniterModel, tokens: Tokens, regions: RegionBatch, is_masked: torch.Tensor
) -> torch.Tensor:
    """Compute the loss of masked region feature regression, conditioned on the sentence.

    Args:
        model: The model.
        tokens: The sentences.
        regions: The regions.
        is_masked: The result of `mask_regions`.

    Returns:
        A scalar: the mean squared error of the masked regions' features.
    """
    states = model(tokens, regions, is_masked).regions
    return mse_loss(model.predict_features(states[is_masked]), regions.features[is_masked])


def compute_match_loss(model: UniterModel, tokens: Tokens, regions: RegionBatch, labels: torch.Tensor) -> torch.Tensor:
    """Compute the loss of image-text matching with word-region alignment, as in the released code.

    Args:
        model: The model.
        tokens: The sentences of `draw_sentences`.
        regions: The regions.
        labels: The labels of `draw_sentences`.

    Returns:
        A scalar: the mean cross entropy, plus 0.1 times the mean of the transport distance, which counts as negative
            for wrong sentences.
    """
    joint = model(tokens, regions)
    distances = compute_distance(joint.words, joint.regions, tokens.mask, regions.mask)
    alignment = (distances * (2 * labels - 1)).mean()
    return cross_entropy(model.predict_match(joint.pooled), labels) + TRANSPORT_WEIGHT * alignment


def _choose(candidates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose each candidate with the probability MASKED, and at least one of each row that has one."""
    draws = np.where(candidates, rng.random(candidates.shape), np.inf)
    lowest = draws == draws.min(axis=1, keepdims=True)
    return candidates & ((draws < MASKED) | lowest)
