"""medfaith-explained-vlm on sentences: Grad-CAM of its yes or no is the attention, on a tiny model taught to answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.tasks.explain.store import open_store
from medfaith.tasks.explain.token_cam import token_cam
from medfaith.tasks.models.explained_vlm import ExplainedVLM
from medfaith.tasks.wrong_lung.adapter import ATTENTION, read_reply
from tests.tasks import tiny_models

SIZE = (120, 90)
ASKED = {"Is there a left effusion?": "Yes, there is.", "Is the heart wide?": "It may be."}


def picture(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8))


def ask(row: str, question: str, task: str = "gold") -> Instance:
    doc = {"id": row, "sentence": question, "width": SIZE[0], "height": SIZE[1]}
    arguments: Any = (f"<image>{question}", {"max_gen_toks": 16, "until": ["\n"]}, {"visual": [picture()]})
    return Instance("generate_until", doc, arguments, 0, (task, 0, 1))


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_models.save_llava(tmp_path_factory.mktemp("sentences") / "llava")
    tiny_models.teach(folder, "<image>", ASKED, picture())
    return folder


def load(folder: Path, store: Path) -> ExplainedVLM:
    return ExplainedVLM(str(folder), device="cpu", image_string="<image>", store=str(store), batch_size=2)


def test_attention_is_the_map_of_the_answering_word(taught: Path, tmp_path: Path):
    affirmed, open_ = ASKED
    replies = load(taught, tmp_path).generate_until([ask("a", affirmed), ask("b", open_)])
    assert [json.loads(reply)["text"].strip() for reply in replies] == list(ASKED.values())
    first, second = (read_reply(reply).heatmaps or "" for reply in replies)
    entry = open_store(tmp_path).read(first, "a")
    assert entry.maps[ATTENTION].sum() == pytest.approx(1)
    assert entry.geometry.size == (SIZE[1], SIZE[0])
    assert open_store(tmp_path).read(second, "b").maps == {}  # neither yes nor no: nothing to explain

    model = transformers.AutoModelForImageTextToText.from_pretrained(taught).eval()
    processor = transformers.AutoProcessor.from_pretrained(taught)
    inputs = processor(images=[picture()], text=[f"<image>{affirmed}"], return_tensors="pt")
    start = inputs["input_ids"].shape[1]
    ids = model.generate(**inputs, max_new_tokens=16, do_sample=False)
    texts = [processor.tokenizer.decode(ids[0, start : n + 1]) for n in range(start, ids.shape[1])]
    last = next(n for n, text in enumerate(texts) if "Yes" in text)
    positions = [start + n for n in range(last + 1) if texts[n].strip()]
    full = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    expected = token_cam(model, full, positions, model.config.image_token_id).mean(axis=0)
    assert np.allclose(entry.maps[ATTENTION], expected / expected.sum(), atol=1e-6)


def test_a_row_that_several_tasks_ask_about_is_answered_once(taught: Path, tmp_path: Path, monkeypatch):
    model, asked = load(taught, tmp_path), []
    explain = model._explain
    monkeypatch.setattr(
        model, "_explain", lambda request, *rest: (asked.append(request.doc["id"]), explain(request, *rest))
    )
    question = next(iter(ASKED))
    rows = [ask("a", question), ask("a", question, "swap"), ask("b", question, "swap"), ask("a", question, "random")]
    replies = model.generate_until(rows)
    assert asked == ["a", "b"]
    assert len(set(replies)) == 1  # one model, one image, one sentence
    assert load(taught, tmp_path).generate_until(rows) == replies
