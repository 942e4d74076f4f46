"""Data sets of rows that are built in memory: those of `Dataset.from_list`, without its hash of pickled rows."""

import datasets
import pytest
from datasets import List, Value

from medfaith.tasks.row_tables import build_dataset

MASK = {"size": List(Value("int32"), length=2), "counts": Value("string")}
FEATURES = {"score": Value("float32"), "id": Value("string"), "region": MASK, "images": List({"key": Value("string")})}
REGION = {"size": [2, 3], "counts": "06"}
DOCS = [
    {"id": "a", "score": 1, "images": [{"key": "x"}, {"key": "y"}], "region": REGION},
    {"id": "b", "score": 0.5, "region": None, "images": []},
]


@pytest.mark.parametrize("docs", [DOCS, DOCS[::-1], DOCS[1:]])
def test_a_built_data_set_is_that_of_from_list(docs, monkeypatch):
    expected = datasets.Dataset.from_list(docs, features=datasets.Features(FEATURES))
    monkeypatch.setattr("datasets.arrow_dataset.generate_fingerprint", None)  # takes most of the time of `from_list`
    rows = build_dataset(docs, FEATURES)
    assert rows.data.table.equals(expected.data.table, check_metadata=True)
    assert rows.column_names == expected.column_names
    assert rows.info == expected.info


def test_a_fingerprint_belongs_to_the_rows():
    assert build_dataset(DOCS, FEATURES)._fingerprint == build_dataset(DOCS, FEATURES)._fingerprint
    assert build_dataset(DOCS, FEATURES)._fingerprint != build_dataset(DOCS[::-1], FEATURES)._fingerprint
