"""A tiny Phi-4-multimodal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<|image|>"
# The published model's tokenizer has a template for messages of text; its processor has none.
TEXT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
IN_DETAIL: dict[str, Any] = {"side": 64}


def save(folder: Path, side: int = 64) -> Path:
    """Save a Phi4MultimodalForCausalLM of a few hundred thousand weights, with its processor.

    Its processor requires tiles of 16 x 16 tokens, each of 2 x 2 patches.

    Args:
        folder: Where to save the model.
        side: Side of a tile in pixels.
    """
    import transformers as hf

    special_tokens = {"image_token": PLACEHOLDER, "audio_token": "<|audio|>"}
    tokenizer = tiny_parts.tokenizer([*special_tokens.values()], extra_special_tokens=special_tokens)
    image, audio = tokenizer.convert_tokens_to_ids([*special_tokens.values()])
    sizes = {"num_hidden_layers": 1, "image_size": side, "crop_size": side, "patch_size": side // 32}
    vision = {**tiny_parts.TINY, **sizes, "image_token_id": image}
    hearing = {
        "hidden_size": 16, "intermediate_size": 16, "num_blocks": 2, "num_attention_heads": 2, "ext_pw_out_channel": 16,
        "depthwise_separable_out_channel": 16, "nemo_conv_channels": 16, "audio_token_id": audio,
    }  # fmt: skip
    longest = {"max_position_embeddings": 8192, "original_max_position_embeddings": 8192}
    text = tiny_parts.language(tokenizer, **longest)
    config = hf.Phi4MultimodalConfig(vision_config=vision, audio_config=hearing, **text)
    tokenizer.model_max_length = 8192
    images = hf.Phi4MultimodalImageProcessor(size={"height": side, "width": side}, patch_size=side // 32, dynamic_hd=2)
    tokenizer.chat_template = TEXT_TEMPLATE
    processor = hf.Phi4MultimodalProcessor(images, hf.Phi4MultimodalFeatureExtractor(), tokenizer)
    return tiny_parts.saved(folder, tiny_parts.made(hf.Phi4MultimodalForCausalLM, config), processor)


TINY = {"phi4_multimodal": save}
