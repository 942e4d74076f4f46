"""Relevancy of tokens by dense matrices, from the attentions of all layers in one graph of the whole model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def compute_dense_relevancy(model: Any, inputs: Mapping[str, Any], position: int) -> np.ndarray:
    """Compute R - I with R = (I + T(L-1)) ... (I + T(0)), and return the row that predicts the token at a position."""
    import torch

    decoder = model.get_decoder()
    before, attentions = decoder.config._attn_implementation, []
    handles = [
        layer.self_attn.register_forward_hook(lambda _module, _inputs, output: attentions.append(output[1]))
        for layer in decoder.layers
    ]
    decoder.set_attn_implementation("eager")
    logits = model(**inputs, use_cache=False).logits
    decoder.set_attn_implementation(before)
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(logits[0, position - 1, inputs["input_ids"][0, position]], attentions)
    identity = product = np.eye(inputs["input_ids"].shape[1])
    for attention, gradient in zip(attentions, gradients, strict=True):
        matrix = np.maximum((attention * gradient)[0].detach().double().numpy(), 0).mean(axis=0)
        product = product + matrix @ product
    return (product - identity)[position - 1]
