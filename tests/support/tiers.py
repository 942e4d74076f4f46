"""Cases and sizes of tests that only the full run has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

_T = TypeVar("_T")
_full_run = False


def set_tier(config: pytest.Config) -> bool:
    """Remember whether the run has the tests that are marked full; conftest calls it before any test is imported.

    Args:
        config: The configuration of the run.

    Returns:
        Whether it has them.
    """
    global _full_run  # noqa: PLW0603 (one run in a process)
    _full_run = config.option.markexpr != "not full"
    return _full_run


def is_full_run() -> bool:
    """Whether the run has the tests that are marked full."""
    return _full_run


def choose_size(regular: _T, full: _T) -> _T:
    """Return the size of a test's data for the current run: the path through the code is the same.

    Args:
        regular: The size in the regular run.
        full: The size in the full run.

    Returns:
        One of the two.
    """
    return full if _full_run else regular


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
