"""A tiny LLaVA-1.5 and a tiny ViP-LLaVA."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<image>"
IN_DETAIL = {"side": 98}


def save(folder: Path, side: int = 28, kind: str = "Llava", **language: Any) -> Path:
    """Save a LlavaForConditionalGeneration of a few hundred thousand weights, with its processor.

    Args:
        folder: Where to save it.
        side: Side of an image in pixels.
        kind: The family, Llava or VipLlava.
        **language: Settings of the language model that differ from the usual ones.
    """
    import transformers as hf

    tokenizer = tiny_parts.tokenizer(["<image>"], additional_special_tokens=["<image>"])
    vision = hf.CLIPVisionConfig(**tiny_parts.TINY, image_size=side, patch_size=14)
    text = hf.LlamaConfig(**tiny_parts.language(tokenizer, **language))
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    kind_options = {"vision_feature_layers": [-2, -1]} if kind == "VipLlava" else {}
    config = getattr(hf, f"{kind}Config")(
        vision_config=vision, text_config=text, image_token_index=image_token, **kind_options
    )
    model = tiny_parts.made(getattr(hf, f"{kind}ForConditionalGeneration"), config)
    model.generation_config.pad_token_id = 0
    processor = hf.LlavaProcessor(
        hf.CLIPImageProcessor(size={"shortest_edge": side}, crop_size={"height": side, "width": side}), tokenizer,
        patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=tiny_parts.chat_template(PLACEHOLDER),
    )  # fmt: skip
    return tiny_parts.saved(folder, model, processor)


TINY = {"llava": save, "vipllava": partial(save, kind="VipLlava")}
