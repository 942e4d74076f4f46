"""Messages for errors from outside the program: network, libraries and disk."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import aiohttp
import numpy as np
import pyarrow as pa
import pytest
import requests
import torch
from huggingface_hub.errors import OfflineModeIsEnabled
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from medfaith.cli import main
from medfaith.loaders.errors import MedfaithError, exit_status
from medfaith.loaders.escaping import escape_unencodable

ADDRESS = URL("http://127.0.0.1:8000/v1")
REQUEST = aiohttp.RequestInfo(ADDRESS, "POST", CIMultiDictProxy(CIMultiDict()), ADDRESS)
SERVER, MODEL, FOLDER = "that the server runs and answers", "name or folder of what could not", "has space left"


@pytest.mark.parametrize(
    ("error", "message", "action"),
    [
        (requests.HTTPError("500 Server Error for url: x"), "500 Server Error for url: x", SERVER),
        (aiohttp.ClientResponseError(REQUEST, (), status=500, message="broken"), "500, message='broken'", SERVER),
        (aiohttp.ServerDisconnectedError(), "Server disconnected", SERVER),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused", SERVER),
        (TimeoutError(), "TimeoutError", SERVER),
        (OfflineModeIsEnabled("offline"), "offline", SERVER),
        (OSError("x is not a local folder and is not a valid model identifier"), "x is not a local folder", MODEL),
        (OSError(28, "No space left on device"), "No space left on device", FOLDER),
        (PermissionError(13, "Permission denied", "out/x"), "out/x: Permission denied", "permission to read it"),
        (MedfaithError("row 3: wrong"), "row 3: wrong", ""),
    ],
)
def test_errors_end_with_what_to_do_and_status_2(error, message, action, capsys):
    def job() -> int:
        raise error

    assert exit_status(job) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"medfaith: {message}")
    assert action in err
    assert ("space left" in err.partition("\n")[2]) == (action == FOLDER)


def allocate() -> object:
    return np.empty(1 << 60, np.uint8)


def allocate_tensor() -> object:
    return torch.empty(1 << 60, dtype=torch.uint8)


def raise_error(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    "work",
    [
        lambda: raise_error(MemoryError()),
        lambda: raise_error(pa.ArrowMemoryError("malloc of size 9 failed")),
        lambda: raise_error(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")),
        allocate,
        allocate_tensor,
    ],
)
def test_a_full_memory_ends_in_a_message_that_says_what_to_lower(work, capsys):
    assert exit_status(lambda: int(bool(work()))) == 2
    message, action, *rest = capsys.readouterr().err.splitlines()
    assert message.startswith("medfaith: memory is full (")
    assert action.startswith("  what to do: lower what takes memory (--workers of a build, batch_size")
    assert rest == []


TEXT = "κ – \udcff ✓ 一"


@pytest.mark.parametrize(
    ("encoding", "errors", "printed"),
    [
        ("ascii", "strict", rb"\u03ba \u2013 \udcff \u2713 \u4e00"),
        ("latin-1", "strict", rb"\u03ba \u2013 \udcff \u2713 \u4e00"),
        ("ascii", "surrogateescape", rb"\u03ba \u2013 \udcff \u2713 \u4e00"),  # with the locale C
        ("ascii", "replace", b"? ? ? ? ?"),  # as the user chose
        ("utf-8", "strict", "κ – \\udcff ✓ 一".encode()),
    ],
)
def test_output_escapes_what_its_encoding_lacks(encoding, errors, printed, monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding, errors, write_through=True) for _ in range(2)]
    monkeypatch.setattr("sys.stdout", streams[0])
    monkeypatch.setattr("sys.stderr", streams[1])
    escape_unencodable()
    for stream in streams:
        print(TEXT, end="", file=stream)
        assert stream.buffer.getvalue() == printed


def test_output_without_a_stream_is_no_error(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    escape_unencodable()


def test_a_command_prints_in_ascii(monkeypatch, tmp_path):
    row = {"id": "1", "kind": "yes_no", "question": "Is there edema?", "text": "No", "gold": "no", "model": "módèle"}
    (tmp_path / "answers.jsonl").write_text(json.dumps(row))
    stdout = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr("sys.stdout", stdout)
    assert main(["read", str(tmp_path / "answers.jsonl")]) == 0
    assert rb"m\xf3d\xe8le" in stdout.buffer.getvalue()


def test_errors_of_the_program_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("raised", "status", "message"),
    [
        ("errors.InputError('f.csv', 'is empty')", 2, "medfaith: f.csv: is empty\n"),
        ("ValueError('x')", 1, "Traceback (most recent call last):\n"),
    ],
)
def test_a_program_of_others_ends_as_ours(raised, status, message):
    script = f"from medfaith.loaders import errors; errors.install_excepthook(); raise {raised}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith(message)) == (status, True), done.stderr


BREAKS = """
import sys
from medfaith.loaders.errors import exit_status

def job():
    if sys.argv[1:]:
        raise BrokenPipeError(32, "Broken pipe")  # of a socket or a worker
    while True:
        print("line", flush=True)

raise SystemExit(exit_status(job))
"""


def test_a_reader_that_goes_is_no_error_and_another_broken_pipe_is():
    reader = subprocess.Popen(
        [sys.executable, "-c", BREAKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    assert reader.stdout is not None
    assert reader.stderr is not None
    assert reader.stdout.readline() == "line\n"
    reader.stdout.close()
    assert (reader.wait(), reader.stderr.read()) == (0, "")
    done = subprocess.run(
        [sys.executable, "-c", BREAKS, "other"], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("medfaith: Broken pipe\n  what to do: check the address")
