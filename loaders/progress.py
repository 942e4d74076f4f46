"""Progress of long work: a bar on a terminal; elsewhere, such as in a log file, one plain line a minute on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, cast

from tqdm import tqdm

EVERY = 60.0  # seconds from the beginning to the first line, and from line to line
LOOK = 10.0  # seconds after which a bar without updates is drawn again
_begin, _draw, _erase = tqdm.__init__, tqdm.display, tqdm.clear


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
        clock: A clock in seconds that never goes back.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options: dict[str, Any] = {"unit": "B", "unit_scale": True} if unit == "B" else {"unit": f" {unit or 'done'}"}
        super().__init__(items, desc=title, total=total, initial=done, leave=False, disable=quiet, **options)
        _set_up_bar(self, clock)

    def display(self, msg: str | None = None, pos: int | None = None) -> Any:
        """Show the bar, or a line."""
        return _show_bar(self, msg, pos)

    def clear(self, *args: Any, **options: Any) -> None:
        """Remove the bar; lines stay."""
        _clear_bar(self, *args, **options)


def say(line: str) -> None:
    """Write a line to stderr, between the bars of a terminal.

    Args:
        line: The text, without a line break.
    """
    tqdm.write(line, file=sys.stderr)


@contextmanager
def libraries_in_lines(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Turn the tqdm bars of libraries (lm-eval, datasets, huggingface_hub) into such lines, too, while the block runs.

    Args:
        clock: A clock in seconds that never goes back.

    Yields:
        Nothing.
    """

    def begin(bar: Any, *args: Any, **options: Any) -> None:
        if (
            "disable" in options and options["disable"] is None
        ):  # None lets tqdm hide the bar if stderr is not a terminal
            options["disable"] = False
        _begin(bar, *args, **options)
        _set_up_bar(bar, clock)

    methods = {"__init__": begin, "display": _show_bar, "clear": _clear_bar}
    originals = {name: getattr(tqdm, name) for name in methods}
    try:
        _set_methods(methods)
        yield
    finally:
        _set_methods(originals)


def _set_methods(methods: Mapping[str, Callable[..., Any]]) -> None:
    """Set methods of tqdm, and so of every bar."""
    for name, method in methods.items():
        setattr(tqdm, name, method)


def _set_up_bar(bar: Any, clock: Callable[[], float]) -> None:
    """Give a bar the clock. A bar without a terminal becomes one of lines: tqdm counts and decides when to show one."""
    if bar.disable:
        return
    bar._time = clock  # the clock of tqdm may jump
    bar.start_t = bar.last_print_t = bar.line_time = clock()
    _start_refresh()
    if _is_terminal(bar):
        return
    bar.gui, bar.sp = True, None  # keeps tqdm from drawing, erasing or ending a line
    bar.mininterval = EVERY  # the rate is measured over this time
    bar.miniters, bar.dynamic_miniters = 1, False  # a slow item may follow quick ones


@cache
def _start_refresh() -> None:
    """Start, once a process, a thread that also redraws bars without updates: one item may take an hour."""
    threading.Thread(target=_refresh_bars, args=(threading.Event(),), name="progress", daemon=True).start()


def _refresh_bars(end: threading.Event) -> None:
    while not end.wait(LOOK):
        with tqdm.get_lock():
            bars = [bar for bar in cast(Any, tqdm)._instances if hasattr(bar, "line_time")]  # bars that have begun
        for bar in bars:
            bar.refresh()


def _is_terminal(bar: Any) -> bool:
    isatty = getattr(bar.fp, "isatty", None)
    with suppress(ValueError):  # the file is closed, but a library still has the bar
        return isatty is not None and isatty()
    return False


def _show_bar(bar: Any, msg: str | None = None, pos: int | None = None) -> Any:
    """Replace tqdm's `display`, which holds the lock."""
    if _is_terminal(bar):
        return _draw(bar, msg, pos)
    now = bar._time()
    if msg is None and hasattr(bar, "line_time") and now - bar.line_time >= EVERY:  # at most one line a minute
        bar.line_time = now
        with suppress(OSError):  # a full disk, or a reader that has ended, must not end the work
            bar.fp.write(f"{_format_line(bar)}\n")
            bar.fp.flush()
    return True


def _clear_bar(bar: Any, *args: Any, **options: Any) -> None:
    """Replace tqdm's `clear`: lines stay."""
    if _is_terminal(bar):
        _erase(bar, *args, **options)


def _format_line(bar: Any) -> str:
    """Format a line such as "reading reports: 12,000 of 227,835 (5%), 190/s, 18 min left", in printable ASCII."""
    state = bar.format_dict
    n, total, elapsed = state["n"], state["total"], state["elapsed"]
    rate = state["rate"] or (elapsed > 0 and (n - state["initial"]) / elapsed) or 0
    amount = _format_bytes if state["unit_scale"] else "{:,.0f}".format
    texts = [amount(n)]
    if total and n <= total:
        texts = [f"{amount(n)} of {amount(total)} ({int(100 * n / total)}%)"]
    if rate > 0:
        texts.append(_format_rate(rate, amount))
        if total and n <= total:
            texts.append(f"{_format_duration((total - n) / rate)} left")
    else:
        texts.append(f"{_format_duration(elapsed)} so far")
    if state["postfix"]:
        texts.append(state["postfix"])
    title = (state["prefix"] or "working").removesuffix(": ")
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
