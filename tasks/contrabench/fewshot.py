"""Three-shot in-context learning (Appendix G): exemplars from a pool of another source, sampled for each row.

lm-eval sends no few-shot images of its own, so an exemplar is text in the prompt: question, options and the right
letter. Its images can be put among the row's: the paper does not say whether its exemplars came with theirs.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import datasets

from medfaith.tasks import row_store, rows
from medfaith.tasks.contrabench.rows import facts, reword

SEED = 42
SHOTS = 3


def load(
    pool_repository: str,
    pool_config: str,
    data: str | None = None,
    exemplar_images: bool = False,
    images: str = "all",
    **options: Any,
) -> dict[str, datasets.Dataset]:
    """`rows.load` with the column `exemplars`, drawn from the split `train` of the pool.

    exemplar_images: put the exemplars' images before the row's own in `images`, and placeholders before their texts.
    """
    pool = row_store.read(pool_repository, pool_config, "train", data, images).to_list()

    def with_exemplars(evaluated: datasets.Dataset) -> datasets.Dataset:
        chosen = [exemplars(row_id, pool) for row_id in evaluated["id"]]
        texts = [[text(shot, with_images=exemplar_images) for shot in shots] for shots in chosen]
        if exemplar_images:
            own = evaluated["images"]
            shown = [
                [image for row in shots for image in row["images"]] + of_row
                for shots, of_row in zip(chosen, own, strict=True)
            ]
            feature = evaluated.features["images"]
            evaluated = evaluated.remove_columns("images").add_column("images", shown, feature=feature)
        return evaluated.add_column("exemplars", texts)

    return rows.load(data=data, facts=facts, reword=reword, extend=with_exemplars, images=images, **options)


def exemplars(
    row_id: str, pool: Sequence[dict[str, Any]], *, shots: int = SHOTS, seed: int = SEED
) -> list[dict[str, Any]]:
    """`shots` rows of the pool for one row: the first by a hash of seed, row and pool id, of two findings if it can.

    pool: rows with id and finding.
    """
    order = sorted(pool, key=lambda row: blake2b(f"{seed}:{row_id}:{row['id']}".encode(), digest_size=8).digest())
    chosen = order[:shots]
    if len({row["finding"] for row in chosen}) == 1:
        other = next((row for row in order if row["finding"] != chosen[0]["finding"]), None)
        chosen = [*chosen[:-1], other] if other else chosen
    return chosen


def text(row: dict[str, Any], *, with_images: bool = False) -> str:
    """A pool row as an answered question; with_images: a line of placeholders, one an image, in front."""
    letters = string.ascii_uppercase
    options = [f"{letter}. {option}" for letter, option in zip(letters, row["options"], strict=False)]
    images = ["<image>" * len(row["images"])] if with_images else []
    return "\n".join([*images, row["question"], *options, f"Answer: {letters[row['answer']]}"])
