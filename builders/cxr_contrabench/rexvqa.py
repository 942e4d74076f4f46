"""Internal ReXVQA slices of CXR-ContraBench (sections 3.2, D.4): samples of the test split in the source's wording.

Questions and options are the source's. Only the letters before the options are removed, because a prompt writes its
own. Build options for wording and layout do not affect these rows: their three form columns have the value `source`.

Samples are prefixes of a seeded permutation of the test split. The 1k, 5k and 10k slices are prefixes of one
permutation (with the build's seed), so each contains the smaller ones. Three 10k samples have their own permutations
(seeds of Table 8). The paper does not print which items it sampled. A copy with fewer items than a slice gives all of
them.

The wording is labelled, not changed. `polarity` and `cue` come from the question; a row with a cue belongs to the
explicit-negation subset (in the paper 47 of 1,000 and 211 of 5,000). `negated` and `counterpart` come from the options.
`finding` is the concept of the negated option, otherwise the item's subcategory.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...loaders.rexvqa import Item
from ..schemas.contrabench import QUESTION
from .questions import sample_order
from .wording import mark_options, read_question_polarity

# Config -> (rows, seed of its permutation; None for the build's).
SLICES: dict[str, tuple[int, int | None]] = {
    "rexvqa_1k": (1_000, None),
    "rexvqa_5k": (5_000, None),
    "rexvqa_10k": (10_000, None),
    "rexvqa_10k_s1": (10_000, 20260326),
    "rexvqa_10k_s2": (10_000, 20260327),
    "rexvqa_10k_s3": (10_000, 20260328),
}
FORM = "source"


def questions(items: Sequence[Item], config: str, *, seed: int = 0) -> pa.Table:
    """Build the rows of one slice: the first items of a seeded permutation, in its order.

    A slice with a seed of its own (SLICES) does not depend on `seed`.

    Args:
        items: The items of the test split.
        config: The name of the slice.
        seed: The seed of the build.

    Returns:
        Rows in the schema QUESTION.
    """
    n, own_seed = SLICES[config]
    order = sample_order([item.id for item in items], seed if own_seed is None else own_seed, "rexvqa")
    rows = [_build_row(items[i], config) for i in order[:n].tolist()]
    return pa.Table.from_pylist(rows, schema=QUESTION.arrow_schema)


def _build_row(item: Item, config: str) -> dict[str, object]:
    polarity, cue = read_question_polarity(item.question)
    marks = mark_options(item.options)
    return {
        "id": f"rexvqa/test/{item.id}",
        "protocol": config,
        "polarity": polarity,
        "study_id": item.study_id,
        "images": [{"source": "rexvqa", "key": key, "view": view} for key, view in item.images],
        "question": item.question,
        "options": list(item.options),
        "answer": item.answer,
        "finding": marks.concept or item.subcategory.lower(),
        "negated": marks.negated,
        "counterpart": marks.counterpart,
        "negation_form": FORM,
        "question_form": FORM,
        "layout": FORM,
        "cue": cue,
    }
