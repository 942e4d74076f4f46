"""A tiny PaliGemma."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<image>"
IN_DETAIL: dict[str, Any] = {"side": 98}


def save(folder: Path, side: int = 28) -> Path:
    """Save a PaliGemmaForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import transformers as hf

    tokenizer = tiny_parts.tokenizer(
        [PLACEHOLDER, "<bos>"], extra_special_tokens={"image_token": PLACEHOLDER}, bos_token="<bos>"
    )
    vision = hf.SiglipVisionConfig(
        **tiny_parts.TINY, image_size=side, patch_size=14, vision_use_head=False, projection_dim=32
    )
    text = hf.GemmaConfig(**tiny_parts.language(tokenizer, head_dim=8, initializer_range=0.2))
    n_tokens = (side // 14) ** 2
    config = hf.PaliGemmaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids(PLACEHOLDER),
        projection_dim=32, hidden_size=32,
    )  # fmt: skip
    images: Any = hf.SiglipImageProcessor(size={"height": side, "width": side})
    images.image_seq_length = n_tokens
    processor = hf.PaliGemmaProcessor(images, tokenizer)
    return tiny_parts.saved(folder, tiny_parts.made(hf.PaliGemmaForConditionalGeneration, config), processor)


TINY = {"paligemma": save}
