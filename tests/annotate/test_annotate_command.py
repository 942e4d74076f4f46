"""`medfaith annotate` refuses what it cannot serve, in words."""

from __future__ import annotations

import socket
import sys

import pytest

from medfaith.annotate.answers import open_answers
from medfaith.cli import main


def refused(arguments: list[str], capsys) -> str:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_gradio_is_an_extra(scene, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    said = refused(scene.arguments(tmp_path / "a.jsonl"), capsys)
    assert 'pip install "medfaith[annotate]"' in said
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use(scene, tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(scene.arguments(tmp_path / "a.jsonl", "--port", str(port)), capsys)
    assert f"port {port}: is in use" in said
    assert "--port" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        *((["--port", port], f"port {port}: cannot be used") for port in ("-1", "70000")),
        *((["--live", live], "NAME=PRETRAINED") for live in ("nameless", "=clip:x", "a=", "a=clip:x,explainer")),
        (["--heatmaps", "none", "--port", "0"], "no such folder"),
    ],
)
def test_options_that_cannot_work(scene, tmp_path, capsys, option, said):
    assert said in refused(scene.arguments(tmp_path / "a.jsonl", *option), capsys)
    assert not (tmp_path / "a.jsonl").exists() or not (tmp_path / "a.jsonl").stat().st_size


def test_a_file_that_another_process_writes(scene, tmp_path, capsys):
    with open_answers(tmp_path / "a.jsonl"):
        said = refused(scene.arguments(tmp_path / "a.jsonl", "--port", "0"), capsys)
    assert "another process writes answers to it" in said
