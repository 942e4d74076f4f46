"""Tiny randomly initialised models of the real classes, saved as `from_pretrained` folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEXT = [
    "Which of the following findings is present on this chest X-ray study?",
    "Which of the following findings is absent on this chest X-ray study?",
    "A. No edema B. Pleural effusion C. Consolidation Answer with the letter of the correct option.",
    "USER: ASSISTANT: user assistant system",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: "
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def _tokenizer(special: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from tokenizers.decoders import ByteLevel
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", *special], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        additional_special_tokens=special,
        model_max_length=2048,
    )


def save_llava(folder: Path) -> Path:
    """A LlavaForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    tokenizer = _tokenizer(["<image>"])
    image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    vision = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=28, patch_size=14
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=2048, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=image_token_id)
    model = LlavaForConditionalGeneration(config)
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE.replace("IMAGE", "<image>"),
    )
    processor.save_pretrained(folder)
    return folder


def save_qwen2_5_vl(folder: Path) -> Path:
    """A Qwen2_5_VLForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import torch
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    torch.manual_seed(0)
    special = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer = _tokenizer(special)
    ids = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
            "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1,
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 14,
            "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1],
            "window_size": 56,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.save_pretrained(folder)
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=84 * 84),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )
    processor.save_pretrained(folder)
    return folder


def save_gemma3(folder: Path) -> Path:
    """A Gemma3ForConditionalGeneration (MedGemma's class) of a few hundred thousand weights, with its processor."""
    import torch
    import transformers

    torch.manual_seed(0)
    special = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(list(special.values())).backend_tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        model_max_length=2048,
        extra_special_tokens=special,
    )
    ids: dict[str, Any] = {name: tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    text = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 2048,
        "initializer_range": 0.2, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"],
        "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1,
    }  # fmt: skip
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "image_size": 56, "patch_size": 14,
    }  # fmt: skip
    config = transformers.Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=4,
        boi_token_index=ids["boi_token"],
        eoi_token_index=ids["eoi_token"],
        image_token_index=ids["image_token"],
    )
    model = transformers.Gemma3ForConditionalGeneration(config)
    # Zero at the start, so that no image would reach the text.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)
    model.save_pretrained(folder)
    transformers.Gemma3Processor(
        image_processor=transformers.Gemma3ImageProcessor(size={"height": 56, "width": 56}),
        tokenizer=tokenizer,
        chat_template=CHAT_TEMPLATE.replace("IMAGE", "<start_of_image>"),
        image_seq_length=4,
    ).save_pretrained(folder)
    return folder


SAVE = {"llava": save_llava, "qwen2_5_vl": save_qwen2_5_vl, "gemma3": save_gemma3}
PLACEHOLDER = {  # what a processor expands; without a chat template it has to be named (`image_string`)
    "llava": "<image>",
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",  # the ends keep neighbouring images apart
    "gemma3": "<start_of_image>",
}


def teach(folder: Path, placeholder: str, asked: Mapping[str, str], image: Any) -> None:
    """A few dozen steps on questions and their answers, so that the model's own greedy answers are these."""
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).train()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.tokenizer.padding_side = "right"
    texts = [f"{placeholder}{question} {answer}</s>" for question, answer in asked.items()]
    inputs = processor(images=[[image]] * len(texts), text=texts, padding=True, return_tensors="pt")
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(200):
        loss = model(**inputs, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss < 0.06:
            break
    model.save_pretrained(folder)
