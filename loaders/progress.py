"""How far long work is: a bar on a terminal; elsewhere, as in a log file, a plain line a minute on stderr."""

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
LOOK = 10.0  # seconds after which bars are drawn anew that nobody updates
_begin, _draw, _erase = tqdm.__init__, tqdm.display, tqdm.clear


class Progress(tqdm):
    """Shows how many of `items` are done, or what `update` is told; it ends as it is closed, and leaves no trace.

    Where stderr is no terminal, work that ends within a minute shows nothing.

    Args:
        items: what is iterated over; None: `update` counts.
        title: what is done, as in "reading reports". total: None is the length of `items`, if they have one.
        unit: what is counted; "B" are bytes. done: how many are done before this begins. quiet: show nothing.
        clock: seconds from any beginning, which never goes back.
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
        named: dict[str, Any] = {"unit": "B", "unit_scale": True} if unit == "B" else {"unit": f" {unit or 'done'}"}
        super().__init__(items, desc=title, total=total, initial=done, leave=False, disable=quiet, **named)
        _prepare(self, clock)

    def display(self, msg: str | None = None, pos: int | None = None) -> Any:
        return _show(self, msg, pos)

    def clear(self, *how: Any, **named: Any) -> None:
        _clear(self, *how, **named)


def say(line: str) -> None:
    """Writes a line to stderr, between the bars of a terminal."""
    tqdm.write(line, file=sys.stderr)


@contextmanager
def libraries_in_lines(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Within it the bars of libraries (lm-eval, datasets, huggingface_hub), which are tqdm's, are such lines, too."""

    def begin(bar: Any, *given: Any, **named: Any) -> None:
        if "disable" in named and named["disable"] is None:  # tqdm's word for none where there is no terminal
            named["disable"] = False
        _begin(bar, *given, **named)
        _prepare(bar, clock)

    own = {"__init__": begin, "display": _show, "clear": _clear}
    before = {name: getattr(tqdm, name) for name in own}
    try:
        _set(own)
        yield
    finally:
        _set(before)


def _set(methods: Mapping[str, Callable[..., Any]]) -> None:
    """Of every bar of tqdm."""
    for name, method in methods.items():
        setattr(tqdm, name, method)


def _prepare(bar: Any, clock: Callable[[], float]) -> None:
    """Gives a bar the clock. One that is on no terminal becomes one of lines: tqdm counts, and says when it is time."""
    if bar.disable:
        return
    bar._time = clock  # tqdm's own may jump
    bar.start_t = bar.last_print_t = bar.said = clock()
    _watch()
    if _is_terminal(bar):
        return
    bar.gui, bar.sp = True, None  # tqdm draws, erases and ends no line of its own
    bar.mininterval = EVERY  # over which the rate is measured
    bar.miniters, bar.dynamic_miniters = 1, False  # after quick items a slow one may come


@cache
def _watch() -> None:
    """Begins, once a process, to draw also bars that stand still: one item may take an hour."""
    threading.Thread(target=_look, args=(threading.Event(),), name="progress", daemon=True).start()


def _look(end: threading.Event) -> None:
    while not end.wait(LOOK):
        with tqdm.get_lock():
            bars = [bar for bar in cast(Any, tqdm)._instances if hasattr(bar, "said")]  # those that have begun
        for bar in bars:
            bar.refresh()


def _is_terminal(bar: Any) -> bool:
    isatty = getattr(bar.fp, "isatty", None)
    with suppress(ValueError):  # the file is closed, and the bar of a library outlived it
        return isatty is not None and isatty()
    return False


def _show(bar: Any, msg: str | None = None, pos: int | None = None) -> Any:
    """In place of tqdm's `display`, which holds the lock."""
    if _is_terminal(bar):
        return _draw(bar, msg, pos)
    now = bar._time()
    if msg is None and hasattr(bar, "said") and now - bar.said >= EVERY:  # whoever asks for it, and however often
        bar.said = now
        with suppress(OSError):  # a full disk, or a reader that is gone, must not end the work
            bar.fp.write(f"{_line(bar)}\n")
            bar.fp.flush()
    return True


def _clear(bar: Any, *how: Any, **named: Any) -> None:
    """In place of tqdm's `clear`: lines stay."""
    if _is_terminal(bar):
        _erase(bar, *how, **named)


def _line(bar: Any) -> str:
    """As in "reading reports: 12,000 of 227,835 (5%), 190/s, 18 min left", of printable ASCII."""
    told = bar.format_dict
    n, total, elapsed = told["n"], told["total"], told["elapsed"]
    rate = told["rate"] or (elapsed > 0 and (n - told["initial"]) / elapsed) or 0
    amount = _bytes if told["unit_scale"] else "{:,.0f}".format
    parts = [amount(n)]
    if total and n <= total:
        parts = [f"{amount(n)} of {amount(total)} ({int(100 * n / total)}%)"]
    if rate > 0:
        parts.append(_rate(rate, amount))
        if total and n <= total:
            parts.append(f"{_duration((total - n) / rate)} left")
    else:
        parts.append(f"{_duration(elapsed)} so far")
    if told["postfix"]:
        parts.append(told["postfix"])
    title = (told["prefix"] or "working").removesuffix(": ")
    return f"{title}: {', '.join(parts)}".encode("unicode_escape").decode("ascii")


def _bytes(n: float) -> str:
    return tqdm.format_sizeof(n, "B")


def _rate(a_second: float, amount: Callable[[float], str]) -> str:
    """Per second, minute or hour, whichever makes it one at least.

    >>> [_rate(n, "{:,.0f}".format) for n in (1190.2, 12, 1.25, 0.5, 0.01)]
    ['1,190/s', '12/s', '1.2/s', '30/min', '36/h']
    """
    units = (("s", 1), ("min", 60), ("h", 3600))
    unit, seconds = next((one for one in units if a_second * one[1] >= 1), units[-1])
    n = a_second * seconds
    return f"{amount(n) if n >= 10 or amount is _bytes else f'{n:.2g}'}/{unit}"


def _duration(seconds: float) -> str:
    """
    >>> [_duration(n) for n in (20, 1080, 7200, 12_000, 200_000)]
    ['less than 1 min', '18 min', '2 h', '3 h 20 min', '2 days 7 h']
    """
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min" if minutes else "less than 1 min"
    hours, minutes = divmod(minutes, 60)
    whole, rest = (f"{hours} h", f"{minutes} min") if hours < 48 else (f"{hours // 24} days", f"{hours % 24} h")
    return whole if rest.startswith("0 ") else f"{whole} {rest}"
