"""Contrastive encoders of `medfaith-contrastive`: CLIP and BLIP (transformers), ResNets of OpenCLIP.

All similarities are 100 x cosine, the scale of SurgVLP's own code and of CLIP's logits. The paper's "similarity scores
drop by 9.87" (section 5.4) cannot refer to a plain cosine.
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
from ..explain.geometry import Geometry, Size, compute_processor_geometry, compute_transform_geometry

if TYPE_CHECKING:
    import torch

SCALE = 100.0
INSTALL = "what to do: uv pip install 'medfaith[explain]'"


def choose_device(device: str | None) -> str:
    """Choose the device: the requested one, or a GPU if there is one. Without a GPU, "cuda" becomes the CPU.

    lm-eval always requests a GPU.

    Args:
        device: Requested device, or None.

    Raises:
        MedfaithError: torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MedfaithError(f"torch is not installed\n  {INSTALL}") from error
    if torch.cuda.is_available():
        return device or "cuda"
    return "cpu" if device is None or device.startswith("cuda") else device


class Encoder(ABC):
    """Encodes images and prompts as unit vectors of one space, and explains their similarity.

    Attributes:
        network: The network in eval mode, with frozen weights, on `device`.
        explainers: Heatmap functions by name, the default first.
    """

    explainers: dict[str, Callable[..., torch.Tensor]]

    def __init__(self, name: str, network: torch.nn.Module, device: str) -> None:
        self.name, self.device = name, device
        self.weights = hash_weights(network)
        self.network: Any = network.eval().requires_grad_(False).to(device)

    @abstractmethod
    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Tokenize each prompt without truncation.

        Args:
            prompts: k prompts.
        """

    @abstractmethod
    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode prompts.

        Args:
            prompts: k prompts.

        Returns:
            Unit vectors (k, d).
        """

    @abstractmethod
    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Preprocess images.

        Args:
            images: n images.

        Returns:
            Model input (n, 3, h, w) on the device.
        """

    @abstractmethod
    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode images.

        Args:
            pixels: Model input (n, 3, h, w).

        Returns:
            Unit vectors (n, d).
        """

    @abstractmethod
    def geometry(self, size: Size) -> Geometry:
        """Compute the part of a frame that the model sees.

        Args:
            size: (height, width) of the frame.
        """

    @property
    @abstractmethod
    def preprocessing(self) -> Any:
        """Description of the preprocessing, as JSON."""

    @property
    @abstractmethod
    def max_tokens(self) -> int:
        """Maximum number of tokens of a prompt."""

    def grids(self, pixels: torch.Tensor, texts: torch.Tensor, explainer: str) -> torch.Tensor:
        """Compute heatmaps of each image's similarity to its own prompts.

        Args:
            pixels: Model input (n, 3, h, w).
            texts: Vectors of k prompts for each image (n, k, d).
            explainer: Name of the explainer.

        Returns:
            Shape (n, k, h, w).
        """
        return self.explainers[explainer](pixels, texts)

    def check_length(self, prompts: Sequence[str]) -> None:
        """Check the length of prompts, since nothing is truncated silently.

        Args:
            prompts: The prompts.

        Raises:
            InputError: A prompt has more tokens than the model accepts.
        """
        for prompt, ids in zip(prompts, self.tokens(prompts), strict=True):
            if len(ids) > self.max_tokens:
                raise InputError(
                    self.name,
                    f"the prompt {prompt!r} has {len(ids)} tokens",
                    expected=f"at most {self.max_tokens}",
                    action="shorten the prompt, or use a model that takes more",
                )


class ResNetEncoder(Encoder):
    """Base of models with a convolutional image encoder: Grad-CAM at the last block of the last stage."""

    layer: torch.nn.Module

    def __init__(self, name: str, network: torch.nn.Module, device: str, layer: torch.nn.Module) -> None:
        super().__init__(name, network, device)
        self.layer = layer
        self.explainers = {"grad_cam": self._grad_cam}

    def _grad_cam(self, pixels: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        return grad_cam.compute_layer_grids(self.layer, lambda: compute_similarities(self.image(pixels), texts))


class TransformerEncoder(Encoder):
    """Base of CLIP and BLIP in transformers: their processor, and rollout over the vision encoder's attentions."""

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
        """Project the vision encoder's output to vectors (n, d) of any length.

        Args:
            vision_output: Output of the vision encoder.
        """

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Tokenize each prompt."""
        return self.tokenizer(list(prompts))["input_ids"]

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Preprocess images."""
        return self._processor.image_processor(list(images), return_tensors="pt")["pixel_values"].to(self.device)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode images."""
        return normalize(self.project(self._vision(pixel_values=pixels)))

    def geometry(self, size: Size) -> Geometry:
        """Compute the part of a frame that the model sees."""
        return compute_processor_geometry(self._processor.image_processor, size)

    @property
    def preprocessing(self) -> Any:
        """Description of the preprocessing."""
        return json.loads(self._processor.image_processor.to_json_string())

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a prompt."""
        return self.network.config.text_config.max_position_embeddings

    def _padded(self, prompts: Sequence[str]) -> Any:
        return self.tokenizer(list(prompts), padding=True, return_tensors="pt").to(self.device)

    def _rollout(
        self, pixels: torch.Tensor, texts: torch.Tensor, order: rollout.Order = "printed", last_only: bool = False
    ) -> torch.Tensor:
        import torch

        pixels = pixels.detach().clone().requires_grad_()  # weights are frozen, so gradients start at the pixels
        with torch.enable_grad():
            output = self._vision(pixel_values=pixels, output_attentions=True)
            scores = compute_similarities(normalize(self.project(output)), texts)
        tokens = rollout.relevance(output.attentions, scores, order=order, last_only=last_only)
        side = self.network.config.vision_config.patch_size
        return tokens.reshape(*tokens.shape[:2], pixels.shape[2] // side, pixels.shape[3] // side)


class ClipEncoder(TransformerEncoder):
    """CLIPModel of transformers."""

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode prompts."""
        inputs = self._padded(prompts)
        output = self.network.text_model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return normalize(self.network.text_projection(output.pooler_output))

    def project(self, vision_output: Any) -> torch.Tensor:
        """Project the vision encoder's output."""
        return self.network.visual_projection(vision_output.pooler_output)


class BlipEncoder(TransformerEncoder):
    """BlipForImageTextRetrieval of transformers: the contrastive part, without the image-text-matching head."""

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode prompts."""
        inputs = self._padded(prompts)
        output = self.network.text_encoder(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        return normalize(self.network.text_proj(output.last_hidden_state[:, 0]))

    def project(self, vision_output: Any) -> torch.Tensor:
        """Project the vision encoder's output."""
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
                # With another activation than in training, the weights would load but give worse results.
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
        self._tokenize: Any = open_clip.get_tokenizer(architecture)  # only one type of tokenizer has `encode`

    def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Tokenize each prompt."""
        return [[0, *self._tokenize.encode(prompt), 0] for prompt in prompts]  # with a start token and an end token

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode prompts."""
        return normalize(self.network.encode_text(self._tokenize(list(prompts)).to(self.device)))

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Preprocess images."""
        return stack_images(self._transform, images).to(self.device)

    def image(self, pixels: torch.Tensor) -> torch.Tensor:
        """Encode images."""
        return normalize(self.network.encode_image(pixels))

    def geometry(self, size: Size) -> Geometry:
        """Compute the part of a frame that the model sees."""
        return compute_transform_geometry(self._transform, size)

    @property
    def preprocessing(self) -> Any:
        """Description of the preprocessing."""
        return str([step for step in self._transform.transforms if "function" not in str(step)])

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a prompt."""
        return self.network.context_length


def choose_explainer(name: str, encoder: Encoder) -> str:
    """Choose an explainer of a model.

    Args:
        name: Name of the explainer, or `auto` for the model's default.
        encoder: The model.

    Raises:
        InputError: The model has no such explainer.
    """
    if name == "auto":
        return next(iter(encoder.explainers))
    if name not in encoder.explainers:
        raise InputError("explainer", f"is {name!r}", expected=f"auto, {', '.join(encoder.explainers)}")
    return name


def load_transformers(name: str, device: str) -> TransformerEncoder:
    """Load CLIP or BLIP from a folder or the Hub.

    Args:
        name: A folder or a Hub name.
        device: Device, as torch names it.

    Raises:
        InputError: The model cannot be read, is of another type, or has missing weights.
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
        # Eager attention in every pass: the heatmaps explain exactly these scores.
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
            f"has no weights for {format_few(loading['missing_keys'])}: they would be random",
            expected=f"all weights of {model.__name__}",
            action="name a checkpoint made for image-text retrieval",
        )
    return (ClipEncoder if kind == "clip" else BlipEncoder)(name, network, processor, device)


def compute_similarities(features: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """Compute similarities, 100 x cosine.

    Args:
        features: Unit vectors of images (n, d).
        texts: Unit vectors of each image's own texts (n, k, d).

    Returns:
        Shape (n, k).
    """
    return SCALE * (features[:, None] * texts).sum(dim=-1)


def normalize(vectors: torch.Tensor) -> torch.Tensor:
    """Divide each vector by its length.

    Args:
        vectors: Shape (..., d).
    """
    return vectors / vectors.norm(dim=-1, keepdim=True)


def stack_images(transform: Any, images: Sequence[Image.Image]) -> torch.Tensor:
    """Apply a torchvision transform to images in mode RGB and stack the results.

    Args:
        transform: The transform.
        images: The images.
    """
    import torch

    return torch.stack([transform(image.convert("RGB")) for image in images])


def hash_weights(network: torch.nn.Module) -> str:
    """Hash all weights of a network, independently of the file that they come from.

    Args:
        network: The network.
    """
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # Bytes, because numpy does not support bfloat16; a view needs a dimension.
        stored = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(memoryview(stored.numpy()) if tensor.numel() else b"")
    return digest.hexdigest()


def strip_folder(name: str) -> str:
    """Remove the folder from a model's name if the name is a path.

    Args:
        name: Name of the model, possibly with prefixes and colons.
    """
    kind, colon, location = name.rpartition(":")
    return (
        kind + colon + (Path(location).name if "/" in location and Path(location).expanduser().exists() else location)
    )


def format_few(keys: Any) -> str:
    """Format at most three names, and the number of remaining names.

    Args:
        keys: The names.
    """
    names = sorted(keys)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
