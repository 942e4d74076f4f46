"""The selection of training rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from medfaith.loaders.errors import InputError

_T = TypeVar("_T")


def sample_evenly(items: Sequence[_T], limit: int | None) -> list[_T]:
    """Select items at equal steps. Each kind of item keeps its share.

    Args:
        items: The items.
        limit: The largest number of items; None for all.

    Returns:
        The selected items, in their order.
    """
    n = min(limit or len(items), len(items))
    return [items[int(step * len(items) / n)] for step in range(n)]


def check_roots(sources: Iterable[str], roots: Mapping[str, Any]) -> None:
    """Require a root for each source.

    Args:
        sources: The ids of the sources.
        roots: Source id -> folder of the images.

    Raises:
        InputError: A source has no root.
    """
    for name in sources:
        if name not in roots:
            action = f"name the folder of its images: --root {name}=PATH"
            raise InputError("--root", f"does not name {name}", action=action)
