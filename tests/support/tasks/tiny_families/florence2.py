"""A tiny Florence-2, an encoder-decoder whose processor writes the image and the task into the prompt itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

N_BINS = 1000
PLACEHOLDER = ""
IN_DETAIL: dict[str, Any] = {}


def save(folder: Path, side: int = 64) -> Path:
    """Save a Florence2ForConditionalGeneration of some hundred thousand weights, with its processor."""
    import transformers as hf

    locations = [f"<loc_{n}>" for n in range(N_BINS)]
    tokenizer = tiny_parts.tokenizer(
        ["<image>", "<s>"], extra_special_tokens={"image_token": "<image>"}, bos_token="<s>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": locations})  # special, as in Florence-2's own files
    vision = hf.Florence2VisionConfig(
        depths=[1, 1], patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1], patch_prenorm=[False, True],
        embed_dim=[16, 32], num_heads=[2, 4], num_groups=[2, 4], window_size=4, projection_dim=32,
    )  # fmt: skip
    text = hf.BartConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=512, init_std=0.2,
        pad_token_id=0, bos_token_id=tokenizer.bos_token_id, eos_token_id=1, decoder_start_token_id=1,
        forced_eos_token_id=None,
    )  # fmt: skip
    config = hf.Florence2Config(
        text_config=text, vision_config=vision, image_token_id=tokenizer.convert_tokens_to_ids("<image>")
    )
    images: Any = hf.CLIPImageProcessor(
        size={"height": side, "width": side}, crop_size={"height": side, "width": side}, do_center_crop=False
    )
    images.image_seq_length = (side // 8) ** 2 + 1
    processor = hf.Florence2Processor(images, tokenizer)
    model = tiny_parts.made(hf.Florence2ForConditionalGeneration, config)
    return tiny_parts.saved(folder, model, processor)


TINY = {"florence2": save}
