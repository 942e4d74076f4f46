"""A local chat server, helpers that read the requests of medfaith-server, and questions for it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sqlite3
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.tasks.models.server.lm import ServerLM
from tests.support.chat import chat_server
from tests.support.tasks.asking import asked, shade
from tests.support.tasks.evaluating import ANSWERS

LISTED = ({"id": "m"}, {"id": "other"})


def questions(n: int) -> list[Instance]:
    return [asked(f"<image>\nQuestion {number}?", [shade(number)], number) for number in range(n)]


def texts_of(messages: list[dict[str, Any]]) -> str:
    content = messages[-1]["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def pictures_of(messages: list[dict[str, Any]]) -> list[Image.Image]:
    urls = [block["image_url"]["url"] for turn in messages for block in turn["content"] if block in select_images(turn)]
    return [Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))) for url in urls]


def select_images(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in turn["content"] if isinstance(block, dict) and block["type"] == "image_url"]


def echo(messages: list[dict[str, Any]]) -> str:
    return f"Answer to {texts_of(messages).strip()}"


def answer_by_messages(messages: list[dict[str, Any]]) -> str:
    """Answer by a hash of all messages, images included: equal figures of two clients prove equal messages."""
    text = json.dumps(messages, sort_keys=True).replace('"detail": "auto", ', "")  # Inspect names this default
    return ANSWERS[hashlib.sha256(text.encode()).digest()[0] % len(ANSWERS)]


@contextmanager
def serving(say=echo, models=LISTED, **options):
    with chat_server(say, models=models, **options) as (url, requests):
        yield SimpleNamespace(url=url, requests=requests, lm=partial(ServerLM, base_url=url, model="m"))


def kept(path: Any) -> dict[str, str]:
    """Read the outcome and reply of each row from an answer store."""
    with sqlite3.connect(path) as database:
        return {
            row: f"{outcome} {reply}"
            for row, outcome, reply in database.execute("SELECT row, outcome, reply FROM answers")
        }


def send_half(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')


def respond_slowly(handler):
    time.sleep(0.5)


# Response to the first request of a row, or to each request (LASTING).
FAULTS = {
    "busy": lambda handler: handler.send(429, {"error": {"message": "busy"}}, Retry_After="0.05"),
    "error": lambda handler: handler.send(500, {"error": {"message": "oh"}}),
    "cut": lambda handler: handler.connection.close(),
    "half": send_half,
    "slow": respond_slowly,
    "no chat": lambda handler: handler.send(200, {"error": "no chat completion"}),
    "redirect": lambda handler: handler.send(302, {}, Location="http://127.0.0.1:9/v1/chat/completions"),
    "too long": lambda handler: handler.send(400, {"error": {"message": "too many tokens"}}),
    "filter": lambda handler: handler.send(400, {"error": {"message": "no", "code": "content_filter"}}),
}
