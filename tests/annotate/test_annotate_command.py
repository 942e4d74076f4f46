"""`medfaith annotate` refuses what it cannot serve, in words."""

from __future__ import annotations

import socket
import sys

import pytest

from medfaith.annotate.answers import open_answers
from medfaith.cli import main
from tests.annotate.annotation_scene import Scene, make_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("annotate"))


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


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_that_is_none(scene, tmp_path, capsys, port):
    assert f"port {port}: cannot be used" in refused(scene.arguments(tmp_path / "a.jsonl", "--port", port), capsys)


def test_a_file_that_another_process_writes(scene, tmp_path, capsys):
    with open_answers(tmp_path / "a.jsonl"):
        said = refused(scene.arguments(tmp_path / "a.jsonl", "--port", "0"), capsys)
    assert "another process writes answers to it" in said


@pytest.mark.parametrize("live", ["nameless", "=clip:x", "a=", "a=clip:x,explainer"])
def test_a_live_model_without_name_or_place(scene, tmp_path, capsys, live):
    assert "NAME=PRETRAINED" in refused(scene.arguments(tmp_path / "a.jsonl", "--live", live), capsys)


def test_no_run(scene, tmp_path, capsys):
    arguments = scene.arguments(tmp_path / "a.jsonl", "--port", "0")
    arguments[1:3] = [str(tmp_path)]
    assert "no sample log of lm-eval" in refused(arguments, capsys)
    assert not (tmp_path / "a.jsonl").exists() or not (tmp_path / "a.jsonl").stat().st_size


def test_no_heatmaps(scene, tmp_path, capsys):
    scene = scene._replace(heatmaps=tmp_path / "none")
    assert "no such folder" in refused(scene.arguments(tmp_path / "a.jsonl", "--port", "0"), capsys)
