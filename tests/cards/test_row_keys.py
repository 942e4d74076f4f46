"""Keys of a recipe's hashes: what changes them, and who can unlock them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medfaith.cards import row_keys
from tests.support.tiers import choose_size

N = 400


def build_rows(n: int, changed: frozenset[int] = frozenset()) -> pa.Table:
    """Build two rows for each study; the rows of changed studies have another answer."""
    studies = [f"s{number // 2}" for number in range(2 * n)]
    answers = [int(number // 2 in changed) for number in range(2 * n)]
    return pa.table({"id": [f"r{number}" for number in range(2 * n)], "study_id": studies, "answer": answers})


def make(rows: pa.Table, name: str = "config/test") -> row_keys.SplitKey:
    return row_keys.make_key(row_keys.hash_split(name, rows))


def unlock(lock: object, rows: pa.Table, name: str = "config/test") -> bytes | None:
    return row_keys.unlock(lock, row_keys.hash_split(name, rows))  # pyrefly: ignore[bad-argument-type] (any lock)


@given(st.integers(0, 20), st.permutations(range(20)))
@settings(max_examples=choose_size(8, 20))
def test_the_order_of_rows_makes_no_difference(n, order):
    rows = build_rows(n)
    reordered = rows.take(pa.array([number for number in order if number < rows.num_rows], pa.int64()))
    rest = rows.slice(20)
    assert make(pa.concat_tables([rest, reordered])) == make(rows)


@given(st.frozensets(st.integers(0, N - 1), min_size=1, max_size=3))
@settings(max_examples=choose_size(8, 20))
def test_a_few_changed_studies_leave_the_key_to_be_unlocked(changed):
    published = make(build_rows(N))
    ours = build_rows(N, changed)
    assert unlock(published.lock, ours) == published.secret
    assert make(ours).secret != published.secret


def test_every_block_has_50_studies_or_is_the_only_one():
    for n in (1, 49, 50, 99, 101, 400, 2000):
        blocks = row_keys._hash_blocks(
            row_keys.hash_split("a/b", build_rows(n)), len(make(build_rows(n)).lock["blocks"])
        )
        assert len(blocks) == 1 or min(n_studies for n_studies, _ in blocks) >= row_keys.BLOCK, n
    assert len(make(build_rows(2000)).lock["blocks"]) > 10


def test_without_a_whole_block_nothing_is_unlocked():
    published = make(build_rows(N))
    assert unlock(published.lock, build_rows(N, frozenset(range(0, N, 9)))) is None
    assert unlock(published.lock, build_rows(0)) is None
    assert unlock(published.lock, build_rows(N), "other/test") is None


def test_a_locked_key_shows_nothing_of_the_key():
    published = make(build_rows(N))
    shown = [published.lock["fingerprint"], *published.lock["blocks"]]
    assert published.secret.hex() not in shown
    assert len({*shown}) == len(shown)


@pytest.mark.parametrize(
    "lock",
    [None, [], {}, {"fingerprint": "0" * 64}, {"fingerprint": "0" * 64, "blocks": []},
     {"fingerprint": "0" * 64, "blocks": ["0" * 63]}, {"fingerprint": "g" * 64, "blocks": ["0" * 64]},
     {"fingerprint": "0" * 64, "blocks": ["0" * 64], "more": 1}, {"fingerprint": "0" * 64, "blocks": [None]}],
)  # fmt: skip
def test_a_lock_of_another_form_is_none(lock):
    assert not row_keys.is_lock(lock)
    assert row_keys.is_lock(make(build_rows(3)).lock)
