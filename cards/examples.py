"""Example rows for cards: of the synthetic sources where rows stay with those who hold the source.

`python -m medfaith.cards.examples` writes them anew to cards/examples/<repository>.json: config -> one row.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ..builders.registry import BENCHMARKS
from ..builders.write import RECORD
from ..loaders import phantom
from . import FOLDER, policy, publication

EXAMPLES = FOLDER / "examples"
IDENTIFIERS = frozenset({"id", "original_id", "study_id", "patient_id"})
ELLIPSIS = "..."
MASK = 24  # characters that are shown of a mask's counts
QUOTED = 8  # words in a row of a report, be it a synthetic one, that the guard refuses


def examples(name: str) -> dict[str, Any]:
    """The committed rows of a repository, by config."""
    return json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))


def of_build(folder: Path) -> dict[str, Any]:
    """One row of each config of a build, without identifiers.

    The first; where rows hold a sentence the first with a short one, if possible about a side, which swaps change.
    """
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for config, split in (key.split("/") for key in record["splits"]):
        if config not in found:
            rows = pq.read_table(next(iter(sorted((folder / config).glob(f"{split}-*.parquet"))))).to_pylist()
            found[config] = shown(min(rows, key=_rank), IDENTIFIERS)
    return found


def _rank(row: Mapping[str, Any]) -> tuple[bool, bool]:
    words = re.findall(r"[a-z0-9]+", row.get("sentence", "").lower())
    return len(words) >= QUOTED, not {"left", "right"} & set(words)


def shown(row: Mapping[str, Any], hidden: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A row as a card shows it: masks cut off, `...` in place of columns in `hidden`, and of image keys with them.

    >>> shown({"id": "a1", "image": {"key": "a.png", "view": "PA"}}, IDENTIFIERS)
    {'id': '...', 'image': {'key': '...', 'view': 'PA'}}
    """
    return {name: ELLIPSIS if name in hidden else _shown(name, value, hidden) for name, value in row.items()}


def _shown(name: str, value: Any, hidden: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _shown(key, one, hidden) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(name, one, hidden) for one in value]
    if isinstance(value, str) and name == "key" and hidden:
        return ELLIPSIS
    if isinstance(value, str) and name == "counts" and len(value) > MASK:
        return value[:MASK] + ELLIPSIS
    return value


def pretty(row: Mapping[str, Any], indent: str = "") -> str:
    """A row as JSON, a line a column.

    >>> print(pretty({"id": "a", "options": ["x", "y"]}))
    {
      "id": "a",
      "options": ["x", "y"]
    }
    """
    columns = (f"{indent}  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in row.items())
    return "{\n" + ",\n".join(columns) + f"\n{indent}}}"


def text(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """As it is committed."""
    configs = (f"  {json.dumps(config)}: {pretty(row, '  ')}" for config, row in rows.items())
    return "{\n" + ",\n".join(configs) + "\n}\n"


def main(out: Path = EXAMPLES) -> list[Path]:
    """Builds everything from synthetic sources and writes the examples of what is published as a recipe."""
    out.mkdir(exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as temporary:
        roots = phantom.write(Path(temporary) / "phantom")
        for benchmark in BENCHMARKS.values():
            for folder in benchmark.build(roots, Path(temporary) / "data"):
                if publication.read(folder).policy == policy.RECIPE:
                    written.append(out / f"{folder.name}.json")
                    written[-1].write_text(text(of_build(folder)), encoding="utf-8")
    return written


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\n" for path in main()))
