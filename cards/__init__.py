"""Dataset cards, the committed references that builds are verified against, and the papers' published figures."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def read_body(repository: str) -> str:
    """Read the body of a repository's README.md; the builder writes the YAML header above it.

    Args:
        repository: The name of the repository.

    Returns:
        The Markdown.
    """
    return (FOLDER / f"{repository}.md").read_text(encoding="utf-8")


def read_references() -> list[dict[str, Any]]:
    """Read the committed build records.

    Returns:
        The records, in the form of build.json.
    """
    return [json.loads(p.read_text(encoding="utf-8")) for p in sorted((FOLDER / "reference").glob("*.json"))]


def read_published(benchmark: str) -> dict[str, dict[str, Any]]:
    """Read the figures that a benchmark's paper prints.

    Args:
        benchmark: The name of the benchmark.

    Returns:
        The figures by `config/split`: rows, studies, counts of findings if printed, and a note.
    """
    return tomllib.loads((FOLDER / "published" / f"{benchmark}.toml").read_text(encoding="utf-8"))
