"""A tiny Qwen2.5-VL."""

from __future__ import annotations

from pathlib import Path

from tests.tasks import tiny_parts

PLACEHOLDER = "<|vision_start|><|image_pad|><|vision_end|>"  # the ends keep neighbouring images apart
IN_DETAIL = {"max_side": 280}


def save(folder: Path, max_side: int = 84) -> Path:
    """A Qwen2_5_VLForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    special = [f"<|{name}|>" for name in ("vision_start", "vision_end", "image_pad", "video_pad")]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(special), strict=True))
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 14,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1],
        "window_size": 56,
    }  # fmt: skip
    text = tiny_parts.language(tokenizer, num_key_value_heads=2, rope_parameters=rope)
    config = hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    processor = hf.Qwen2_5_VLProcessor(
        hf.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=max_side**2), tokenizer, hf.Qwen2VLVideoProcessor(),
        chat_template=tiny_parts.CHAT_TEMPLATE.replace("IMAGE", PLACEHOLDER),
    )  # fmt: skip
    return tiny_parts.saved(folder, hf.Qwen2_5_VLForConditionalGeneration(config), processor)
