"""Inputs of LobA's two models: an image with its prompt, and in training the answer and the mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from ...models.vlm.prompt_inputs import Tensors, answer, append_answer, make_batch, question

SEG = "<SEG>"
UPSCALED = 4  # pixels of SAM's mask decoder per side of a patch


class Example(NamedTuple):
    """A training example.

    Attributes:
        id: Id of the row.
        image_id: Id of the image.
        image: The image.
        prompt: Text after the image.
        target: Text that the model learns to generate.
        anatomy: The anatomy of the mask.
        mask: bool (h, w), of the image's size.
    """

    id: str
    image_id: str
    image: Image.Image
    prompt: str
    target: str
    anatomy: str
    mask: np.ndarray


class Encoder:
    """Builds the inputs of both models; also for a batch, as a Trainer's collator.

    Args:
        processor: Processor of the vision-language model; <SEG> is one token of its tokenizer.
        config: Configuration of the vision-language model.
        image_processor: SAM's image processor.
        image_size: Image size of SAM's vision encoder, in pixels.
        patch_size: Patch size of SAM's vision encoder, in pixels.
    """

    def __init__(self, processor: Any, config: Any, image_processor: Any, image_size: int, patch_size: int) -> None:
        self.config = config
        self.processor, self.tokenizer, self._image_processor = processor, processor.tokenizer, image_processor
        masks = image_size // patch_size * UPSCALED
        self._sizes = {
            "size": {"longest_edge": image_size},
            "pad_size": _make_square_size(image_size),
            "mask_size": {"longest_edge": masks},
            "mask_pad_size": _make_square_size(masks),
        }

    @property
    def seg(self) -> int:
        """The id of <SEG>."""
        return self.tokenizer.convert_tokens_to_ids(SEG)

    @property
    def padding(self) -> int:
        """The id of the padding token."""
        pad_token_id = self.tokenizer.pad_token_id
        return self.tokenizer.eos_token_id if pad_token_id is None else pad_token_id

    def question(self, image: Image.Image, text: str) -> Tensors:
        """Encode one image and the following text, as a user turn if the processor has a chat template.

        Args:
            image: The image.
            text: The text.

        Returns:
            input_ids and attention_mask (1, tokens) with all image tokens, and the model's other inputs.
        """
        return question(self.processor, [image], f"<image>{text}")

    def answer(self, text: str) -> torch.Tensor:
        """Tokenize an answer with its end token, as the model generates them.

        Args:
            text: The answer.

        Returns:
            Shape (tokens,).
        """
        return answer(self.processor, text)

    def pixels(self, image: Image.Image, mask: np.ndarray | None = None) -> Tensors:
        """Encode an image for SAM: resized to SAM's longest side and padded at the right and at the bottom.

        Args:
            image: The image.
            mask: bool (h, w) of the image's size, or None.

        Returns:
            pixel_values (1, 3, s, s); original_sizes and reshaped_input_sizes (1, 2) as (height, width). With a mask
            also labels (1, m, m), 0 or 1, resized by nearest neighbour.
        """
        maps = {} if mask is None else {"segmentation_maps": mask.astype(np.uint8)}
        return dict(self._image_processor(images=image.convert("RGB"), return_tensors="pt", **maps, **self._sizes))

    def mask(self, logits: torch.Tensor, pixels: Tensors) -> np.ndarray:
        """Convert logits to a mask.

        Args:
            logits: Shape (m, m).
            pixels: Output of `pixels` for the image.

        Returns:
            bool (h, w), of the image's size.
        """
        sizes = pixels["original_sizes"], pixels["reshaped_input_sizes"]
        size = self._sizes["pad_size"]
        (mask,) = self._image_processor.post_process_masks([logits.float().cpu()[None, None]], *sizes, pad_size=size)
        return mask[0, 0].numpy()

    def __call__(self, examples: Sequence[Example]) -> Tensors:
        """Build the inputs of `Loba.forward`, padded at the right to one length.

        Args:
            examples: The examples.
        """
        rows = [
            append_answer(self.question(item.image, item.prompt), self.answer(item.target), self.config)
            for item in examples
        ]
        sam_inputs = [self.pixels(item.image, item.mask) for item in examples]
        masks = {
            "sam_pixels": torch.cat([item["pixel_values"] for item in sam_inputs]),
            "masks": torch.cat([item["labels"] for item in sam_inputs]),
        }
        return make_batch(rows, self.padding) | masks


def _make_square_size(side: int) -> dict[str, int]:
    return {"height": side, "width": side}
