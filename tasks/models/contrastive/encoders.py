"""The bases of the contrastive encoders of `medfaith-contrastive`, and their similarities.

All similarities are 100 x cosine, the scale of SurgVLP's own code and of CLIP's logits. The paper's "similarity scores
drop by 9.87" (section 5.4) cannot refer to a plain cosine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ...explain import grad_cam
from ...explain.geometry import Geometry, Size

if TYPE_CHECKING:
    import torch

SCALE = 100.0
INSTALL = "what to do: uv pip install 'medfaith[explain]'"


def choose_device(device: str | None) -> str:
    """Choose the device: the requested one, or a GPU if there is one. Without a GPU, "cuda" becomes the CPU.

    lm-eval always requests a GPU.

    Args:
        device: Requested device, or None.

    Returns:
        Name of the device.

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

        Returns:
            k lists of token ids.
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

        Returns:
            The geometry.
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


def choose_explainer(name: str, encoder: Encoder) -> str:
    """Choose an explainer of a model.

    Args:
        name: Name of the explainer, or `auto` for the model's default.
        encoder: The model.

    Returns:
        Name of the explainer.

    Raises:
        InputError: The model has no such explainer.
    """
    if name == "auto":
        return next(iter(encoder.explainers))
    if name not in encoder.explainers:
        raise InputError("explainer", f"is {name!r}", expected=f"auto, {', '.join(encoder.explainers)}")
    return name


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

    Returns:
        Unit vectors of the same shape; NaN for a vector of zeros.
    """
    return vectors / vectors.norm(dim=-1, keepdim=True)


def stack_images(transform: Any, images: Sequence[Image.Image]) -> torch.Tensor:
    """Apply a torchvision transform to images in mode RGB and stack the results.

    Args:
        transform: The transform.
        images: The images.

    Returns:
        Shape (n, 3, h, w).
    """
    import torch

    return torch.stack([transform(image.convert("RGB")) for image in images])


def hash_weights(network: torch.nn.Module) -> str:
    """Hash all weights of a network, independently of the file that they come from.

    Args:
        network: The network.

    Returns:
        A hexadecimal digest of 128 bits over names, types, shapes and values.
    """
    import torch

    digest = blake2b(digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # Bytes, because numpy does not support bfloat16; a view needs a dimension.
        stored = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(memoryview(stored.numpy()) if tensor.numel() else b"")
    return digest.hexdigest()
