"""The command in processes that end at a chosen moment, by a signal that they send to themselves.

`python -m tests.interrupting` imports the command once, and forks a child for each order that it reads, so that a run
costs what the job costs. A moment is the number of an event that Python's audit hooks see: of those that change files,
databases or connections ("writes"), or of all ("all"). The signal comes just before what the event tells of.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

WRITES = ("os.", "shutil.", "sqlite3.", "socket.", "fcntl.", "tempfile.", "subprocess.", "ctypes.dlopen")
READS = {"os.listdir", "os.scandir", "os.getxattr", "os.listxattr", "os.walk", "os.fwalk", "socket.__new__"}
# A fork copies one thread only: libraries start no others, pyarrow none for its memory.
ALONE = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
LONGEST = 600  # seconds, after which a run counts as hanging


class Ended(NamedTuple):
    """How a run ended. status: negative of a signal; events: how many of each kind there were, if it came so far;
    alive: processes of it that live on.
    """

    status: int
    output: str
    warned: str
    events: Mapping[str, int]
    alive: Sequence[str]


class Commands:
    """Runs of the command, one after the other, each in a child of one process with these variables."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.interrupting"],
            env={**environment, **ALONE},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(
        self, arguments: Sequence[str], tmp: Path, *,
        at: tuple[str, int] | None = None, by: signal.Signals | None = None,
        settings: Sequence[tuple[str, str, Any]] = (),
    ) -> Ended:  # fmt: skip
        """`medfaith WORDS`, which gets the signal `by` at the moment `at`, (kind, number of the event from 1).

        tmp: its folder for temporary files. settings: module, name and value of what is set before.
        """
        output_paths = [self._folder / name for name in ("out", "err", "events")]
        for path in output_paths:
            path.write_text("{}" if path.name == "events" else "")
        order = {
            "words": [*arguments],
            "tmp": str(tmp),
            "at": at,
            "by": by,
            "set": [*settings],
            "told": [*map(str, output_paths)],
        }
        assert self._process.stdin, self._process.stdout
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        output, warned, events = (path.read_text(encoding="utf-8", errors="replace") for path in output_paths)
        return Ended(ended["status"], output, warned, json.loads(events), ended["left"])


def _serve() -> dict[str, Any]:
    """Forks for each order; returns it in the child."""
    module_names: list[str] = []
    for line in sys.stdin:
        order = json.loads(line)
        for name in module_names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()
        threads = [*Path("/proc/self/task").iterdir()]
        assert len(threads) == 1, "a fork copies one thread only"
        child = os.fork()
        if not child:
            return order
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        module_names = json.loads(Path(order["told"][2]).read_text()).pop("modules", [])
        print(json.dumps({"status": status, "left": _list_alive(child)}), flush=True)
    raise SystemExit


def _list_alive(session: int) -> list[str]:
    """The processes of a session."""
    process_names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, fields = path.read_text().rpartition(")")
            state, _, _, process_session = fields.split()[:4]
            if int(process_session) == session and state != "Z":
                process_names.append(name)
    return process_names


def _count(at: tuple[str, int] | None, by: int) -> dict[str, Any]:
    """Counts events from here on, and sends the signal to all processes of this one's group, as a terminal does."""
    counts = {"writes": itertools.count(1), "all": itertools.count(1)}
    kind, number = at or ("", 0)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        numbers = {"all": next(counts["all"])}
        if (event.startswith(WRITES) and event not in READS) or (event == "open" and _is_write(arguments[2])):
            numbers["writes"] = next(counts["writes"])
        if numbers.get(kind) == number:
            os.killpg(0, by)

    sys.addaudithook(hook)
    return counts


def _is_write(flags: Any) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _run(order: Mapping[str, Any]) -> None:
    """The command, in the child."""
    os.setsid()
    signal.alarm(LONGEST)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate((os.devnull, *order["told"][:2])):
        os.dup2(os.open(name, os.O_RDWR), number)
    os.environ["TMPDIR"] = tempfile.tempdir = order["tmp"]
    for module, name, value in order["set"]:
        setattr(importlib.import_module(module), name, value)
    before = {*sys.modules}
    sys.argv = ["medfaith", *order["words"]]
    from medfaith.__main__ import main

    counts = _count(order["at"], order["by"])
    status = main()
    events = {name: next(count) - 1 for name, count in counts.items()}
    report = {**events, "modules": sorted({*sys.modules} - before)}
    Path(order["told"][2]).write_text(json.dumps(report), encoding="utf-8")
    raise SystemExit(status)


if __name__ == "__main__":
    import medfaith.cli  # noqa: F401

    _run(_serve())
