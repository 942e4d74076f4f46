"""Model inputs of a prompt with its images, and of a given answer after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence

from .families import claimed

IGNORED = -100  # label of a token that the loss ignores
PLACEHOLDER = "<image>"
Tensors = dict[str, torch.Tensor]


def question(processor: Any, images: Sequence[Image.Image], text: str) -> Tensors:
    """Encode the prompt of one row, as a user turn if the processor has a chat template.

    With a chat template, images precede the words, as in lm-eval.

    Args:
        processor: Processor of the model.
        images: Images of the prompt.
        text: The prompt with `<image>` for each image.

    Returns:
        input_ids and attention_mask (1, tokens) with all image tokens, and the model's other inputs.
    """
    if getattr(processor, "chat_template", None):
        text_without_images = text.replace(PLACEHOLDER, "")
        content = [
            *({"type": "image", "image": image} for image in images),
            {"type": "text", "text": text_without_images},
        ]
        options = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
        return dict(processor.apply_chat_template([{"role": "user", "content": content}], **options))
    placeholder = getattr(processor, "boi_token", None) or processor.image_token
    return dict(processor(images=[[*images]], text=[text.replace(PLACEHOLDER, placeholder)], return_tensors="pt"))


def answer(processor: Any, text: str) -> torch.Tensor:
    """Tokenize an answer with its end token, as the model generates them after a prompt.

    Without a chat template, a space separates prompt and answer.

    Args:
        processor: Processor of the model.
        text: The answer.

    Returns:
        Shape (tokens,).
    """
    space = "" if getattr(processor, "chat_template", None) else " "
    tokens = processor.tokenizer(space + text, add_special_tokens=False)["input_ids"]
    return torch.tensor([*tokens, processor.tokenizer.eos_token_id])


def append_tokens(inputs: Tensors, tokens: torch.Tensor, types: int = 0) -> Tensors:
    """Append text tokens to the inputs of a prompt.

    Args:
        inputs: Inputs of one row.
        tokens: Token ids (n,).
        types: Value of the tokens in token_type_ids.

    Returns:
        The inputs with the tokens. All inputs with a value for each token are extended, the others are unchanged.
    """
    length = inputs["input_ids"].shape[1]
    more = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "token_type_ids": tokens * 0 + types}
    return {
        name: torch.cat([value, more.get(name, torch.zeros_like(tokens)).to(value)[None]], dim=1)
        if value.ndim == 2 and value.shape[1] == length
        else value
        for name, value in inputs.items()
    }


def append_answer(inputs: Tensors, tokens: torch.Tensor, config: Any) -> Tensors:
    """Append an answer to the inputs of a prompt and add `labels`, IGNORED outside the answer.

    Args:
        inputs: Inputs of one row.
        tokens: Token ids of the answer (n,).
        config: Configuration of the model.

    Returns:
        The inputs with the answer and `labels`.
    """
    family = claimed(config)
    prompt_labels = torch.full_like(inputs["input_ids"], IGNORED)
    labels = torch.cat([prompt_labels, tokens[None]], dim=1)
    return append_tokens(inputs, tokens, family.answer_type if family else 0) | {"labels": labels}


def make_batch(rows: Sequence[Tensors], padding: int) -> Tensors:
    """Join the inputs of several rows, padded at the right to equal lengths and numbers of tiles.

    Args:
        rows: Inputs of each row.
        padding: Id of the padding token.

    Returns:
        Name of the input -> tensor of all rows.
    """
    blank = {"input_ids": padding, "labels": IGNORED}
    batch = {}
    for name, first_value in rows[0].items():
        values = [row[name] for row in rows]
        if first_value.ndim == 2 and first_value.shape[1] == rows[0]["input_ids"].shape[1]:
            columns = [value[0] for value in values]
            batch[name] = pad_sequence(columns, batch_first=True, padding_value=blank.get(name, 0))
        elif len({value.shape[1:] for value in values}) == 1:
            batch[name] = torch.cat(values)
        else:  # images with different numbers of tiles
            tiles = [tile for value in values for tile in value]
            batch[name] = pad_sequence(tiles, batch_first=True)
    return batch
