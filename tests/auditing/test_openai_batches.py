"""OpenAI's batches: the lines of docs/batch.md upload a file of requests, and the audit reads what comes back.

OpenAI's own package talks to a server here that has the addresses of its batch API and refuses what the guide forbids.
"""

from __future__ import annotations

import email
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from medfaith.cli import main
from tests.support.tasks.batch_engine import fail, succeed

PAGE = Path(__file__).parents[2] / "docs/batch.md"
MODEL = ("--model_args", "model=gpt")


def answer_lines(content: bytes) -> tuple[list[Any], list[Any]]:
    """Answer a file of requests; every fifth one fails. The guide asks for unique ids, one model and one address."""
    requests = [json.loads(line) for line in content.splitlines()]
    assert len({request["custom_id"] for request in requests}) == len(requests)
    assert {request["body"]["model"] for request in requests} == {"gpt"}
    assert {(request["method"], request["url"]) for request in requests} == {("POST", "/v1/chat/completions")}
    assert {frozenset(request) for request in requests} == {frozenset({"custom_id", "method", "url", "body"})}
    keys = [request["custom_id"] for request in requests]
    return [succeed(key, "Yes.") for n, key in enumerate(keys) if n % 5], [fail(key) for key in keys[::5]]


class Batches(BaseHTTPRequestHandler):
    """The addresses of files and batches. A batch is in progress when it is asked for the first time."""

    files: dict[str, bytes]
    batch: dict[str, Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/files":
            form: Any = email.message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\n\n".encode() + body)
            parts: dict[Any, Any] = {
                part.get_param("name", header="content-disposition"): part for part in form.get_payload()
            }
            assert parts["purpose"].get_payload() == "batch"
            self.files["file-in"] = parts["file"].get_payload(decode=True)
            self.send({"id": "file-in", "object": "file", "purpose": "batch"})
        else:
            order = json.loads(body)
            assert (self.path, order["endpoint"]) == ("/v1/batches", "/v1/chat/completions")
            for name, lines in zip(("out", "errors"), answer_lines(self.files[order["input_file_id"]]), strict=True):
                self.files[f"file-{name}"] = "".join(f"{json.dumps(line)}\n" for line in reversed(lines)).encode()
            self.batch |= {"id": "batch-1", "object": "batch", "status": "validating"}
            self.send(self.batch)

    def do_GET(self) -> None:
        if match := re.fullmatch(r"/v1/files/(.*)/content", self.path):
            self.send(self.files[match[1]])
            return
        done = {"status": "completed", "output_file_id": "file-out", "error_file_id": "file-errors"}
        self.batch |= {"status": "in_progress"} if self.batch["status"] == "validating" else done
        self.send(self.batch)

    def send(self, content: Any) -> None:
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    handler = type("Handler", (Batches,), {"files": {}, "batch": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def test_the_lines_of_the_page_bring_back_answers_and_errors(
    address, phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    job = ["eval", "--data", str(phantom_heal_build), "--root", root, "--tasks", "medfaith_heal_vindr_closed",
           "--limit", "20", "--apply_chat_template", *MODEL]  # fmt: skip
    assert main([*job, "--write-requests", "requests.jsonl"]) == 0
    (lines,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(lines, PAGE.name, "exec"), {})
    capsys.readouterr()
    names = ["answers.jsonl", "errors.jsonl"]
    assert main([*job, "--answers", *names]) == 3
    assert "4 rows without an answer (4: 400: too long a prompt)" in capsys.readouterr().err
    assert main([*job, "--answers", *names, "--write-missing", "missing.jsonl"]) == 0
    assert len(Path("missing.jsonl").read_text(encoding="utf-8").splitlines()) == 4
    Path("answers.jsonl").rename("first.jsonl")
    Path("missing.jsonl").replace("requests.jsonl")
    monkeypatch.setattr("tests.auditing.test_openai_batches.fail", lambda key: succeed(key, "No."))
    exec(compile(lines, PAGE.name, "exec"), {})
    assert main([*job, "--answers", "first.jsonl", "answers.jsonl", "errors.jsonl"]) == 0
    assert "medfaith_heal_vindr_closed" in capsys.readouterr().out
