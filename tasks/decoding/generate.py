"""The driver of all decoders: a callable for transformers' `model.generate(..., custom_generate=...)`.

Two branches form one batch with twice the rows: the prompts, followed by their contrasts. Both share one forward pass
with correct positions and cache, also in models that keep `rope_deltas` between calls. In every step, both branches get
the same token.
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
    settings (temperature, top_p, sampling, penalties) act on the result of `combine`.

    Args:
        combine: Function (logits of the prompts, logits of the contrasts, step from 1) -> scores, each float32 (n,
            vocabulary). The contrasts are None with one branch.
        branches: 1 or 2. With 2, the inputs have 2n rows: n prompts, then their n contrasts in the same order.
    """

    def __init__(self, combine: Combine, branches: int = 2) -> None:
        self.combine, self.branches = combine, branches

    def __call__(
        self, model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any,
        generation_config: Any, **model_kwargs: Any,
    ) -> Any:  # fmt: skip
        """Generate tokens; transformers calls this method.

        Args:
            model: The model.
            input_ids: Token ids of all rows.
            logits_processor: transformers' processors.
            stopping_criteria: transformers' criteria.
            generation_config: Generation settings.
            **model_kwargs: Inputs of the model.
        """
        start, sampled = input_ids.shape[1], generation_config.do_sample

        def combine_branches(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            branch_scores = scores.float().chunk(self.branches)
            combined_scores = self.combine(
                branch_scores[0], branch_scores[1] if self.branches == 2 else None, tokens.shape[1] - start + 1
            )
            return combined_scores.repeat(self.branches, 1)

        def copy_choice(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            scores_of_prompts = scores[: len(scores) // self.branches]
            if sampled:
                sampled_tokens = torch.multinomial(scores_of_prompts.softmax(-1), 1)
                scores_of_prompts = torch.full_like(scores_of_prompts, -torch.inf).scatter(1, sampled_tokens, 0.0)
            return scores_of_prompts.repeat(self.branches, 1)

        config = copy.deepcopy(generation_config)
        config.do_sample = False  # `copy_choice` has sampled already
        processors = LogitsProcessorList([combine_branches, *logits_processor, copy_choice])
        return model._sample(
            input_ids, logits_processor=processors, stopping_criteria=stopping_criteria, generation_config=config,
            **model_kwargs,
        )  # fmt: skip
