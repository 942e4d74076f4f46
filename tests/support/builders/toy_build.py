"""Builds of a toy benchmark with a source of no files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from datasets import Features, List, Value

from medfaith.builders.parallel import Workers
from medfaith.builders.write import Family, Split, write_repository

FEATURES = Features({"id": Value("string"), "n": Value("int32"), "images": List({"key": Value("string")})})
FAMILY = Family(FEATURES, ("n",), lambda table: [])
SOURCES = {"none": {"version": "1", "files": {}}}
RECORD = {"benchmark": "toy", "source": "none", "seed": 0, "arguments": {}, "sources": SOURCES}


def rows(n: int, start: int = 0) -> pa.Table:
    records = [
        {"id": f"row{i}", "n": i % 3, "images": [{"key": f"a/{i}.png"}] * (i % 3)} for i in range(start, start + n)
    ]
    return pa.Table.from_pylist(records, schema=FEATURES.arrow_schema)


def write(out: Path, *splits: Split, workers: int = 1) -> Path:
    return write_repository(
        out,
        "toy-none",
        splits,
        families=lambda config: FAMILY,
        record=lambda empty: {**RECORD},
        card="# toy\n",
        workers=Workers(workers),
    )
