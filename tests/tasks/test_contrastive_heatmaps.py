"""Heatmaps are those of an independent computation on the library's own forward pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from captum.attr import LayerGradCam

from medfaith.tasks.models.contrastive import ContrastiveLM
from tests.tasks.tiny_contrastive import FRAMES, PROMPTS


@pytest.mark.parametrize("family", ["clip", "blip"])
@pytest.mark.parametrize("explainer", ["rollout", "rollout_last", "rollout_forward"])
def test_rollout_is_the_recursion_on_the_librarys_own_forward_pass(family, explainer, families):
    folder = families[family]["pretrained"]
    lm = ContrastiveLM(folder, explainer=explainer, device="cpu")
    grids, _ = lm.explain(FRAMES[1], PROMPTS, [3, 6])
    kind = transformers.CLIPModel if family == "clip" else transformers.BlipForImageTextRetrieval
    model: Any = kind.from_pretrained(folder, attn_implementation="eager")  # weights not frozen
    processor = transformers.AutoProcessor.from_pretrained(folder)
    for grid, index in zip(grids, [3, 6], strict=True):
        inputs = processor(text=[PROMPTS[index]], images=FRAMES[1], return_tensors="pt")
        if family == "clip":
            output = model(**inputs, output_attentions=True)
            score, attentions = output.logits_per_image[0, 0], output.vision_model_output.attentions
            score = score / model.logit_scale.exp() * 100
        else:
            output = model(**inputs, use_itm_head=False, output_attentions=True)
            score, attentions = output.itm_score[0, 0] * 100, output.attentions
        slopes = torch.autograd.grad(score, attentions)
        weighted = [
            np.maximum((a * s)[0].detach().numpy(), 0).mean(axis=0) for a, s in zip(attentions, slopes, strict=True)
        ]
        relevance = np.eye(len(weighted[0]))
        for matrix in {"rollout": weighted[::-1], "rollout_forward": weighted, "rollout_last": weighted[-1:]}[
            explainer
        ]:
            relevance = relevance + matrix @ relevance
        np.testing.assert_allclose(grid, relevance[0, 1:].reshape(4, 4), rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("family", ["open_clip", "surgvlp"])
def test_grad_cam_is_captums_on_the_last_block(family, models):
    lm = models[family]
    encoder: Any = lm._encoder
    indices = [1, 4] if family == "open_clip" else [2]
    grids, _ = lm.explain(FRAMES[0], PROMPTS, indices)
    texts = encoder.text(PROMPTS)
    vision: Any = encoder.network.visual if family == "open_clip" else encoder.network["backbone_img"]["model"]
    pixels = encoder.pixels([FRAMES[0]]).requires_grad_()
    explain = LayerGradCam(lambda p: 100 * encoder.image(p) @ texts.T, vision.layer4[-1])
    for grid, target in zip(grids, indices, strict=True):
        expected: Any = explain.attribute(pixels, target=target, relu_attributions=True)
        np.testing.assert_allclose(grid, expected[0, 0].detach().numpy(), rtol=1e-3, atol=1e-5)
    assert grids.max() > 0
