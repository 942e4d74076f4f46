"""Which rows a training takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from medfaith.loaders.errors import InputError

_T = TypeVar("_T")


def at_steps(items: Sequence[_T], limit: int | None) -> list[_T]:
    """So many of the items, at equal steps, so that each kind has its share; None: all."""
    n = min(limit or len(items), len(items))
    return [items[int(place * len(items) / n)] for place in range(n)]


def check_roots(sources: Iterable[str], roots: Mapping[str, Any]) -> None:
    """Raises InputError for a source of images whose root is not named."""
    for name in sources:
        if name not in roots:
            action = f"name the folder of its images: --root {name}=PATH"
            raise InputError("--root", f"does not name {name}", action=action)
