"""The same audit of the same model by five roads: its tables are equal to the last digit.

A tiny model with the class of a real one answers in this process. Behind a chat server it is the same object: it gets
the messages that the roads send, and generates greedily, as medfaith-hf-vlm does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from inspect_ai import eval as run_inspect
from inspect_ai.model import get_model
from PIL import Image

import medfaith
from medfaith.cli import main
from medfaith.inspect_tasks import audit as inspect_audit
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.auditing.files import read_tables
from tests.support.builders.files import root_words
from tests.support.tasks import tiny_models
from tests.support.tasks.asking import asked, noise
from tests.support.tasks.evaluating import load
from tests.support.tasks.server_scene import pictures_of, serving, texts_of

# Each road alone: test_audit_requests.py, test_inspect_audit.py and tests/cli/test_python.py.
pytestmark = pytest.mark.full
CONTROLS = ["none", "other"]
LIMIT = 3
LESSONS = "Yes.", "No.", "Edema."  # answers that the model learns to give


class Scene(NamedTuple):
    folder: Path  # of the model
    answer: Callable[[Sequence[Image.Image], str, int], tuple[str, bool]]  # images, text, limit -> reply, whether cut
    url: str  # of a server that answers by `answer`
    data: dict[str, Any]
    arguments: list[str]  # of `medfaith audit`, without the model
    asked: list[int]  # number of requests that the server got


def make_answer(folder: Path) -> Callable[[Sequence[Image.Image], str, int], tuple[str, bool]]:
    """Make the function that asks a tiny model, one request at a time."""
    options = {"pretrained": str(folder), "dtype": "float32", "device": "cpu", "batch_size": 1}
    lm = cast(Any, HFVisionLM).create_from_arg_obj(options)
    lock = threading.Lock()

    def answer(images: Sequence[Image.Image], text: str, limit: int) -> tuple[str, bool]:
        with lock:
            prompt = lm.apply_chat_template([{"role": "user", "content": "<image>" * len(images) + text}])
            (reply,) = lm._generated([asked(prompt, list(images), max_gen_toks=limit)])
        return reply.reply.text, reply.reply.outcome == "cut"

    return answer


@pytest.fixture(scope="module", params=["llava", "qwen2_5_vl"])
def scene(request, phantom_heal_build, phantom_heal_roots, tmp_path_factory) -> Iterator[Scene]:
    folder = tiny_models.SAVE[request.param](tmp_path_factory.mktemp("roads") / request.param)
    tasks = load([f"medfaith_heal_mimic_{kind}" for kind in ("closed", "open")], phantom_heal_build, phantom_heal_roots)
    docs = [doc for task in tasks["tasks"].values() for doc in task.test_docs().with_format(None)]
    lessons = {f"{doc['question']}\nassistant:": LESSONS[n % len(LESSONS)] for n, doc in enumerate(docs[::4])}
    tiny_models.teach(folder, tiny_models.PLACEHOLDER[request.param], lessons, noise())
    answer = make_answer(folder)
    (rows := tmp_path_factory.mktemp("rows") / "rows.csv").write_text("\n".join(["id", *(doc["id"] for doc in docs)]))
    limits = ["--controls", *CONTROLS, "--limit", str(LIMIT), "--rows", str(rows)]
    arguments = ["audit", "--data", str(phantom_heal_build), *root_words(phantom_heal_roots), *limits]
    data = {
        "data": str(phantom_heal_build),
        "roots": {source: str(path) for source, path in phantom_heal_roots.items()},
        "controls": CONTROLS, "limit": LIMIT, "rows": str(rows),
    }  # fmt: skip
    n_asked = [0]

    def respond(request: dict[str, Any]) -> Callable[[Any], None]:
        n_asked[0] += 1
        limit = request.get("max_tokens") or request["max_completion_tokens"]
        messages = request["messages"]
        text, is_cut = answer(pictures_of(messages), texts_of(messages), limit)
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "length" if is_cut else "stop"}
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return lambda handler: handler.send(200, completion)

    with serving(fault=respond) as server:
        yield Scene(folder, answer, server.url, data, arguments, n_asked)


def read_named_tables(folder: Path) -> dict[str, str]:
    """Read the tables of an audit, with one name for the model."""
    names = "openai-api__local__m|openai-api/local/m"
    return {name: re.sub(names, "m", text) for name, text in read_tables(folder).items()}


@pytest.fixture(scope="module")
def by_lm_eval(scene: Scene, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("lm-eval") / "audit"
    model = ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={scene.folder},dtype=float32"]
    options = ["--device", "cpu", "--batch_size", "1", "--apply_chat_template", "--model_name", "m"]
    assert main([*scene.arguments, *model, *options, "--out", str(out)]) == 0
    return out


def take_batch(scene: Scene, folder: Path, *options: str) -> None:
    """Write the requests, let `medfaith answer` ask the server, and judge the answers."""
    job = [*scene.arguments, "--apply_chat_template", "--model_args", "model=m", "--out", str(folder / "audit")]
    requests, answers = (str(folder / name) for name in ("requests.jsonl", "answers.jsonl"))
    assert main([*job, "--write-requests", requests]) == 0
    assert main(["answer", requests, "--base-url", scene.url, "--out", answers, *options]) == 0
    assert main([*job, "--answers", answers]) == 0


def take_batch_by_ray(scene: Scene, folder: Path) -> None:
    take_batch(scene, folder, "--ray", "--concurrency", "2")


def take_inspect(scene: Scene, folder: Path) -> None:
    model = get_model("openai-api/local/m", base_url=scene.url, api_key="none")
    (log,) = run_inspect(
        inspect_audit(**scene.data), model=model, log_dir=str(folder / "logs"), display="log", score_display=False,
        log_images=False,
    )  # fmt: skip
    assert log.status == "success", log.error
    assert main(["audit", "--answers", log.location, "--out", str(folder / "audit")]) == 0


def take_python(scene: Scene, folder: Path) -> None:
    def answer(images: Sequence[Image.Image], text: str) -> str:
        return scene.answer(images, text, 64)[0]

    medfaith.audit(answer, **scene.data, out=folder / "audit", model_name="m")


@pytest.mark.parametrize("take", [take_batch, take_batch_by_ray, take_inspect, take_python])
def test_each_road_gives_the_tables_of_lm_eval(take: Callable[[Scene, Path], None], scene: Scene, by_lm_eval, tmp_path):
    take(scene, tmp_path)
    expected, tables = read_named_tables(by_lm_eval), read_named_tables(tmp_path / "audit")
    assert {"audit.csv", "rows.csv", "audit.md"} <= set(expected)
    for name in expected:
        assert tables[name].splitlines() == expected[name].splitlines(), name
    assert set(tables) == set(expected)
