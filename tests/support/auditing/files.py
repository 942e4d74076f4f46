"""The files of an audit, read for comparison."""

from __future__ import annotations

from pathlib import Path


def read_tables(out: Path) -> dict[str, str]:
    """Read all tables of an audit, its words and its rows, by the name of the file."""
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted(out.iterdir()) if path.suffix in {".csv", ".md"}
    }
