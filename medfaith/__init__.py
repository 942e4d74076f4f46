"""medfaith: audits whether medical vision-language models answer from the image.

The names in `__all__` are the Python interface (docs/python.md). Everything else may change in any release.

The rooms: `loaders` (licensed sources), `builders` (benchmarks), `evaluate_metrics`, `tasks` (for lm-eval) and `cards`.
This package itself is the front door: the `medfaith` command and these functions.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medfaith.interface import AuditVerdict, audit, build, evaluate, load_rows, open_images, report

__all__ = ["AuditVerdict", "audit", "build", "evaluate", "load_rows", "open_images", "report"]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: the command must start before it imports anything that Ctrl-C could stop."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from medfaith import interface

    return getattr(interface, name)


def __dir__() -> list[str]:
    """List the interface before its first use, too."""
    return sorted({*globals(), *__all__})
