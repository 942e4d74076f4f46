"""What the two models of LobA are given: an image with its prompt, and the answer and the mask to be learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from ...models.prompt_inputs import Tensors, answer, append_answer, make_batch, question

SEG = "<SEG>"
UPSCALED = 4  # SAM's mask decoder gives so many pixels for each patch of a side


class Example(NamedTuple):
    """prompt: the words that follow the image. target: what the model learns to say. mask: bool (h, w), the image's."""

    id: str
    image_id: str
    image: Image.Image
    prompt: str
    target: str
    anatomy: str
    mask: np.ndarray


class Encoder:
    """Makes the inputs of both models; as a Trainer's collator, those of a batch.

    processor, config: of the vision-language model; <SEG> is one token of its tokenizer. image_processor: SAM's.
    image_size, patch_size: of SAM's vision encoder, in pixels.
    """

    def __init__(self, processor: Any, config: Any, image_processor: Any, image_size: int, patch_size: int) -> None:
        self.config = config
        self.processor, self.tokenizer, self._image_processor = processor, processor.tokenizer, image_processor
        masks = image_size // patch_size * UPSCALED
        self._sizes = {
            "size": {"longest_edge": image_size},
            "pad_size": _square(image_size),
            "mask_size": {"longest_edge": masks},
            "mask_pad_size": _square(masks),
        }

    @property
    def seg(self) -> int:
        """The id of <SEG>."""
        return self.tokenizer.convert_tokens_to_ids(SEG)

    @property
    def padding(self) -> int:
        known = self.tokenizer.pad_token_id
        return self.tokenizer.eos_token_id if known is None else known

    def question(self, image: Image.Image, words: str) -> Tensors:
        """One image and the words that follow it, as a user's turn where the processor has a chat template.

        Shapes: input_ids and attention_mask (1, tokens), with every token of the image; the others are the model's own.
        """
        return question(self.processor, [image], f"<image>{words}")

    def answer(self, text: str) -> torch.Tensor:
        """The tokens of an answer and of its end, as the model generates them after a question: (tokens,)."""
        return answer(self.processor, text)

    def pixels(self, image: Image.Image, mask: np.ndarray | None = None) -> Tensors:
        """An image as SAM takes it: its longest side brought to SAM's, the rest padded at the right and at the bottom.

        Shapes: pixel_values (1, 3, s, s), original_sizes and reshaped_input_sizes (1, 2) as (height, width). With a
        mask bool (h, w) of the image also labels (1, m, m), 0 or 1: it is resized alike, by nearest neighbour.
        """
        maps = {} if mask is None else {"segmentation_maps": mask.astype(np.uint8)}
        return dict(self._image_processor(images=image.convert("RGB"), return_tensors="pt", **maps, **self._sizes))

    def mask(self, logits: torch.Tensor, pixels: Tensors) -> np.ndarray:
        """Logits (m, m) as a mask of the image that became `pixels`: bool (h, w)."""
        sizes = pixels["original_sizes"], pixels["reshaped_input_sizes"]
        size = self._sizes["pad_size"]
        (mask,) = self._image_processor.post_process_masks([logits.float().cpu()[None, None]], *sizes, pad_size=size)
        return mask[0, 0].numpy()

    def __call__(self, examples: Sequence[Example]) -> Tensors:
        """The inputs of `Loba.forward`, padded at the right to one length."""
        given = [
            append_answer(self.question(one.image, one.prompt), self.answer(one.target), self.config)
            for one in examples
        ]
        seen = [self.pixels(one.image, one.mask) for one in examples]
        masks = {
            "sam_pixels": torch.cat([one["pixel_values"] for one in seen]),
            "masks": torch.cat([one["labels"] for one in seen]),
        }
        return make_batch(given, self.padding) | masks


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}
