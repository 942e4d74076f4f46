"""`medfaith` and `python -m medfaith`. It imports nothing heavy, so that Ctrl-C is one line from the first moment."""

import sys


def main() -> int:
    """The command's exit status."""
    try:
        from medfaith.cli import main as command

        return command()
    except KeyboardInterrupt:  # while modules are imported; a running command says so itself (loaders.errors)
        print("medfaith: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
