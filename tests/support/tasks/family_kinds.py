"""The families of tasks/models/vlm/families and the tiny models of each."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from medfaith.tasks.models.vlm import families
from medfaith.tasks.models.vlm.families import Family

MODULES = sorted(path.stem for path in Path(families.__file__).parent.glob("[!_]*.py"))
TINY = {file: importlib.import_module(f"tests.support.tasks.tiny_families.{file}") for file in MODULES}
FILES = [file for file in MODULES if file not in ("without_positions", "florence2")]
QUICK = ("llava", "qwen2_5_vl", "mllama")  # one grid, tokens of any number, and cross-attention
SIZES = [(160, 90), (60, 130), (240, 230), (300, 60)]  # width and height


def list_kinds(files: Iterable[str], quick: Iterable[str] = QUICK) -> list[Any]:
    """List file and model_type of each tiny model of some families; those that are not `quick` are marked full."""
    file_kinds = [(file, kind) for file in files for kind in TINY[file].TINY]
    marks = dict.fromkeys(quick, ())
    return [pytest.param(pair, id="-".join(pair), marks=marks.get(pair[1], pytest.mark.full)) for pair in file_kinds]


def generate_logits(lm: Any, prompt: str, images: Sequence[Image.Image], tokens: Sequence[int]) -> torch.Tensor:
    """Return the logits before each token, (n, vocabulary), while transformers is forced to generate these tokens."""
    inputs = lm.tok_batch_multimodal_encode([prompt], [list(images)])
    start = inputs["input_ids"].shape[1]
    output = lm.model.generate(
        **inputs, max_new_tokens=len(tokens), do_sample=False, output_logits=True, return_dict_in_generate=True,
        prefix_allowed_tokens_fn=lambda _, ids: [tokens[len(ids) - start]], eos_token_id=None,
    )  # fmt: skip
    return torch.cat(output.logits)


def get_family(file: str) -> Family:
    return importlib.import_module(f"{families.__name__}.{file}").FAMILY
