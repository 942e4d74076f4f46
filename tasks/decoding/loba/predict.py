"""An answer with the mask of where the model looks: localize first, then answer (HEAL-MedVQA, section 4.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from ...models.prompt_inputs import Tensors, append_tokens
from .model import Loba


class Localized(NamedTuple):
    """text: all that the model says, with <SEG>. mask: bool (h, w) in the image's pixels; None: it said no <SEG>."""

    text: str
    mask: np.ndarray | None


class Located(NamedTuple):
    """What a model says up to <SEG>. inputs: the question and these tokens. said: (tokens,). mask: as of Localized."""

    inputs: Tensors
    said: torch.Tensor
    mask: np.ndarray | None


def localize(loba: Loba, image: Image.Image, question: str, max_new_tokens: int = 128) -> Localized:
    """The likeliest answer, token by token, and its mask.

    question: the words that follow the image, as in training (`tasks.heal.prompts.prompt`). A second <SEG> has no mask.
    """
    with torch.inference_mode():
        first = locate(loba, image, loba.encoder.question(image, question), max_new_tokens)
        left = max_new_tokens - len(first.said)
        rest = _generated(loba, first.inputs, left) if first.mask is not None and left else first.said[:0]
    ends = loba.encoder.tokenizer.all_special_ids
    said = [token for token in torch.cat([first.said, rest]).tolist() if token not in ends]
    return Localized(loba.encoder.tokenizer.decode(said), first.mask)


def locate(loba: Loba, image: Image.Image, question: Tensors, max_new_tokens: int = 128) -> Located:
    """What the model says up to <SEG>, or to its end, and the mask that <SEG> gives.

    question: the prompt of one row with this image, as the model takes it. Whoever changes how the model goes on,
    such as by highlighting the mask, goes on from `inputs`.
    """
    asked = {name: value.to(loba.device) for name, value in question.items()}
    said = _generated(loba, asked, max_new_tokens, [loba.encoder.seg])
    inputs = append_tokens(asked, said)
    if not len(said) or said[-1] != loba.encoder.seg:
        return Located(inputs, said, None)
    state = loba.vlm(**inputs, output_hidden_states=True).hidden_states[-1][:, -1]
    pixels = loba.encoder.pixels(image)
    logits = loba.decode(state, pixels["pixel_values"].to(loba.device))
    return Located(inputs, said, loba.encoder.mask(logits[0], pixels))


def _generated(loba: Loba, inputs: Tensors, max_new_tokens: int, stops: list[int] | None = None) -> torch.Tensor:
    """The tokens that follow the inputs: (tokens,)."""
    ends = [loba.encoder.tokenizer.eos_token_id, *(stops or [])]
    how = {"max_new_tokens": max_new_tokens, "do_sample": False, "eos_token_id": ends}
    tokens = loba.vlm.generate(**inputs, **how, pad_token_id=loba.encoder.padding)
    return tokens[0, inputs["input_ids"].shape[1] :]
