"""A tiny Idefics 3 and a tiny SmolVLM."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts

PLACEHOLDER = "<image>"
IN_DETAIL: dict[str, Any] = {"side": 112, "most": 336}
CLASS = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}


def save_as(kind: str, folder: Path, side: int = 28, most: int = 56) -> Path:
    """Save a model of a few hundred thousand weights, with its processor.

    Args:
        kind: The model_type.
        folder: Where to save the model.
        side: Side of a tile in pixels.
        most: Longest side of an image in pixels.
    """
    import transformers as hf

    places = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    special = [PLACEHOLDER, "<fake_token_around_image>", "<end_of_utterance>", "<global-img>", *places]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special)
    name = CLASS[kind]
    vision = getattr(hf, f"{name}VisionConfig")(**tiny_parts.TINY, image_size=side, patch_size=14)
    text = hf.LlamaConfig(**tiny_parts.language(tokenizer, vocab_size=len(tokenizer) + 8))
    config = getattr(hf, f"{name}Config")(
        vision_config=vision, text_config=text, scale_factor=2, pad_token_id=0,
        image_token_id=tokenizer.convert_tokens_to_ids(PLACEHOLDER),
    )  # fmt: skip
    size = {"size": {"longest_edge": most}, "max_image_size": {"longest_edge": side}}
    components: list[Any] = [getattr(hf, f"{name}ImageProcessor")(**size), tokenizer]
    if kind == "smolvlm":
        components.append(hf.SmolVLMVideoProcessor())
    processor = getattr(hf, f"{name}Processor")(
        *components, image_seq_len=(side // 28) ** 2,
        chat_template=tiny_parts.chat_template(PLACEHOLDER),
    )  # fmt: skip
    return tiny_parts.saved(folder, tiny_parts.made(getattr(hf, f"{name}ForConditionalGeneration"), config), processor)


TINY = {kind: partial(save_as, kind) for kind in CLASS}
