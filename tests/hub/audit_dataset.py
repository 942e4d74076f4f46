"""A small data set for the loopback Hub: its card, and Parquet of three row groups."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ID = "clinic/audit"
CARD = b"""---
configs:
- config_name: presence
  data_files: [{split: test, path: presence/test-*.parquet}]
- config_name: absence
  data_files: [{split: test, path: absence/test-*.parquet}]
---
# Audit
"""


def parquet(seed: int, n: int = 3000) -> bytes:
    file = io.BytesIO()
    numbers = np.random.default_rng(seed).integers(0, 2**40, n)
    pq.write_table(pa.table({"id": [f"row-{i}" for i in range(n)], "n": numbers}), file, row_group_size=n // 3)
    return file.getvalue()
