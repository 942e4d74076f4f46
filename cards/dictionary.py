"""The data dictionary: the meaning of each column of the rows, from cards/columns.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import datasets

from . import FOLDER
from .composition import format_table


@cache
def _load_meanings() -> dict[str, dict[str, str]]:
    return tomllib.loads((FOLDER / "columns.toml").read_text(encoding="utf-8"))


def get_meaning(benchmark: str, path: str) -> str:
    """Return the meaning of a column of a benchmark, or of a field by its dotted path.

    Args:
        benchmark: The name of the benchmark.
        path: The column, or the dotted path of a field.

    Returns:
        The description.

    Raises:
        KeyError: columns.toml has no description.
    """
    meanings = _load_meanings()
    return meanings[benchmark].get(path) or meanings["all"][path]


def iterate_paths(features: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Iterate over the columns and the fields of structs.

    Args:
        features: The features of the rows.
        prefix: The dotted path before the names.

    Yields:
        Dotted path and type.
    """
    for name, feature in features.items():
        inner, path = feature.feature if isinstance(feature, datasets.List) else feature, f"{prefix}{name}"
        kind = "struct" if isinstance(inner, Mapping) else inner.dtype
        yield path, f"list of {kind}" if inner is not feature else kind
        if isinstance(inner, Mapping):
            yield from iterate_paths(inner, f"{path}.")


def format_dictionary(benchmark: str, built: Mapping[str, datasets.Features]) -> str:
    """Format a table for each form of rows, with its configs.

    Args:
        benchmark: The name of the benchmark.
        built: Config -> features.

    Returns:
        Markdown.
    """
    forms: dict[tuple[str, ...], list[str]] = {}
    for config, features in built.items():
        forms.setdefault(tuple(path for path, _ in iterate_paths(features)), []).append(config)
    blocks = []
    for configs in forms.values():
        rows = [[f"`{path}`", kind, get_meaning(benchmark, path)] for path, kind in iterate_paths(built[configs[0]])]
        config_names = ", ".join(f"`{config}`" for config in configs)
        blocks.append(f"Rows of {config_names}:\n\n{format_table(['column', 'type', 'what it holds'], rows)}")
    return "\n\n".join(blocks)
