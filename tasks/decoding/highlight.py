"""Weights added to attention logits, through transformers' attention interface (HEAL-MedVQA, equations 5-7).

`use` makes a part of a model, its vision encoder or its language model, attend through `_attend`. Within `lit`,
`_attend` adds the given weights. Outside of it, attention is plain sdpa.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask

VISION, TEXT = "vision_config", "text_config"  # parts of a model, named by their configurations
_NAMES = {VISION: "medfaith_lit_vision", TEXT: "medfaith_lit_text"}


class Light:
    """Weights that are added to the attention logits of some keys, for every query and head.

    Keys before the first weight (a vision encoder's class token) or after the last one (generated tokens) get no
    weight.

    Args:
        weights: Shape (rows, keys).
        last: Whether the weights belong to the last keys instead of the first.
        packed: Whether the rows form one sequence that attention receives in pieces (Qwen-VL). The weights have shape
            (1, keys), in the order of the pieces.
    """

    def __init__(self, weights: torch.Tensor, *, last: bool = False, packed: bool = False) -> None:
        self.weights, self.last, self.packed, self._place = weights, last, packed, 0

    def compute_bias(self, key: torch.Tensor) -> torch.Tensor:
        """Compute the weights for keys.

        Args:
            key: Keys (rows, heads, keys, dimensions).

        Returns:
            Shape (rows, 1, 1, keys).
        """
        n = key.shape[2]
        weights = self.weights.to(key.device, key.dtype)
        if self.packed:
            bias = weights[:, self._place : self._place + n]
            self._place = (self._place + n) % weights.shape[1]
        else:
            n_unweighted = n - weights.shape[1]
            bias = (
                torch.nn.functional.pad(weights, (n_unweighted, 0) if self.last else (0, n_unweighted))
                if n_unweighted >= 0
                else weights
            )
        if bias.shape != (len(key), n):
            raise ValueError(f"weights {tuple(weights.shape)} for keys {tuple(key.shape)}")
        return bias[:, None, None, :]


_active_lights: dict[str, ContextVar[Light | None]] = {key: ContextVar(key, default=None) for key in _NAMES}


def use(model: Any, model_part: str) -> None:
    """Make a part of a transformers model attend through this module.

    Args:
        model: The model.
        model_part: `VISION` or `TEXT`.
    """
    name = _NAMES[model_part]
    AttentionInterface.register(name, _attend_vision if model_part == VISION else _attend_text)
    AttentionMaskInterface.register(name, eager_mask)
    model.set_attn_implementation({model_part: name})


@contextmanager
def lit(model_part: str, light: Light) -> Iterator[None]:
    """Add weights to the attention of a part within a block.

    Args:
        model_part: `VISION` or `TEXT`.
        light: The weights.

    Yields:
        Nothing.
    """
    token = _active_lights[model_part].set(light)
    try:
        yield
    finally:
        _active_lights[model_part].reset(token)


def _attend(light: Light | None, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
    bias = light.compute_bias(key).expand(-1, -1, query.shape[2], -1) if light is not None else None
    return sdpa_attention_forward(module, query, key, value, mask, position_bias=bias, **options)


def _attend_vision(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    return _attend(_active_lights[VISION].get(), module, query, key, value, attention_mask, **options)


def _attend_text(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    return _attend(_active_lights[TEXT].get(), module, query, key, value, attention_mask, **options)
