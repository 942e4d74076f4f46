"""Staged phantom builds, and changes that imitate real mistakes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from medfaith.cards.publication import Publication
from medfaith.cards.publish.guard import Text
from medfaith.loaders.sources import source

REPORT = Text("report CXR9", "Stable cardiomegaly. There is a small left pleural effusion with adjacent atelectasis.")
QUOTE = "there is a small LEFT pleural effusion, with adjacent"
OPENI, CHEXPERT, REXVQA = "cxr-contrabench-openi", "cxr-contrabench-chexpert", "cxr-contrabench-rexvqa"
HEAL, SURGX, WRONG_LUNG = "heal-medvqa-vindr_cxr", "surgxbench-cholect45", "wrong-lung-chest_imagenome"


def open_licences(publication: Publication) -> Publication:
    """Return the publication as if the licences of its sources allowed publishing rows."""
    return replace(publication, sources=(source("openi"),), referenced=())


def read_rows(publication: Publication) -> list[dict[str, Any]]:
    return [row for _, _, table in publication.tables() for row in table.to_pylist()]


def find_first_parquet(staged: Path) -> Path:
    return min(staged.glob("*/*.parquet"))


def write_changed(path: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    """Rewrite a Parquet file with another table."""
    pq.write_table(change(pq.ParquetFile(path).read()), path, **options)


def put_before_footer(path: Path, data: bytes) -> None:
    """Insert bytes that no reader of the Parquet file reads."""
    written = path.read_bytes()
    footer = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
    path.write_bytes(written[:footer] + data + written[footer:])
    assert pq.read_table(path).num_rows


def put_value(table: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    """Replace a value in a row (counted from 1); `column` is a dotted path to the first item of each list."""
    rows = table.to_pylist()
    *outer, last = column.split(".")
    holder: Any = rows[row - 1]
    for name in outer:
        holder = holder[name]
        holder = holder[0] if isinstance(holder, list) else holder
    if isinstance(holder[last], list):
        holder[last][0] = value
    else:
        holder[last] = value
    return pa.Table.from_pylist(rows, schema=table.schema)


def encode_image(kind: str) -> bytes:
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12), np.uint8))
    pixels.save(file := io.BytesIO(), kind)
    return file.getvalue()


def update_rows(publication: Publication, change: Callable[[pa.Table], pa.Table]) -> Publication:
    """Return the build with changed rows in its first split."""
    first_split, *other_splits = list(publication.tables())
    config, split, table = first_split

    class Changed(Publication):
        def tables(self):
            return iter([(config, split, change(table)), *other_splits])

    return Changed(**{name: getattr(publication, name) for name in publication.__dataclass_fields__})


def update_record(publication: Publication, change: Callable[[dict[str, Any]], Any]) -> Publication:
    """Return the build with a changed build.json; the keys of its splits depend on its rows alone."""
    record = json.loads(json.dumps(publication.record))
    change(record)
    changed = replace(publication, record=record)
    changed.__dict__["split_keys"] = publication.split_keys
    return changed
