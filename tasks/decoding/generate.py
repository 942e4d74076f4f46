"""The driver of all decoders: a callable for transformers' `model.generate(..., custom_generate=...)`.

Two branches are one batch of twice the rows: the prompts themselves, then what each is contrasted with. So both have
their positions and their cache in one forward pass, also in models that keep `rope_deltas` between calls. Both branches
get the same token in every step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from transformers import LogitsProcessorList

Combine = Callable[[torch.Tensor, torch.Tensor | None, int], torch.Tensor]


class Decoding:
    """A decoding loop: `model.generate(**inputs, custom_generate=Decoding(combine, branches=2))`.

    The output has the rows of both branches, with the same new tokens: the first half is the answer. transformers' own
    settings (temperature, top_p, sampling, penalties) act on what `combine` gives.

    Args:
        combine: (logits of the prompts, logits of what they are contrasted with, step from 1) -> scores, each float32
            of shape (n, vocabulary); the second is None with one branch.
        branches: 1 or 2. With 2, the inputs have 2n rows: n prompts, then n rows in the same order.
    """

    def __init__(self, combine: Combine, branches: int = 2) -> None:
        self.combine, self.branches = combine, branches

    def __call__(
        self, model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any,
        generation_config: Any, **model_kwargs: Any,
    ) -> Any:  # fmt: skip
        """As transformers calls it."""
        start, sampled = input_ids.shape[1], generation_config.do_sample

        def combined(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            parts = scores.float().chunk(self.branches)
            own = self.combine(parts[0], parts[1] if self.branches == 2 else None, tokens.shape[1] - start + 1)
            return own.repeat(self.branches, 1)

        def same(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            own = scores[: len(scores) // self.branches]
            if sampled:
                drawn = torch.multinomial(own.softmax(-1), 1)
                own = torch.full_like(own, -torch.inf).scatter(1, drawn, 0.0)
            return own.repeat(self.branches, 1)

        config = copy.deepcopy(generation_config)
        config.do_sample = False  # `same` has drawn already
        processors = LogitsProcessorList([combined, *logits_processor, same])
        return model._sample(
            input_ids, logits_processor=processors, stopping_criteria=stopping_criteria, generation_config=config,
            **model_kwargs,
        )  # fmt: skip
