"""A tiny InternVL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<IMG_CONTEXT>"
IN_DETAIL: dict[str, Any] = {"side": 112}


def save(folder: Path, side: int = 28) -> Path:
    """Save an InternVLForConditionalGeneration of a few hundred thousand weights, with its processor.

    Args:
        folder: Where to save the model.
        side: Side of a tile in pixels.
    """
    import transformers as hf

    special_tokens = {
        "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": PLACEHOLDER,
        "video_token": "<video>",
    }  # fmt: skip
    tokenizer = tiny_parts.tokenizer([*special_tokens.values()], extra_special_tokens=special_tokens)
    vision = hf.InternVLVisionConfig(
        **tiny_parts.TINY, image_size=(side, side), patch_size=(14, 14), layer_scale_init_value=1.0
    )
    n_tokens = (side // 28) ** 2
    config = hf.InternVLConfig(
        vision_config=vision, text_config=hf.Qwen2Config(**tiny_parts.language(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids(PLACEHOLDER), image_seq_length=n_tokens,
        tie_word_embeddings=False,
    )  # fmt: skip
    images = hf.GotOcr2ImageProcessor(size={"height": side, "width": side}, min_patches=1, max_patches=6)
    processor = hf.InternVLProcessor(
        images, tokenizer, hf.InternVLVideoProcessor(), image_seq_length=n_tokens,
        chat_template=tiny_parts.chat_template(PLACEHOLDER),
    )  # fmt: skip
    return tiny_parts.saved(folder, tiny_parts.made(hf.InternVLForConditionalGeneration, config), processor)


TINY = {"internvl": save}
