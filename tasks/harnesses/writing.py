"""What the adapters that write files share: no place in a build, the command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from ...loaders.errors import InputError, exit_status


def refuse(out: Path, *, new: bool = False) -> None:
    """Raises InputError for a place that is taken, by a folder or, where it has to be new, by anything.

    And for one in a build, which may be published: `out` will hold pixels or your paths.
    """
    if out.is_dir() or (new and out.exists()):
        raise InputError(out, "exists", action="name a new folder" if new else "name a file in it")
    for folder in out.resolve().parents:
        for record in (folder / "build.json", *folder.glob("*/build.json")):
            if record.is_file() and '"medfaith"' in record.read_text(encoding="utf-8", errors="replace"):
                found = f"lies in the build {folder}, and would hold licensed pixels or your places"
                raise InputError(out, found, action="choose a folder outside of it")


def command(
    job: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    """Runs a job with an adapter's arguments, and `where` for `load`; returns the exit status."""
    parser.add_argument("--data", required=True, help="what medfaith build wrote, or a Hub organisation")
    parser.add_argument("--root", action="append", default=[], metavar="SOURCE=PATH", help="where a source lies")
    parser.add_argument("--skip-missing-images", action="store_true", help="leave out rows without their images")
    given = parser.parse_args(argv)
    given.where = (given.data, given.root, given.skip_missing_images)
    return exit_status(lambda: job(given))
