"""Three-shot in-context learning (Appendix G): exemplars from a pool of another source, sampled for each row.

lm-eval sends no few-shot images of its own. An exemplar is therefore text in the prompt: the question, the options and
the right letter. Its images can be added to the images of the row. The paper does not say whether its exemplars have
images.
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
    """Load rows with the column `exemplars`: for each row, answered questions from the split `train` of the pool.

    Args:
        pool_repository: The repository of the pool.
        pool_config: The config of the pool.
        data: As in `rows.load`.
        exemplar_images: Put the exemplars' images before the row's own in `images`, and placeholders before their
            texts.
        images: As in `rows.load`.
        options: Further arguments of `rows.load`.

    Returns:
        "test" -> rows.
    """
    pool = row_store.read(pool_repository, pool_config, "train", data, images).to_list()

    def add_exemplars(evaluated: datasets.Dataset) -> datasets.Dataset:
        exemplars_by_row = [sample_exemplars(row_id, pool) for row_id in evaluated["id"]]
        texts = [[format_exemplar(shot, with_images=exemplar_images) for shot in shots] for shots in exemplars_by_row]
        if exemplar_images:
            images_by_row = evaluated["images"]
            all_images = [
                [image for row in shots for image in row["images"]] + own_images
                for shots, own_images in zip(exemplars_by_row, images_by_row, strict=True)
            ]
            feature = evaluated.features["images"]
            evaluated = evaluated.remove_columns("images").add_column("images", all_images, feature=feature)  # pyrefly: ignore[missing-attribute] (datasets' decorator hides the type)
        return evaluated.add_column("exemplars", texts)  # pyrefly: ignore[bad-return] (datasets' decorator hides the type)

    adapter = rows.Adapter(extend=add_exemplars, facts=facts, reword=reword)
    return rows.load(adapter=adapter, data=data, images=images, **options)


def sample_exemplars(
    row_id: str, pool: Sequence[dict[str, Any]], *, shots: int = SHOTS, seed: int = SEED
) -> list[dict[str, Any]]:
    """Sample exemplars for one row: the first rows of the pool in the order of a hash of seed, row id and pool id.

    If all of them are about one finding, the last one is replaced by the first row about another finding, if the pool
    has one.

    Args:
        row_id: The id of the row.
        pool: Rows with id and finding.
        shots: The number of exemplars.
        seed: The seed of the hash.

    Returns:
        The exemplars; fewer than `shots` if the pool is smaller.
    """
    order = sorted(pool, key=lambda row: blake2b(f"{seed}:{row_id}:{row['id']}".encode(), digest_size=8).digest())
    sampled = order[:shots]
    if len({row["finding"] for row in sampled}) == 1:
        alternative = next((row for row in order if row["finding"] != sampled[0]["finding"]), None)
        sampled = [*sampled[:-1], alternative] if alternative else sampled
    return sampled


def format_exemplar(row: dict[str, Any], *, with_images: bool = False) -> str:
    """Format a pool row as an answered question.

    Args:
        row: The row.
        with_images: Whether to add a line of image placeholders in front.

    Returns:
        The text: placeholders, question, lettered options and "Answer: " with the right letter, a line each.
    """
    letters = string.ascii_uppercase
    options = [f"{letter}. {option}" for letter, option in zip(letters, row["options"], strict=False)]
    images = ["<image>" * len(row["images"])] if with_images else []
    return "\n".join([*images, row["question"], *options, f"Answer: {letters[row['answer']]}"])
