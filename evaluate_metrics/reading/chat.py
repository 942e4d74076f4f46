"""Prompts for a language model. A model is any callable from chat messages to a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

Messages = list[dict[str, str]]
Complete = Callable[[Messages], str]


def collect_replies(
    prompts: Sequence[Messages | None],
    complete: Complete,
    progress: Callable[[Sequence[Messages]], Iterable[Messages]] = iter,
) -> list[str]:
    """Collect the model's reply to each prompt, in order; equal prompts are sent once.

    Args:
        prompts: n prompts; the reply to None is "", without a request.
        complete: The model: chat messages in, its reply out.
        progress: Wraps the prompts that are sent, like tqdm.

    Returns:
        n replies.
    """
    keys = [json.dumps(prompt) if prompt else "" for prompt in prompts]
    distinct_prompts = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key and prompt}
    sent = progress([*distinct_prompts.values()])
    replies = {key: complete(prompt) for key, prompt in zip(distinct_prompts, sent, strict=True)}
    return [replies[key] if key else "" for key in keys]
