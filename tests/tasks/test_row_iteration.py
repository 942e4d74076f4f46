"""Rows that are formatted in batches are those that datasets formats one by one."""

from __future__ import annotations

import datasets
import pytest

from medfaith.tasks.lm_eval_internals import wrap_rows
from medfaith.tasks.row_iteration import iterate_rows
from tests.support.tasks.evaluating import load

TASK = "medfaith_contrabench_chexpert_presence"


def double(batch):
    return {"id": [2 * row_id for row_id in batch["id"]], "boxes": batch["boxes"]}


@pytest.mark.parametrize("n", [0, 1, 64, 65, 200])
def test_rows_in_batches_are_the_rows(n):
    columns = {"id": list(range(n)), "boxes": [[{"x": row_id, "name": None}] * (row_id % 3) for row_id in range(n)]}
    features = datasets.Features({
        "id": datasets.Value("int64"),
        "boxes": datasets.List({"x": datasets.Value("int32"), "name": datasets.Value("string")}),
    })  # fmt: skip
    rows = datasets.Dataset.from_dict(columns, features=features)
    for selected in (rows, rows.select(list(range(n))[::-3]), rows.with_transform(double)):
        assert list(iterate_rows(selected)) == list(selected)


@pytest.mark.parametrize(
    "options",
    [{}, {"limit": 3}, {"limit": 10_000}, {"rank": 1, "world_size": 2, "limit": 8}, {"samples": [0, 2]}],
)
def test_lm_eval_gets_its_rows_with_their_numbers(options, phantom_build, phantom_roots):
    task = load([TASK], phantom_build, phantom_roots)["tasks"][TASK]
    expected = [(number, doc.keys(), doc["id"]) for number, doc in task.doc_iterator(**options)]
    with wrap_rows(lambda docs, **_: docs):
        assert [(number, doc.keys(), doc["id"]) for number, doc in task.doc_iterator(**options)] == expected
    assert len(expected) > 1
