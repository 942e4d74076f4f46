"""Families whose image tokens have no known places: answers and option scores of a tiny model of each class.

The reference is transformers' own generation, token by token, for each row separately.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import transformers

from medfaith.cli import main
from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.models.vlm import families
from medfaith.tasks.models.vlm.explained_vlm import ExplainedVLM
from medfaith.tasks.models.vlm.hf_vlm import HFVisionLM
from tests.support.tasks.asking import asked, noise, scored
from tests.support.tasks.family_kinds import TINY, generate_logits
from tests.support.tiers import keep_quick

PROMPTS = ["<image>\nEdema?", "Edema in <image> or <image>?", "Edema?"]
OPTIONS = [" A", " Pleural effusion"]
IMAGES = [[noise((60, 50), 1)], [noise((60, 90), 2), noise((64, 30), 3)], []]
ALIKE = [[noise((60, 50), 1)], [noise((60, 50), 2), noise((60, 50), 3)], []]  # PerceptionLM batches no others


def load(folder: Path, kind: str) -> Any:
    """Save and load a tiny model with the documented arguments. Llama 4's processor gives bfloat16 in any case."""
    TINY["without_positions"].TINY[kind](folder)
    dtype = "bfloat16" if kind == "llama4" else "float32"
    arguments = {"pretrained": str(folder), "dtype": dtype, "device": "cpu", "batch_size": 2}
    return cast(Any, HFVisionLM).create_from_arg_obj(arguments)


QUICK = ("llama4", "perception_lm")  # bfloat16 only, and images of one size only


@pytest.mark.parametrize("kind", keep_quick(TINY["without_positions"].TINY, lambda kind: kind in QUICK))
def test_answers_and_option_scores_are_those_of_generation(kind: str, tmp_path: Path):
    lm = load(tmp_path / "model", kind)
    prompts, rows = PROMPTS, ALIKE if kind == "perception_lm" else IMAGES
    if lm.processor.chat_template:
        prompts = [lm.apply_chat_template([{"role": "user", "content": text}]).rstrip() for text in PROMPTS]
    pairs = list(zip(prompts, rows, strict=True))
    answers = lm.generate_until([asked(*pair, row, max_gen_toks=4) for row, pair in enumerate(pairs)])
    for answer, prompt, images in zip(answers[:2], prompts, rows, strict=False):
        inputs = lm.processor(images=[images], text=[prompt], return_tensors="pt")
        start = inputs["input_ids"].shape[1]
        tokens = lm.model.generate(**inputs, max_new_tokens=4, do_sample=False)[0, start:]
        assert lm.tokenizer.decode(tokens, skip_special_tokens=True) == answer
    requests = [
        scored(*(prompt, option, images), row, index)
        for row, (prompt, images) in enumerate(pairs)
        for index, option in enumerate(OPTIONS)
    ]
    for request, (score, _) in zip(requests, lm.loglikelihood(requests), strict=True):
        prompt, option, media = cast(Any, request.args)
        tokens = lm.tokenizer(option, add_special_tokens=False)["input_ids"]
        logits = generate_logits(lm, prompt, media["visual"], tokens).float()
        expected = logits.log_softmax(-1)[range(len(tokens)), tokens].sum()
        assert score == pytest.approx(float(expected), abs=2e-3)
    of_two_images = [scored(prompts[0], OPTIONS[1], [noise((60, 50), seed)], seed) for seed in (1, 2)]
    (first, _), (second, _) = lm.loglikelihood(of_two_images)
    assert first != second


def test_images_that_make_no_batch_are_an_error_that_says_what_to_do(tmp_path: Path):
    lm = load(tmp_path / "model", "perception_lm")
    with pytest.raises(MedfaithError, match=r"PerceptionLMProcessor: .*60 x 90, 64 x 30 pixels\n.*: add batch"):
        lm.generate_until([asked(PROMPTS[1], IMAGES[1], max_gen_toks=1)])


def test_heatmaps_are_refused_before_the_weights_load(tmp_path: Path):
    folder = TINY["without_positions"].TINY["deepseek_vl"](tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        MedfaithError, match=r"deepseek_vl: it is not known where .*\n.*Gemma 3, (.|\n)*medfaith-hf-vlm"
    ):
        cast(Any, ExplainedVLM)(str(folder), store=str(tmp_path / "store"), device="cpu")


@pytest.mark.parametrize("kind", families.REFUSED)
def test_models_that_cannot_be_asked_are_refused_before_the_weights_load(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    transformers.AutoConfig.for_model(kind).save_pretrained(tmp_path)
    with pytest.raises(MedfaithError, match=f"{kind}: puts one image before the prompt(.|\n)*medfaith.audit"):
        cast(Any, HFVisionLM)(str(tmp_path), device="cpu")
    arguments = ["--model", "medfaith-hf-vlm", "--model_args", f"pretrained={tmp_path}"]
    assert main(["eval", *arguments, "--tasks", "medfaith_contrabench_chexpert_presence"]) == 2
    assert f"{kind}: puts one image before the prompt" in capsys.readouterr().err
