"""What a recipe makes of the sentences that it trains on: whose they are, and which of their words are hidden."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from medfaith.tasks.models.gloria_text import Tokens, clean, tokenize

from .data import Example
from .recipes import Recipe

# Words that say nothing by themselves in a name like "mass/nodule (not otherwise specified)".
EMPTY = {"and", "not", "of", "or", "other", "otherwise", "specified", "the", "to", "with"}


def sentences(
    recipe: Recipe, examples: Sequence[Example], pool: Sequence[Example], rng: np.random.Generator
) -> list[str]:
    """The texts of the examples; of random sentences, texts of examples of the pool about other images."""

    def other(image: int) -> str:
        while (drawn := pool[int(rng.integers(len(pool)))]).image == image:
            pass
        return drawn.sentence

    return [other(example.image) if recipe.random_sentences else example.sentence for example in examples]


def tokens(
    recipe: Recipe, tokenizer: Any, examples: Sequence[Example], texts: Sequence[str], rng: np.random.Generator
) -> Tokens:
    """The texts for the encoder; every word piece of a word that the recipe hides becomes [MASK]."""
    found = tokenize(tokenizer, texts)
    if not recipe.mask_words and not recipe.mask_entities:
        return found
    ids = found.ids.clone()
    for row, (example, text) in enumerate(zip(examples, texts, strict=True)):
        words = word_list(text)
        groups = [[n] for n in range(len(words))] if recipe.mask_words else entities(words, example.terms)
        drawn = rng.random(len(groups)) < (recipe.mask_words or recipe.mask_entities)
        hidden = [n + 1 for group, hide in zip(groups, drawn, strict=True) if hide for n in group]  # 0 is [CLS]
        words_of = found.word[row]
        last = words_of.max()  # [SEP], which stands where a sentence was cut
        ids[row, torch.isin(words_of, torch.tensor(hidden, dtype=torch.long)) & (words_of < last)] = (
            tokenizer.mask_token_id
        )
    return found._replace(ids=ids)


def word_list(text: str) -> list[str]:
    """The words of a text as a BERT counts them.

    >>> word_list("1. Small LEFT effusion, seen on __.")
    ['small', 'left', 'effusion', 'seen', 'on', '_', '_']
    """
    return re.findall(r"[a-z0-9]+|_", clean(text))


def entities(words: Sequence[str], terms: Sequence[str]) -> list[list[int]]:
    """Spans of clinical entities: neighbouring words that stand in a name of the row's anatomies and conditions.

    The paper finds them with a SciSpaCy entity linker, whose models are no part of this package. These spans are
    fewer: a word in another form than in ImaGenome's names ("effusions", "cardiomegaly") is in none.

    >>> entities("small left pleural effusion and edema".split(), ["left lung", "pleural effusion", "edema"])
    [[1, 2, 3], [5]]
    """
    known = {word for term in terms for word in word_list(term)} - EMPTY
    spans: list[list[int]] = []
    for number, word in enumerate(words):
        if word in known:
            if spans and spans[-1][-1] == number - 1:
                spans[-1].append(number)
            else:
                spans.append([number])
    return spans
