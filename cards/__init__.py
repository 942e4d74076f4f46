"""Dataset cards, the committed references that builds are verified against, and the papers' published figures."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def body(repository: str) -> str:
    """Body of the README.md of one repository (the builder writes the YAML header above it)."""
    return (FOLDER / f"{repository}.md").read_text(encoding="utf-8")


def references() -> list[dict[str, Any]]:
    """Committed build records, in the form of build.json."""
    return [json.loads(p.read_text(encoding="utf-8")) for p in sorted((FOLDER / "reference").glob("*.json"))]


def published(benchmark: str) -> dict[str, dict[str, Any]]:
    """The paper's counts by `config/split`: rows, studies, finding counts, where it prints them, and a note."""
    return tomllib.loads((FOLDER / "published" / f"{benchmark}.toml").read_text(encoding="utf-8"))
