"""Encoders to start a training from. The paper uses a ResNet-50 trained on ImageNet and Bio_ClinicalBERT (2.1)."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from huggingface_hub import hf_hub_download
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoConfig, BertConfig, BertModel

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment.gloria import check_names, count_bert_heads
from medfaith.tasks.models.alignment.gloria_image import ImageEncoder
from medfaith.tasks.models.alignment.gloria_text import MAX_TOKENS

WEIGHTS = "model.safetensors"  # file of weights in a folder or repository
FILES = (".pth", ".pt", ".safetensors")
RESNET_EXPECTED = (
    "the weights of a ResNet of bottlenecks under torchvision's names: a file of its state dict (.pth, .safetensors), "
    f"or a folder or Hub name that has them in {WEIGHTS}, such as timm/resnet50.tv_in1k; those of transformers' ResNet "
    "have other names"
)
BERT_EXPECTED = "a folder or Hub name with the weights of a BERT, such as emilyalsentzer/Bio_ClinicalBERT"
_COUNTER = "num_batches_tracked"  # weight of batch norms that older torchvision files do not have


class Resnet(NamedTuple):
    """Weights of a ResNet without its classes, and its sizes as arguments of `gloria_image.ImageEncoder`."""

    weights: dict[str, torch.Tensor]
    layers: list[int]
    width: int


def load_resnet(name: str) -> Resnet:
    """Load a ResNet with torchvision's names, which timm also uses.

    Args:
        name: A file, a folder or a Hub name.

    Returns:
        The weights without the classifier, the numbers of blocks and the width.

    Raises:
        InputError: It does not exist, or its weights have other names or shapes.
    """
    where = f"--image-encoder {name}"
    weights = {key: tensor for key, tensor in _load_tensors(name, where).items() if not key.startswith("fc.")}
    convolution = weights.get("layer1.0.conv1.weight")
    if convolution is None or convolution.ndim != 4:
        some = ", ".join(sorted(weights)[:3]) or "nothing"
        raise InputError(where, f"lacks layer1.0.conv1.weight, but has {some}", expected=RESNET_EXPECTED)
    blocks = [{match[1] for key in weights if (match := re.match(rf"layer{n}\.(\d+)\.", key))} for n in range(1, 5)]
    resnet = Resnet(weights, [max(len(numbers), 1) for numbers in blocks], len(convolution))
    with torch.device("meta"):
        expected = ImageEncoder(resnet.layers, resnet.width).model.state_dict()
    check_names(where, _remove_counters(weights), _remove_counters(expected), RESNET_EXPECTED)
    return resnet


def load_bert(name: str) -> BertModel:
    """Load a BERT with all of its weights in float32. A pooler, which GLoRIA does not use, may be missing.

    Args:
        name: A folder or a Hub name.

    Returns:
        The model, on the CPU.

    Raises:
        InputError: It does not exist, weights are missing or have another shape, or a checkpoint of GLoRIA could not
            describe its config (heads of 64 dimensions, otherwise as in BERT).
    """
    where = f"--text-encoder {name}"
    try:
        config = AutoConfig.from_pretrained(name)
        if config.model_type != "bert":
            raise InputError(where, f"is of the type {config.model_type}", expected=BERT_EXPECTED)
        _check_config(where, config)
        loaded: Any = BertModel.from_pretrained(name, dtype=torch.float32, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, SafetensorError, pickle.UnpicklingError) as error:
        problem = f"cannot be loaded ({str(error).splitlines()[0]})"
        raise InputError(where, problem, expected=BERT_EXPECTED) from error
    model, report = loaded
    if missing := sorted(key for key in report["missing_keys"] if not key.startswith("pooler.")):
        raise InputError(where, f"lacks {missing[0]} and {len(missing) - 1} others", expected=BERT_EXPECTED)
    return model


def _check_config(where: str, config: Any) -> None:
    """Require a config that `load_gloria` restores from a checkpoint with these weights.

    Raises:
        InputError: `load_gloria` would build another BERT.
    """
    plain = BertConfig(hidden_size=config.hidden_size, num_attention_heads=count_bert_heads(config.hidden_size))
    for option in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
        if (value := getattr(config, option)) != (expected := getattr(plain, option)):
            raise InputError(where, f"has {option} {value}", expected=f"{expected}, as BERT and Bio_ClinicalBERT do")
    if config.max_position_embeddings < MAX_TOKENS:
        problem = f"reads {config.max_position_embeddings} word pieces"
        raise InputError(where, problem, expected=f"{MAX_TOKENS} or more, as GLoRIA does")


def _load_tensors(name: str, where: str) -> Mapping[str, torch.Tensor]:
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            path = path / WEIGHTS
        elif not path.is_file() and path.suffix not in FILES:
            path = Path(hf_hub_download(name, WEIGHTS))
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, ValueError, RuntimeError, EOFError, SafetensorError, pickle.UnpicklingError) as error:
        problem = f"cannot be loaded ({str(error).splitlines()[0]})"
        raise InputError(where, problem, expected=RESNET_EXPECTED) from error
    if not isinstance(content, Mapping) or not all(torch.is_tensor(value) for value in content.values()):
        raise InputError(where, "is no mapping of names to tensors", expected=RESNET_EXPECTED)
    return content


def _remove_counters(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Leave out the counters of batch norms."""
    return {key: tensor for key, tensor in weights.items() if not key.endswith(_COUNTER)}
