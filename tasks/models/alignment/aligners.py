"""Models that align a sentence with regions of its image: their protocol, and CLIP and BLIP as such models.

GLoRIA (gloria.py) and UNITER (uniter.py) have their own attention. CLIP and BLIP use the gradient attention of the
sentence's similarity instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
from PIL import Image

from ....loaders.errors import InputError
from ...explain.geometry import Geometry
from ..contrastive.encoders import choose_explainer
from ..contrastive.transformers_encoders import BlipEncoder, ClipEncoder, load_transformers
from ..model_names import strip_folder


class Alignment(NamedTuple):
    """The attention and similarity of an image and a sentence.

    Attributes:
        attention: float32 (h, w), at least 0. Its sum is 1 minus the share of "No Attn", which is outside the image, or
            0 if the model attends to nothing.
        geometry: Place of the grid on the image.
        local: Similarity of the sentence's words and the regions, or None if the model does not compute it.
        overall: Similarity of the sentence and the image: the cosine, or the log-odds of a match.
        cut: Whether the sentence was too long for the model and was cut at its end.
        regions: float32 (k,), the attention of the model's regions if these are boxes and not the cells of a grid. The
            regions are then the image's reference boxes, and the attention above is the highest of each pixel's boxes.
    """

    attention: np.ndarray
    geometry: Geometry
    local: float | None
    overall: float | None
    cut: bool = False
    regions: np.ndarray | None = None


class Aligner(Protocol):
    """A model of images and sentences.

    Attributes:
        identity: Everything that an alignment depends on other than the image and the sentence, as JSON.
    """

    identity: Mapping[str, Any]

    def align(
        self, images: Sequence[Image.Image], sentences: Sequence[str], image_ids: Sequence[str]
    ) -> list[Alignment]:
        """Align each image with its sentence.

        Args:
            images: Images in mode RGB.
            sentences: One sentence for each image.
            image_ids: The `image_id` of each image's row.

        Returns:
            An alignment for each pair, in the same order.
        """
        ...


class GradientAligner:
    """CLIP or BLIP: attention is the gradient-weighted rollout of the sentence's similarity.

    Args:
        kind: "clip" or "blip".
        name: A folder or a Hub name.
        device: Device, as torch names it.
        explainer: Explainer, as in medfaith-contrastive.
    """

    def __init__(self, kind: str, name: str, device: str, explainer: str = "auto") -> None:
        self._encoder = load_transformers(name, device)
        encoder_class = ClipEncoder if kind == "clip" else BlipEncoder
        if not isinstance(self._encoder, encoder_class):
            actual_kind = "blip" if kind == "clip" else "clip"
            raise InputError(name, f"is a {actual_kind} model", action=f"name it {actual_kind}:{name}")
        self._explainer = choose_explainer(explainer, self._encoder)
        self.identity: Mapping[str, Any] = {
            "model": f"{kind}:{strip_folder(name)}",
            "weights": self._encoder.weights,
            "preprocessing": self._encoder.preprocessing,
            "vocabulary": hash_vocabulary(self._encoder.tokenizer),
            "explainer": self._explainer,
        }

    def align(
        self, images: Sequence[Image.Image], sentences: Sequence[str], image_ids: Sequence[str] = ()
    ) -> list[Alignment]:
        """Compute heatmaps that are divided by their sum. A sentence that is too long is cut at its end.

        Args:
            images: Images in mode RGB.
            sentences: One sentence for each image.
            image_ids: Ignored.

        Returns:
            An alignment for each pair, in the same order: the heatmap on the model's grid (zeros if the gradients are
            zero), the cosine of image and sentence, and whether the sentence was cut.
        """
        import torch

        fitting_sentences = [self._cut_sentence(sentence) for sentence in sentences]
        pixels = self._encoder.pixels(images)
        with torch.no_grad():
            texts = self._encoder.text(fitting_sentences)
            overall = (self._encoder.image(pixels) * texts).sum(dim=-1).tolist()
        grids = self._encoder.grids(pixels, texts[:, None], self._explainer)[:, 0].double().cpu().numpy()
        sums = grids.sum(axis=(1, 2), keepdims=True)
        shares = np.divide(grids, sums, out=np.zeros_like(grids), where=sums != 0).astype(np.float32)
        return [
            Alignment(share, self._encoder.geometry((image.height, image.width)), None, cosine, text != sentence)
            for share, image, cosine, text, sentence in zip(
                shares, images, overall, fitting_sentences, sentences, strict=True
            )
        ]

    def _cut_sentence(self, sentence: str) -> str:
        """Remove words from the end until the sentence fits into the model."""
        text = sentence
        while len(self._encoder.tokens([text])[0]) > self._encoder.max_tokens and " " in text:
            text = text.rpartition(" ")[0]
        self._encoder.check_length([text])
        return text


def hash_vocabulary(tokenizer: Any) -> str:
    """Hash the words of a tokenizer and their ids.

    Args:
        tokenizer: The tokenizer.

    Returns:
        A hexadecimal digest of 128 bits.
    """
    return blake2b(repr(sorted(tokenizer.get_vocab().items())).encode(), digest_size=16).hexdigest()
