"""The layers of a vision-language model's language model that LoRA adapts."""

from __future__ import annotations

from typing import Any

from torch import nn


def linear_layers(model: Any) -> list[str]:
    """Full names of the language model's linear layers, without the output layer."""
    inside = {id(module) for module in model.get_decoder().modules()}
    linear = (name for name, module in model.named_modules() if id(module) in inside and isinstance(module, nn.Linear))
    return [name for name in linear if not name.endswith("lm_head")]
