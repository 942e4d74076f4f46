"""medfaith-server on a real server, `transformers serve`, gives the answers of medfaith-hf-vlm.

A proxy between client and server makes every row's first request fail in a different way.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lm_eval.api.instance import Instance

from medfaith.tasks.models.server.lm import ServerLM
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.chat import chat_server
from tests.support.tasks.asking import asked, noise
from tests.support.tasks.real_server import WAIT, serving_program
from tests.support.tasks.server_scene import FAULTS, texts_of
from tests.support.tasks.tiny_models import save_llava

ASKED = ["Is there edema?", "<image>\nIs there edema?", "Compare <image> with <image>.", "<image>A?", "<image>B?"]
pytestmark = pytest.mark.full  # requests: test_server.py; answers of the weights: test_hf_vlm.py
FIRST = ("busy", "error", "cut", "half", "slow")


class Served(NamedTuple):
    url: str
    model: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    model = str(save_llava(folder / "llava"))
    (folder / "cache").mkdir()
    program = [
        str(Path(sys.executable).with_name("transformers")),
        "serve",
        model,
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    variables = {"HF_HUB_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    with serving_program(program, folder / "log", variables) as url:
        yield Served(url, model)


def build_requests(lm: Any) -> list[Instance]:
    return [
        asked(
            lm.apply_chat_template([{"role": "user", "content": text}]),
            [noise((60, 40), 10 * row + place) for place in range(text.count("<image>"))],
            row,
            max_gen_toks=12,
        )
        for row, text in enumerate(ASKED)
    ]


def ask_server(model: str, store: Path, url: str) -> list[str]:
    """Return the server's answers in row order; the tiny model never ends by itself, and each answer is cut."""
    lm = ServerLM(base_url=url, model=model, concurrency=2, timeout=60, answers=str(store))
    scored = lm.generate_until(build_requests(lm))
    with sqlite3.connect(store) as database:
        replies_by_row = dict(database.execute("SELECT row, reply FROM answers").fetchall())
    replies = [json.loads(replies_by_row[f"row {number}"]) for number in range(len(ASKED))]
    assert {reply["outcome"] for reply in replies} == {"cut"}
    assert scored == [reply["text"] for reply in replies]
    return scored


def test_answers_are_those_of_the_weights_through_every_fault(served: Served, tmp_path: Path):
    local: Any = HFVisionLM(served.model, dtype="float32", device="cpu", batch_size=1)
    expected = [local.generate_until([request])[0] for request in build_requests(local)]
    assert len(set(expected)) > 1
    assert ask_server(served.model, tmp_path / "straight", served.url) == expected

    n_requests: Counter[str] = Counter()

    def inject_fault(body: dict[str, Any]) -> Any:
        text = texts_of(body["messages"])
        n_requests[text] += 1
        if text.startswith("Say"):  # probe of the model
            return lambda handler: handler.send(200, _forward(served.url, body))
        fault = FIRST[[*n_requests].index(text)] if n_requests[text] == 1 else "slow"
        if fault != "slow":
            return FAULTS[fault]
        time.sleep(0.5)
        return lambda handler: handler.send(200, _forward(served.url, body))

    with chat_server(None, models=[{"id": served.model}], fault=inject_fault) as (url, _):
        assert ask_server(served.model, tmp_path / "faulty", url) == expected
    assert sorted(n_requests.values()) == [1, 2, 2, 2, 2], "a slow answer is awaited, all others are asked for again"


def _forward(url: str, body: dict[str, Any]) -> Any:
    content = {name: value for name, value in body.items() if name not in ("path", "key")}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        return json.load(answer)
