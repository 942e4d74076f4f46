"""The secret key for hashes that are published of rows whose licence forbids their publication.

The key is derived from the content of a source's labels, so only holders of the labels can derive it. File names,
packing, the order of rows and columns, and prefixes of paths make no difference. The key is never published. The hashes
of label files would not do as keys, because the hashes of a release are public.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from ..loaders.errors import InputError
from .row_digest import compute_rowset_sha256

KEYS = "keys"  # entry of build.json: keys by split; "" means all splits
FINGERPRINTS = "key_fingerprints"  # entry of a published build.json: fingerprints by split
Labels = Callable[[], pa.Table]


def compute_label_key(labels: pa.Table) -> str:
    """Compute the secret of parsed labels.

    Args:
        labels: The labels. The order of rows and columns makes no difference.

    Returns:
        64 hexadecimal digits.
    """
    columns = {name: _decode_dictionary(labels[name]) for name in sorted(labels.column_names)}
    table = pa.table(columns)
    order = [(field.name, "ascending") for field in table.schema if not pa.types.is_nested(field.type)]
    content_hash = compute_rowset_sha256(table.sort_by(order))
    return hashlib.sha256(b"medfaith key\0" + bytes.fromhex(content_hash)).hexdigest()


def build_label_table(records: Iterable[Any]) -> pa.Table:
    """Build a table of parsed labels.

    Args:
        records: Dataclass instances.

    Returns:
        One row per record: the record as JSON.
    """
    texts = [json.dumps(asdict(record), sort_keys=True, ensure_ascii=False) for record in records]
    return pa.table({"record": pa.array(texts, pa.string())})


def key_of(record: Mapping[str, Any], split: str) -> bytes:
    """Get the secret of a split from its build's record.

    Args:
        record: The content of build.json.
        split: The name of the split.

    Returns:
        The secret.

    Raises:
        InputError: The build has no key for the split.
    """
    keys = record.get(KEYS, {})
    key = keys.get(split, keys.get(""))
    if key is None:
        raise InputError(
            f"{record['benchmark']}-{record['source']}",
            f"its build.json has no key for the split {split!r}",
            expected="a build of this release of medfaith",
            action="build it again with medfaith build",
        )
    return bytes.fromhex(key)


def compute_config_key(key: bytes, config: str) -> bytes:
    """Compute the key of one config, so that hashes of the same text differ between configs.

    Args:
        key: The secret of the split.
        config: The name of the config.

    Returns:
        The key of the config.
    """
    return hashlib.sha256(b"medfaith config\0" + key + config.encode()).digest()


def fingerprint(key: str) -> str:
    """Compute the public fingerprint of a secret. Different labels have different fingerprints.

    Args:
        key: The secret: 64 hexadecimal digits.

    Returns:
        64 hexadecimal digits.
    """
    return hashlib.sha256(b"medfaith fingerprint\0" + bytes.fromhex(key)).hexdigest()


def _decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
