"""`medfaith` and `python -m medfaith`. It imports nothing heavy, so that Ctrl-C is one line from the first moment."""

import signal
import sys


def main() -> int:
    """The command's exit status."""
    try:
        from medfaith.cli import main as command

        status = command()
    except KeyboardInterrupt:  # while modules are imported; a running command says so itself (loaders.errors)
        print("medfaith: interrupted", file=sys.stderr)
        status = 130
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on Ctrl-C ends Python, which would show tracebacks of it
    return status


if __name__ == "__main__":
    raise SystemExit(main())
