"""HEAL-MedVQA: inputs of a real model, and the reason to refuse lm-eval's response cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import hash_args
from lm_eval.models import hf_vlms

from tests.support.tasks.evaluating import evaluate, load
from tests.support.tasks.tiny_models import PLACEHOLDER

TASK = "medfaith_heal_vindr_vpt"


MODEL: Any = hf_vlms.HFMultimodalLM  # its decorator hides its signature from type checkers


class Recording(MODEL):
    """lm-eval's own model, asked one question at a time; records the inputs of `generate` by row."""

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
        """Replace the response cache, to record the keys of the model's answers."""
        self.cache_hook: Any = self
        return self

    def add_partial(self, attribute: str, request: Any, _: str) -> None:
        self.keys[self._row] = hash_args(attribute, request)


@pytest.fixture(scope="module")
def recorded(phantom_heal_build, phantom_heal_roots, vlms) -> tuple[Recording, Any]:
    """A tiny model that has answered VPT and TPT in turn, and the documents; both tasks share their originals."""
    options: Any = {"dtype": "float32", "device": "cpu", "batch_size": 1, "image_string": PLACEHOLDER["llava"]}
    lm: Any = Recording(str(vlms["llava"]), **options).set_own_hook()
    loaded = load([TASK, "medfaith_heal_vindr_tpt"], phantom_heal_build, phantom_heal_roots)
    for task in loaded["tasks"].values():
        task.config.generation_kwargs["max_gen_toks"] = 1
    runs = evaluate(lm, loaded, limit=8)
    return lm, {ask: runs[f"medfaith_heal_vindr_{ask}"]["docs"] for ask in ("tpt", "vpt")}


def list_partners(docs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """List (original id, partner id) of the documents."""
    return [(doc["original_id"], doc["id"]) for doc in docs if doc["kind"] != "original"]


@pytest.mark.parametrize(("ask", "changed"), [("vpt", "pixel_values"), ("tpt", "input_ids")])
def test_a_partner_brings_other_pixels_or_another_text_and_nothing_else(recorded, ask, changed):
    """A VPT partner and its original have one cache key.

    hf-multimodal's key consists of the text and the generation settings, and both are equal.
    """
    lm, docs = recorded
    pairs = list_partners(docs[ask])
    assert len(pairs) > 2
    for original, partner in pairs:
        before, after = lm.received[original], lm.received[partner]
        equal = {name for name in ("pixel_values", "input_ids") if torch.equal(before[name], after[name])}
        assert equal == {"pixel_values", "input_ids"} - {changed}
        assert before["pixel_values"].shape == after["pixel_values"].shape
        assert (lm.keys[original] == lm.keys[partner]) == (ask == "vpt")
