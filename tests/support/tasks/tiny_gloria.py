"""Tiny randomly initialised checkpoints in the layout of GLoRIA's released one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SENTENCES = [
    "Small right pleural effusion is stable.",
    "There is no pneumothorax in the left lung.",
    "Lungs are clear.",
]
WHOLE = {word for text in SENTENCES for word in text.lower().strip(".").split()} - {"pneumothorax"}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *sorted(WHOLE), *LETTERS, *(f"##{letter}" for letter in LETTERS)]
DIM = 64


def save_tokenizer(folder: Path, vocabulary: list[str] = VOCABULARY) -> str:
    """Save a BertTokenizerFast that splits unknown words into letters."""
    from transformers import BertTokenizerFast  # pyrefly: ignore[missing-module-attribute] (made at import)

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)


def bert_config() -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=DIM, intermediate_size=48, num_hidden_layers=4, num_attention_heads=1,
        max_position_embeddings=128,
    )  # fmt: skip


def weights(no_attn: bool = False, seed: int = 0) -> dict[str, Any]:
    """Create tensors under the released names from the modules of the libraries."""
    import torch
    from torchvision.models.resnet import Bottleneck, ResNet
    from transformers import BertModel

    torch.manual_seed(seed)
    resnet = ResNet(Bottleneck, [1, 2, 1, 1], width_per_group=4).state_dict()
    tensors_by_prefix = {
        "img_encoder.model.": {name: tensor for name, tensor in resnet.items() if not name.startswith("fc.")},
        "img_encoder.global_embedder.": torch.nn.Linear(2048, DIM).state_dict(),
        "img_encoder.local_embedder.": {"weight": torch.randn(DIM, 1024, 1, 1) / 100},
        "text_encoder.model.": BertModel(bert_config()).state_dict(),
    }
    tensors_by_name = {
        f"gloria.{prefix}{name}": tensor
        for prefix, tensors in tensors_by_prefix.items()
        for name, tensor in tensors.items()
    }
    # transformers kept position_ids in checkpoints at that time
    tensors_by_name["gloria.text_encoder.model.embeddings.position_ids"] = torch.arange(128)[None]
    return tensors_by_name | ({"gloria.no_attn_vec": torch.randn(DIM)} if no_attn else {})


def save(folder: Path, no_attn: bool = False, seed: int = 0) -> tuple[str, str]:
    """Save a checkpoint and a tokenizer and return the checkpoint's path and the tokenizer's folder."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"state_dict": weights(no_attn, seed), "epoch": 3}, folder / "gloria.ckpt")
    return str(folder / "gloria.ckpt"), save_tokenizer(folder / "bert")
