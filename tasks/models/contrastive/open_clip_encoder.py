"""ResNets of OpenCLIP as contrastive encoders, with Grad-CAM."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ...explain.geometry import Geometry, Size, compute_transform_geometry
from .encoders import INSTALL, ResNetEncoder, normalize, stack_images

if TYPE_CHECKING:
    import torch


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
