"""Models that align a sentence with regions of its image: what one has to offer, and CLIP and BLIP as such models.

GLoRIA (gloria.py) has an attention of its own. CLIP and BLIP have none: the gradient attention of the sentence's
similarity stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
from PIL import Image

from ...loaders.errors import InputError
from ..explain.geometry import Geometry
from .contrastive_encoders import BlipEncoder, ClipEncoder, chosen_explainer, load_transformers, short_name


class Alignment(NamedTuple):
    """What a model says of an image and a sentence.

    attention: float32 (h, w), at least 0; its sum is 1 less the share of what is nowhere on the image ("No Attn"), or 0
    where the model attends to nothing. geometry: where the grid lies on the image.
    local: similarity of the sentence's words and the regions, None where the model has none. overall: of the whole
    sentence and the whole image, their cosine.
    cut: whether the sentence was longer than the model takes, and its end left out.
    """

    attention: np.ndarray
    geometry: Geometry
    local: float | None
    overall: float | None
    cut: bool = False


class Aligner(Protocol):
    """A model of images and sentences. identity: everything that an alignment depends on beside them, as JSON."""

    identity: Mapping[str, Any]

    def align(self, images: Sequence[Image.Image], sentences: Sequence[str]) -> list[Alignment]:
        """Aligns each image, in mode RGB, with its sentence."""
        ...


class GradientAligner:
    """CLIP or BLIP: where the gradient of a sentence's similarity finds the image's attention to matter.

    Args:
        kind: clip or blip. name: a folder or a Hub name. explainer: as in medfaith-contrastive.
    """

    def __init__(self, kind: str, name: str, device: str, explainer: str = "auto") -> None:
        self._encoder = load_transformers(name, device)
        wanted = ClipEncoder if kind == "clip" else BlipEncoder
        if not isinstance(self._encoder, wanted):
            found = "blip" if kind == "clip" else "clip"
            raise InputError(name, f"is a {found} model", action=f"name it {found}:{name}")
        self._explainer = chosen_explainer(explainer, self._encoder)
        self.identity: Mapping[str, Any] = {
            "model": f"{kind}:{short_name(name)}",
            "weights": self._encoder.weights,
            "preprocessing": self._encoder.preprocessing,
            "vocabulary": vocabulary_digest(self._encoder.tokenizer),
            "explainer": self._explainer,
        }

    def align(self, images: Sequence[Image.Image], sentences: Sequence[str]) -> list[Alignment]:
        """Heatmaps divided by their sum; of a sentence that is too long, its first words."""
        import torch

        kept = [self._fitting(sentence) for sentence in sentences]
        pixels = self._encoder.pixels(images)
        with torch.no_grad():
            texts = self._encoder.text(kept)
            overall = (self._encoder.image(pixels) * texts).sum(dim=-1).tolist()
        grids = self._encoder.grids(pixels, texts[:, None], self._explainer)[:, 0].double().cpu().numpy()
        sums = grids.sum(axis=(1, 2), keepdims=True)
        shares = np.divide(grids, sums, out=np.zeros_like(grids), where=sums != 0).astype(np.float32)
        return [
            Alignment(share, self._encoder.geometry((image.height, image.width)), None, cosine, text != sentence)
            for share, image, cosine, text, sentence in zip(shares, images, overall, kept, sentences, strict=True)
        ]

    def _fitting(self, sentence: str) -> str:
        text = sentence
        while len(self._encoder.tokens([text])[0]) > self._encoder.max_tokens and " " in text:
            text = text.rpartition(" ")[0]
        self._encoder.check_length([text])
        return text


def vocabulary_digest(tokenizer: Any) -> str:
    """A hash of a tokenizer's words and their numbers."""
    return blake2b(repr(sorted(tokenizer.get_vocab().items())).encode(), digest_size=16).hexdigest()
