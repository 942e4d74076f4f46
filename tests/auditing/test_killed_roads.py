"""An audit that is killed again and again asks each request once, by each road that resumes.

Requests go one at a time, and the kill comes while one waits for its answer: this one alone is asked again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from medfaith.cli import main
from tests.support.builders.files import root_words
from tests.support.tasks import tiny_models
from tests.support.tasks.evaluating import load
from tests.support.tasks.server_scene import answer_by_messages, serving, texts_of

CONTROLS, LIMIT = ["none", "other"], 12
TASK = "medfaith_heal_vindr_closed"
CALLABLE = """
import json, sys, urllib.request
import medfaith
options, url = json.loads(sys.argv[1]), sys.argv[2]

def ask(images, text):
    pixels = [hash(image.tobytes()) for image in images]
    body = {"model": "m", "messages": [{"role": "user", "content": f"{text} {pixels}"}]}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]["content"]

medfaith.audit(ask, **options, out="audit")
"""


WEIGHTS = """
import json, sys, urllib.request
from medfaith.cli import main
from medfaith.tasks.models.image_lm import get_images
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
generate = HFVisionLM._generated

def tell_and_generate(lm, batch):
    (request,) = batch
    text = f"{request.args[0]} {[hash(image.tobytes()) for image in get_images(request)]}"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{sys.argv[1]}/chat/completions", body, headers)).close()
    return generate(lm, batch)

HFVisionLM._generated = tell_and_generate
sys.exit(main(sys.argv[2:]))
"""  # tells the server each question that the weights are asked


class Scene(NamedTuple):
    """The options of the audit, as words, and for Python; and the folder of a model."""

    arguments: list[str]
    options: dict[str, Any]
    model: Path


@pytest.fixture(scope="module")
def scene(phantom_heal_build, phantom_heal_roots, tmp_path_factory) -> Scene:
    task = load([TASK], phantom_heal_build, phantom_heal_roots)["tasks"][TASK]
    rows = tmp_path_factory.mktemp("rows") / "rows.csv"
    rows.write_text("\n".join(["id", *task.test_docs().with_format(None)["id"]]))
    arguments = ["--data", str(phantom_heal_build), *root_words(phantom_heal_roots), "--rows", str(rows)]
    roots = {source: str(path) for source, path in phantom_heal_roots.items()}
    options = {"data": str(phantom_heal_build), "roots": roots, "rows": str(rows)}
    return Scene(
        ["audit", *arguments, "--controls", *CONTROLS, "--limit", str(LIMIT), "--out", "audit"],
        {**options, "controls": CONTROLS, "limit": LIMIT},
        tiny_models.SAVE["llava"](tmp_path_factory.mktemp("model") / "llava"),
    )


def command_client(scene: Scene, url: str) -> list[str]:
    if not Path("requests.jsonl").exists():
        assert main([*scene.arguments, "--model_args", "model=m", "--write-requests", "requests.jsonl"]) == 0
    arguments = ["answer", "requests.jsonl", "--base-url", url, "--out", "answers.jsonl", "--concurrency", "1"]
    return [sys.executable, "-m", "medfaith", *arguments]


def command_ray(scene: Scene, url: str) -> list[str]:
    return [*command_client(scene, url), "--ray"]


def command_lm_eval(scene: Scene, url: str) -> list[str]:
    model = ["--model", "medfaith-server", "--model_args", f"base_url={url},model=m,concurrency=1"]
    return [sys.executable, "-m", "medfaith", *scene.arguments, *model]


def command_python(scene: Scene, url: str) -> list[str]:
    return [sys.executable, "-c", CALLABLE, json.dumps(scene.options), url]


def command_inspect(scene: Scene, url: str) -> list[str]:
    if logs := sorted(Path("logs").glob("*.eval")):
        return [sys.executable, "-m", "inspect_ai", "eval-retry", str(logs[-1]), "--display", "none"]
    arguments = {**scene.options, "roots": ",".join(f"{name}={path}" for name, path in scene.options["roots"].items())}
    arguments["controls"] = ",".join(CONTROLS)
    task = ["medfaith/audit", *(word for name, value in arguments.items() for word in ("-T", f"{name}={value}"))]
    model = ["--model", "openai-api/local/m", "--model-base-url", url, "--max-connections", "1", "--max-samples", "1"]
    logging = ["--no-log-images", "--log-dir", "logs", "--display", "none"]
    return [sys.executable, "-m", "inspect_ai", "eval", *task, *model, *logging]


def command_weights(scene: Scene, url: str) -> list[str]:
    model = ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={scene.model},dtype=float32", "--device", "cpu"]
    options = ["--batch_size", "1", "--apply_chat_template", "--gen_kwargs", "max_gen_toks=8"]
    return [sys.executable, "-c", WEIGHTS, url, *scene.arguments, *model, *options]


N_KILLS = 10
ROADS = {
    "client": command_client,
    "inspect": command_inspect,
    "lm-eval": command_lm_eval,
    "python": command_python,
    "ray": command_ray,
    "weights": command_weights,
}


def kill(process: subprocess.Popen) -> None:
    """Kill a process, and wait for the ends of its workers of Ray."""
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if "_Asker" in " ".join(child.cmdline())]
    process.kill()
    process.wait()
    psutil.wait_procs(workers, 60)


@pytest.mark.full
@pytest.mark.parametrize("road", ROADS)
def test_the_next_start_asks_nothing_twice(road, scene, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCAL_API_KEY", "none")  # of Inspect's model
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 1}')  # one worker
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # the same hash of the same pixels in each process
    waiting, asked, answered = Counter[str](), Counter[str](), Counter[str]()
    processes: list[subprocess.Popen] = []
    is_killing = False

    def say(messages):
        if texts_of(messages) == "Say Yes.":  # the sign of life of medfaith-server
            return "Yes"
        key = json.dumps(messages, sort_keys=True)
        asked[key] += 1
        if is_killing and len(answered) >= 3 * len(processes) - 1:
            waiting[key] += 1
            kill(processes[-1])
        else:
            answered[key] += 1
        return answer_by_messages(messages)

    with serving(say) as server:
        command: Callable[[Scene, str], list[str]] = ROADS[road]
        for number in range(N_KILLS + 1):
            is_killing = number < N_KILLS
            job = command(scene, server.url)
            processes.append(subprocess.Popen(job, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
            _, warned = processes[-1].communicate(timeout=300)
            assert (processes[-1].returncode == -9) == is_killing, warned.decode()[-3000:]
    assert processes[-1].returncode == 0
    assert waiting.total() == N_KILLS
    assert len(answered) > 3 * N_KILLS
    assert asked - waiting == answered
    assert max(answered.values()) == 1
