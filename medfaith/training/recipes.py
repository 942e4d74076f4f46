"""How each model of the paper is trained (section 4.1), and what its sentences look like to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.gloria_text import Tokens, clean, tokenize

from .data import Example

SHOTS = 30
# Words that say nothing by themselves in a name like "mass/nodule (not otherwise specified)".
EMPTY = {"and", "not", "of", "or", "other", "otherwise", "specified", "the", "to", "with"}


@dataclass(frozen=True)
class Recipe:
    """mask_words, mask_entities: the probability that a word, or all words of a clinical entity, are hidden.

    no_attn: with a "No Attn" vector. abnormal: only sentences of an abnormality. random_sentences: each of another
    example. supervised: the alignment loss of 30 examples instead of the contrastive loss.
    rounds, patience: epochs, of a supervised recipe steps: at most, and without a lower validation loss.
    """

    mask_words: float = 0.0
    mask_entities: float = 0.0
    no_attn: bool = False
    abnormal: bool = False
    random_sentences: bool = False
    supervised: bool = False
    rounds: int = 50
    patience: int = 10


RECIPES = {
    "retrained": Recipe(),
    "word_masking": Recipe(mask_words=0.3),
    "clinical_masking": Recipe(mask_entities=0.5),
    "no_attn": Recipe(no_attn=True),
    "abnormal": Recipe(abnormal=True),
    "30_shot": Recipe(supervised=True, rounds=500, patience=25),
    "rand_sents": Recipe(random_sentences=True),
}


def named(name: str) -> Recipe:
    """Raises InputError for a name that is none of RECIPES."""
    if name not in RECIPES:
        raise InputError("RECIPE", f"is {name!r}", expected=", ".join(RECIPES))
    return RECIPES[name]


def select(recipe: Recipe, parts: dict[str, list[Example]], seed: int) -> tuple[list[Example], list[Example]]:
    """Of the parts, what the recipe trains on and what it is stopped by.

    Raises:
        InputError: no abnormal sentences, fewer than 30 for supervision, or of one image only.
    """
    train, validation = (
        [example for example in parts[part] if "abnormal" in example.subsets or not recipe.abnormal]
        for part in ("train", "validation")
    )
    counts = f"{len(train)} sentences for training and {len(validation)} for validation"
    if recipe.supervised:
        if min(len(train), len(validation)) < SHOTS:
            raise InputError("--data", f"has {counts}", expected=f"{SHOTS} of each, of different patients")
        rng = np.random.default_rng(seed)
        first, second = (sorted(rng.permutation(len(part))[:SHOTS].tolist()) for part in (train, validation))
        return [train[number] for number in first], [validation[number] for number in second]
    if min(len({example.image for example in part}) for part in (train, validation)) < 2:
        kind = "abnormal sentences" if recipe.abnormal else "sentences"
        found = f"has {counts.replace('sentences', kind, 1)}"
        raise InputError("--data", found, expected=f"{kind} about 2 or more images in each part")
    return train, validation


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
