"""Atomic writes: the state of a file and of a folder after a failed write."""

from __future__ import annotations

import os
import stat

import pytest

from medfaith.loaders import atomic
from medfaith.loaders.atomic import atomic_file, atomic_folder
from medfaith.loaders.errors import InputError


def write(kind, path, text, fails=False):
    with (atomic_file if kind == "file" else atomic_folder)(path) as partial:
        (partial if kind == "file" else partial / "a").write_text(text)
        if fails:
            raise OSError("disk full")


def read(kind, path):
    return (path if kind == "file" else path / "a").read_text()


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
def test_the_new_takes_the_place_of_the_old_or_the_old_stays(kind, exchanges, tmp_path, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(atomic, "_swap_folders", lambda *_: False)
    path = tmp_path / "made" / "x"
    with pytest.raises(OSError, match="disk full"):
        write(kind, path, "half", fails=True)
    assert not path.exists()
    write(kind, path, "old")
    with pytest.raises(OSError, match="disk full"):
        write(kind, path, "half", fails=True)
    assert read(kind, path) == "old"
    write(kind, path, "new")
    assert read(kind, path) == "new"
    assert [p.name for p in path.parent.iterdir()] == ["x"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_stays_a_link(kind, tmp_path):
    (tmp_path / "disk").mkdir()
    write(kind, tmp_path / "disk" / "there", "old")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "there")
    write(kind, tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert read(kind, tmp_path / "disk" / "there") == "new"
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["there"]


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_permissions_are_those_of_the_umask_or_of_the_old(kind, exchanges, tmp_path, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(atomic, "_swap_folders", lambda *_: False)
    path, free = tmp_path / "x", 0o666 if kind == "file" else 0o777
    for umask in (0o077, 0o002):
        earlier = os.umask(umask)
        try:
            write(kind, tmp_path / f"{umask}", "new")
            write(kind, path, "old")
            path.chmod(0o700)
            write(kind, path, "new")
        finally:
            os.umask(earlier)
        assert stat.S_IMODE((tmp_path / f"{umask}").stat().st_mode) == free & ~umask
        assert (stat.S_IMODE(path.stat().st_mode), read(kind, path)) == (0o700, "new")


def test_a_special_file_and_a_folder_are_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name, problem in (("pipe", "special file"), ("link", "special file"), ("folder", "is a folder")):
        with pytest.raises(InputError, match=problem):
            write("file", tmp_path / name, "new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "pipe"]


def test_what_a_killed_writer_left_of_a_folder_is_not_in_the_next(tmp_path):
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".x.partial" / "litter").touch()
    write("folder", tmp_path / "x", "new")
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["a"]
