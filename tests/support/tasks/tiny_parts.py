"""Shared parts of the tiny randomly initialised models of the real classes: tokenizer, chat template, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TEXT = [
    "Which of the following findings is present on this chest X-ray study?",
    "Which of the following findings is absent on this chest X-ray study?",
    "A. No edema B. Pleural effusion C. Consolidation Answer with the letter of the correct option.",
    "USER: ASSISTANT: user assistant system",
]
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def chat_template(placeholder: str) -> str:
    """Build a chat template.

    Args:
        placeholder: The model's placeholder for an image.
    """
    return (
        "{% for message in messages %}{{ message['role'] }}: "
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
        f"{{% if part['type'] == 'image' %}}{placeholder}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}"
        "{% endfor %}{% endif %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    )


def tokenizer(special: Sequence[str], **options: Any) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    tokens, alphabet = ["<pad>", "</s>", *special], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=tokens, initial_alphabet=alphabet)
    bpe.train_from_iterator(TEXT, trainer)
    usual = {"pad_token": "<pad>", "eos_token": "</s>", "model_max_length": 2048}
    return PreTrainedTokenizerFast(tokenizer_object=bpe, **usual, **options)


def language(vocabulary: Any, **more: Any) -> dict[str, Any]:
    usual = {"vocab_size": len(vocabulary), "num_key_value_heads": 4, "max_position_embeddings": 2048}
    return TINY | usual | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1} | more


def made(kind: Any, config: Any) -> Any:
    """Create a transformers model with random weights from a fixed seed."""
    import torch

    torch.manual_seed(0)
    return kind(config)


def saved(folder: Path, model: Any, processor: Any) -> Path:
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
