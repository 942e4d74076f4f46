"""The secret keys of a recipe's hashes. Only who can build the rows can compute them.

The key of a split is a hash of all its rows, so it depends on every label file, on the seed and on the options. Masks
do not count: users of HEAL-MedVQA make their own. The published record locks the key with the rows of each block of
studies. Who has all rows of one block can unlock it. One changed label therefore leaves all other rows comparable.

A block is as hard to guess as the rows of at least `BLOCK` studies. A split of fewer studies is one block.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..builders.row_digest import iterate_row_json

LOCKS = "key_locks"  # entry of a published build.json: the locks by config/split
FINGERPRINT, BLOCKS = "fingerprint", "blocks"  # entries of a lock
BLOCK = 50  # smallest number of studies of a block
MOST_BLOCKS = 256


class SplitKey(NamedTuple):
    """The key of a split.

    Attributes:
        secret: The key, which is never published.
        lock: The published lock: a fingerprint of the key, and for each block of studies the key in locked form, all
            in hexadecimal digits.
        n_studies: The number of studies.
    """

    secret: bytes
    lock: Mapping[str, Any]
    n_studies: int


class Hashed(NamedTuple):
    """The hashes of a split's rows.

    Attributes:
        name: `config/split`.
        units: The study of each row.
        digests: The SHA-256 of each row.
    """

    name: str
    units: Sequence[str]
    digests: Sequence[bytes]


def hash_split(name: str, rows: pa.Table) -> Hashed:
    """Hash the rows of a split.

    Args:
        name: `config/split`.
        rows: The rows, without masks.

    Returns:
        The hashes.
    """
    return Hashed(name, list_units(rows), [hashlib.sha256(row).digest() for row in iterate_row_json(rows)])


def list_units(rows: pa.Table) -> list[str]:
    """List the study of each row; the image if the rows name no study, and the row's id if they name no image.

    Args:
        rows: The rows.

    Returns:
        The names.

    >>> list_units(pa.table({"id": ["1", "2"], "study_id": ["a", "a"]}))
    ['a', 'a']
    """
    if "study_id" in rows.column_names:
        return rows["study_id"].to_pylist()
    if "image" in rows.column_names:
        return pc.struct_field(rows["image"], "key").to_pylist()
    return rows["id"].to_pylist()


def make_key(hashed: Hashed) -> SplitKey:
    """Make the key of a split, and its lock.

    Args:
        hashed: The hashes of the rows. Their order makes no difference.

    Returns:
        The key and the lock.
    """
    secret = _hash("key", hashed.name, hashed.digests)
    n_studies = len(set(hashed.units))
    n_blocks = max(1, min(MOST_BLOCKS, n_studies // BLOCK))
    blocks = _hash_blocks(hashed, n_blocks)
    while min(n_units for n_units, _ in blocks) < BLOCK and n_blocks > 1:  # few units fell into a block
        n_blocks -= 1
        blocks = _hash_blocks(hashed, n_blocks)
    locked = [_combine(secret, block).hex() for _, block in blocks]
    return SplitKey(secret, {FINGERPRINT: compute_fingerprint(secret), BLOCKS: locked}, n_studies)


def unlock(lock: Mapping[str, Any], hashed: Hashed) -> bytes | None:
    """Unlock the key of a published split with the rows of a build.

    Args:
        lock: The published lock.
        hashed: The hashes of the build's rows.

    Returns:
        The key; None if no block of studies has the published rows.
    """
    blocks = _hash_blocks(hashed, len(lock[BLOCKS])) if lock[BLOCKS] else []
    for locked, (_, block) in zip(lock[BLOCKS], blocks, strict=True):
        secret = _combine(bytes.fromhex(locked), block)
        if compute_fingerprint(secret) == lock[FINGERPRINT]:
            return secret
    return None


def compute_hash(content: bytes, key: bytes = b"") -> str:
    """Compute the SHA-256, or the HMAC-SHA256 if there is a key.

    Args:
        content: The bytes.
        key: The key, or empty.

    Returns:
        Hexadecimal digits.
    """
    return hmac.new(key, content, hashlib.sha256).hexdigest() if key else hashlib.sha256(content).hexdigest()


def compute_fingerprint(secret: bytes) -> str:
    """Compute the public fingerprint of a key.

    Args:
        secret: The key.

    Returns:
        64 hexadecimal digits.
    """
    return hashlib.sha256(b"medfaith fingerprint\0" + secret).hexdigest()


def is_lock(value: Any) -> bool:
    """Tell whether a value has the form of a published lock.

    Args:
        value: The value.

    Returns:
        Whether it has.
    """
    if not isinstance(value, dict) or value.keys() != {FINGERPRINT, BLOCKS} or not isinstance(value[BLOCKS], list):
        return False
    return bool(value[BLOCKS]) and all(map(is_digest, (value[FINGERPRINT], *value[BLOCKS])))


def is_digest(value: Any) -> bool:
    """Tell whether a value has the form of a SHA-256. All digits alike is no hash of anything.

    Args:
        value: The value.

    Returns:
        Whether it has.
    """
    is_hexadecimal = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None
    return is_hexadecimal and len(set(value)) > 1


def _hash_blocks(hashed: Hashed, n_blocks: int) -> list[tuple[int, bytes]]:
    """Divide the rows into blocks of whole studies; return the number of studies and the hash of each block."""
    units: list[set[str]] = [set() for _ in range(n_blocks)]
    digests: list[list[bytes]] = [[] for _ in range(n_blocks)]
    for unit, digest in zip(hashed.units, hashed.digests, strict=True):
        number = int.from_bytes(hashlib.sha256(unit.encode()).digest()[:8]) % n_blocks
        units[number].add(unit)
        digests[number].append(digest)
    return [
        (len(block_units), _hash(f"block {number} of {n_blocks}", hashed.name, block_digests))
        for number, (block_units, block_digests) in enumerate(zip(units, digests, strict=True))
    ]


def _hash(purpose: str, name: str, digests: Iterable[bytes]) -> bytes:
    return hashlib.sha256(f"medfaith {purpose}\0{name}\0".encode() + b"".join(sorted(digests))).digest()


def _combine(left: bytes, right: bytes) -> bytes:
    """Compute the exclusive or of two texts of equal length."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
