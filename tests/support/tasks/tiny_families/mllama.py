"""A tiny Llama 3.2 Vision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<|image|>"
IN_DETAIL: dict[str, Any] = {"side": 56}


def save(folder: Path, side: int = 28) -> Path:
    """Save a MllamaForConditionalGeneration of a few hundred thousand weights, with its processor.

    Args:
        folder: Where to save the model.
        side: Side of a tile in pixels.
    """
    import torch
    import transformers as hf

    special = [PLACEHOLDER, "<|python_tag|>", "<|begin_of_text|>"]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special[:2], bos_token=special[2])
    vision = hf.MllamaVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_global_layers=1, attention_heads=4,
        vision_output_dim=64, image_size=side, patch_size=14, intermediate_layers_indices=[1],
    )  # fmt: skip
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    sizes = {"num_hidden_layers": 4, "cross_attention_layers": [1, 3], "rope_parameters": rope}
    text = hf.MllamaTextConfig(**tiny_parts.language(tokenizer, **sizes))
    image_token = tokenizer.convert_tokens_to_ids(PLACEHOLDER)
    config = hf.MllamaConfig(vision_config=vision, text_config=text, image_token_index=image_token)
    model = tiny_parts.made(hf.MllamaForConditionalGeneration, config)
    for name, weight in model.named_parameters():
        if "gate" in name and weight.ndim <= 1:
            torch.nn.init.ones_(weight)  # initialized to zero, which would block the image
    images = hf.MllamaImageProcessor(size={"height": side, "width": side})
    return tiny_parts.saved(
        folder, model, hf.MllamaProcessor(images, tokenizer, chat_template=tiny_parts.chat_template(PLACEHOLDER))
    )


TINY = {"mllama": save}
