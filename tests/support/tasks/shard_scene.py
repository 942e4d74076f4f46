"""Helpers of the shard tests: run one shard, and edit its output files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from medfaith.cli import main
from medfaith.tasks import shard_marker

PRESENCE = "medfaith_contrabench_chexpert_presence"
BENCHMARKS = {"contrabench": "", "heal": "_heal", "surgx": "_surgx", "wrong_lung": "_wrong_lung"}


def ask(arguments: list[str], out: Path, shard: str = "") -> int:
    more = ["--shard", shard] if shard else []
    return main(["eval", *arguments, "--output_path", str(out), "--log_samples", *more])


def forged(pattern: str, change: Callable[[str], str], numbers: str = "12") -> Callable[[Path], None]:
    """Return a function that changes a file of some shards and updates its SHA-256 in their markers."""

    def update_shards(folder: Path) -> None:
        for number in numbers:
            (path,) = (folder / number).rglob(pattern)
            marker, before = folder / number / shard_marker.NAME, hashlib.sha256(path.read_bytes()).hexdigest()
            path.write_text(change(path.read_text()))
            after = hashlib.sha256(path.read_bytes()).hexdigest()
            assert after != before
            marker.write_text(marker.read_text().replace(before, after))

    return update_shards
