"""Progress of long work: a bar on a terminal; elsewhere, such as in a log file, one plain line a minute on stderr.

tqdm counts, draws bars and decides when a line is due. Its bars are not for log files: they end in no line break.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tqdm import tqdm

EVERY = 60.0  # seconds from the beginning to the first line, and from line to line


class Progress(tqdm):
    """Show how many of `items` are done; remove the bar when it is closed.

    If stderr is not a terminal, work that ends within a minute shows nothing.

    Args:
        items: The iterable to count; None if the caller counts by `update`.
        title: The work, such as "reading reports".
        total: The number of items; by default the length of `items`, if they have one.
        unit: The unit that is counted; "B" means bytes.
        done: The number of items done before this bar begins.
        quiet: Show nothing.
    """

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        *,
        title: str,
        total: int | None = None,
        unit: str = "",
        done: int = 0,
        quiet: bool = False,
    ) -> None:
        options: dict[str, Any] = {"unit": "B", "unit_scale": True} if unit == "B" else {"unit": f" {unit or 'done'}"}
        self._writes_lines = sys.stderr is not None and not sys.stderr.isatty()
        if self._writes_lines:  # a slow item may follow quick ones: miniters=1 looks at the clock after each item
            options |= {"file": io.StringIO(), "mininterval": EVERY, "miniters": 1}  # no one reads bars in this file
        super().__init__(items, desc=title, total=total, initial=done, leave=False, disable=quiet, **options)

    def update(self, n: float | None = 1) -> bool | None:
        """Count items, and show the progress if it is time.

        Args:
            n: The number of items done since the last call.

        Returns:
            True if the progress was shown.
        """
        is_due = super().update(n)
        if is_due and self._writes_lines:
            with suppress(OSError):  # a full disk, or a reader that has ended, must not end the work
                print(_format_line(self.format_dict), file=sys.stderr, flush=True)
        return is_due


def say(line: str) -> None:
    """Write a line to stderr, between the bars of a terminal.

    Args:
        line: The text, without a line break.
    """
    tqdm.write(line, file=sys.stderr)


def _format_line(state: Mapping[str, Any]) -> str:
    """Format a line such as "reading reports: 12,000 of 227,835 (5%), 190/s, 18 min left", in printable ASCII."""
    n, total, rate = state["n"], state["total"], state["rate"] or 0
    amount = _format_bytes if state["unit_scale"] else "{:,.0f}".format
    texts = [amount(n)]
    if total and n <= total:
        texts = [f"{amount(n)} of {amount(total)} ({int(100 * n / total)}%)"]
    if rate > 0:
        texts.append(_format_rate(rate, amount))
        if total and n <= total:
            texts.append(f"{_format_duration((total - n) / rate)} left")
    if state["postfix"]:
        texts.append(state["postfix"])
    title = state["prefix"].removesuffix(": ")
    return f"{title}: {', '.join(texts)}".encode("unicode_escape").decode("ascii")


def _format_bytes(n: float) -> str:
    return tqdm.format_sizeof(n, "B")


def _format_rate(per_second: float, amount: Callable[[float], str]) -> str:
    """Format a rate per second, minute or hour: the first unit that gives at least one.

    >>> [_format_rate(n, "{:,.0f}".format) for n in (1190.2, 12, 1.25, 0.5, 0.01)]
    ['1,190/s', '12/s', '1.2/s', '30/min', '36/h']
    """
    units = (("s", 1), ("min", 60), ("h", 3600))
    unit, seconds = next((option for option in units if per_second * option[1] >= 1), units[-1])
    n = per_second * seconds
    return f"{amount(n) if n >= 10 or amount is _format_bytes else f'{n:.2g}'}/{unit}"


def _format_duration(seconds: float) -> str:
    """Format a duration in its two largest units.

    >>> [_format_duration(n) for n in (20, 1080, 7200, 12_000, 200_000)]
    ['less than 1 min', '18 min', '2 h', '3 h 20 min', '2 days 7 h']
    """
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else "less than 1 min"
    hours, minutes = divmod(minutes, 60)
    major, minor = (f"{hours} h", f"{minutes} min") if hours < 48 else (f"{hours // 24} days", f"{hours % 24} h")
    return major if minor.startswith("0 ") else f"{major} {minor}"
