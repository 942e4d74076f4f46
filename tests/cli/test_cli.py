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
        (["verify", "absent"], ["absent", "is not a folder"]),
        (["verify", "."], ["holds no build"]),
    ],
)
def test_a_wrong_argument_is_explained_with_status_2(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    for word in words:
        assert word in error


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


def test_quickstart_leaves_a_foreign_folder_alone(tmp_path, capsys):
    mine = tmp_path / "phantom" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    assert main(["quickstart", "--out", str(tmp_path)]) == 2
    assert "choose another --out" in capsys.readouterr().err
    assert mine.exists()


def test_a_folder_that_cannot_be_written_is_explained(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["quickstart", "--out", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
