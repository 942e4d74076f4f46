"""Progress lines in a log file: their times and their texts, with the test's own clock."""

from __future__ import annotations

import errno
import io
import re
import subprocess
import sys

import pytest
import tqdm.std
from hypothesis import given
from hypothesis import strategies as st

from medfaith.loaders.progress import EVERY, Progress, say


class Clock:
    """Clock of tqdm that changes only when a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(tqdm.std, "time", lambda: self.seconds)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def get_lines(steps, **options) -> list[str]:
    """Return the progress lines for steps of (seconds, items)."""
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", written)
        clock = Clock(patch)
        with Progress(**{"title": "reading reports"} | options) as bar:
            for seconds, n in steps:
                clock.seconds += seconds
                bar.update(n)
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


def test_items_are_handed_on_and_counted(clock, capsys):
    for n in Progress(range(4), title="reading"):
        clock.seconds += 30 * (n + 1)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 2 of 4 (50%), 1.3/min, 2 min left",
        "reading: 3 of 4 (75%), 56/h, 1 min left",
        "reading: 4 of 4 (100%), 42/h, less than 1 min left",
    ]


def test_a_line_said_and_a_loss_bring_no_further_lines(clock, capsys):
    with Progress(title="training", total=300) as bar:
        for n in range(70):
            clock.seconds += 1
            bar.update()
            bar.set_postfix(loss=0.5)  # requests an immediate update
            if n == 65:
                say("medfaith: a line")
    assert capsys.readouterr().err.splitlines() == [
        "training: 60 of 300 (20%), 1/s, 4 min left, loss=0.5",
        "medfaith: a line",
    ]


def test_on_a_terminal_there_is_a_bar_that_leaves_nothing(clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(title="reading", total=3) as bar:
        clock.seconds += 60
        bar.update(2)
        say("a line")
        assert re.search(r"\rreading: .*2/3 \[01:00<00:30, ", terminal.getvalue())
    assert "\ra line\n" in terminal.getvalue()
    assert "\n" not in terminal.getvalue().partition("a line\n")[2]


LIBRARY = """
import sys, time
def job():
    import tqdm.auto
    for _ in tqdm.auto.tqdm(range(3), desc="a library", mininterval=0):
        pass
import medfaith.task_list
medfaith.task_list.text = job
sys.argv = ["medfaith", "tasks", "--list"]
from medfaith.__main__ import main
raise SystemExit(main())
"""


@pytest.mark.parametrize(("delay", "is_shown"), [(None, False), ("0", True)])
def test_bars_of_libraries_are_silent_for_a_minute_in_a_log(delay, is_shown, monkeypatch):
    """A user who sets tqdm's own variable has the last word."""
    monkeypatch.delenv("TQDM_DELAY", raising=False)
    if delay is not None:
        monkeypatch.setenv("TQDM_DELAY", delay)
    ended = subprocess.run([sys.executable, "-c", LIBRARY], check=True, capture_output=True, text=True)
    assert ("a library" in ended.stderr) == is_shown


def test_a_log_that_cannot_be_written_ends_no_work(clock, monkeypatch):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    with Progress(title="reading") as bar:
        clock.seconds += 60
        assert bar.update()
