"""A tiny Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<|vision_start|><|image_pad|><|vision_end|>"  # the end tokens separate adjacent images
IN_DETAIL = {"max_side": 280}
CLASS = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL", "qwen3_vl_moe": "Qwen3VLMoe"}
VISION = {  # settings that differ between the vision encoders
    "qwen2_vl": {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2},
    "qwen2_5_vl": {"intermediate_size": 64, "out_hidden_size": 32, "fullatt_block_indexes": [1], "window_size": 56},
    "qwen3_vl": {
        "intermediate_size": 64, "out_hidden_size": 32, "num_position_embeddings": 64, "deepstack_visual_indexes": [0],
    },
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def save_as(kind: str, folder: Path, max_side: int = 84) -> Path:
    """Save a model of a given model_type, of a few hundred thousand weights, with its processor."""
    import transformers as hf

    special = [f"<|{name}|>" for name in ("vision_start", "vision_end", "image_pad", "video_pad")]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(special), strict=True))
    third, experts = kind.startswith("qwen3"), EXPERTS if kind.endswith("moe") else {}
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    vision = {
        "depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2,
        "temporal_patch_size": 2, **VISION[kind.removesuffix("_moe")],
    }  # fmt: skip
    text: dict[str, Any] = tiny_parts.language(tokenizer, num_key_value_heads=2, rope_parameters=rope, **experts)
    text |= {"head_dim": 8} if third else {}
    config = getattr(hf, f"{CLASS[kind]}Config")(text_config=text, vision_config=vision, **ids)
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    images = hf.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=max_side**2)
    name = CLASS[kind].removesuffix("Moe")
    videos = hf.Qwen3VLVideoProcessor() if third else hf.Qwen2VLVideoProcessor()
    processor = getattr(hf, f"{name}Processor")(
        images, tokenizer, videos, chat_template=tiny_parts.chat_template(PLACEHOLDER)
    )
    return tiny_parts.saved(
        folder, tiny_parts.made(getattr(hf, f"{CLASS[kind]}ForConditionalGeneration"), config), processor
    )


TINY = {kind: partial(save_as, kind) for kind in CLASS}
