"""Atomic writes: the state of a file and of a folder after a failed write."""

from __future__ import annotations

import pytest

from medfaith.loaders import atomic
from medfaith.loaders.atomic import atomic_file, atomic_folder


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


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write("folder", tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert read("folder", tmp_path / "there") == "new"


def test_what_a_killed_writer_left_of_a_folder_is_not_in_the_next(tmp_path):
    (tmp_path / ".x.partial").mkdir()
    (tmp_path / ".x.partial" / "litter").touch()
    write("folder", tmp_path / "x", "new")
    assert [p.name for p in (tmp_path / "x").iterdir()] == ["a"]
