"""The training recipes of the paper (section 4.1). This module needs no torch: the command lists it in its help."""

from __future__ import annotations

from dataclasses import dataclass

GOLD, SILVER = "gold", "silver"
SHOTS = 30  # examples of a supervised recipe


@dataclass(frozen=True)
class Recipe:
    """A training recipe.

    Attributes:
        mask_words: The probability that a word is masked.
        mask_entities: The probability that all words of a clinical entity are masked.
        no_attn: Whether the model has a "No Attn" vector.
        abnormal: Whether only sentences about an abnormality are used.
        random_sentences: Whether each image gets the sentence of another image.
        supervised: Whether the loss is the alignment loss of 30 examples instead of the contrastive loss.
        rounds: The largest number of epochs, or of steps for a supervised recipe.
        patience: The number of rounds without a lower validation loss before the training stops.
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
    """Options of a training.

    Attributes:
        seed: The seed.
        rounds: The largest number of rounds; None for the recipe's number.
        batch_size: Images a batch. A supervised recipe has one batch.
        lr: The learning rate.
        device: The device.
    """

    seed: int = 0
    rounds: int | None = None
    batch_size: int = 48
    lr: float = 5e-5
    device: str = "cpu"
