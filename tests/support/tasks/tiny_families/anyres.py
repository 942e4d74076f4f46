"""A tiny LLaVA-NeXT and a tiny LLaVA-OneVision."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<image>"
IN_DETAIL: dict[str, Any] = {"side": 60}  # 4 patches of 14 pixels
CLASS = {"llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision"}


def save_as(kind: str, folder: Path, side: int = 28) -> Path:
    """Save a model of a few hundred thousand weights, with its processor.

    A LLaVA-OneVision puts a grid of more than 2 tiles on fewer cells.

    Args:
        kind: The model_type.
        folder: Where to save the model.
        side: Side of a tile in pixels; an image has up to 3 x 4 tiles.
    """
    import transformers as hf

    tokenizer = tiny_parts.tokenizer([PLACEHOLDER, "<video>"], additional_special_tokens=[PLACEHOLDER, "<video>"])
    name, is_llava_next = CLASS[kind], kind == "llava_next"
    n_tokens, pinpoints = (
        (side // 14) ** 2,
        [[rows * side, columns * side] for rows, columns in product((1, 2, 3), (1, 2, 4))],
    )
    if is_llava_next:
        vision: Any = hf.CLIPVisionConfig(**tiny_parts.TINY, image_size=side, patch_size=14)
        text: Any = hf.LlamaConfig(**tiny_parts.language(tokenizer))
        extra_config: dict[str, Any] = {}
    else:
        vision = hf.SiglipVisionConfig(**tiny_parts.TINY, image_size=side, patch_size=14, vision_use_head=False)
        text = hf.Qwen2Config(**tiny_parts.language(tokenizer))
        extra_config = {
            "vision_aspect_ratio": "anyres_max_2",
            "video_token_index": tokenizer.convert_tokens_to_ids("<video>"),
        }
    config = getattr(hf, f"{name}Config")(
        vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids(PLACEHOLDER),
        image_grid_pinpoints=pinpoints, **extra_config,
    )  # fmt: skip
    square = {"height": side, "width": side}
    template = tiny_parts.chat_template(PLACEHOLDER)
    if is_llava_next:
        images: Any = hf.LlavaNextImageProcessor(
            size={"shortest_edge": side}, crop_size=square, image_grid_pinpoints=pinpoints
        )
        processor: Any = hf.LlavaNextProcessor(
            images, tokenizer, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1,
            chat_template=template,
        )  # fmt: skip
    else:
        images = hf.LlavaOnevisionImageProcessor(size=square, image_grid_pinpoints=pinpoints)
        processor = hf.LlavaOnevisionProcessor(
            images, tokenizer, hf.LlavaOnevisionVideoProcessor(), num_image_tokens=n_tokens,
            vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_2", chat_template=template,
        )  # fmt: skip
    return tiny_parts.saved(folder, tiny_parts.made(getattr(hf, f"{name}ForConditionalGeneration"), config), processor)


TINY = {kind: partial(save_as, kind) for kind in CLASS}
