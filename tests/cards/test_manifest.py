"""Hashes of rows, and the comparison of two manifests."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.row_digest import iterate_row_json
from medfaith.cards import publication
from medfaith.cards.publish import manifest
from medfaith.cards.publish.manifest import Difference
from tests.support.publishing import list_keys


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(['ö/"x']), '{"x":"ö/\\"x"}'),
        (pa.array([None], pa.string()), '{"x":null}'),
        (pa.array([True]), '{"x":true}'),
        (pa.array([7], pa.int32()), '{"x":7}'),
        (pa.array([0.5], pa.float32()), '{"x":0.5}'),
        (pa.array([0.1], pa.float64()), '{"x":0.1}'),
        (pa.array([0.1], pa.float32()), '{"x":0.10000000149011612}'),
        (pa.array([[1, 2]]), '{"x":[1,2]}'),
        (pa.array([{"b": 1, "a": "z"}]), '{"x":{"a":"z","b":1}}'),
    ],
)
def test_what_is_hashed_of_a_row_is_its_json(column, text):
    assert list(iterate_row_json(pa.table({"x": column}))) == [text.encode()]


@given(st.lists(st.tuples(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False, width=32)), max_size=9))
def test_a_row_is_hashed_alike_from_any_file_and_in_any_order(rows):
    schema = pa.schema({"id": pa.string(), "x": pa.float32()})
    table = pa.Table.from_pylist([{"id": i, "x": x} for i, x in rows], schema)
    pq.write_table(table, file := io.BytesIO(), row_group_size=2, compression="zstd")
    texts = list(iterate_row_json(table))
    assert list(iterate_row_json(pq.read_table(file))) == texts
    assert list(iterate_row_json(table.take(pa.array(range(len(rows))[::-1], pa.int64())))) == texts[::-1]


@pytest.mark.parametrize(
    ("built", "published", "expected"),
    [
        ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, (2, (), (), ())),
        ({"a": "1"}, {"a": "1", "b": "2"}, (1, ("b",), (), ())),
        ({"a": "1", "c": "3"}, {"a": "1"}, (1, (), ("c",), ())),
        ({"a": "9", "b": "2"}, {"a": "1", "b": "2"}, (1, (), (), ("a",))),
        ({"a": "9", "c": "3"}, {"a": "1", "b": "2"}, (0, ("b",), ("c",), ("a",))),
    ],
)
def test_rows_are_equal_missing_extra_or_different(built, published, expected):
    key = ("config", "test")
    assert manifest.compare({key: built}, {key: published}) == [Difference(*key, *expected)]


def test_a_split_of_one_side_is_missing_or_extra_as_a_whole():
    differences = manifest.compare({("new", "test"): {"a": "1"}}, {("old", "test"): {"b": "2"}})
    assert differences == [Difference("old", "test", 0, ("b",), (), ()), Difference("new", "test", 0, (), ("a",), ())]


def test_a_manifest_survives_its_tables(phantom_build):
    built = publication.read(phantom_build / "cxr-contrabench-chexpert")
    splits, tables = manifest.hash_build(built, list_keys(built)), manifest.build_tables(built)
    assert [*tables] == [*dict.fromkeys(config for config, _ in splits)]
    assert {
        name: rows for config_table in tables.values() for name, rows in manifest.read_hashes(config_table).items()
    } == splits
    assert sum(map(len, splits.values())) == sum(config_table.num_rows for config_table in tables.values()) > 0


def test_rows_that_may_be_published_have_plain_hashes(phantom_build):
    built = publication.read(phantom_build / "cxr-contrabench-openi")
    (config, split, rows), *_ = built.tables()
    hashes = [hashlib.sha256(text).hexdigest() for text in iterate_row_json(rows)]
    expected = dict(zip(rows["id"].to_pylist(), hashes, strict=True))
    assert manifest.hash_build(built, {})[config, split] == expected == manifest.hash_rows(rows)
