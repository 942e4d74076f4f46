"""What the harnesses that read files share: the command that writes them, and where it may not write."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from ...loaders.atomic import remove_lock
from ...loaders.errors import InputError, exit_status


def refuse(out: Path, *, new: bool = False) -> None:
    """Raises InputError where `out` is a folder, exists although it has to be new, or lies in a build.

    A build may be published, and `out` will hold pixels or your paths.
    """
    if out.is_dir() or (new and out.exists()):
        remove_lock(out.resolve())
        raise InputError(out, "exists", action="name a new folder" if new else "name a file in it")
    for folder in out.resolve().parents:
        for record in (folder / "build.json", *folder.glob("*/build.json")):
            if record.is_file() and '"medfaith"' in record.read_text(encoding="utf-8", errors="replace"):
                found = (
                    f"lies in the build {folder}, which may be published, and would hold licensed pixels or your paths"
                )
                raise InputError(out, found, action="choose a folder outside of it")


def command(
    job: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Runs a job with the parsed arguments and `where`, the arguments of `load`; returns the exit status."""
    parser.add_argument("--data", required=True, help="the folder that medfaith build wrote, or a Hub organisation")
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="the folder with a source's licensed images; repeatable",
    )
    parser.add_argument(
        "--skip-missing-images",
        action="store_true",
        help="leave out rows with a missing or broken image (default: stop)",
    )
    given = parser.parse_args(argv)
    given.where = (given.data, given.root, given.skip_missing_images)
    return exit_status(lambda: job(given))
