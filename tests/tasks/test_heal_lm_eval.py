"""HEAL-MedVQA as users run it: command lines, what reaches a real model, and why lm-eval's caches are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM, hash_args
from lm_eval.caching import cache
from lm_eval.models import hf_vlms
from lm_eval.tasks import TaskManager

from medfaith.cli import main
from medfaith.loaders.errors import MissingSourceError
from medfaith.tasks import include_path
from medfaith.tasks.models.baselines import Oracle
from tests.tasks import tiny_models

SAVE = {"llava": tiny_models.save_llava, "qwen2_5_vl": tiny_models.save_qwen2_5_vl}
PLACEHOLDER = {"llava": "<image>", "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>"}
TASK = "medfaith_heal_vindr_vpt"
LIMIT = 8


def test_the_command_line_scores_a_model_on_edited_images(phantom_heal_build, phantom_heal_roots, tmp_path):
    model = tiny_models.save_llava(tmp_path / "model")
    roots = {source: str(root) for source, root in phantom_heal_roots.items()}
    metadata = json.dumps({"data": str(phantom_heal_build), "roots": roots})
    run = [
        *(sys.executable, "-m", "lm_eval", "run", "--include_path", str(include_path()), "--metadata", metadata),
        *("--model", "hf-multimodal", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu"),
        *("--batch_size", "2", "--apply_chat_template", "--gen_kwargs", "max_gen_toks=4", "--limit", str(LIMIT)),
        *("--tasks", TASK, "--output_path", str(tmp_path / "results"), "--log_samples"),
    ]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "LMEVAL_LOG_LEVEL": "WARNING"}
    result = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    (file,) = (tmp_path / "results").rglob("results_*.json")
    scores = json.loads(file.read_text())["results"][TASK]
    (log,) = (tmp_path / "results").rglob("samples_*.jsonl")
    samples = [json.loads(line) for line in log.open()]
    assert scores["sample_len"] == len(samples) == LIMIT
    n_originals = sum(sample["doc"]["kind"] == "original" for sample in samples)
    assert 0 < n_originals < LIMIT
    assert 0 <= scores["n_changed,none"] <= scores["n_pairs,none"] <= LIMIT - n_originals
    assert scores["n_unparsed_originals,none"] + scores["n_true_positives,none"] <= n_originals
    logged = log.read_text()
    assert "counts" not in logged
    assert "donor_region" not in logged
    assert str(phantom_heal_roots["vindr_cxr"].parent) not in logged


# --- what reaches the model -------------------------------------------------------------------------------------------

MODEL: Any = hf_vlms.HFMultimodalLM  # its decorator hides its signature from type checkers


class Recording(MODEL):
    """lm-eval's own model, asked one question at a time; keeps what its processor gives to `generate`, by row."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        self.received: dict[str, Any] = {}
        self.keys: dict[str, str] = {}
        answers = []
        for request in requests:
            self._row = request.doc["id"]
            answers += super().generate_until([request], disable_tqdm=True)
        return answers

    def _model_multimodal_generate(self, inputs: Any, *arguments: Any, **options: Any) -> Any:
        self.received[self._row] = inputs
        return super()._model_multimodal_generate(inputs, *arguments, **options)

    def set_own_hook(self) -> Recording:
        """Takes the place of the response cache, to see the keys that this model files its answers under."""
        self.cache_hook: Any = self
        return self

    def add_partial(self, attribute: str, request: Any, _: str) -> None:
        self.keys[self._row] = hash_args(attribute, request)


@pytest.fixture(scope="module", params=SAVE)
def recorded(request, phantom_heal_build, phantom_heal_roots, tmp_path_factory) -> tuple[Recording, Any]:
    """A tiny model that has answered VPT and TPT, by turns, and the documents; both tasks share their originals."""
    name = request.param
    folder = SAVE[name](tmp_path_factory.mktemp(name))
    options: Any = {"dtype": "float32", "device": "cpu", "batch_size": 1, "image_string": PLACEHOLDER[name]}
    lm: Any = Recording(str(folder), **options).set_own_hook()
    roots = {source: str(root) for source, root in phantom_heal_roots.items()}
    metadata = {"data": str(phantom_heal_build), "roots": roots}
    manager = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    evaluate: Any = lm_eval.simple_evaluate
    tasks = [TASK, "medfaith_heal_vindr_tpt"]
    settings = {"limit": 16, "gen_kwargs": {"max_gen_toks": 1}, "bootstrap_iters": 0}
    samples = evaluate(lm, tasks=tasks, task_manager=manager, **settings)["samples"]
    return lm, {ask: [sample["doc"] for sample in samples[f"medfaith_heal_vindr_{ask}"]] for ask in ("tpt", "vpt")}


def partners(docs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(id of the original, id of the partner), of documents that were asked."""
    return [(doc["original_id"], doc["id"]) for doc in docs if doc["kind"] != "original"]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def test_a_vpt_partner_brings_other_pixels_and_the_same_text(recorded):
    lm, docs = recorded
    found = partners(docs["vpt"])
    assert len(found) == 8
    for original, partner in found:
        before, after = lm.received[original], lm.received[partner]
        assert before["pixel_values"].shape == after["pixel_values"].shape
        assert not torch.equal(before["pixel_values"], after["pixel_values"])
        assert same(before["input_ids"], after["input_ids"])


def test_a_tpt_partner_brings_the_same_pixels_and_another_text(recorded):
    lm, docs = recorded
    found = partners(docs["tpt"])
    assert len(found) > 5
    for original, partner in found:
        before, after = lm.received[original], lm.received[partner]
        assert torch.equal(before["pixel_values"], after["pixel_values"])
        assert not same(before["input_ids"], after["input_ids"])


# --- caches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--use_cache=answers", "--cache_requests=true"])
@pytest.mark.parametrize("task", [TASK, "medfaith_heal_mimic"])
def test_medfaith_eval_refuses_lm_evals_caches(option, task, phantom_heal_build, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "--data", str(phantom_heal_build), "--model", "oracle", "--tasks", task, option]) == 2
    assert option.split("=")[0] in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_why_a_model_files_the_answer_about_an_edited_image_under_its_originals_key(recorded):
    """The response cache: hf-multimodal's key has the text and how to generate, and both are the same."""
    lm, docs = recorded
    for original, partner in partners(docs["vpt"]):
        assert lm.keys[original] == lm.keys[partner]
    for original, partner in partners(docs["tpt"]):
        assert lm.keys[original] != lm.keys[partner]


def vpt_task(data: Path, roots: dict[str, Path]) -> Any:
    metadata = {"data": str(data), "roots": {source: str(root) for source, root in roots.items()}}
    manager: Any = TaskManager(include_path=str(include_path()), include_defaults=False, metadata=metadata)
    return manager.load([TASK])["tasks"][TASK]


def test_why_the_response_cache_cannot_look_these_rows_up(phantom_heal_build, phantom_heal_roots, tmp_path):
    """It hashes what a request holds, and the images of these are not open yet: plain lm-eval breaks off."""
    task = vpt_task(phantom_heal_build, phantom_heal_roots)
    task.build_all_requests(limit=2)
    cached: Any = CachingLM(Oracle(), str(tmp_path / "cache.db"))
    with pytest.raises(TypeError, match="LazyImages"):
        cached.generate_until(task.instances)


def test_why_the_request_cache_serves_the_images_of_another_run(
    phantom_heal_build, phantom_heal_roots, tmp_path, monkeypatch
):
    """Its key has the task's name, but neither data nor roots: this run named no folder of images, and gets some."""
    monkeypatch.setattr(cache, "PATH", str(tmp_path))
    opened = []
    for roots, cached in ((phantom_heal_roots, True), ({}, True), ({}, False)):
        task = vpt_task(phantom_heal_build, roots)
        task.build_all_requests(limit=2, cache_requests=cached)
        visual = task.instances[1].args[2]["visual"]
        if cached:
            opened.append(visual[0].tobytes())
        else:
            with pytest.raises(MissingSourceError):
                visual[:]
    assert opened[0] == opened[1]
