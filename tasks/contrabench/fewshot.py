"""Three-shot in-context learning (Appendix G): exemplars from a pool of another source, sampled for each row.

lm-eval sends no few-shot images, so the exemplars are text: question, options and the right letter.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import datasets

from medfaith.tasks import rows

SEED = 42
SHOTS = 3


def load(
    pool_repository: str, pool_config: str, data: str | None = None, **options: Any
) -> dict[str, datasets.Dataset]:
    """`rows.load` with the column `exemplars`, drawn from the split `train` of the pool."""
    pool = rows.read(pool_repository, pool_config, "train", data).to_list()

    def with_exemplars(evaluated: datasets.Dataset) -> datasets.Dataset:
        return evaluated.add_column("exemplars", [exemplars(row_id, pool) for row_id in evaluated["id"]])

    return rows.load(data=data, extend=with_exemplars, **options)


def exemplars(row_id: str, pool: Sequence[dict[str, Any]], *, shots: int = SHOTS, seed: int = SEED) -> list[str]:
    """`shots` texts from the pool for one row: the first by a hash of seed, row and pool id, of two findings if it can.

    pool: rows with id, finding, question, options and answer.
    """
    order = sorted(pool, key=lambda row: blake2b(f"{seed}:{row_id}:{row['id']}".encode(), digest_size=8).digest())
    chosen = order[:shots]
    if len({row["finding"] for row in chosen}) == 1:
        other = next((row for row in order if row["finding"] != chosen[0]["finding"]), None)
        chosen = [*chosen[:-1], other] if other else chosen
    return [_text(row) for row in chosen]


def _text(row: dict[str, Any]) -> str:
    letters = string.ascii_uppercase
    options = [f"{letter}. {option}" for letter, option in zip(letters, row["options"], strict=False)]
    return "\n".join([row["question"], *options, f"Answer: {letters[row['answer']]}"])
