"""Tiny randomly initialised models of the real classes, saved as `from_pretrained` folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def _tokenizer(special: Sequence[str], **named: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens, alphabet = ["<pad>", "</s>", *special], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=tokens, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    usual = {"pad_token": "<pad>", "eos_token": "</s>", "model_max_length": 2048}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **usual, **named)


def _language(tokenizer: Any, **more: Any) -> dict[str, Any]:
    usual = {"vocab_size": len(tokenizer), "num_key_value_heads": 4, "max_position_embeddings": 2048}
    return TINY | usual | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1} | more


def _saved(folder: Path, model: Any, processor: Any) -> Path:
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_llava(folder: Path) -> Path:
    """A LlavaForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    tokenizer = _tokenizer(["<image>"], additional_special_tokens=["<image>"])
    vision = hf.CLIPVisionConfig(**TINY, image_size=28, patch_size=14)
    text = hf.LlamaConfig(**_language(tokenizer))
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = hf.LlavaConfig(vision_config=vision, text_config=text, image_token_index=image_token)
    model = hf.LlavaForConditionalGeneration(config)
    model.generation_config.pad_token_id = 0
    processor = hf.LlavaProcessor(
        hf.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}), tokenizer,
        patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=CHAT_TEMPLATE.replace("IMAGE", "<image>"),
    )  # fmt: skip
    return _saved(folder, model, processor)


def save_qwen2_5_vl(folder: Path) -> Path:
    """A Qwen2_5_VLForConditionalGeneration of a few hundred thousand weights, with its processor."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    special = [f"<|{name}|>" for name in ("vision_start", "vision_end", "image_pad", "video_pad")]
    tokenizer = _tokenizer(special, additional_special_tokens=special)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = dict(zip(names, tokenizer.convert_tokens_to_ids(special), strict=True))
    rope = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 14,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 32, "fullatt_block_indexes": [1],
        "window_size": 56,
    }  # fmt: skip
    text = _language(tokenizer, num_key_value_heads=2, rope_parameters=rope)
    config = hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    processor = hf.Qwen2_5_VLProcessor(
        hf.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=84 * 84), tokenizer, hf.Qwen2VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE.replace("IMAGE", PLACEHOLDER["qwen2_5_vl"]),
    )  # fmt: skip
    return _saved(folder, hf.Qwen2_5_VLForConditionalGeneration(config), processor)


def save_gemma3(folder: Path) -> Path:
    """A Gemma3ForConditionalGeneration (MedGemma's class) of a few hundred thousand weights, with its processor."""
    import torch
    import transformers as hf

    torch.manual_seed(0)
    special = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = _tokenizer([*special.values()], extra_special_tokens=special)
    ids = {f"{name}_index": tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    layers = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
    text = _language(tokenizer, num_key_value_heads=2, head_dim=8, initializer_range=0.2, **layers)
    vision = TINY | {"image_size": 56, "patch_size": 14}
    config = hf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, **ids)
    model = hf.Gemma3ForConditionalGeneration(config)
    # Zero at the start, so that no image would reach the text.
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)
    images = hf.Gemma3ImageProcessor(size={"height": 56, "width": 56})
    template = CHAT_TEMPLATE.replace("IMAGE", PLACEHOLDER["gemma3"])
    processor = hf.Gemma3Processor(images, tokenizer, chat_template=template, image_seq_length=4)
    return _saved(folder, model, processor)


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
