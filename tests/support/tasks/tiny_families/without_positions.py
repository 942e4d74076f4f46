"""Tiny models of the families whose image tokens have no known places: a function for each model_type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.tasks import tiny_parts
from tests.support.tasks.tiny_families import qwen_vl

SIDE, PATCH = 28, 14  # of an image and of a patch, in pixels
VISION = tiny_parts.TINY | {"image_size": SIDE, "patch_size": PATCH}
SIZE = {"height": SIDE, "width": SIDE}
ROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}


def _import_transformers() -> Any:
    """Import transformers as an object of any type: its lazy imports hide some classes from type checkers."""
    import transformers

    return transformers


def _build_tokenizer(special: Mapping[str, str], *more: str) -> Any:
    """Build a tokenizer whose attributes name special tokens, such as `image_token`; `more` are without attributes."""
    tokens = [*special.values(), *more]
    return tiny_parts.tokenizer(tokens, extra_special_tokens=dict(special), additional_special_tokens=list(more))


def _save(folder: Path, name: str, config: Any, processor: Any) -> Path:
    hf = _import_transformers()
    return tiny_parts.saved(folder, tiny_parts.made(getattr(hf, f"{name}ForConditionalGeneration"), config), processor)


def save_aria(folder: Path) -> Path:
    hf = _import_transformers()
    tokenizer = _build_tokenizer({"image_token": "<image>"})
    text = hf.AriaTextConfig(**tiny_parts.language(tokenizer, moe_num_experts=4, moe_num_shared_experts=1))
    vision = hf.Idefics3VisionConfig(**tiny_parts.TINY, image_size=980, patch_size=140)
    config = hf.AriaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.image_token_id,
        projector_patch_to_query_dict={49: 4},
    )  # fmt: skip
    images = hf.AriaImageProcessor(max_image_size=980, min_image_size=140)
    processor = hf.AriaProcessor(images, tokenizer, tiny_parts.chat_template("<image>"), size_conversion={980: 4})
    return _save(folder, "Aria", config, processor)


def save_aya_vision(folder: Path) -> Path:
    hf = _import_transformers()
    marks = ["<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_LINE_BREAK|>", "TILE_GLOBAL"]
    tokenizer = _build_tokenizer({"image_token": "<image>"}, *marks, *(f"TILE_{tile}" for tile in range(1, 13)))
    config = hf.AyaVisionConfig(
        vision_config=hf.SiglipVisionConfig(**VISION), text_config=hf.Cohere2Config(**tiny_parts.language(tokenizer)),
        image_token_index=tokenizer.convert_tokens_to_ids("<|IMG_PATCH|>"),
    )  # fmt: skip
    processor = hf.AyaVisionProcessor(
        hf.GotOcr2ImageProcessor(size=SIZE, crop_to_patches=True, max_patches=2), tokenizer, patch_size=PATCH,
        img_size=SIDE, downsample_factor=2, chat_template=tiny_parts.chat_template("<image>"),
    )  # fmt: skip
    return _save(folder, "AyaVision", config, processor)


def save_cohere2_vision(folder: Path) -> Path:
    hf = _import_transformers()
    special = {
        "image_token": "<|IMG_PATCH|>", "boi_token": "<|START_OF_IMG|>", "eoi_token": "<|END_OF_IMG|>",
        "img_line_break_token": "<|IMG_LINE_BREAK|>",
    }  # fmt: skip
    tokenizer = _build_tokenizer(special)
    config = hf.Cohere2VisionConfig(
        vision_config=hf.SiglipVisionConfig(**VISION), text_config=hf.Cohere2Config(**tiny_parts.language(tokenizer)),
        image_token_id=tokenizer.image_token_id, alignment_intermediate_size=64,
    )  # fmt: skip
    images = hf.Cohere2VisionImageProcessor(size=SIZE, patch_size=1, max_patches=2)  # 1 x 1 token in a tile
    processor = hf.Cohere2VisionProcessor(images, tokenizer, tiny_parts.chat_template("<|IMG_PATCH|>"))
    return _save(folder, "Cohere2Vision", config, processor)


def save_deepseek_vl(folder: Path) -> Path:
    hf = _import_transformers()
    tokenizer = _build_tokenizer({"image_token": "<image_placeholder>"})
    config = hf.DeepseekVLConfig(
        vision_config=hf.SiglipVisionConfig(**VISION), text_config=hf.LlamaConfig(**tiny_parts.language(tokenizer)),
        image_token_id=tokenizer.image_token_id,
    )  # fmt: skip
    processor = hf.DeepseekVLProcessor(
        hf.DeepseekVLImageProcessor(size=SIZE), tokenizer, tiny_parts.chat_template("<image_placeholder>"),
        num_image_tokens=4,
    )  # fmt: skip
    return _save(folder, "DeepseekVL", config, processor)


def save_gemma4(folder: Path) -> Path:
    hf = _import_transformers()
    special = {f"{name}_token": f"<|{name}|>" for name in ("image", "boi", "eoi", "audio", "boa", "eoa", "video")}
    tokenizer = _build_tokenizer(special)
    ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    del ids["eoa_token_id"]  # the configuration names it otherwise
    text = tiny_parts.language(
        tokenizer, num_key_value_heads=2, head_dim=8, sliding_window=16, initializer_range=0.2,
        vocab_size_per_layer_input=len(tokenizer), hidden_size_per_layer_input=8,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    patches = {"patch_size": 4, "pooling_kernel_size": 2}
    vision = tiny_parts.TINY | patches | {"head_dim": 8, "num_key_value_heads": 4, "position_embedding_size": 64}
    config = hf.Gemma4Config(text_config=text, vision_config=vision, audio_config=None, **ids)
    processor = hf.Gemma4Processor(
        hf.Gemma4AudioFeatureExtractor(), hf.Gemma4ImageProcessor(**patches, max_soft_tokens=70), tokenizer,
        hf.Gemma4VideoProcessor(**patches), tiny_parts.chat_template("<|image|>"),
    )  # fmt: skip
    return _save(folder, "Gemma4", config, processor)


def save_glm4v(folder: Path) -> Path:
    hf = _import_transformers()
    tokens = {
        "image": "<|image|>", "video": "<|video|>", "image_start": "<|begin_of_image|>",
        "image_end": "<|end_of_image|>", "video_start": "<|begin_of_video|>", "video_end": "<|end_of_video|>",
    }  # fmt: skip
    image, video, *marks = tokens.values()
    tokenizer = _build_tokenizer({"image_token": image, "video_token": video}, *marks)
    ids = {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in tokens.items()}
    text = tiny_parts.language(tokenizer, num_key_value_heads=2, rope_parameters=ROPE)
    vision = {
        "depth": 2, "hidden_size": 32, "num_heads": 2, "image_size": 84, "out_hidden_size": 32, "intermediate_size": 64,
    }  # fmt: skip
    config = hf.Glm4vConfig(text_config=text, vision_config=vision, **ids)
    size = {"shortest_edge": 56 * 56, "longest_edge": 84 * 84}
    placeholder = f"{tokens['image_start']}{image}{tokens['image_end']}"
    processor = hf.Glm4vProcessor(
        hf.Glm4vImageProcessor(size=size), tokenizer, hf.Glm4vVideoProcessor(size=size),
        tiny_parts.chat_template(placeholder),
    )  # fmt: skip
    return _save(folder, "Glm4v", config, processor)


def save_idefics2(folder: Path) -> Path:
    hf = _import_transformers()
    special = {"image_token": "<image>", "image_boundary_token": "<fake_token_around_image>"}
    tokenizer = _build_tokenizer(special, "<end_of_utterance>")
    perceiver = {
        "hidden_size": 32, "resampler_n_latents": 4, "resampler_depth": 1, "resampler_n_heads": 2,
        "resampler_head_dim": 16, "num_key_value_heads": 2,
    }  # fmt: skip
    text = hf.MistralConfig(**tiny_parts.language(tokenizer))
    config = hf.Idefics2Config(
        vision_config=VISION, perceiver_config=perceiver, text_config=text, image_token_id=tokenizer.image_token_id
    )
    size = {"shortest_edge": SIDE, "longest_edge": 2 * SIDE}
    processor = hf.Idefics2Processor(
        hf.Idefics2ImageProcessor(do_image_splitting=False, size=size), tokenizer, image_seq_len=4,
        chat_template=tiny_parts.chat_template("<image>"),
    )  # fmt: skip
    return _save(folder, "Idefics2", config, processor)


def save_janus(folder: Path) -> Path:
    hf = _import_transformers()
    special = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
    tokenizer = _build_tokenizer(special)
    vision = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": SIDE, "patch_size": PATCH,
        "mlp_ratio": 2.0, "projection_dim": 32, "num_image_tokens": 4,
    }  # fmt: skip
    codes = {
        "num_embeddings": 16, "latent_channels": 32, "base_channels": 32, "channel_multiplier": [1, 1],
        "num_res_blocks": 1, "projection_dim": 32, "image_token_embed_dim": 32, "num_patches": 4,
    }  # fmt: skip
    config = hf.JanusConfig(
        text_config=hf.LlamaConfig(**tiny_parts.language(tokenizer)), vision_config=vision, vq_config=codes,
        image_token_id=tokenizer.image_token_id,
    )  # fmt: skip
    template = tiny_parts.chat_template("<image_placeholder>")
    processor = hf.JanusProcessor(hf.JanusImageProcessor(size=SIZE), tokenizer, template, num_image_tokens=4)
    return _save(folder, "Janus", config, processor)


def save_lfm2_vl(folder: Path) -> Path:
    hf = _import_transformers()
    special = {
        "image_token": "<image>", "image_start_token": "<|image_start|>", "image_end_token": "<|image_end|>",
        "image_thumbnail_token": "<|img_thumbnail|>",
    }  # fmt: skip
    places = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 5) for column in range(1, 5)]
    tokenizer = _build_tokenizer(special, *places)
    text = tiny_parts.language(tokenizer, num_key_value_heads=2, layer_types=["conv", "full_attention"])
    vision = tiny_parts.TINY | {"patch_size": PATCH, "num_patches": 16}
    config = hf.Lfm2VlConfig(
        text_config=hf.Lfm2Config(**text), vision_config=hf.Siglip2VisionConfig(**vision),
        image_token_id=tokenizer.image_token_id, projector_hidden_size=32,
    )  # fmt: skip
    images = hf.Lfm2VlImageProcessor(
        encoder_patch_size=PATCH, tile_size=56, min_image_tokens=1, max_image_tokens=4, max_tiles=4, max_num_patches=16
    )
    processor = hf.Lfm2VlProcessor(images, tokenizer, tiny_parts.chat_template("<image>"))
    return _save(folder, "Lfm2Vl", config, processor)


def save_llama4(folder: Path) -> Path:
    hf = _import_transformers()
    names = ["image", "image_start", "image_end", "patch", "tile_x_separator", "tile_y_separator"]
    tokens = [f"<|{name}|>" for name in names]
    tokenizer = _build_tokenizer({}, *tokens)
    fields = ["boi_token_index", "eoi_token_index", "image_token_index"]
    ids = dict(zip(fields, tokenizer.convert_tokens_to_ids(tokens[1:4]), strict=True))
    experts = {"intermediate_size_mlp": 64, "num_local_experts": 2}
    text = tiny_parts.language(tokenizer, num_key_value_heads=2, head_dim=8, **experts)
    vision = VISION | {
        "num_attention_heads": 2, "intermediate_size": 128, "vision_output_dim": 32, "projector_input_dim": 32,
        "projector_output_dim": 32,
    }  # fmt: skip
    config = hf.Llama4Config(text_config=text, vision_config=vision, **ids)
    images = hf.Llama4ImageProcessor(size=SIZE, max_patches=2)
    template = tiny_parts.chat_template("<|image|>")
    return _save(
        folder, "Llama4", config, hf.Llama4Processor(images, tokenizer, patch_size=PATCH, chat_template=template)
    )


def save_llava_next_video(folder: Path) -> Path:
    hf = _import_transformers()
    tokenizer = _build_tokenizer({"image_token": "<image>", "video_token": "<video>"})
    pinpoints = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]]
    config = hf.LlavaNextVideoConfig(
        vision_config=hf.CLIPVisionConfig(**VISION), text_config=hf.LlamaConfig(**tiny_parts.language(tokenizer)),
        image_token_index=tokenizer.image_token_id, video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=pinpoints,
    )  # fmt: skip
    images = hf.LlavaNextImageProcessor(size={"shortest_edge": SIDE}, crop_size=SIZE, image_grid_pinpoints=pinpoints)
    processor = hf.LlavaNextVideoProcessor(
        hf.LlavaNextVideoVideoProcessor(), images, tokenizer, tiny_parts.chat_template("<image>"), patch_size=PATCH,
        vision_feature_select_strategy="default", num_additional_image_tokens=1,
    )  # fmt: skip
    return _save(folder, "LlavaNextVideo", config, processor)


def save_ovis2(folder: Path) -> Path:
    hf = _import_transformers()
    marks = ["<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>"]
    tokenizer = _build_tokenizer({}, "<image>", "<IMG_ATOM>", *marks)
    text = hf.Qwen2Config(**tiny_parts.language(tokenizer))
    config = hf.Ovis2Config(
        vision_config=VISION | {"hidden_stride": 2, "vocab_size": 32}, text_config=text, vocab_size=len(tokenizer),
        hidden_size=32, image_token_id=tokenizer.convert_tokens_to_ids("<IMG_ATOM>"),
        visual_indicator_token_ids=tokenizer.convert_tokens_to_ids(marks),
    )  # fmt: skip
    images = hf.Ovis2ImageProcessor(size=SIZE, max_patches=2)
    processor = hf.Ovis2Processor(images, tokenizer, tiny_parts.chat_template("<image>"), image_seq_length=1)
    return _save(folder, "Ovis2", config, processor)


def save_perception_lm(folder: Path) -> Path:
    hf = _import_transformers()
    tokenizer = _build_tokenizer({"image_token": "<|image|>", "video_token": "<|video|>"})
    sizes = {
        "embed_dim": 32, "depth": 2, "num_heads": 2, "img_size": [32, 32], "ref_feat_shape": [2, 2],
        "use_post_transformer_norm": False,
    }  # fmt: skip
    vision = hf.TimmWrapperConfig(
        architecture="vit_pe_core_tiny_patch16_384", do_pooling=False, num_classes=0, global_pool="map",
        model_args=sizes,
    )  # fmt: skip
    config = hf.PerceptionLMConfig(
        vision_config=vision, text_config=hf.LlamaConfig(**tiny_parts.language(tokenizer)),
        image_token_id=tokenizer.image_token_id, video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
    )  # fmt: skip
    images = hf.PerceptionLMImageProcessor(tile_size=32, max_num_tiles=4)
    processor = hf.PerceptionLMProcessor(
        hf.PerceptionLMVideoProcessor(), images, tokenizer, patch_size=16, pooling_ratio=1,
        chat_template=tiny_parts.chat_template("<|image|>"),
    )  # fmt: skip
    return _save(folder, "PerceptionLM", config, processor)


def save_qwen3_5(folder: Path) -> Path:
    hf = _import_transformers()
    special = [f"<|{name}|>" for name in ("vision_start", "vision_end", "image_pad", "video_pad")]
    tokenizer = tiny_parts.tokenizer(special, additional_special_tokens=special)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(special), strict=True))
    text = tiny_parts.language(
        tokenizer, num_key_value_heads=2, head_dim=8, rope_parameters=ROPE | {"partial_rotary_factor": 1.0},
        linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
        layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 32, "num_heads": 2, "patch_size": 14, "intermediate_size": 64, "out_hidden_size": 32,
        "num_position_embeddings": 64,
    }  # fmt: skip
    config = hf.Qwen3_5Config(text_config=text, vision_config=vision, **ids)
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    images = hf.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=84**2)
    processor = hf.Qwen3VLProcessor(
        images, tokenizer, hf.Qwen3VLVideoProcessor(), chat_template=tiny_parts.chat_template(qwen_vl.PLACEHOLDER)
    )
    return _save(folder, "Qwen3_5", config, processor)


def save_chameleon(folder: Path) -> Path:
    hf = _import_transformers()
    codes = [f"IMGIMG{first}{second}Z" for first in "ABCD" for second in "ABCD"]
    tokenizer = _build_tokenizer(
        {"image_token": "<image>", "boi_token": "<racm3:break>", "eoi_token": "<eoss>"}, *codes
    )
    vision = {
        "num_embeddings": 16, "resolution": 32, "base_channels": 32, "channel_multiplier": [1, 1, 1],
        "num_res_blocks": 1, "latent_channels": 32, "embed_dim": 32,
    }  # fmt: skip
    vocabulary = {token: tokenizer.convert_tokens_to_ids(token) for token in ("<image>", *codes)}
    config = hf.ChameleonConfig(**tiny_parts.language(tokenizer), vq_config=vision, vocabulary_map=vocabulary)
    images = hf.ChameleonImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return _save(folder, "Chameleon", config, hf.ChameleonProcessor(images, tokenizer, image_seq_length=64))


TINY: dict[str, Callable[[Path], Path]] = {
    name.removeprefix("save_"): function for name, function in list(globals().items()) if name.startswith("save_")
}
