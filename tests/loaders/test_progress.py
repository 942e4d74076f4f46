"""Progress lines in a log file: their times and their texts, with the test's own clock."""

from __future__ import annotations

import errno
import importlib
import io
import re
import sys
import threading
from typing import Any, cast

import pytest
import tqdm
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders import progress
from medfaith.loaders.progress import EVERY, Progress, libraries_in_lines, say


@pytest.fixture(autouse=True)
def no_look(monkeypatch) -> None:
    """Disable the background thread while a test sets the clock."""
    monkeypatch.setattr(progress, "_start_refresh", lambda: None)


class Clock:
    """Clock that changes only when a test sets it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def get_lines(steps, **options) -> list[str]:
    """Return the progress lines for steps of (seconds, items)."""
    clock, before = Clock(), sys.stderr
    sys.stderr = written = io.StringIO()
    try:
        with Progress(**{"title": "reading reports", "clock": clock} | options) as bar:
            for seconds, n in steps:
                clock.seconds += seconds
                bar.update(n)
    finally:
        sys.stderr = before
    assert "\r" not in written.getvalue()
    return written.getvalue().splitlines()


@pytest.mark.parametrize(
    ("steps", "options", "lines"),
    [
        ([(60, 12_000)], {"total": 227_835}, ["reading reports: 12,000 of 227,835 (5%), 200/s, 18 min left"]),
        ([(60, 600)], {}, ["reading reports: 600, 10/s"]),
        ([(60, 600)], {"total": 0}, ["reading reports: 600, 10/s"]),
        ([(60, 3)], {"total": 2}, ["reading reports: 3, 3/min"]),
        ([(90, 1)], {"total": 3}, ["reading reports: 1 of 3 (33%), 40/h, 3 min left"]),
        ([(60, 999)], {"total": 1000}, ["reading reports: 999 of 1,000 (99%), 17/s, less than 1 min left"]),
        ([(60, 2)], {"total": 2}, ["reading reports: 2 of 2 (100%), 2/min, less than 1 min left"]),
        ([(60, 3e8)], {"unit": "B", "total": 9e8}, ["reading reports: 300MB of 900MB (33%), 5.00MB/s, 2 min left"]),
        ([(60, 60)], {"total": 1000, "done": 880}, ["reading reports: 940 of 1,000 (94%), 1/s, 1 min left"]),
        ([(60, 60)], {"title": "\x1b[31ma\né"}, [r"\x1b[31ma\n\xe9: 60, 1/s"]),
        ([(59, 100)], {"total": 100}, []),  # less than a minute has passed
        ([(1, 1)] * 59 + [(100, 0)], {}, ["reading reports: 59, 22/min"]),
        ([(60, 60)], {"quiet": True}, []),
        ([(60, 60), (-3600, 60), (60, 60)], {"total": 400}, ["reading reports: 60 of 400 (15%), 1/s, 6 min left"]),
        (
            [(20, 10)] * 7,
            {"total": 70},
            [
                "reading reports: 30 of 70 (42%), 30/min, 1 min left",
                "reading reports: 60 of 70 (85%), 30/min, less than 1 min left",
            ],
        ),
    ],
)  # fmt: skip
def test_lines(steps, options, lines):
    assert get_lines(steps, **options) == lines


@pytest.mark.parametrize(("total", "amount"), [(3, "0 of 3 (0%)"), (None, "0")])
def test_work_whose_first_item_takes_long_says_so(total, amount, monkeypatch, capsys):
    """No step updates the bar, so the background thread requests a line after LOOK seconds."""
    clock = Clock()

    class Looks:
        seconds = iter((59, 1, 60, 30))

        def wait(self, seconds: float) -> bool:
            clock.seconds += (later := next(self.seconds, 0))
            return not later

    with libraries_in_lines(clock), Progress(title="writing rows", total=total, clock=clock):
        library = tqdm.tqdm(desc="of a library", total=total)
        progress._refresh_bars(cast(Any, Looks()))
        library.close()
    output_lines = sorted(capsys.readouterr().err.splitlines())
    assert output_lines == [
        f"{title}: {amount}, {minutes} min so far" for title in ("of a library", "writing rows") for minutes in (1, 2)
    ]


def test_someone_looks(monkeypatch, capsys):
    """Every visible bar requests the background thread; a process starts it once."""
    monkeypatch.undo()
    progress._start_refresh.cache_clear()
    refreshed = threading.Event()
    monkeypatch.setattr(progress, "_refresh_bars", lambda end: refreshed.set())
    with Progress(title="reading", quiet=True):
        assert not progress._start_refresh.cache_info().currsize
    with Progress(title="reading"):
        assert refreshed.wait(20)
    progress._start_refresh.cache_clear()


def test_the_rate_follows_what_became_slower():
    """A resumed run begins with cached answers."""
    *_, last = get_lines([(60, 90_000), *[(60, 60)] * 30], total=100_000)
    assert last == "reading reports: 91,800 of 100,000 (91%), 1/s, 2 h 15 min left"


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.integers(0, 10**6)), max_size=30),
    st.none() | st.integers(0, 10**7),
    st.sampled_from(["", "B"]),
)
def test_whatever_the_clock_does_lines_are_plain_and_rare(steps, total, unit):
    lines = get_lines(steps, total=total, unit=unit)
    amount = r"[\d,.]+[kMGT]?B?"
    time = r"(less than 1 min|\d+ (min|h|days)( \d+ (min|h))?)"
    further = rf"(, {amount}/(s|min|h)(, {time} left)?|, {time} so far)"
    line_of = rf"reading reports: {amount}( of {amount} \(\d+%\))?{further}?"
    assert all(re.fullmatch(line_of, line) for line in lines)
    assert len(lines) <= sum(max(seconds, 0) for seconds, _ in steps) / EVERY


def test_items_are_handed_on_and_counted(capsys):
    clock = Clock()
    for n in Progress(range(4), title="reading", clock=clock):
        clock.seconds += 30 * (n + 1)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 2 of 4 (50%), 1.3/min, 2 min left",
        "reading: 3 of 4 (75%), 56/h, 1 min left",
        "reading: 4 of 4 (100%), 42/h, less than 1 min left",
    ]


def test_on_a_terminal_there_is_a_bar_that_leaves_nothing(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", terminal)
    with libraries_in_lines(), Progress(title="reading", total=3, clock=clock) as bar:
        clock.seconds += 60
        bar.update(2)
        say("a line")
        assert re.search(r"\rreading: .*2/3 \[01:00<00:30, ", terminal.getvalue())
    assert "\ra line\n" in terminal.getvalue()
    assert "\n" not in terminal.getvalue().partition("a line\n")[2]


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("tqdm", {}),
        ("tqdm.auto", {}),
        ("tqdm.asyncio", {}),
        ("datasets.utils", {}),
        ("huggingface_hub.utils", {"disable": None}),
        ("transformers.utils.logging", {}),
    ],
)
def test_bars_of_libraries_are_lines(capsys, module, options):
    clock, methods = Clock(), (tqdm.tqdm.__init__, tqdm.tqdm.display, tqdm.tqdm.clear)
    with libraries_in_lines(clock):
        bar = importlib.import_module(module).tqdm(total=300, desc="Running requests", **options)
        for n in range(300):
            clock.seconds += 1
            bar.update(1)
            bar.set_postfix(loss=0.5)  # requests an immediate update
            if n == 70:
                say("medfaith: a line")
        bar.close()
    assert capsys.readouterr().err.splitlines() == [
        "Running requests: 60 of 300 (20%), 1/s, 4 min left, loss=0.5",
        "medfaith: a line",
        "Running requests: 120 of 300 (40%), 1/s, 3 min left, loss=0.5",
        "Running requests: 180 of 300 (60%), 1/s, 2 min left, loss=0.5",
        "Running requests: 240 of 300 (80%), 1/s, 1 min left, loss=0.5",
        "Running requests: 300 of 300 (100%), 1/s, less than 1 min left, loss=0.5",
    ]
    assert methods == (tqdm.tqdm.__init__, tqdm.tqdm.display, tqdm.tqdm.clear)


def test_what_a_library_silenced_stays_silent(capsys):
    clock = Clock()
    with libraries_in_lines(clock):
        for _ in tqdm.tqdm(range(3), disable=True):
            clock.seconds += 60
    assert capsys.readouterr().err == ""


def test_a_log_that_cannot_be_written_ends_no_work(monkeypatch):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    clock = Clock()
    with Progress(title="reading", clock=clock) as bar:
        clock.seconds += 60
        assert bar.update()


def test_a_bar_of_before_ends_in_silence_where_its_file_is_closed():
    """Garbage collection of a bar must not print a traceback into unrelated output."""
    file = io.StringIO()
    bar = tqdm.tqdm(total=2, file=file)
    file.close()
    with libraries_in_lines():
        bar.close()
