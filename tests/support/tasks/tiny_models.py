"""Tiny randomly initialised models of the real classes, saved as `from_pretrained` folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.tasks.tiny_families import gemma3, llava, qwen_vl

save_llava, save_qwen2_5_vl = llava.save, qwen_vl.TINY["qwen2_5_vl"]
SAVE = {"llava": save_llava, "qwen2_5_vl": save_qwen2_5_vl, "gemma3": gemma3.save}
PLACEHOLDER = {  # image placeholder of the processor; without a chat template, pass it as `image_string`
    "llava": llava.PLACEHOLDER,
    "qwen2_5_vl": qwen_vl.PLACEHOLDER,
    "gemma3": gemma3.PLACEHOLDER,
}


def teach(folder: Path, placeholder: str, answers_by_question: Mapping[str, str], image: Any) -> None:
    """Train a few dozen steps on questions and answers, until greedy decoding gives these answers."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).train()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.tokenizer.padding_side = "right"
    texts = [f"{placeholder}{question} {answer}</s>" for question, answer in answers_by_question.items()]
    inputs = processor(images=[[image]] * len(texts), text=texts, padding=True, return_tensors="pt")
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        loss = model(**inputs, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss < 0.06:
            break
    model.save_pretrained(folder)
