"""Choices by hash. A choice depends on the row's name and the seed, not on other rows or their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeVar

import numpy as np
import pyarrow as pa

Item = TypeVar("Item")


def pick(name: str, n: int, seed: int) -> int:
    """Pick one of `n` alternatives: the `digest` of the name as a little-endian number, modulo `n`.

    Args:
        name: The name of the item that gets the alternative, for example a row id.
        n: Number of alternatives.
        seed: The seed of the build.

    Returns:
        The index of the alternative.

    >>> pick("chexpert/train/patient00001/study1/presence/edema", 3, seed=0) in (0, 1, 2)
    True
    """
    return int.from_bytes(digest(name, seed), "little") % n


def compute_picks(names: pa.Array, n: int | np.ndarray, seed: int) -> np.ndarray:
    """Compute `pick` for many names.

    Args:
        names: The names.
        n: Number of alternatives: one number, or one for each name.
        seed: The seed of the build.

    Returns:
        The indices: shape (len(names),).

    >>> names = ["a", "b"]
    >>> compute_picks(pa.array(names), 1_000, seed=0).tolist() == [pick(name, 1_000, seed=0) for name in names]
    True
    """
    prefix = f"{seed}:".encode()
    digests = [blake2b(prefix + name, digest_size=8).digest() for name in names.cast(pa.binary()).to_pylist()]
    return (np.frombuffer(b"".join(digests), "<u8") % np.asarray(n, "<u8")).astype(np.int64)


def shuffled(items: Iterable[Item], name: str, seed: int) -> list[Item]:
    """Sort items by hash: the order depends on their texts, `name` and `seed` only.

    Args:
        items: The items.
        name: The name of the group to sort, for example a config or a report.
        seed: The seed of the build.

    Returns:
        All items.
    """
    return sorted(items, key=lambda item: (digest(f"{name}:{item}", seed), str(item)))


def pick_weighted(weights: Mapping[Item, float], name: str, seed: int) -> Item:
    """Pick a key with a probability in proportion to its weight.

    The choice is the winner of an exponential race whose times come from the hash.

    Args:
        weights: The weight of each key.
        name: The name of the item that gets the key, for example a row id.
        seed: The seed of the build.

    Returns:
        The key.

    >>> pick_weighted({"often": 1e9, "hardly": 1e-9}, "row", seed=0)
    'often'
    """

    def compute_time(item: Item) -> float:
        return -math.log((int.from_bytes(digest(f"{name}:{item}", seed), "little") + 1) / 2**64) / weights[item]

    return min(weights, key=lambda item: (compute_time(item), str(item)))


def digest(name: str, seed: int) -> bytes:
    """Compute BLAKE2b-64 of `"{seed}:{name}"`.

    Args:
        name: The name.
        seed: The seed of the build.

    Returns:
        8 bytes that represent the name in an order or a choice.
    """
    return blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
