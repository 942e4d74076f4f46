"""The command of harnesses that read files, and the check of its output path."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from ...loaders.atomic import remove_lock
from ...loaders.errors import InputError, exit_status
from ...loaders.escaping import escape_unencodable


def refuse_output(out: Path, *, new: bool = False) -> None:
    """Refuse an output path inside a build, which may be published, since the output has pixels or the user's paths.

    Args:
        out: The path.
        new: Whether the path must not exist.

    Raises:
        InputError: The path is a folder, exists although it must be new, or is inside a build.
    """
    if out.is_dir() or (new and out.exists()):
        remove_lock(out.resolve())
        raise InputError(out, "exists", action="name a new folder" if new else "name a file in it")
    for folder in out.resolve().parents:
        for record in (folder / "build.json", *folder.glob("*/build.json")):
            if record.is_file() and '"medfaith"' in record.read_text(encoding="utf-8", errors="replace"):
                problem = (
                    f"is in the build {folder}, which may be published, and would hold licensed pixels or your paths"
                )
                raise InputError(out, problem, action="choose a folder outside of it")


def run_command(
    job: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Run a job with the parsed arguments and `where`, the arguments of `load`.

    Args:
        job: Function of the arguments.
        parser: Parser with the command's own options.
        argv: Arguments, or None for the process's.

    Returns:
        The exit status.
    """
    escape_unencodable()
    parser.add_argument(
        "--data", required=True, metavar="DIR|ORG", help="folder that medfaith build wrote, or organisation on the Hub"
    )
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="folder with the licensed images of a source (repeatable)",
    )
    parser.add_argument(
        "--skip-missing-images",
        action="store_true",
        help="skip rows with a missing or broken image (default: stop)",
    )
    arguments = parser.parse_args(argv)
    arguments.where = (arguments.data, arguments.root, arguments.skip_missing_images)
    return exit_status(lambda: job(arguments))
