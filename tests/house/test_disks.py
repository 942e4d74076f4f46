"""Disks that are full, read-only or gone under a command: a message that names them, and what was there stays."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from medfaith.cli import main
from tests.builders.files import root_words
from tests.full_disk import no_file_above

_WATCHING: list[Callable[[str], None]] = []  # what is told of each file and folder that is opened; hooks stay for ever


@cache
def _watch() -> None:
    def hook(event: str, given: tuple) -> None:
        if event in ("open", "os.scandir", "os.listdir"):
            for told in _WATCHING:
                told(str(given[0]))

    sys.addaudithook(hook)


@contextmanager
def unmounted(root: Path, number: int) -> Iterator[None]:
    """As a share whose connection ends before its file or folder of that number is opened: its folder is empty."""
    left = [number]

    def told(path: str) -> None:
        left[0] -= f"{path}/".startswith(f"{root}/")
        if not left[0]:
            left[0] = -1
            root.rename(root.with_name("away"))
            root.mkdir()

    _watch()
    _WATCHING.append(told)
    try:
        yield
    finally:
        _WATCHING.remove(told)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def build(phantom_build, tmp_path) -> Path:
    return shutil.copytree(phantom_build, tmp_path / "data")


@pytest.mark.parametrize(("source", "number"), [("openi", 3), ("openi", 60), ("openi", 140), ("chexpert", 2)])
def test_a_source_that_goes_away_in_the_middle_of_a_build(
    source, number, build, phantom_roots, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    repository, gone = build / f"cxr-contrabench-{source}", tmp_path / source
    before = content(repository)
    roots = phantom_roots | {source: shutil.copytree(phantom_roots[source], gone)}
    with unmounted(gone, number):
        status = main(["build", "cxr-contrabench", "--seed", "1", "--out", str(build), *root_words(roots)])
    said = capsys.readouterr().err
    assert (status, content(repository)) == (2, before)
    assert {path.name for path in build.iterdir()} == {"cxr-contrabench-chexpert", "cxr-contrabench-openi"}
    assert re.match(rf"medfaith: {gone}: has gone while it was read \({gone}.*\n  what to do: .* is still there", said)


@pytest.mark.parametrize("limit", [2_000, 20_000])
def test_a_disk_that_is_full_while_files_are_staged(limit, hub, build, phantom_roots, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (staging := tmp_path / "staging").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(staging))
    before = content(build)
    words = ["publish", str(build / "cxr-contrabench-openi"), "--org", hub.organisation, *root_words(phantom_roots)]
    with no_file_above(limit):
        assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"medfaith: {staging}: cannot be written (File too large)\n  what to do: make space")
    assert not [*staging.iterdir()]
    assert not hub.repositories
    assert content(build) == before


FILL = "cp -r {earlier} {place}/data"
FULL = f"mount -t tmpfs -o size={{size}} none {{disk}} && {FILL}"
READ_ONLY = f"{FILL} && for disk in {{disk}}; do mount --bind $disk $disk && mount -o remount,bind,ro $disk; done"
BUILD = "build cxr-contrabench --seed 1 --out {place}/data"
PUBLISH = "publish {place}/data/cxr-contrabench-openi --org ORG --dry-run"


@pytest.mark.full
@pytest.mark.parametrize(
    ("mount", "disk", "size", "words", "status", "message"),
    [
        (FULL, "{place}", "700k", BUILD, 2, r"{place}/data: cannot be written \(.*No space left on device"),
        (READ_ONLY, "{place}", "", BUILD, 2, r"{place}/data: cannot be written \(Read-only file system\)"),
        (FULL, "{tmp}", "40k", PUBLISH, 2, r"{tmp}: cannot be written \(No space left on device\)"),
        (READ_ONLY, "/tmp /var/tmp {place}", "", PUBLISH, 2, r"No usable temporary directory found in \['{tmp}'"),
        (READ_ONLY, "{place}", "", PUBLISH, 0, ""),
    ],
    ids=["build, full", "build, read-only", "publish, full", "publish, read-only", "publish what is read-only"],
)
def test_disks_that_are_mounted_so(mount, disk, size, words, status, message, phantom_build, phantom_roots, tmp_path):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root mounts disks")
    named = {"place": tmp_path / "place", "tmp": tmp_path / "tmp", "earlier": phantom_build, "size": size}
    for name in ("place", "tmp"):
        named[name].mkdir()
    command = [sys.executable, "-m", "medfaith", *words.format(**named).split(), *root_words(phantom_roots)]
    script = [
        mount.format(disk=disk.format(**named), **named),
        f"cd {named['place']}",
        f"TMPDIR={named['tmp']} {shlex.join(command)} > /dev/null",
        "echo $?",
        f"diff -r {named['earlier']} data && ls -A {named['tmp']}",
    ]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", "\n".join(script)],
        env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == f"{status}\n", ended.stderr  # and no difference, and nothing left
    assert re.match(f"medfaith: {message.format(**named)}" if status else "$", ended.stderr)
