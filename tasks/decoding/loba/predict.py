"""An answer with a mask of the attended region: localize first, then answer (HEAL-MedVQA, section 4.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from ...models.vlm.prompt_inputs import Tensors, append_tokens
from .model import Loba


class Localized(NamedTuple):
    """An answer with its mask.

    Attributes:
        text: All generated text, with <SEG>.
        mask: bool (h, w) in image pixels, or None without <SEG>.
    """

    text: str
    mask: np.ndarray | None


class Located(NamedTuple):
    """The generation up to <SEG>.

    Attributes:
        inputs: The question and the generated tokens.
        tokens: Generated tokens (tokens,).
        mask: As in Localized.
    """

    inputs: Tensors
    tokens: torch.Tensor
    mask: np.ndarray | None


def localize(loba: Loba, image: Image.Image, question: str, max_new_tokens: int = 128) -> Localized:
    """Generate the likeliest answer and its mask. A second <SEG> has no mask.

    Args:
        loba: The model.
        image: The image.
        question: Text after the image, as in training (`tasks.heal.prompts.prompt`).
        max_new_tokens: Maximum number of generated tokens.

    Returns:
        The answer without special tokens, and the mask; None instead of a mask if the answer has no <SEG>.
    """
    with torch.inference_mode():
        location = locate(loba, image, loba.encoder.question(image, question), max_new_tokens)
        n_remaining = max_new_tokens - len(location.tokens)
        further_tokens = (
            _generate(loba, location.inputs, n_remaining)
            if location.mask is not None and n_remaining
            else location.tokens[:0]
        )
    ends = loba.encoder.tokenizer.all_special_ids
    tokens = [token for token in torch.cat([location.tokens, further_tokens]).tolist() if token not in ends]
    return Localized(loba.encoder.tokenizer.decode(tokens), location.mask)


def locate(loba: Loba, image: Image.Image, question: Tensors, max_new_tokens: int = 128) -> Located:
    """Generate up to <SEG>, or to the end of the answer, and decode the mask of <SEG>.

    Code that changes the further generation, such as highlighting the mask, continues from `inputs` of the result.

    Args:
        loba: The model.
        image: The image.
        question: Inputs of one row with this image.
        max_new_tokens: Maximum number of generated tokens.

    Returns:
        The inputs with the generated tokens, these tokens, and the mask; None instead of a mask if no <SEG> came.
    """
    question_inputs = {name: value.to(loba.device) for name, value in question.items()}
    tokens = _generate(loba, question_inputs, max_new_tokens, [loba.encoder.seg])
    inputs = append_tokens(question_inputs, tokens)
    if not len(tokens) or tokens[-1] != loba.encoder.seg:
        return Located(inputs, tokens, None)
    state = loba.vlm(**inputs, output_hidden_states=True).hidden_states[-1][:, -1]
    pixels = loba.encoder.pixels(image)
    logits = loba.decode(state, pixels["pixel_values"].to(loba.device))
    return Located(inputs, tokens, loba.encoder.mask(logits[0], pixels))


def _generate(loba: Loba, inputs: Tensors, max_new_tokens: int, stops: list[int] | None = None) -> torch.Tensor:
    """Generate the tokens that follow the inputs: (tokens,)."""
    ends = [loba.encoder.tokenizer.eos_token_id, *(stops or [])]
    settings = {"max_new_tokens": max_new_tokens, "do_sample": False, "eos_token_id": ends}
    tokens = loba.vlm.generate(**inputs, **settings, pad_token_id=loba.encoder.padding)
    return tokens[0, inputs["input_ids"].shape[1] :]
