"""Ctrl-C prints one line and exits with status 130 at any moment, including imports."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from tests.support.tiers import keep_quick

# A module marks the moment: the signal arrives while the command imports it, at any speed of the machine.
AT = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore the signal
sys.meta_path.insert(0, Interrupting())
sys.argv = ["medfaith", "tasks", "--list"]
from medfaith.__main__ import main
raise SystemExit(main())
"""


# Each moment is swallowed: by `except:`, by Python in `__del__`, and where the command has no more to do. The last one
# is asyncio's, which cancels its running task.
SWALLOWED = """
import asyncio, os, signal, threading
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
def bare():
    try:
        interrupt()
    except:
        print("swallowed")
class Deleted:
    def __del__(self):
        interrupt()
async def loop():
    try:
        interrupt()
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled")
        raise
def work():
    threading.Event().wait(60)
    print("done")
import medfaith.task_list
medfaith.task_list.text = lambda: {moment}
signal.signal(signal.SIGINT, signal.default_int_handler)
import sys
sys.argv = ["medfaith", "tasks", "--list"]
from medfaith.__main__ import main
raise SystemExit(main())
"""


@pytest.mark.parametrize(
    ("moment", "output"),
    keep_quick(
        [
            ("bare() or work()", "swallowed\n"),
            ("Deleted() and work()", ""),
            ("bare()", "swallowed\nNone\n"),
            ("asyncio.run(loop())", "cancelled\n"),
        ],
        lambda case: case[0] not in ("bare()", "asyncio.run(loop())"),
    ),
)
def test_an_interrupt_that_is_swallowed_ends_the_command_all_the_same(moment, output):
    ended = subprocess.run(
        [sys.executable, "-c", SWALLOWED.format(moment=moment)], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, output, "medfaith: interrupted\n")


@pytest.mark.parametrize(
    "module",
    keep_quick(
        ["medfaith.cli", "argparse", "medfaith.loaders.sources", "medfaith.task_list"],
        lambda module: module in ("medfaith.cli", "medfaith.task_list"),  # the first and the last import
    ),
)
def test_ctrl_c_during_an_import_is_one_line(module):
    ended = subprocess.run(
        [sys.executable, "-c", AT.format(module=module)], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "medfaith: interrupted\n")


def test_the_entry_imports_nothing_of_the_house():
    code = "import sys; before = {*sys.modules}; import medfaith.__main__; print(*sorted({*sys.modules} - before))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    ours = [name for name in output.split() if name.startswith("medfaith")]
    assert ours == ["medfaith", "medfaith.__main__"]
    assert "importlib.metadata" not in output.split()


def test_the_installed_command_is_that_entry():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="medfaith")
    assert script.value == "medfaith.__main__:main"
