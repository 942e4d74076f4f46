"""Hash-based choices: stable values, all alternatives are used, only name and seed matter."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.hashing import digest, pick, pick_weighted, shuffled

SEEDS = st.integers(-5, 2**40)


@given(st.text(), SEEDS)
def test_a_digest_is_blake2b_of_seed_and_name(name, seed):
    assert digest(name, seed) == blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()


@given(st.text(), st.integers(1, 1000), SEEDS)
def test_a_pick_is_one_of_the_alternatives(name, n, seed):
    assert 0 <= pick(name, n, seed) < n
    assert pick(name, 1, seed) == 0


@pytest.mark.parametrize(("name", "n", "seed", "expected"), [("", 7, 0, 6), ("a", 1000, 0, 77), ("a", 1000, 1, 709)])
def test_picks_of_earlier_releases_stay(name, n, seed, expected):
    """A different value here means that the rows of every build change."""
    assert pick(name, n, seed) == expected


@pytest.mark.parametrize("n", [2, 3, 7, 10])
def test_all_alternatives_come_up_alike(n):
    counts = Counter(pick(f"row {i}", n, 0) for i in range(3000))
    assert len(counts) == n
    assert max(counts.values()) < 1.25 * 3000 / n


@given(st.lists(st.integers(), unique=True), st.text(), SEEDS, st.randoms(use_true_random=False))
def test_a_shuffle_is_a_permutation_that_does_not_depend_on_the_order(items, name, seed, random):
    result = shuffled(items, name, seed)
    assert sorted(result) == sorted(items)
    reordered = list(items)
    random.shuffle(reordered)
    assert shuffled(reordered, name, seed) == result


@given(st.lists(st.integers(), unique=True, min_size=2), st.text(), SEEDS)
def test_what_else_is_shuffled_does_not_change_the_order_of_two(items, name, seed):
    item_a, item_b, *_ = items
    order = [item for item in shuffled(items, name, seed) if item in (item_a, item_b)]
    assert shuffled([item_a, item_b], name, seed) == order
    assert len({tuple(shuffled(range(20), name, seed)) for name in "abc" for seed in range(3)}) == 9


def test_weighted_picks_follow_the_weights_and_not_the_order():
    weights = {"a": 1, "b": 3, "c": 6}
    picks = [pick_weighted(weights, f"row {n}", 0) for n in range(5000)]
    shares = [picks.count(item) / len(picks) for item in weights]
    assert shares == pytest.approx([0.1, 0.3, 0.6], abs=0.03)
    turned = dict(reversed(weights.items()))
    assert [pick_weighted(turned, f"row {n}", 0) for n in range(5000)] == picks
    assert [pick_weighted(weights, f"row {n}", 1) for n in range(5000)] != picks
