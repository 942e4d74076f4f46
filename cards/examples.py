"""Example rows for cards: from synthetic sources if the rows stay with those who have the source.

`python -m medfaith.cards.examples` writes them to cards/examples/<repository>.json: config -> one row.
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
MASK = 24  # number of characters shown from a mask's counts
QUOTED = 8  # consecutive words of a report that the guard refuses, even for a synthetic report


def load_examples(name: str) -> dict[str, Any]:
    """Load the committed rows of a repository.

    Args:
        name: The name of the repository.

    Returns:
        The rows by config.
    """
    return json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))


def select_examples(folder: Path) -> dict[str, Any]:
    """Select an example row of each config of a build, and hide its identifiers.

    The row is the first one in the config's first split with a sentence of fewer than QUOTED words that names left or
    right, so that the example shows what a swap of sides changes. Otherwise it is the first one with a short sentence,
    or, if the rows have no sentences, the first row.

    Args:
        folder: The folder of the build.

    Returns:
        The rows by config.
    """
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    rows_by_config: dict[str, Any] = {}
    for config, split in (key.split("/") for key in record["splits"]):
        if config not in rows_by_config:
            rows = pq.read_table(next(iter(sorted((folder / config).glob(f"{split}-*.parquet"))))).to_pylist()
            rows_by_config[config] = hide_identifiers(min(rows, key=_compute_rank), IDENTIFIERS)
    return rows_by_config


def _compute_rank(row: Mapping[str, Any]) -> tuple[bool, bool]:
    tokens = re.findall(r"[a-z0-9]+", row.get("sentence", "").lower())
    return len(tokens) >= QUOTED, not {"left", "right"} & set(tokens)


def hide_identifiers(row: Mapping[str, Any], hidden: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Shorten masks, and replace hidden columns by `...`; image keys are hidden, too, if any column is.

    >>> hide_identifiers({"id": "a1", "image": {"key": "a.png", "view": "PA"}}, IDENTIFIERS)
    {'id': '...', 'image': {'key': '...', 'view': 'PA'}}

    Args:
        row: The row.
        hidden: The names of the columns to hide.

    Returns:
        The row for a card.
    """
    return {name: ELLIPSIS if name in hidden else _hide_value(name, value, hidden) for name, value in row.items()}


def _hide_value(name: str, value: Any, hidden: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _hide_value(key, item, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_hide_value(name, item, hidden) for item in value]
    if isinstance(value, str) and name == "key" and hidden:
        return ELLIPSIS
    if isinstance(value, str) and name == "counts" and len(value) > MASK:
        return value[:MASK] + ELLIPSIS
    return value


def format_row(row: Mapping[str, Any], indent: str = "") -> str:
    """Format a row as JSON, a line a column.

    >>> print(format_row({"id": "a", "options": ["x", "y"]}))
    {
      "id": "a",
      "options": ["x", "y"]
    }

    Args:
        row: The row.
        indent: The blanks before each line.

    Returns:
        The JSON text.
    """
    columns = (f"{indent}  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in row.items())
    return "{\n" + ",\n".join(columns) + f"\n{indent}}}"


def format_examples(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the rows of all configs, like in the committed file.

    Args:
        rows: The rows by config.

    Returns:
        The JSON text.
    """
    configs = (f"  {json.dumps(config)}: {format_row(row, '  ')}" for config, row in rows.items())
    return "{\n" + ",\n".join(configs) + "\n}\n"


def main(out: Path = EXAMPLES) -> list[Path]:
    """Build all benchmarks from synthetic sources, and write the examples for those published as recipes.

    Args:
        out: The folder of the examples.

    Returns:
        The files that were written.
    """
    out.mkdir(exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as temporary:
        roots = phantom.write(Path(temporary) / "phantom")
        for benchmark in BENCHMARKS.values():
            for folder in benchmark.build(roots, Path(temporary) / "data"):
                if publication.read(folder).policy == policy.RECIPE:
                    written.append(out / f"{folder.name}.json")
                    written[-1].write_text(format_examples(select_examples(folder)), encoding="utf-8")
    return written


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\n" for path in main()))
