"""Entry point of `medfaith` and `python -m medfaith`; light imports let Ctrl-C end in one line at any moment."""

import _thread
import os
import signal
import sys
import time
import weakref
from typing import NoReturn


def main() -> int:
    """Run the command and return its exit status."""
    interrupts = _Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # or it is ignored, as of jobs in the background
        signal.default_int_handler = interrupts.interrupt  # asyncio asks for it, and only then ends in order itself
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _report_unraisable
    try:
        try:
            if sys.stderr is not None and not sys.stderr.isatty():  # tqdm reads these: bars of libraries in a log file
                os.environ.setdefault("TQDM_DELAY", "60")
                os.environ.setdefault("TQDM_MININTERVAL", "60")
            from medfaith.cli import main as command

            status = command()
            if interrupts.came:
                raise KeyboardInterrupt
        finally:  # from here on Ctrl-C ends Python, which would show tracebacks of it
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:  # of the imports, or swallowed; a running command says so itself (loaders.errors)
        print("medfaith: interrupted", file=sys.stderr)
        status = 130
    return status


class _Interrupts:
    """The handler of Ctrl-C: it raises KeyboardInterrupt, and raises it again if other code has swallowed it.

    `datasets` swallows it by `except:` while it hashes a transform, and Python does in `__del__`: with Python's own
    handler, 3 of 59 interruptions of an eval let it run to its end.
    """

    def __init__(self) -> None:
        self.came = False

    def interrupt(self, *_: object) -> NoReturn:
        raised = _Interrupt()
        self._last = weakref.ref(raised)
        if not self.came:
            self.came = True
            _thread.start_new_thread(self._repeat_if_swallowed, ())
        try:
            raise raised
        finally:
            del raised  # no reference may keep it alive after it was caught

    def _repeat_if_swallowed(self) -> None:
        while True:
            time.sleep(0.1)
            if self._last() is None and signal.getsignal(signal.SIGINT) == self.interrupt:  # `main` has not ended
                if os.name == "posix":
                    os.kill(os.getpid(), signal.SIGINT)  # wakes a main thread that waits for others, too
                else:  # elsewhere `os.kill` would end the process at once
                    _thread.interrupt_main()


class _Interrupt(KeyboardInterrupt):
    """A KeyboardInterrupt that a weak reference can point to, which tells when nobody holds it any more."""


def _report_unraisable(swallowed: "sys.UnraisableHookArgs") -> None:
    if not issubclass(swallowed.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(swallowed)


if __name__ == "__main__":
    raise SystemExit(main())
