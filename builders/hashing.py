"""Choices by hash: what a row gets depends on its own name and the seed, not on other rows or their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeVar

import numpy as np
import pyarrow as pa

Item = TypeVar("Item")


def pick(name: str, n: int, seed: int) -> int:
    """Which of `n` alternatives something of this name takes.

    Its `digest` as a little-endian number, modulo `n`.

    >>> pick("chexpert/train/patient00001/study1/presence/edema", 3, seed=0) in (0, 1, 2)
    True
    """
    return int.from_bytes(digest(name, seed), "little") % n


def picks(names: pa.Array, n: int | np.ndarray, seed: int) -> np.ndarray:
    """`pick` of each of many names: shape (len(names),). n: one number, or one for each name.

    >>> picks(pa.array(["a", "b"]), 1_000, seed=0).tolist() == [pick(name, 1_000, seed=0) for name in ("a", "b")]
    True
    """
    start = f"{seed}:".encode()
    digests = [blake2b(start + name, digest_size=8).digest() for name in names.cast(pa.binary()).to_pylist()]
    return (np.frombuffer(b"".join(digests), "<u8") % np.asarray(n, "<u8")).astype(np.int64)


def shuffled(items: Iterable[Item], name: str, seed: int) -> list[Item]:
    """`items` in an order that depends on their texts, `name` and `seed` only."""
    return sorted(items, key=lambda item: (digest(f"{name}:{item}", seed), str(item)))


def weighted_pick(weights: Mapping[Item, float], name: str, seed: int) -> Item:
    """One of the keys, each as likely as its weight: the first of an exponential race, whose times the hash gives.

    >>> weighted_pick({"often": 1e9, "hardly": 1e-9}, "row", seed=0)
    'often'
    """

    def time(item: Item) -> float:
        return -math.log((int.from_bytes(digest(f"{name}:{item}", seed), "little") + 1) / 2**64) / weights[item]

    return min(weights, key=lambda item: (time(item), str(item)))


def digest(name: str, seed: int) -> bytes:
    """BLAKE2b-64 of `"{seed}:{name}"`: 8 bytes that stand for a name in an order or a choice."""
    return blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
