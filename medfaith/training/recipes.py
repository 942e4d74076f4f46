"""How each model of the paper is trained (section 4.1). Nothing here needs torch: the command lists it in its help."""

from __future__ import annotations

from dataclasses import dataclass

GOLD, SILVER = "gold", "silver"
SHOTS = 30  # examples of a supervised recipe


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


@dataclass(frozen=True)
class Options:
    """rounds: at most, in place of the recipe's. batch_size: in images; a supervised recipe has one batch."""

    seed: int = 0
    rounds: int | None = None
    batch_size: int = 48
    lr: float = 5e-5
    device: str = "cpu"
