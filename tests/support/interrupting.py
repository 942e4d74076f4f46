"""Runs of the command that send themselves a signal at a chosen event.

`python -m tests.support.interrupting` imports the command once and forks a child for each order: a run costs no more
than its job. Events are those of Python's audit hooks: changes of files, databases or connections ("writes"), or all
events ("all"). The signal comes just before the event of the chosen number.
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
    """End of a run.

    Attributes:
        status: Exit status; negative for a signal.
        output: Standard output.
        warned: Standard error.
        events: Numbers of events by kind, if the run counted them.
        alive: Names of its processes that are still running.
    """

    status: int
    output: str
    warned: str
    events: Mapping[str, int]
    alive: Sequence[str]


class Commands:
    """Sequential runs of the command, each in a child of one process with this environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.interrupting"],
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
        """Run `medfaith ARGUMENTS` and send it a signal at an event.

        Args:
            arguments: Command-line arguments.
            tmp: Folder for temporary files.
            at: Kind and number (from 1) of the event.
            by: Signal to send.
            settings: Module, name and value of attributes to set before the run.
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        output, warned, events = (path.read_text(encoding="utf-8", errors="replace") for path in output_paths)
        return Ended(ended["status"], output, warned, json.loads(events), ended["left"])


def _serve() -> dict[str, Any]:
    """Fork for each order; return the order in the child."""
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
    """List the running processes of a session."""
    process_names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, fields = path.read_text().rpartition(")")
            state, _, _, process_session = fields.split()[:4]
            if int(process_session) == session and state != "Z":
                process_names.append(name)
    return process_names


def _count(at: tuple[str, int] | None, by: int) -> dict[str, Any]:
    """Count events from now on, and send the signal to the whole process group at the chosen one, like a terminal."""
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
    """Run the command in the child."""
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
