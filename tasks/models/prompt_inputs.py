"""What a vision-language model is given of a prompt with its images, and of an answer behind it that is given, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence

from .families import claimed

IGNORED = -100  # label of a token that is not learned
PLACEHOLDER = "<image>"
Tensors = dict[str, torch.Tensor]


def question(processor: Any, images: Sequence[Image.Image], text: str) -> Tensors:
    """A prompt of one row, as a user's turn where the processor has a chat template.

    text: with `<image>` where each image stands, as tasks write it. With a chat template images come before the words,
    as lm-eval has it.

    Shapes: input_ids and attention_mask (1, tokens), with every token of the images; the others are the model's own.
    """
    if getattr(processor, "chat_template", None):
        words = text.replace(PLACEHOLDER, "")
        content = [*({"type": "image", "image": image} for image in images), {"type": "text", "text": words}]
        how = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
        return dict(processor.apply_chat_template([{"role": "user", "content": content}], **how))
    mark = getattr(processor, "boi_token", None) or processor.image_token
    return dict(processor(images=[[*images]], text=[text.replace(PLACEHOLDER, mark)], return_tensors="pt"))


def answer(processor: Any, text: str) -> torch.Tensor:
    """The tokens of an answer and of its end, as the model generates them behind a prompt: (tokens,).

    Behind a prompt without a chat template stands a space.
    """
    space = "" if getattr(processor, "chat_template", None) else " "
    tokens = processor.tokenizer(space + text, add_special_tokens=False)["input_ids"]
    return torch.tensor([*tokens, processor.tokenizer.eos_token_id])


def extended(given: Tensors, tokens: torch.Tensor, types: int = 0) -> Tensors:
    """A prompt's inputs, of one row, with further tokens (n,) of text behind it. types: theirs, in token_type_ids."""
    length = given["input_ids"].shape[1]
    more = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "token_type_ids": tokens * 0 + types}
    return {
        name: torch.cat([value, more.get(name, torch.zeros_like(tokens)).to(value)[None]], dim=1)
        if value.ndim == 2 and value.shape[1] == length
        else value
        for name, value in given.items()
    }


def with_answer(given: Tensors, tokens: torch.Tensor, config: Any) -> Tensors:
    """A prompt's inputs with its answer, and `labels` (1, tokens), IGNORED outside the answer."""
    family = claimed(config)
    asked = torch.full_like(given["input_ids"], IGNORED)
    labels = torch.cat([asked, tokens[None]], dim=1)
    return extended(given, tokens, family.answer_type if family else 0) | {"labels": labels}


def batch_of(rows: Sequence[Tensors], padding: int) -> Tensors:
    """The inputs of several rows, padded at the right to one length, and to one number of tiles.

    padding: the id of the token that fills up.
    """
    blank = {"input_ids": padding, "labels": IGNORED}
    found = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if first.ndim == 2 and first.shape[1] == rows[0]["input_ids"].shape[1]:
            columns = [value[0] for value in values]
            found[name] = pad_sequence(columns, batch_first=True, padding_value=blank.get(name, 0))
        elif len({value.shape[1:] for value in values}) == 1:
            found[name] = torch.cat(values)
        else:  # images of unequal numbers of tiles
            tiles = [part for value in values for part in value]
            found[name] = pad_sequence(tiles, batch_first=True)
    return found
