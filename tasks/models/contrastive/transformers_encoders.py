"""CLIP and BLIP of transformers as contrastive encoders, with rollout over their vision encoder's attentions."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from PIL import Image

from ....loaders.errors import InputError, MedfaithError
from ...explain import rollout
from ...explain.geometry import Geometry, Size, compute_processor_geometry
from ..model_names import format_few
from .encoders import INSTALL, Encoder, compute_similarities, normalize

if TYPE_CHECKING:
    import torch


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

        Returns:
            Shape (n, d).
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


def load_transformers(name: str, device: str) -> TransformerEncoder:
    """Load CLIP or BLIP from a folder or the Hub.

    Args:
        name: A folder or a Hub name.
        device: Device, as torch names it.

    Returns:
        The model on the device, in eval mode.

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
