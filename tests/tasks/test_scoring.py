"""One function computes all figures of a task in one call, whatever a metric's name and position."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from medfaith.tasks.scoring import MISSING, N_UNANSWERED, SENT, SKIPPED, Scorer
from tests.support.tasks.evaluating import figures


def make_scorer(calls: list[int]) -> Scorer:
    def compute_sums(records):
        calls.append(len(records))
        return {"total": sum(record["x"] for record in records), "n": len(records), "unused": 0}

    return Scorer(compute_sums, ("total", "n"), lower=("n",))


def make_rows(scorer: Scorer, *values: int) -> list[dict]:
    """Make rows with two images each; their model has received zero, one or two of these."""
    docs = [{SKIPPED: 3, "images": "ab", SENT: n % 3} for n, _ in enumerate(values)]
    return [scorer.values(doc, {"x": value}) for doc, value in zip(docs, values, strict=True)]


def test_figures_of_all_rows_are_computed_once():
    scorer = make_scorer(calls := [])
    records = make_rows(scorer, 1, 2, 4)
    counts = {SKIPPED: 3, MISSING: 3, N_UNANSWERED: 0}
    assert figures(scorer.metric_list, records) == {"total": 7, "n": 3, **counts}
    assert calls == [3]
    assert figures(scorer.metric_list, records[:2]) == {"total": 3, "n": 2, **counts}  # other rows, other figures
    assert figures(scorer.metric_list, [records[0], *make_rows(scorer, 5)])["total"] == 6
    assert figures(scorer.metric_list, records)["total"] == 7
    other_scorer = make_scorer(other_calls := [])
    assert figures(other_scorer.metric_list, records)["total"] == 7
    assert other_calls == [3]


def test_a_row_is_logged_once_and_travels_once():
    scorer = make_scorer([])
    (row,) = make_rows(scorer, 1)
    assert json.loads(json.dumps(row)) == {"total": {"x": 1}, "n": "", SKIPPED: 3, MISSING: 2, N_UNANSWERED: 0}
    gathered = pickle.loads(
        pickle.dumps({name: [value] for name, value in row.items()})
    )  # like a transfer between processes
    assert gathered["n"][0].record is gathered["total"][0]
    assert {metric["metric"]: metric["higher_is_better"] for metric in scorer.metric_list} == {
        "total": True, "n": False, SKIPPED: False, MISSING: False, N_UNANSWERED: False,
    }  # fmt: skip


def test_a_direction_of_no_metric_is_an_error():
    with pytest.raises(ValueError, match="other"):
        Scorer(dict, ("total",), lower=("other",))


@pytest.mark.parametrize(("sent", "total"), [((2, 2), 0), ((None, 0, 1), 3), ((None,), math.nan)])
def test_images_that_a_model_asked_for_and_was_not_given_are_counted(sent, total):
    """None: the model requested no image of the row, and the count is unknown."""
    scorer = make_scorer([])
    records = [scorer.values({SKIPPED: 0, "images": "ab", SENT: n}, {"x": 1}) for n in sent]
    assert figures(scorer.metric_list, records)[MISSING] == pytest.approx(total, nan_ok=True)
