"""Full, read-only or missing disks: the message names the disk, and existing files stay."""

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
from tests.support.builders.files import root_words
from tests.support.full_disk import no_file_above

_WATCHING: list[Callable[[str], None]] = []  # called for each opened file and folder; audit hooks cannot be removed


@cache
def _watch() -> None:
    def hook(event: str, arguments: tuple) -> None:
        if event in ("open", "os.scandir", "os.listdir"):
            for callback in _WATCHING:
                callback(str(arguments[0]))

    sys.addaudithook(hook)


@contextmanager
def unmounted(root: Path, number: int) -> Iterator[None]:
    """Empty a folder just before its n-th file or folder is opened, like a share that loses its connection."""
    countdown = [number]

    def count_opened(path: str) -> None:
        countdown[0] -= f"{path}/".startswith(f"{root}/")
        if not countdown[0]:
            countdown[0] = -1
            root.rename(root.with_name("away"))
            root.mkdir()

    _watch()
    _WATCHING.append(count_opened)
    try:
        yield
    finally:
        _WATCHING.remove(count_opened)


def read_content(folder: Path) -> dict[str, bytes]:
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
    before = read_content(repository)
    roots = phantom_roots | {source: shutil.copytree(phantom_roots[source], gone)}
    with unmounted(gone, number):
        status = main(["build", "cxr-contrabench", "--seed", "1", "--out", str(build), *root_words(roots)])
    output = capsys.readouterr().err
    assert (status, read_content(repository)) == (2, before)
    assert {path.name for path in build.iterdir()} == {"cxr-contrabench-chexpert", "cxr-contrabench-openi"}
    assert re.match(
        rf"medfaith: {gone}: has gone while it was read \({gone}.*\n  what to do: .* is still there", output
    )


@pytest.mark.parametrize("limit", [2_000, 20_000])
def test_a_disk_that_is_full_while_files_are_staged(limit, hub, build, phantom_roots, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (staging := tmp_path / "staging").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(staging))
    before = read_content(build)
    arguments = ["publish", str(build / "cxr-contrabench-openi"), "--org", hub.organisation, *root_words(phantom_roots)]
    with no_file_above(limit):
        assert main(arguments) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"medfaith: {staging}: cannot be written (File too large)\n  what to do: make space")
    assert not [*staging.iterdir()]
    assert not hub.repositories
    assert read_content(build) == before


FILL = "cp -r {earlier} {place}/data"
FULL = f"mount -t tmpfs -o size={{size}} none {{disk}} && {FILL}"
READ_ONLY = f"{FILL} && for disk in {{disk}}; do mount --bind $disk $disk && mount -o remount,bind,ro $disk; done"
BUILD = "build cxr-contrabench --seed 1 --out {place}/data"
PUBLISH = "publish {place}/data/cxr-contrabench-openi --org ORG --dry-run"


@pytest.mark.full
@pytest.mark.parametrize(
    ("mount", "disk", "size", "arguments", "status", "message"),
    [
        (FULL, "{place}", "700k", BUILD, 2, r"{place}/data: cannot be written \(.*No space left on device"),
        (READ_ONLY, "{place}", "", BUILD, 2, r"{place}/data: cannot be written \(Read-only file system\)"),
        (FULL, "{tmp}", "40k", PUBLISH, 2, r"{tmp}: cannot be written \(No space left on device\)"),
        (READ_ONLY, "/tmp /var/tmp {place}", "", PUBLISH, 2, r"No usable temporary directory found in \['{tmp}'"),
        (READ_ONLY, "{place}", "", PUBLISH, 0, ""),
    ],
    ids=["build, full", "build, read-only", "publish, full", "publish, read-only", "publish what is read-only"],
)
def test_disks_that_are_mounted_so(
    mount, disk, size, arguments, status, message, phantom_build, phantom_roots, tmp_path
):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root mounts disks")
    values = {"place": tmp_path / "place", "tmp": tmp_path / "tmp", "earlier": phantom_build, "size": size}
    for name in ("place", "tmp"):
        values[name].mkdir()
    command = [sys.executable, "-m", "medfaith", *arguments.format(**values).split(), *root_words(phantom_roots)]
    script = [
        mount.format(disk=disk.format(**values), **values),
        f"cd {values['place']}",
        f"TMPDIR={values['tmp']} {shlex.join(command)} > /dev/null",
        "echo $?",
        f"diff -r {values['earlier']} data && ls -A {values['tmp']}",
    ]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", "\n".join(script)],
        env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == f"{status}\n", ended.stderr  # and no difference, and nothing left
    assert re.match(f"medfaith: {message.format(**values)}" if status else "$", ended.stderr)
