"""Contrastive models as `medfaith-contrastive` uses them: CLIP and BLIP (transformers), ResNets of OpenCLIP.

Similarities are 100 x cosine for every model, the scale on which SurgVLP's own code and CLIP's logits are: the paper's
"similarity scores drop by 9.87" (section 5.4) can be no plain cosine.
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from ...loaders.errors import InputError, MedfaithError
from ..explain import grad_cam, rollout
from ..explain.geometry import Geometry, Size, of_processor, of_transforms

if TYPE_CHECKING:
    import torch

SCALE = 100.0
INSTALL = "what to do: uv pip install 'medfaith[explain]'"


def usable_device(wanted: str | None) -> str:
    """The device asked for, or a GPU if there is one; the CPU where there is none, because lm-eval always asks for one.

    Raises MedfaithError where there is no torch.
    """
    try:
        import torch
    except ImportError as error:
        raise MedfaithError(f"torch is not installed\n  {INSTALL}") from error
    if torch.cuda.is_available():
        return wanted or "cuda"
    return "cpu" if wanted is None or wanted.startswith("cuda") else wanted


class Encoder(ABC):
    """Images and prompts as unit vectors of one space, and heatmaps of their similarity.

    network: in eval mode, its weights frozen, on `device`. explainers: what heatmaps it has, the usual one first.
    """

    explainers: dict[str, Callable[..., torch.Tensor]]

    def __init__(self, name: str, network: torch.nn.Module, device: str) -> None:
        self.name, self.device = name, device
        self.weights = weights_digest(network)
        self.network: Any = network.eval().requires_grad_(False).to(device)

    @abstractmethod
    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt, uncut."""

    @abstractmethod
    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """(k, d), of unit length."""

    @abstractmethod
    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """What the model sees: (n, 3, h, w) on its device."""

    @abstractmethod
    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """(n, d), of unit length."""

    @abstractmethod
    def geometry(self, size: Size) -> Geometry:
        """Which part of a frame of this (height, width) the model sees."""

    @property
    @abstractmethod
    def preprocessing(self) -> Any:
        """What the pixels are made by, as JSON."""

    @property
    @abstractmethod
    def max_tokens(self) -> int:
        """How many tokens of a prompt the model takes."""

    def grids(self, pixels: torch.Tensor, texts: torch.Tensor, explainer: str) -> torch.Tensor:
        """Heatmaps (n, k, h, w) of each image's similarity to k prompts of its own, texts (n, k, d)."""
        return self.explainers[explainer](pixels, texts)

    def check_length(self, prompts: Sequence[str]) -> None:
        """Raises InputError where a prompt is longer than the model takes; nothing is cut in silence."""
        for prompt, ids in zip(prompts, self.tokens(prompts), strict=True):
            if len(ids) > self.max_tokens:
                raise InputError(
                    self.name,
                    f"the prompt {prompt!r} has {len(ids)} tokens",
                    expected=f"at most {self.max_tokens}",
                    action="shorten the prompt, or use a model that takes more",
                )


class ResNetEncoder(Encoder):
    """What the models with a convolutional image encoder share: Grad-CAM at its last stage's last block."""

    layer: torch.nn.Module

    def __init__(self, name: str, network: torch.nn.Module, device: str, layer: torch.nn.Module) -> None:
        super().__init__(name, network, device)
        self.layer = layer
        self.explainers = {"grad_cam": self._grad_cam}

    def _grad_cam(self, pixels: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        return grad_cam.layer_grids(self.layer, lambda: similarities(self.image(pixels), texts))


class TransformerEncoder(Encoder):
    """What CLIP and BLIP of transformers share: their processor, and rollout over the vision encoder's attentions."""

    def __init__(self, name: str, network: Any, processor: Any, device: str) -> None:
        super().__init__(name, network, device)
        self._vision, self._processor, self.tokenizer = network.vision_model, processor, processor.tokenizer
        self.explainers = {
            "rollout": self._rollout,
            "rollout_last": partial(self._rollout, last_only=True),
            "rollout_forward": partial(self._rollout, order="forward"),
        }

    @abstractmethod
    def project(self, vision_output: Any) -> torch.Tensor:
        """(n, d) of the vision encoder's output, of any length."""

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(prompts))["input_ids"]

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return self._processor.image_processor(list(images), return_tensors="pt")["pixel_values"].to(self.device)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        return unit(self.project(self._vision(pixel_values=pixels)))

    def geometry(self, size: Size) -> Geometry:
        return of_processor(self._processor.image_processor, size)

    @property
    def preprocessing(self) -> Any:
        return json.loads(self._processor.image_processor.to_json_string())

    @property
    def max_tokens(self) -> int:
        return self.network.config.text_config.max_position_embeddings

    def _padded(self, prompts: Sequence[str]) -> Any:
        return self.tokenizer(list(prompts), padding=True, return_tensors="pt").to(self.device)

    def _rollout(
        self, pixels: torch.Tensor, texts: torch.Tensor, order: rollout.Order = "printed", last_only: bool = False
    ) -> torch.Tensor:
        import torch

        pixels = pixels.detach().clone().requires_grad_()  # weights are frozen: gradients need somewhere to begin
        with torch.enable_grad():
            output = self._vision(pixel_values=pixels, output_attentions=True)
            scores = similarities(unit(self.project(output)), texts)
        tokens = rollout.relevance(output.attentions, scores, order=order, last_only=last_only)
        side = self.network.config.vision_config.patch_size
        return tokens.reshape(*tokens.shape[:2], pixels.shape[2] // side, pixels.shape[3] // side)


class ClipEncoder(TransformerEncoder):
    """CLIPModel of transformers."""

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        inputs = self._padded(prompts)
        output = self.network.text_model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return unit(self.network.text_projection(output.pooler_output))

    def project(self, vision_output: Any) -> torch.Tensor:
        return self.network.visual_projection(vision_output.pooler_output)


class BlipEncoder(TransformerEncoder):
    """BlipForImageTextRetrieval of transformers, its contrastive half (no image-text-matching head)."""

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        inputs = self._padded(prompts)
        output = self.network.text_encoder(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return unit(self.network.text_proj(output.last_hidden_state[:, 0]))

    def project(self, vision_output: Any) -> torch.Tensor:
        return self.network.vision_proj(vision_output.last_hidden_state[:, 0])


class OpenClipEncoder(ResNetEncoder):
    """A ResNet of OpenCLIP, named `<architecture>:<tag or checkpoint file>`, as `RN50-quickgelu:openai`."""

    def __init__(self, name: str, device: str) -> None:
        try:
            import open_clip
        except ImportError as error:
            raise MedfaithError(f"OpenCLIP is not installed\n  {INSTALL}") from error
        architecture, _, weights = name.partition(":")
        if not weights:
            raise MedfaithError(
                f"open_clip:{name} names no weights\n  what to do: name a tag or a file, as RN50-quickgelu:openai"
            )
        try:
            with warnings.catch_warnings():
                # Weights under another activation than they were trained with would run, and be worse.
                warnings.filterwarnings("error", message="QuickGELU mismatch")
                loaded: Any = open_clip.create_model_from_pretrained(architecture, pretrained=weights)
        except (RuntimeError, OSError, ValueError, UserWarning) as error:
            raise InputError(
                f"open_clip:{name}",
                f"cannot be loaded ({str(error).splitlines()[0]})",
                expected="<architecture>:<tag or checkpoint file> of OpenCLIP, already here or within reach",
            ) from error
        network, transform = loaded
        stages: Any = getattr(network.visual, "layer4", None)
        if stages is None:
            raise MedfaithError(
                f"open_clip:{name} has no ResNet\n  what to do: for a vision transformer name its transformers version"
            )
        super().__init__(f"open_clip:{name}", network, device, stages[-1])
        self._transform = transform
        self._tokenize: Any = open_clip.get_tokenizer(architecture)  # `encode` is of one kind of tokenizer

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        return [[0, *self._tokenize.encode(prompt), 0] for prompt in prompts]  # a start and an end are added

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        return unit(self.network.encode_text(self._tokenize(list(prompts)).to(self.device)))

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return stacked(self._transform, images).to(self.device)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        return unit(self.network.encode_image(pixels))

    def geometry(self, size: Size) -> Geometry:
        return of_transforms(self._transform, size)

    @property
    def preprocessing(self) -> Any:
        return str([step for step in self._transform.transforms if "function" not in str(step)])

    @property
    def max_tokens(self) -> int:
        return self.network.context_length


def chosen_explainer(name: str, encoder: Encoder) -> str:
    """The explainer of a model's name for it; `auto` is the model's usual one. Raises InputError for what is none."""
    if name == "auto":
        return next(iter(encoder.explainers))
    if name not in encoder.explainers:
        raise InputError("explainer", f"is {name!r}", expected=f"auto, {', '.join(encoder.explainers)}")
    return name


def load_transformers(name: str, device: str) -> TransformerEncoder:
    """CLIP or BLIP by a folder or a Hub name.

    Raises:
        InputError: it cannot be read, is another kind of model, or has not all of its weights.
    """
    try:
        import transformers
    except ImportError as error:
        raise MedfaithError(f"transformers is not installed\n  {INSTALL}") from error
    try:
        kind = transformers.AutoConfig.from_pretrained(name).model_type
        if kind not in ("clip", "blip"):
            raise InputError(
                name,
                f"is a {kind} model",
                expected="clip or blip (image-text retrieval); or open_clip:<architecture>:<weights>, surgvlp:<file>",
            )
        model: Any = transformers.CLIPModel if kind == "clip" else transformers.BlipForImageTextRetrieval
        # Eager attention from the first pass on: the scores are those that the heatmaps explain.
        network, loading = model.from_pretrained(name, attn_implementation="eager", output_loading_info=True)
        processor = transformers.AutoProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InputError(
            name,
            f"cannot be loaded ({str(error).splitlines()[0]})",
            expected="a folder that save_pretrained wrote (config, weights, tokenizer, image processor), or a Hub name",
        ) from error
    if loading["missing_keys"]:
        raise InputError(
            name,
            f"has no weights for {few(loading['missing_keys'])}: they would be random",
            expected=f"all weights of {model.__name__}",
            action="name a checkpoint made for image-text retrieval",
        )
    return (ClipEncoder if kind == "clip" else BlipEncoder)(name, network, processor, device)


def similarities(features: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """(n, k), 100 x cosine, of unit vectors (n, d) and each image's own (n, k, d)."""
    return SCALE * (features[:, None] * texts).sum(dim=-1)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Each divided by its length."""
    return vectors / vectors.norm(dim=-1, keepdim=True)


def stacked(transform: Any, images: Sequence[Image.Image]) -> torch.Tensor:
    """Images through a torchvision transform, in mode RGB."""
    import torch

    return torch.stack([transform(image.convert("RGB")) for image in images])


def weights_digest(network: torch.nn.Module) -> str:
    """A hash of all weights: the same wherever they were read from."""
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # Bytes, because numpy has no bfloat16; a view needs a dimension.
        stored = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(memoryview(stored.numpy()) if tensor.numel() else b"")
    return digest.hexdigest()


def short_name(name: str) -> str:
    """A model's name without the folder that it happens to lie in."""
    kind, colon, rest = name.rpartition(":")
    return kind + colon + (Path(rest).name if "/" in rest and Path(rest).expanduser().exists() else rest)


def few(keys: Any) -> str:
    names = sorted(keys)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
