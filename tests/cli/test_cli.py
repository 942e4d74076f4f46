"""The command as a user runs it: what it prints, and how it refuses bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from medfaith.cli import main


def test_sources_lists_every_source_and_how_to_get_the_missing_ones(phantom_roots, capsys):
    assert main(["sources", "--root", f"chexpert={phantom_roots['chexpert']}", "--root", "openi=torchxrayvision"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert lines["chexpert"].split()[1] == "found"
    assert lines["openi"].split()[1] == "incomplete"
    assert lines["mimic_cxr"].split()[1] == "missing"
    assert "how to get it" in out
    assert "CITI" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("verify absent", ["absent", "is not a folder"]),
        ("verify .", ["holds no build"]),
        ("quickstart --out .", ["choose another --out"]),
        ("quickstart --out file", ["file"]),
        ("phantom phantom", ["phantom: is not an empty folder", "name a new folder"]),
        ("phantom file", ["file: is not an empty folder"]),
    ],
    ids=[
        "no folder",
        "no build",
        "a user's own files",
        "a file",
        "synthetic among a user's own",
        "synthetic in a file",
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mine = [tmp_path / "phantom" / "mine.txt", tmp_path / "file"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == sorted(mine)


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["build", "nothing"], ["build", "cxr-contrabench", "--workers", "0"], ["verify"]]
)
def test_argparse_refuses_with_status_2(arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_tasks_prints_the_include_path(capsys):
    assert main(["tasks"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "contrabench" / "adapter.py").is_file()
