"""Stagings of phantom builds, and changes to them as real mistakes would make them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from medfaith import cards
from medfaith.cards.publication import Publication
from medfaith.cards.publish import staging
from medfaith.cards.publish.guard import Text
from medfaith.loaders.sources import source

REPORT = Text("report CXR9", "Stable cardiomegaly. There is a small left pleural effusion with adjacent atelectasis.")
QUOTE = "there is a small LEFT pleural effusion, with adjacent"
OPENI = "cxr-contrabench-openi"
NAMES = [
    "cxr-contrabench-chexpert", OPENI, "cxr-contrabench-chexstruct", "cxr-contrabench-rexvqa",
    "heal-medvqa-vindr_cxr", "surgxbench-cholect45", "wrong-lung-chest_imagenome",
]  # fmt: skip


def stage(publication: Publication, into: Path) -> Path:
    """A folder as it is uploaded, with the card's body and a small croissant.json."""
    into.mkdir(parents=True)
    staging.lay_rows(publication, into)
    (into / "build.json").write_text(json.dumps(publication.published_record), encoding="utf-8")
    header = "---\ndataset_info:\n- config_name: x\n  splits:\n  - name: test\n    num_bytes: 50666899\n---\n"
    (into / "README.md").write_text(header + cards.body(publication.name), encoding="utf-8")
    croissant = {"@type": "sc:Dataset", "url": f"https://huggingface.co/datasets/org/{publication.name}"}
    (into / "croissant.json").write_text(json.dumps(croissant), encoding="utf-8")
    return into


def opened(publication: Publication) -> Publication:
    """As it would be if its sources' licences let rows out."""
    return replace(publication, sources=(source("openi"),), referenced=())


def first_parquet(staged: Path) -> Path:
    return min(staged.glob("*/*.parquet"))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    """Writes a Parquet file again with another table."""
    pq.write_table(change(pq.ParquetFile(path).read()), path, **options)


def insert_before_footer(path: Path, data: bytes) -> None:
    """Puts bytes where no reader of the Parquet file looks."""
    written = path.read_bytes()
    footer = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
    path.write_bytes(written[:footer] + data + written[footer:])
    assert pq.read_table(path).num_rows


def turn_a_bit(path: Path) -> None:
    """Turns a bit of a file without a change to its rows: of the length that is written beside an unused index."""
    rows, written = pq.read_table(path), path.read_bytes()
    footer = len(written) - 8 - int.from_bytes(written[-8:-4], "little")
    for place in range(footer - 1, 0, -1):  # page indexes stand before the footer, and readers do not need them
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        try:
            if pq.read_table(path).equals(rows):
                return
        except (pa.ArrowException, OSError):
            continue
    raise AssertionError("every bit matters")


def replace_value(path: Path, row: int, column: str, value: Any) -> None:
    """Writes one value of a row (from 1) anew; column: dotted, the first item of a list."""

    def change(table: pa.Table) -> pa.Table:
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

    rewrite(path, change)


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def put_json(path: Path, values: Mapping[str, Any]) -> None:
    """Adds names to a JSON file's object."""
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | dict(values)), encoding="utf-8")


def image_bytes(kind: str) -> bytes:
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12), np.uint8))
    pixels.save(file := io.BytesIO(), kind)
    return file.getvalue()


def plant(path: Path, text: str) -> None:
    """Writes a text into the card, or into a JSON file."""
    if path.suffix == ".md":
        append(path, f"\nIt says: {text}\n")
    else:
        put_json(path, {"description": ["harmless", text]})
