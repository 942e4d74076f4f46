"""Hashes of rows, and how two sets of them are told apart."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.rowset import row_sha256
from medfaith.cards import manifest, publication
from medfaith.cards.manifest import Difference


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
def test_a_row_is_hashed_as_its_json(column, text):
    assert list(row_sha256(pa.table({"x": column}))) == [hashlib.sha256(text.encode()).hexdigest()]


@given(st.lists(st.tuples(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False, width=32)), max_size=9))
def test_a_row_is_hashed_alike_from_any_file_and_in_any_order(rows):
    table = pa.table(
        {"id": pa.array([r[0] for r in rows], pa.string()), "x": pa.array([r[1] for r in rows], pa.float32())}
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=2, compression="zstd")
    hashes = list(row_sha256(table))
    assert list(row_sha256(pq.read_table(file))) == hashes
    assert list(row_sha256(table.take(pa.array(range(len(rows))[::-1], pa.int64())))) == hashes[::-1]


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
    found = manifest.compare({("new", "test"): {"a": "1"}}, {("old", "test"): {"b": "2"}})
    assert found == [Difference("old", "test", 0, ("b",), (), ()), Difference("new", "test", 0, (), ("a",), ())]


def test_a_manifest_survives_its_table(phantom_build):
    splits = manifest.of_build(publication.read(phantom_build / "cxr-contrabench-openi"))
    assert manifest.of_table(manifest.table(splits)) == splits
    assert sum(map(len, splits.values())) == manifest.table(splits).num_rows > 0


def test_ids_stay_where_the_licence_lets_them_and_are_hashed_where_it_does_not(phantom_build, phantom_wrong_lung_build):
    open_ids = manifest.of_build(publication.read(phantom_build / "cxr-contrabench-chexpert"))
    assert all("patient" in row_id for rows in open_ids.values() for row_id in rows)
    built = publication.read(phantom_wrong_lung_build / "wrong-lung-chest_imagenome")
    (_, _, first), *_ = built.tables()
    hidden = next(iter(manifest.of_build(built).values()))
    assert next(iter(hidden)) == hashlib.sha256(first["id"][0].as_py().encode()).hexdigest()
    assert all(len(row_id) == 64 for row_id in hidden)
