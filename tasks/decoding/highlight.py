"""Weight that is added to attention logits, through transformers' attention interface (HEAL-MedVQA, equations 5-7).

`use` makes a part of a model, its vision encoder or its language model, attend through `_attend`, which adds the
weights of the block that runs within `lit`. Outside of it, attention is plain sdpa.
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

VISION, TEXT = "vision_config", "text_config"  # parts of a model, by the names of their configurations
_NAMES = {VISION: "medfaith_lit_vision", TEXT: "medfaith_lit_text"}


class Light:
    """Weights of shape (rows, keys) that are added to the attention logits of these keys, for every query and head.

    Keys before the first weight (a vision encoder's class token) or behind the last one (what was generated) get none.
    packed: the rows are one sequence that attention gets in pieces (Qwen-VL): shape (1, keys), in the order of the
    pieces.
    """

    def __init__(self, weights: torch.Tensor, *, last: bool = False, packed: bool = False) -> None:
        """last: the weights are those of the last keys, not of the first."""
        self.weights, self.last, self.packed, self._place = weights, last, packed, 0

    def on(self, key: torch.Tensor) -> torch.Tensor:
        """The weights for keys of shape (rows, heads, keys, dimensions): (rows, 1, 1, keys)."""
        n = key.shape[2]
        weights = self.weights.to(key.device, key.dtype)
        if self.packed:
            own = weights[:, self._place : self._place + n]
            self._place = (self._place + n) % weights.shape[1]
        else:
            others = n - weights.shape[1]
            own = (
                torch.nn.functional.pad(weights, (others, 0) if self.last else (0, others)) if others >= 0 else weights
            )
        if own.shape != (len(key), n):
            raise ValueError(f"weights {tuple(weights.shape)} for keys {tuple(key.shape)}")
        return own[:, None, None, :]


_lit: dict[str, ContextVar[Light | None]] = {part: ContextVar(part, default=None) for part in _NAMES}


def use(model: Any, part: str) -> None:
    """Makes this part of a transformers model attend through here."""
    name = _NAMES[part]
    AttentionInterface.register(name, _attend_vision if part == VISION else _attend_text)
    AttentionMaskInterface.register(name, eager_mask)
    model.set_attn_implementation({part: name})


@contextmanager
def lit(part: str, light: Light) -> Iterator[None]:
    """While it runs, the part's attention has these weights."""
    token = _lit[part].set(light)
    try:
        yield
    finally:
        _lit[part].reset(token)


def _attend(light: Light | None, module: Any, query: Any, key: Any, value: Any, mask: Any, **given: Any) -> Any:
    bias = light.compute_bias(key).expand(-1, -1, query.shape[2], -1) if light is not None else None
    return sdpa_attention_forward(module, query, key, value, mask, position_bias=bias, **given)


def _attend_vision(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **given: Any) -> Any:
    return _attend(_lit[VISION].get(), module, query, key, value, attention_mask, **given)


def _attend_text(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **given: Any) -> Any:
    return _attend(_lit[TEXT].get(), module, query, key, value, attention_mask, **given)
