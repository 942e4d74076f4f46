"""A tiny Pixtral (LLaVA with Pixtral's vision encoder) and a tiny Mistral 3."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "[IMG]"
IN_DETAIL: dict[str, Any] = {"most": 252}
CLASS = {"pixtral": "Llava", "mistral3": "Mistral3"}


def save_as(kind: str, folder: Path, most: int = 84) -> Path:
    """Save a model of a few hundred thousand weights, with its processor.

    Args:
        kind: The model_type.
        folder: Where to save the model.
        most: Longer side of an image in pixels.
    """
    import transformers as hf

    special = [PLACEHOLDER, "[IMG_BREAK]", "[IMG_END]"]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special)
    merge = 1 if kind == "pixtral" else 2
    vision = hf.PixtralVisionConfig(**tiny_parts.TINY, image_size=most, patch_size=14)
    text = hf.MistralConfig(**tiny_parts.language(tokenizer, head_dim=8))
    extra_config: dict[str, Any] = (
        {"vision_feature_select_strategy": "full"} if merge == 1 else {"spatial_merge_size": merge}
    )
    config = getattr(hf, f"{CLASS[kind]}Config")(
        vision_config=vision, text_config=text, vision_feature_layer=-1,
        image_token_index=tokenizer.convert_tokens_to_ids(PLACEHOLDER), **extra_config,
    )  # fmt: skip
    images = hf.PixtralImageProcessor(size={"longest_edge": most}, patch_size={"height": 14, "width": 14})
    processor = hf.PixtralProcessor(
        images, tokenizer, patch_size=14, spatial_merge_size=merge,
        chat_template=tiny_parts.chat_template(PLACEHOLDER),
    )  # fmt: skip
    return tiny_parts.saved(
        folder, tiny_parts.made(getattr(hf, f"{CLASS[kind]}ForConditionalGeneration"), config), processor
    )


TINY = {kind: partial(save_as, kind) for kind in CLASS}
