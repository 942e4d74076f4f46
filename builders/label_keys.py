"""The secret that keys what is published of rows whose licence keeps them with their holders.

It is derived from what a source's labels say, so that only those can derive it who hold them, however their copy is
written: file names, packing, the order of rows and columns, and prefixes of paths make no difference. It is never
published, as the hashes of label files are: those of a release are known to anyone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from ..loaders.errors import InputError
from .row_digest import rowset_sha256

KEYS = "keys"  # in build.json: by split; "": of all splits
FINGERPRINTS = "key_fingerprints"  # in a published one, of each split
Labels = Callable[[], pa.Table]


def label_key(labels: pa.Table) -> str:
    """The secret of parsed labels, in any order: 64 hexadecimal digits."""
    columns = {name: _plain(labels[name]) for name in sorted(labels.column_names)}
    table = pa.table(columns)
    order = [(field.name, "ascending") for field in table.schema if not pa.types.is_nested(field.type)]
    said = rowset_sha256(table.sort_by(order))
    return hashlib.sha256(b"medfaith key\0" + bytes.fromhex(said)).hexdigest()


def as_table(records: Iterable[Any]) -> pa.Table:
    """Parsed labels that are dataclasses, one a row."""
    texts = [json.dumps(asdict(record), sort_keys=True, ensure_ascii=False) for record in records]
    return pa.table({"record": pa.array(texts, pa.string())})


def key_of(record: Mapping[str, Any], split: str) -> bytes:
    """The secret of a split, by its build's record. Raises InputError where the build has none."""
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


def config_key(key: bytes, config: str) -> bytes:
    """Of one config, so that no hash of it stands in another config, too."""
    return hashlib.sha256(b"medfaith config\0" + key + config.encode()).digest()


def fingerprint(key: str) -> str:
    """What may be published of a secret: whose fingerprints are others has other labels."""
    return hashlib.sha256(b"medfaith fingerprint\0" + bytes.fromhex(key)).hexdigest()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
