"""Encoder-decoders of images and text (Florence-2): the encoder reads the prompt, and the decoder writes the answer.

The processor puts the one image before the text, so that a prompt has no placeholder. The model generates the answer
alone, where lm-eval expects prompt and answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from lm_eval.models.hf_vlms import DEFAULT_IMAGE_PLACEHOLDER

from ....loaders.errors import InputError

_LOCATION = re.compile(r"<loc_?\d+>")


def write_prompts(strings: Sequence[str], tokenizer: Any, *, has_images: bool) -> list[str]:
    """Write prompts as the processor takes them.

    Args:
        strings: The prompts, with a placeholder for an image.
        tokenizer: The tokenizer.
        has_images: Whether the prompts have images. The processor adds the ends of a text only then.

    Returns:
        The prompts.
    """
    texts = [text.replace(DEFAULT_IMAGE_PLACEHOLDER, "").strip() for text in strings]
    return texts if has_images else [f"{tokenizer.bos_token}{text}{tokenizer.eos_token}" for text in texts]


def check_length(n_tokens: int, config: Any) -> None:
    """Check that the encoder has a position for each token.

    Args:
        n_tokens: Number of tokens of the longest prompt.
        config: Configuration of the model.

    Raises:
        InputError: The prompt is too long.
    """
    limit = config.text_config.max_position_embeddings
    if n_tokens > limit:
        action = "ask tasks with shorter prompts, or a model with a longer context"
        raise InputError(f"pretrained: {config.model_type}", f"reads {limit} of {n_tokens} tokens", action=action)


def join_prompt_and_answer(input_ids: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Join prompts and generated answers, as decoder-only models return them.

    Args:
        input_ids: Tokens of the prompts, shape (n, prompt).
        output: Tokens of the decoder with its start token, shape (n, 1 + answer).

    Returns:
        Shape (n, prompt + answer).
    """
    return torch.cat([input_ids, output[:, 1:].to(input_ids)], dim=1)


def find_hidden_tokens(tokenizer: Any) -> frozenset[int]:
    """Find the special tokens that no answer shows, if locations (`<loc_123>`) are special tokens, too.

    Args:
        tokenizer: The tokenizer.

    Returns:
        All special tokens without the locations; none if no location is special.
    """
    tokens = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    hidden = frozenset(number for number, token in tokens.items() if not _LOCATION.fullmatch(token))
    return hidden if len(hidden) < len(tokens) else frozenset()
