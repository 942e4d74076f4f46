"""An engine that answers a file of requests, as vLLM's run-batch and OpenAI's batches do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

Say = Callable[[list[dict[str, Any]]], Any]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def succeed(key: str, reply: Any) -> dict[str, Any]:
    """Build the line of an answer: a text, or a full choice."""
    choice = reply if isinstance(reply, dict) else {"message": {"content": reply}, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "model": "m", "choices": [{"index": 0, **choice}]}
    return {
        "id": key[:8],
        "custom_id": key,
        "response": {"status_code": 200, "request_id": "r", "body": body},
        "error": None,
    }


def fail(key: str, status: int = 400, **error: Any) -> dict[str, Any]:
    """Build the line of a failure, as the batch API writes it to its file of errors."""
    body = {"error": {"message": "too long a prompt", **error}}
    return {"id": key[:8], "custom_id": key, "response": {"status_code": status, "body": body}, "error": None}


def answer(requests: Iterable[Mapping[str, Any]], say: Say) -> list[dict[str, Any]]:
    """Answer requests by a function of their messages, in which images are data URLs."""
    return [succeed(line["custom_id"], say(inline_images(line["body"]["messages"]))) for line in requests]


def inline_images(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace file:// addresses of images by the data URLs that a server would get."""
    return [
        turn if isinstance(turn["content"], str) else {**turn, "content": [_inline(block) for block in turn["content"]]}
        for turn in messages
    ]


def _inline(block: dict[str, Any]) -> dict[str, Any]:
    url = block.get("image_url", {}).get("url", "")
    if not url.startswith("file:"):
        return block
    path = Path(url2pathname(urlsplit(url).path))
    content = base64.b64encode(path.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/{path.suffix[1:]};base64,{content}"}}
