"""A tiny Gemma 3."""

from __future__ import annotations

from pathlib import Path

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<start_of_image>"
IN_DETAIL = {"side": 112}


def save(folder: Path, side: int = 56) -> Path:
    """Save a tiny Gemma3ForConditionalGeneration (MedGemma's class) with its processor."""
    import torch
    import transformers as hf

    special = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = tiny_parts.tokenizer([*special.values()], extra_special_tokens=special)
    ids = {f"{name}_index": tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    layers = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    text = tiny_parts.language(tokenizer, num_key_value_heads=2, head_dim=8, initializer_range=0.2, **layers)
    vision = tiny_parts.TINY | {"image_size": side, "patch_size": 14}
    config = hf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=(side // 28) ** 2, **ids)
    model = tiny_parts.made(hf.Gemma3ForConditionalGeneration, config)
    # Initialized to zero, which would block the image.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)
    images = hf.Gemma3ImageProcessor(size={"height": side, "width": side})
    processor = hf.Gemma3Processor(
        images, tokenizer, chat_template=tiny_parts.chat_template(PLACEHOLDER), image_seq_length=(side // 28) ** 2
    )
    return tiny_parts.saved(folder, model, processor)


TINY = {"gemma3": save}
