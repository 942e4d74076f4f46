"""Tiny randomly initialised contrastive models of the real classes, saved in their usual layouts; frames for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from PIL import Image

from medfaith.tasks.surgx.prompts import CLASS_PROMPTS
from tests.support.tasks.tiny_gloria import SPECIAL

CLASSES = ["grasper", "bipolar", "hook", "scissors", "clipper", "irrigator", "specimen_bag"]
PROMPTS = [f"a photo of a {name} in the image" for name in CLASSES]
SURGX_PROMPTS = [prompt for prompts in CLASS_PROMPTS.values() for prompt in prompts]  # prompts of the tasks
FAMILIES = ("clip", "blip", "open_clip", "surgvlp")
VISION = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
TEXT = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}


def _list_words(prompts: Sequence[str]) -> list[str]:
    return sorted({word for prompt in prompts for word in re.sub("[,._]", r" \g<0> ", prompt).split()})


def save_bert_tokenizer(folder: Path, max_length: int = 77) -> Any:
    """Save a BertTokenizerFast that splits some words into pieces."""
    from transformers import BertTokenizerFast  # pyrefly: ignore[missing-module-attribute] (made at import)

    folder.mkdir(parents=True, exist_ok=True)
    known_words = [word for word in _list_words(PROMPTS) if word != "grasper" and len(word) > 1]  # g ##r ##a ##s ...
    pieces = [*(f"##{letter}" for letter in ascii_lowercase), *ascii_lowercase, ",", "_"]
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *known_words, *pieces]), encoding="utf-8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=max_length)
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_clip(folder: Path, seed: int = 0, prompts: Sequence[str] = PROMPTS) -> Path:
    """Save a CLIPModel with a word tokenizer; its processor crops 28 x 28 of a frame whose shorter side is 32.

    The vocabulary holds the words of the prompts. All unknown words are one token, so their similarities tie.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, PreTrainedTokenizerFast

    # The end token is not 2: for 2, CLIP pools at the highest token id and ignores the text after it.
    vocabulary = {
        word: number for number, word in enumerate(["<pad>", "<start>", "<unk>", *_list_words(prompts), "<end>"])
    }
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(name, vocabulary[name]) for name in ("<start>", "<end>")]
    backend.post_processor = processors.TemplateProcessing("<start> $A <end>", special_tokens=ends)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<end>", bos_token="<start>", model_max_length=16
    )
    torch.manual_seed(seed)
    text = TEXT | {"vocab_size": len(vocabulary), "max_position_embeddings": 16, "bos_token_id": 1}
    text |= {"eos_token_id": vocabulary["<end>"]}
    config = CLIPConfig(text_config=text, vision_config=VISION | {"image_size": 28, "patch_size": 7}, projection_dim=16)
    _scale_weights(CLIPModel(config)).save_pretrained(folder)
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28})
    CLIPProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def save_blip(folder: Path, seed: int = 0) -> Path:
    """Save a BlipForImageTextRetrieval; its processor squashes a frame to 32 x 32."""
    import torch
    from transformers import BlipConfig, BlipForImageTextRetrieval, BlipImageProcessor, BlipProcessor

    tokenizer = save_bert_tokenizer(folder, max_length=64)
    torch.manual_seed(seed)
    text = TEXT | {"vocab_size": len(tokenizer), "encoder_hidden_size": 32, "max_position_embeddings": 64}
    text |= {"bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    vision = VISION | {"image_size": 32, "patch_size": 8}
    config = BlipConfig(text_config=text, vision_config=vision, image_text_hidden_size=16, projection_dim=16)
    _scale_weights(BlipForImageTextRetrieval(config)).save_pretrained(folder)
    BlipProcessor(BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer).save_pretrained(folder)
    return folder


def save_open_clip(folder: Path, name: str = "tiny-rn", seed: int = 0, **changes: Any) -> str:
    """Save and register a small ResNet of OpenCLIP with an input of 64 x 64; return `name:checkpoint`."""
    import open_clip
    import torch

    vision = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
    text = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    folder.mkdir(parents=True, exist_ok=True)
    config = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text} | changes
    (folder / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
    open_clip.add_model_config(folder / f"{name}.json")
    torch.manual_seed(seed)
    model: Any = open_clip.create_model(name)
    torch.save(_scale_weights(model, gain=1.0).state_dict(), folder / f"{name}.pt")
    return f"{name}:{folder / name}.pt"


def save_surgvlp(folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """Save a checkpoint in SurgVLP's layout with a tiny BERT, and the folder of the BERT's config and tokenizer.

    The names follow the modules of the released package (CAMMA-public/SurgVLP): `backbone_img.model` is a torchvision
    ResNet-50 without its last layer, then `backbone_img.global_embedder`; `backbone_text.model` is a BERT with the
    `position_ids` that transformers then kept in checkpoints.
    """
    import torch
    from torchvision.models import resnet50
    from transformers import BertConfig, BertModel

    tokenizer = save_bert_tokenizer(folder / "bert")
    text = TEXT | {"vocab_size": len(tokenizer), "num_hidden_layers": 5, "max_position_embeddings": 96}
    config = BertConfig(**text)
    config.save_pretrained(folder / "bert")
    torch.manual_seed(seed)
    image = {f"backbone_img.model.{n}": t for n, t in resnet50().state_dict().items() if not n.startswith("fc.")}
    linear = torch.nn.Linear(2048, 24)
    embedder = {f"backbone_img.global_embedder.{name}": tensor for name, tensor in linear.state_dict().items()}
    text_weights = {f"backbone_text.model.{name}": tensor for name, tensor in BertModel(config).state_dict().items()}
    text_weights["backbone_text.model.embeddings.position_ids"] = torch.arange(96)[None]
    torch.save(image | embedder | text_weights, folder / "SurgVLP.pth")
    return folder / "SurgVLP.pth", folder / "bert"


@contextmanager
def small_resnet() -> Iterator[None]:
    """Patch torchvision's ResNet-50 with one of a sixth of its weights and the same names."""
    import torchvision.models
    from torchvision.models.resnet import Bottleneck, ResNet

    original = torchvision.models.resnet50
    torchvision.models.resnet50 = lambda weights=None: ResNet(Bottleneck, [1, 1, 1, 3], width_per_group=8)
    try:
        yield
    finally:
        torchvision.models.resnet50 = original


def _scale_weights(model: Any, gain: float = 2.0) -> Any:
    """Scale the weights until a tiny model's answers depend on its input.

    A ResNet needs a smaller gain: if its pooling attends to a single place, gradients are rounding errors.
    """
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn_like(parameter) * (gain / parameter[0].numel() ** 0.5))
            elif name.endswith("bn3.weight"):
                parameter.fill_(1.0)
    return model


def save_families(folder: Path) -> dict[str, dict[str, Any]]:
    """Save the tiny model of each family below the folder and return its model_args."""
    checkpoint, bert = save_surgvlp(folder / "surgvlp")
    return {
        "clip": {"pretrained": str(save_clip(folder / "clip"))},
        "blip": {"pretrained": str(save_blip(folder / "blip"))},
        "open_clip": {"pretrained": f"open_clip:{save_open_clip(folder / 'open_clip')}"},
        "surgvlp": {"pretrained": f"surgvlp:{checkpoint}", "text_model": str(bert)},
    }


def load_families(arguments: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from medfaith.tasks.models.contrastive.lm import ContrastiveLM

    return {family: ContrastiveLM(**arguments[family], batch_size=2, device="cpu") for family in FAMILIES}


def frame(seed: int, size: tuple[int, int] = (96, 160)) -> Image.Image:
    """Create smooth noise, which survives resampling."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((size[1], size[0]), Image.Resampling.BICUBIC)


FRAMES = [frame(0), frame(1), frame(2, (120, 100)), frame(3), frame(4)]


def build_requests(
    images=FRAMES, task="medfaith_surgx_instruments", top_k=0, prompts=PROMPTS, **changes
) -> list[Instance]:
    doc = {"classes": CLASSES, "prompts": prompts, "top_k": top_k} | changes
    prompt_arguments: Any = ("<image> Which tools?", {"until": []})
    return [
        Instance(
            "generate_until", {"id": f"VID42/{n}"} | doc, (*prompt_arguments, {"visual": [image]}), 0, (task, n, 1)
        )
        for n, image in enumerate(images)
    ]


def generate_replies(lm: Any, requests: list[Instance]) -> list[dict[str, Any]]:
    return [json.loads(reply) for reply in lm.generate_until(requests, disable_tqdm=True)]
