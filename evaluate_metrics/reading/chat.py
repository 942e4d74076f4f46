"""Prompts for a language model. A model is any callable from chat messages to texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

Messages = list[dict[str, str]]


def collect_replies(
    prompts: Sequence[Messages | None], complete: Callable[[Sequence[Messages]], Sequence[str]]
) -> list[str]:
    """Collect the model's reply to each prompt, in order; equal prompts are sent once.

    Args:
        prompts: n prompts; the reply to None is "", without a request.
        complete: The model: distinct prompts in, their replies out, in the same order.

    Returns:
        n replies.
    """
    keys = [json.dumps(prompt) if prompt else "" for prompt in prompts]
    distinct_prompts = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key and prompt}
    replies = dict(zip(distinct_prompts, complete([*distinct_prompts.values()]), strict=True))
    return [replies[key] if key else "" for key in keys]
