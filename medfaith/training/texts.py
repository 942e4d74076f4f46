"""The training texts of a recipe: which sentences belong to the images, and which of their words are masked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from medfaith.tasks.models.alignment.gloria_text import Tokens, clean, tokenize

from .data import Example
from .recipes import Recipe

# Words without a meaning of their own in names such as "mass/nodule (not otherwise specified)".
EMPTY = {"and", "not", "of", "or", "other", "otherwise", "specified", "the", "to", "with"}


def sentences(
    recipe: Recipe, examples: Sequence[Example], pool: Sequence[Example], rng: np.random.Generator
) -> list[str]:
    """Return the texts of the examples, or texts about other images if the recipe has random sentences.

    Args:
        recipe: The recipe.
        examples: The examples.
        pool: The examples to sample random sentences from.
        rng: The generator.

    Returns:
        A text for each example, in the same order.
    """

    def sample_text(image: int) -> str:
        while (sampled := pool[int(rng.integers(len(pool)))]).image == image:
            pass
        return sampled.sentence

    return [sample_text(example.image) if recipe.random_sentences else example.sentence for example in examples]


def tokens(
    recipe: Recipe, tokenizer: Any, examples: Sequence[Example], texts: Sequence[str], rng: np.random.Generator
) -> Tokens:
    """Tokenize the texts. Each word piece of a masked word becomes [MASK].

    Args:
        recipe: The recipe.
        tokenizer: The tokenizer.
        examples: The examples.
        texts: The text of each example.
        rng: The generator of masks.

    Returns:
        The tokens of each text, in the same order.
    """
    tokenized = tokenize(tokenizer, texts)
    if not recipe.mask_words and not recipe.mask_entities:
        return tokenized
    ids = tokenized.ids.clone()
    for row, (example, text) in enumerate(zip(examples, texts, strict=True)):
        word_texts = word_list(text)
        groups = [[n] for n in range(len(word_texts))] if recipe.mask_words else entities(word_texts, example.terms)
        is_masked = rng.random(len(groups)) < (recipe.mask_words or recipe.mask_entities)
        masked_numbers = [
            n + 1 for group, mask in zip(groups, is_masked, strict=True) if mask for n in group
        ]  # 0 is [CLS]
        word_numbers = tokenized.word[row]
        end = word_numbers.max()  # [SEP], or the cut of a long sentence
        ids[row, torch.isin(word_numbers, torch.tensor(masked_numbers, dtype=torch.long)) & (word_numbers < end)] = (
            tokenizer.mask_token_id
        )
    return tokenized._replace(ids=ids)


def word_list(text: str) -> list[str]:
    """Split a text into words as a BERT tokenizer does.

    Args:
        text: The text.

    Returns:
        The words, in lower case.

    >>> word_list("1. Small LEFT effusion, seen on __.")
    ['small', 'left', 'effusion', 'seen', 'on', '_', '_']
    """
    return re.findall(r"[a-z0-9]+|_", clean(text))


def entities(sentence_words: Sequence[str], terms: Sequence[str]) -> list[list[int]]:
    """Find spans of clinical entities: neighbouring words in names of the row's anatomies and conditions.

    The paper uses a SciSpaCy entity linker, whose models are not part of this package. These spans are fewer: a word in
    another form than in ImaGenome's names ("effusions", "cardiomegaly") is in no span.

    Args:
        sentence_words: The words of a sentence.
        terms: The names of the row's anatomies and conditions.

    Returns:
        Indices of the words of each span.

    >>> entities("small left pleural effusion and edema".split(), ["left lung", "pleural effusion", "edema"])
    [[1, 2, 3], [5]]
    """
    term_words = {word for term in terms for word in word_list(term)} - EMPTY
    spans: list[list[int]] = []
    for number, word in enumerate(sentence_words):
        if word in term_words:
            if spans and spans[-1][-1] == number - 1:
                spans[-1].append(number)
            else:
                spans.append([number])
    return spans
