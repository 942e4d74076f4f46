"""Cases of a parametrised test that only the full run has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def keep_quick(cases: Iterable[Any], is_quick: Callable[[Any], bool]) -> list[Any]:
    """Mark the cases that are not quick `full`.

    Args:
        cases: One value each, or a tuple of the values of several arguments.
        is_quick: Whether the regular run has a case.

    Returns:
        All cases in their order, for `pytest.mark.parametrize`.
    """
    return [case if is_quick(case) else _mark_full(case) for case in cases]


def _mark_full(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.full)
