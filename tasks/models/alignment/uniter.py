"""UNITER (Chen et al., ECCV 2020), as That's the Wrong Lung! modifies it: its regions are the boxes of all anatomies.

One BERT reads the word pieces of a sentence and the regions of its image. A sentence's attention to a region is the
mean, over all heads, layers and word pieces, of the attention from the word pieces to the region and back, divided by
its sum over the regions (A.2). The similarity of an image and a sentence is the log-odds that they belong together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn
from torch.nn.functional import linear
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertPredictionHeadTransform

from ....evaluate_metrics.localization.input_view import window
from ....loaders import json_text
from ....loaders.atomic import atomic_file
from ....loaders.errors import InputError
from ...explain.geometry import Geometry
from ..contrastive.clinical_bert import TEXT_MODEL
from ..contrastive.encoders import hash_weights
from .aligners import Alignment, hash_vocabulary
from .gloria import check_names, load_tokenizer
from .gloria_text import Tokens, tokenize
from .uniter_regions import (
    N_FEATURES,
    N_PLACE,
    PREPROCESSING,
    GoldBoxes,
    Regions,
    build_features,
    cut_regions,
    draw_attention,
)

EXPECTED = "a checkpoint that medfaith train uniter wrote"
SIZES = "uniter"  # name of the sizes in the metadata of a checkpoint
BASE_HIDDEN, BASE_STD = 768, 0.02  # dimension of UNITER-base, and standard deviation of its random weights


@dataclass(frozen=True)
class Sizes:
    """The sizes of a UNITER; by default those of UNITER-base.

    Attributes:
        vocabulary: The number of tokens.
        layers: The number of layers.
        heads: The number of heads of a layer.
        hidden: The dimension of the hidden states; the feed-forward layers have 4 times as many.
    """

    vocabulary: int
    layers: int = 12
    heads: int = 12
    hidden: int = BASE_HIDDEN


class RegionBatch(NamedTuple):
    """The regions of n images, padded to the largest number.

    Attributes:
        features: float32 (n, k, 2048).
        places: float32 (n, k, 7).
        mask: long (n, k), 0 for padding.
    """

    features: torch.Tensor
    places: torch.Tensor
    mask: torch.Tensor

    def to(self, device: str | torch.device) -> RegionBatch:
        """Move the tensors to a device.

        Args:
            device: The device.

        Returns:
            A copy with the moved tensors.
        """
        return RegionBatch(*(tensor.to(device) for tensor in self))


class Joint(NamedTuple):
    """The hidden states of n pairs of a sentence and an image.

    Attributes:
        words: States of the word pieces (n, t, d).
        regions: States of the regions (n, k, d).
        pooled: States of the pairs (n, d), from [CLS].
        attention: Mean over layers and heads (n, t + k, t + k), rows attend to columns; None unless asked for.
    """

    words: torch.Tensor
    regions: torch.Tensor
    pooled: torch.Tensor
    attention: torch.Tensor | None


class RegionEmbeddings(nn.Module):
    """The embedding of a region: its features and its location, each by a linear map and a layer norm.

    Args:
        config: Configuration of the BERT.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.layer_norm_eps
        self.features, self.features_norm = nn.Linear(N_FEATURES, hidden), nn.LayerNorm(hidden, eps=eps)
        self.places, self.places_norm = nn.Linear(N_PLACE, hidden), nn.LayerNorm(hidden, eps=eps)
        self.kind = nn.Parameter(torch.zeros(hidden))  # the token type of regions
        self.masked = nn.Parameter(torch.zeros(N_FEATURES))  # features of a masked region
        self.norm, self.dropout = nn.LayerNorm(hidden, eps=eps), nn.Dropout(config.hidden_dropout_prob)

    def forward(self, regions: RegionBatch, masked: torch.Tensor | None = None) -> torch.Tensor:
        """Embed regions.

        Args:
            regions: The regions.
            masked: Bool (n, k), regions whose features are hidden; their locations are not.

        Returns:
            Shape (n, k, d).
        """
        features = regions.features
        if masked is not None:
            features = torch.where(masked[..., None], self.masked, features)
        embedded = self.features_norm(self.features(features)) + self.places_norm(self.places(regions.places))
        return self.dropout(self.norm(embedded + self.kind))


class _Unchanged(nn.Module):
    """Embeddings for a BertModel whose inputs are embedded already."""

    def forward(self, inputs_embeds: torch.Tensor, **_: Any) -> torch.Tensor:
        return inputs_embeds


class UniterModel(nn.Module):
    """The joint encoder of sentences and regions, with the heads of its pre-training.

    Args:
        sizes: The sizes.
        dropout: The dropout of hidden states and of attention in training.

    Raises:
        InputError: The heads do not divide the dimension.
    """

    def __init__(self, sizes: Sizes, dropout: float = 0.1) -> None:
        super().__init__()
        if sizes.hidden % sizes.heads:
            expected = f"a multiple of the number of heads, {sizes.heads}"
            raise InputError("hidden size", f"is {sizes.hidden}", expected=expected)
        config = BertConfig(
            vocab_size=sizes.vocabulary, hidden_size=sizes.hidden, intermediate_size=4 * sizes.hidden,
            num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
            # The other implementations return no attention.
            attn_implementation="eager",  # pyrefly: ignore[unexpected-keyword] (an option of every config)
        )  # fmt: skip
        self.sizes = sizes
        self.words, self.regions = BertEmbeddings(config), RegionEmbeddings(config)
        self.encoder = BertModel(config)
        self.encoder.embeddings = _Unchanged()  # pyrefly: ignore[bad-assignment] (any module of the same call)
        self.word_head, self.region_head = BertPredictionHeadTransform(config), BertPredictionHeadTransform(config)
        self.word_bias, self.feature_bias = (nn.Parameter(torch.zeros(size)) for size in (sizes.vocabulary, N_FEATURES))
        self.matching = nn.Linear(sizes.hidden, 2)
        self.apply(partial(_initialize, std=compute_initial_std(sizes.hidden)))

    def forward(
        self, tokens: Tokens, regions: RegionBatch, masked: torch.Tensor | None = None, *, attention: bool = False
    ) -> Joint:
        """Encode n pairs of a sentence and an image.

        Args:
            tokens: Tokens of the sentences.
            regions: Regions of the images.
            masked: Bool (n, k), regions whose features are hidden.
            attention: Whether to return the attention.

        Returns:
            The hidden states.
        """
        embedded = torch.cat([self.words(input_ids=tokens.ids), self.regions(regions, masked)], dim=1)
        mask = torch.cat([tokens.mask, regions.mask], dim=1)
        output = self.encoder(inputs_embeds=embedded, attention_mask=mask, output_attentions=attention)
        words, region_states = output.last_hidden_state.split([tokens.ids.shape[1], regions.mask.shape[1]], dim=1)
        mean = torch.stack(output.attentions).mean(dim=(0, 2)) if attention else None
        return Joint(words, region_states, output.pooler_output, mean)

    def predict_words(self, states: torch.Tensor) -> torch.Tensor:
        """Predict the word pieces of states.

        Args:
            states: Shape (m, d).

        Returns:
            Logits (m, vocabulary). The output weights are those of the word embeddings.
        """
        return linear(self.word_head(states), self.words.word_embeddings.weight, self.word_bias)

    def predict_features(self, states: torch.Tensor) -> torch.Tensor:
        """Predict the features of regions.

        Args:
            states: Shape (m, d).

        Returns:
            Shape (m, 2048). The output weights are those of the features' embedding.
        """
        return linear(self.region_head(states), self.regions.features.weight.T, self.feature_bias)

    def predict_match(self, pooled: torch.Tensor) -> torch.Tensor:
        """Predict whether sentences and images belong together.

        Args:
            pooled: Shape (n, d).

        Returns:
            Logits (n, 2): they do not, they do.
        """
        return self.matching(pooled)

    def save_checkpoint(self, path: str | Path) -> None:
        """Save weights and sizes in the format of safetensors, atomically.

        Args:
            path: The file.
        """
        with atomic_file(Path(path)) as partial:
            weights = {name: tensor.cpu().contiguous() for name, tensor in self.state_dict().items()}
            partial.write_bytes(save(weights, {SIZES: json.dumps(asdict(self.sizes))}))  # save_file makes it private


def compute_saliency(attention: torch.Tensor, tokens: Tokens, regions: RegionBatch) -> torch.Tensor:
    """Compute the attention of each sentence to the regions (A.2).

    Args:
        attention: Mean over layers and heads (n, t + k, t + k), see `Joint`.
        tokens: The sentences. [CLS] and [SEP] are no word pieces of a sentence.
        regions: The regions.

    Returns:
        Shape (n, k), with the sum 1, and 0 for a sentence without words.
    """
    n_tokens = tokens.ids.shape[1]
    both = (attention[:, :n_tokens, n_tokens:] + attention[:, n_tokens:, :n_tokens].transpose(1, 2)) / 2
    n_words = torch.tensor(tokens.n_words, device=tokens.word.device)[:, None]
    is_piece = (tokens.word > 0) & (tokens.word < n_words - 1)
    saliency = (both * is_piece[..., None]).sum(dim=1) * regions.mask  # the number of pieces cancels out
    return saliency / saliency.sum(dim=1, keepdim=True).clamp_min(torch.finfo(saliency.dtype).tiny)


def stack_regions(images: Sequence[Regions]) -> RegionBatch:
    """Stack the regions of images.

    Args:
        images: The regions of each image.

    Returns:
        The regions, padded with zeros.
    """
    counts = [len(regions.boxes) for regions in images]
    features = np.zeros((len(images), max(counts), N_FEATURES), dtype=np.float32)
    places = np.zeros((len(images), max(counts), N_PLACE), dtype=np.float32)
    for row, (regions, n_regions) in enumerate(zip(images, counts, strict=True)):
        features[row, :n_regions], places[row, :n_regions] = build_features(regions.crops), regions.places
    mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    return RegionBatch(torch.from_numpy(features), torch.from_numpy(places), mask.long())


def load_uniter(path: str | Path) -> UniterModel:
    """Load a checkpoint.

    Args:
        path: The checkpoint.

    Returns:
        The model, on the CPU.

    Raises:
        InputError: The file is not a checkpoint of `medfaith train uniter`.
    """
    file = Path(path).expanduser()
    try:
        with safe_open(file, "pt") as checkpoint:
            sizes = Sizes(**json_text.parse((checkpoint.metadata() or {})[SIZES]))
            weights = {name: checkpoint.get_tensor(name) for name in checkpoint.keys()}  # noqa: SIM118 (no mapping)
        if not all(isinstance(size, int) for size in astuple(sizes)):
            raise ValueError(f"{sizes}")
        model = UniterModel(sizes)
    except (
        OSError, SafetensorError, KeyError, TypeError, ValueError, ArithmeticError, RuntimeError, InputError
    ) as error:  # fmt: skip
        raise InputError(file, f"cannot be loaded ({str(error).splitlines()[0]})", expected=EXPECTED) from error
    check_names(str(file), weights, model.state_dict(), EXPECTED)
    model.load_state_dict(weights)
    return model


class UniterAligner:
    """A checkpoint of UNITER for `medfaith-alignment`.

    Args:
        path: The checkpoint.
        device: Device, as torch names it.
        boxes: The folder of Chest ImaGenome, whose gold dataset has the boxes.
        text_model: A folder or Hub name with the tokenizer of the training.

    Raises:
        InputError: As in `load_uniter`, `GoldBoxes` and `load_tokenizer`; or the folder of the boxes is not named.
    """

    def __init__(self, path: str, device: str, boxes: str | None = None, text_model: str = TEXT_MODEL) -> None:
        if boxes is None:
            raise InputError(
                "boxes",
                "is not named",
                expected="the folder of Chest ImaGenome: UNITER takes the reference boxes of an image as its input",
                action="add boxes=PATH to --model_args",
            )
        self._boxes = GoldBoxes(boxes)
        model = load_uniter(path)
        self._tokenizer = load_tokenizer(text_model, model.sizes.vocabulary)
        self.identity: Mapping[str, Any] = {
            "model": f"uniter:{Path(path).name}",
            "weights": hash_weights(model),
            "preprocessing": PREPROCESSING,
            "vocabulary": hash_vocabulary(self._tokenizer),
            "boxes": self._boxes.digest,
        }
        self._device, self._model = device, model.eval().requires_grad_(False).to(device)

    def align(
        self, images: Sequence[Image.Image], sentences: Sequence[str], image_ids: Sequence[str]
    ) -> list[Alignment]:
        """Align each image with its sentence. A sentence without words attends to nothing.

        Args:
            images: The images.
            sentences: One sentence for each image.
            image_ids: The key of each image in MIMIC-CXR-JPG, which finds its boxes.

        Returns:
            An alignment for each pair, in the same order.

        Raises:
            InputError: An image has no boxes.
        """
        opened = {id(image): (image, name) for image, name in zip(images, image_ids, strict=True)}
        cut = {key: cut_regions(image, self._boxes.find(name), name) for key, (image, name) in opened.items()}
        image_regions = [cut[id(image)] for image in images]
        regions = stack_regions(image_regions).to(self._device)
        tokens = tokenize(self._tokenizer, sentences).to(self._device)
        with torch.no_grad():
            joint = self._model(tokens, regions, attention=True)
            assert joint.attention is not None
            saliency = compute_saliency(joint.attention, tokens, regions).cpu().numpy()
            scores = self._model.predict_match(joint.pooled)
            log_odds = (scores[:, 1] - scores[:, 0]).tolist()
        alignments = []
        for image, own_regions, row, similarity, is_cut in zip(
            images, image_regions, saliency, log_odds, tokens.cut, strict=True
        ):
            size, attention = (image.height, image.width), row[: len(own_regions.boxes)]
            pixels = draw_attention(attention, own_regions.boxes, size).astype(np.float32)
            geometry = Geometry(size, window(size))
            alignments.append(Alignment(pixels, geometry, None, similarity, is_cut, attention))
        return alignments


def compute_initial_std(hidden: int) -> float:
    """Compute the standard deviation of random weights: UNITER's, or more for hidden states of fewer dimensions.

    A sum over few dimensions is small. With UNITER's deviation, the state of [CLS] in a narrow model hardly depends on
    the image, and image-text matching stays at chance.

    Args:
        hidden: The dimension of the hidden states.

    Returns:
        The standard deviation.

    >>> [compute_initial_std(hidden) for hidden in (64, 768, 1024)]
    [0.125, 0.02, 0.02]
    """
    return BASE_STD if hidden >= BASE_HIDDEN else hidden**-0.5


def _initialize(module: nn.Module, std: float) -> None:
    """Draw the weights of linear maps and embeddings from a normal distribution, as BERT does."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
