"""One function for all figures of a task: called once, whatever a metric's name and place."""

from __future__ import annotations

import json
import math
import pickle

import pytest

from medfaith.tasks.scoring import MISSING, N_UNANSWERED, SENT, SKIPPED, Scorer
from tests.tasks.evaluating import figures


def counted(calls: list[int]) -> Scorer:
    def sums(records):
        calls.append(len(records))
        return {"total": sum(record["x"] for record in records), "n": len(records), "unused": 0}

    return Scorer(sums, ("total", "n"), lower=("n",))


def rows(scorer: Scorer, *values: int) -> list[dict]:
    """Each row has two images, of which its model was given none, one or two."""
    given = [{SKIPPED: 3, "images": "ab", SENT: n % 3} for n, _ in enumerate(values)]
    return [scorer.values(doc, {"x": value}) for doc, value in zip(given, values, strict=True)]


def test_figures_of_all_rows_are_computed_once():
    scorer = counted(calls := [])
    given = rows(scorer, 1, 2, 4)
    counts = {SKIPPED: 3, MISSING: 3, N_UNANSWERED: 0}
    assert figures(scorer.metric_list, given) == {"total": 7, "n": 3, **counts}
    assert calls == [3]
    assert figures(scorer.metric_list, given[:2]) == {"total": 3, "n": 2, **counts}  # of others, others
    assert figures(scorer.metric_list, [given[0], *rows(scorer, 5)])["total"] == 6
    assert figures(scorer.metric_list, given)["total"] == 7
    again = counted(other := [])
    assert figures(again.metric_list, given)["total"] == 7
    assert other == [3]


def test_a_row_is_logged_once_and_travels_once():
    scorer = counted([])
    (row,) = rows(scorer, 1)
    assert json.loads(json.dumps(row)) == {"total": {"x": 1}, "n": "", SKIPPED: 3, MISSING: 2, N_UNANSWERED: 0}
    gathered = pickle.loads(pickle.dumps({name: [value] for name, value in row.items()}))  # as between processes
    assert gathered["n"][0].record is gathered["total"][0]
    assert {one["metric"]: one["higher_is_better"] for one in scorer.metric_list} == {
        "total": True, "n": False, SKIPPED: False, MISSING: False, N_UNANSWERED: False,
    }  # fmt: skip


def test_a_direction_of_no_metric_is_an_error():
    with pytest.raises(ValueError, match="other"):
        Scorer(dict, ("total",), lower=("other",))


@pytest.mark.parametrize(("sent", "total"), [((2, 2), 0), ((None, 0, 1), 3), ((None,), math.nan)])
def test_images_that_a_model_asked_for_and_was_not_given_are_counted(sent, total):
    """None: it asked for no image of the row, and nothing is known."""
    scorer = counted([])
    given = [scorer.values({SKIPPED: 0, "images": "ab", SENT: n}, {"x": 1}) for n in sent]
    assert figures(scorer.metric_list, given)[MISSING] == pytest.approx(total, nan_ok=True)
