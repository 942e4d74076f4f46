"""GLoRIA (Huang et al., ICCV 2021), as That's the Wrong Lung! evaluates it: attention of a sentence's words to regions.

The paper and the released code (marshuang80/gloria, and the paper's fork of it) differ; `attention` chooses.

`paper`: a word's attention to the regions is the softmax of their inner products over tau (equation 1), and a
sentence's attention is the mean over its words. The local similarity is GLoRIA's: log sum exp over the words of 5 x the
cosine of the word and its attended regions. The paper does not print tau; the default 0.25 is the inverse of the
released `temp1`.

`code`: a softmax over the words precedes the multiplication by temp1 = 4 and the softmax over the regions. The weights
of two regions then differ at most by a factor of e^4, and attention stays close to uniform, like the published
entropies. The words include [CLS]. For the local similarity they exclude [CLS] and include [SEP], followed by as many
zeros as the words have additional word pieces, and the maximum replaces the log sum exp. Text parts of one word are
omitted.

A model with a "No Attn" vector (section 4.1) has one more region outside the image, whose share is 1 minus the map's
sum.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import nn
from torch.nn.functional import cosine_similarity
from transformers import AutoTokenizer, BertConfig

from ....evaluate_metrics.localization.input_view import window
from ....loaders.atomic import atomic_file
from ....loaders.errors import InputError
from ...explain.geometry import Geometry
from ..contrastive.clinical_bert import TEXT_MODEL, reading
from ..contrastive.encoders import hash_weights
from ..model_names import format_few
from .aligners import Alignment, hash_vocabulary
from .gloria_image import PREPROCESSING, RESNET_50, ImageEncoder, pixels
from .gloria_text import Sentence, TextEncoder, Tokens, tokenize

ATTENTIONS = ("paper", "code")
TEMP1, TEMP2 = 4.0, 5.0
TAU = 1 / TEMP1
SPECIAL_TOKENS = ("cls_token", "sep_token", "pad_token", "mask_token")  # of a BERT
PREFIX = "gloria."
POSITIONS = "text_encoder.model.embeddings.position_ids"  # 0, 1, 2, ...: older releases of transformers saved them
EXPECTED = "a checkpoint of GLoRIA: the weights of a ResNet of bottlenecks, of a BERT and of two embedders"
CONVERT = (
    "where the file is trusted and its training code is installed, save the weights alone: "
    "torch.save({'state_dict': torch.load(PATH, weights_only=False)['state_dict']}, NEW_PATH)"
)


class Embedded(NamedTuple):
    """Embeddings of n images and n sentences.

    Attributes:
        local: Embeddings of regions (n, d, h, w).
        overall: Embeddings of images (n, d).
        sentences: Embeddings of the words of each sentence.
        text: Embeddings of sentences (n, d).
        attention: Attention of each sentence to its image (queries, regions), as `GloriaModel.attention`.
    """

    local: torch.Tensor
    overall: torch.Tensor
    sentences: list[Sentence]
    text: torch.Tensor
    attention: list[torch.Tensor]


class GloriaModel(nn.Module):
    """Image and text encoder, the attention between them and the similarities; gradients flow through all parts.

    Args:
        layers: Bottlenecks of each stage of the ResNet (see gloria_image.ImageEncoder).
        width: Width of the ResNet (see gloria_image.ImageEncoder).
        bert: Configuration of the BERT; by default BERT-base with Bio_ClinicalBERT's vocabulary.
        no_attn: Whether the model has a "No Attn" vector.
        attention: "paper" or "code" (see the module).
        tau: Temperature (see the module).

    Raises:
        InputError: `attention` or `tau` is invalid.
    """

    def __init__(
        self,
        layers: Sequence[int] = RESNET_50,
        width: int = 64,
        bert: BertConfig | None = None,
        no_attn: bool = False,
        attention: str = "paper",
        tau: float = TAU,
    ) -> None:
        super().__init__()
        if attention not in ATTENTIONS:
            raise InputError("attention", f"is {attention!r}", expected=" or ".join(ATTENTIONS))
        if isinstance(tau, bool) or not isinstance(tau, int | float) or not 0 < tau < float("inf"):
            raise InputError("tau", f"is {tau!r}", expected="a positive number")
        bert = bert or BertConfig(vocab_size=28996)
        self.kind, self.tau = attention, float(tau)
        self.img_encoder = ImageEncoder(layers, width, bert.hidden_size)
        self.text_encoder = TextEncoder(bert)
        self.no_attn_vec = nn.Parameter(torch.randn(bert.hidden_size)) if no_attn else None

    def forward(self, images: torch.Tensor, tokens: Tokens) -> Embedded:
        """Embed n images and one sentence for each.

        Args:
            images: Pixels, as `gloria_image.pixels`.
            tokens: Tokens of the sentences.

        Returns:
            Local and global features of the images and of the sentences, and the attention of each sentence's words on
            its image.
        """
        local, overall = self.encode_images(images)
        sentences, text = self.encode_texts(tokens)
        attention = [self.attention(sentence, local[n : n + 1])[0] for n, sentence in enumerate(sentences)]
        return Embedded(local, overall, sentences, text, attention)

    def encode_images(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode images.

        Args:
            images: Pixels (n, 3, 224, 224).

        Returns:
            Embeddings of regions (n, d, h, w) and of images (n, d).
        """
        return self.img_encoder(images)

    def encode_texts(self, tokens: Tokens) -> tuple[list[Sentence], torch.Tensor]:
        """Encode sentences.

        Args:
            tokens: Tokens of n sentences.

        Returns:
            Embeddings of the words of each sentence, and of the sentences (n, d).
        """
        return self.text_encoder(tokens)

    def attention(self, sentence: Sentence, local: torch.Tensor) -> torch.Tensor:
        """Compute the attention of a sentence's words to the regions of images.

        Args:
            sentence: Embeddings of the sentence.
            local: Embeddings of regions (n, d, h, w).

        Returns:
            Shape (n, queries, h * w), one more region with a "No Attn" vector. Queries are the words, in the code's
            version preceded by [CLS]. Each query sums to 1.
        """
        queries = sentence.words if self.kind == "paper" else torch.cat([sentence.start[None], sentence.words])
        return self._compute_weights(queries, self._flatten_regions(local))

    def similarities(
        self, images: tuple[torch.Tensor, torch.Tensor], texts: tuple[Sequence[Sentence], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute local and global similarities of n images and k texts.

        Args:
            images: Output of `encode_images`.
            texts: Output of `encode_texts`.

        Returns:
            Local and global similarities, each (n, k).
        """
        regions = self._flatten_regions(images[0])
        local = torch.stack([self._compute_local_similarity(sentence, regions) for sentence in texts[0]], dim=1)
        return local, cosine_similarity(images[1][:, None], texts[1][None], dim=-1)

    def save_checkpoint(self, path: str | Path) -> None:
        """Save the weights under the released checkpoint's names, atomically.

        Args:
            path: The file.
        """
        weights = {PREFIX + name: tensor for name, tensor in self.state_dict().items()}
        with atomic_file(Path(path)) as partial:
            torch.save({"state_dict": weights}, partial)

    def _flatten_regions(self, local: torch.Tensor) -> torch.Tensor:
        """Flatten the regions to (n, h * w, d), with the "No Attn" vector as the last region."""
        regions = local.flatten(2).transpose(1, 2)
        if self.no_attn_vec is None:
            return regions
        return torch.cat([regions, self.no_attn_vec.expand(len(regions), 1, -1)], dim=1)

    def _compute_weights(self, queries: torch.Tensor, regions: torch.Tensor) -> torch.Tensor:
        products = queries @ regions.transpose(1, 2)
        if self.kind == "paper":
            return (products / self.tau).softmax(dim=-1)
        return (products.softmax(dim=-2) * TEMP1).softmax(dim=-1)

    def _compute_local_similarity(self, sentence: Sentence, regions: torch.Tensor) -> torch.Tensor:
        queries = sentence.words
        if self.kind == "code":
            zeros = queries.new_zeros(sentence.n_pieces - len(queries), queries.shape[1])
            queries = torch.cat([queries, sentence.end[None], zeros])
        context = self._compute_weights(queries, regions) @ regions
        scaled = TEMP2 * cosine_similarity(queries[None], context, dim=-1)
        return scaled.logsumexp(dim=-1) if self.kind == "paper" else scaled.amax(dim=-1)


class GloriaAligner:
    """A checkpoint of GLoRIA for `medfaith-alignment`.

    Args:
        path: The checkpoint.
        device: Device, as torch names it.
        text_model: A folder or Hub name with the BERT's tokenizer.
        attention: "paper" or "code" (see the module).
        tau: Temperature (see the module).

    Raises:
        InputError: As `load_gloria`; or the tokenizer is missing or has more tokens than the BERT.
    """

    def __init__(
        self, path: str, device: str, text_model: str = TEXT_MODEL, attention: str = "paper", tau: float = TAU
    ) -> None:
        model = load_gloria(path, attention, tau)
        self._tokenizer = load_tokenizer(text_model, model.text_encoder.model.config.vocab_size)
        self.identity: Mapping[str, Any] = {
            "model": f"gloria:{Path(path).name}",
            "weights": hash_weights(model),
            "preprocessing": PREPROCESSING,
            "vocabulary": hash_vocabulary(self._tokenizer),
            "attention": attention,
            "tau": model.tau if attention == "paper" else None,
        }
        self._device, self._model = device, model.eval().requires_grad_(False).to(device)
        self._min_words = 1 if attention == "paper" else 2

    def align(
        self, images: Sequence[Image.Image], sentences: Sequence[str], image_ids: Sequence[str] = ()
    ) -> list[Alignment]:
        """Align each image with its sentence. A sentence without words attends to nothing and has no local similarity.

        Args:
            images: The images.
            sentences: One sentence for each image.
            image_ids: Ignored.

        Returns:
            An alignment for each pair, in the same order.
        """
        model = self._model
        opened = {id(image): image for image in images}  # sentences about one image share the object
        index_by_image = {key: n for n, key in enumerate(opened)}
        tokens = tokenize(self._tokenizer, sentences, self._min_words).to(self._device)
        with torch.no_grad():
            regions, overall_features = model.encode_images(pixels(list(opened.values())).to(self._device))
            sentence_embeddings, texts = model.encode_texts(tokens)
            alignments = []
            for image, sentence, text, cut in zip(images, sentence_embeddings, texts, tokens.cut, strict=True):
                selection = slice(index_by_image[id(image)], index_by_image[id(image)] + 1)
                weights = model.attention(sentence, regions[selection])[0]
                local_similarity, similarity = model.similarities(
                    (regions[selection], overall_features[selection]), ([sentence], text[None])
                )
                height, width = regions.shape[2:]
                # The sum instead of the mean, because it is 0 without words.
                grid = (weights.sum(dim=0) / max(len(weights), 1))[: height * width].reshape(height, width)
                size = (image.height, image.width)
                local_or_none = float(local_similarity) if len(weights) else None
                geometry = Geometry(size, window(size))
                alignments.append(
                    Alignment(grid.float().cpu().numpy(), geometry, local_or_none, float(similarity), cut)
                )
        return alignments


def load_gloria(path: str | Path, attention: str = "paper", tau: float = TAU) -> GloriaModel:
    """Load a checkpoint into a model of its sizes. Each head of the BERT has 64 dimensions.

    Loading runs no code of the file: only tensors are read.

    Args:
        path: The checkpoint.
        attention: "paper" or "code" (see the module).
        tau: Temperature (see the module).

    Returns:
        The model, on the CPU.

    Raises:
        InputError: The file is not a checkpoint, or its weights do not fit GLoRIA.
    """
    file = Path(path).expanduser()
    weights = _read(file)
    model = GloriaModel(**_sizes(file, weights), attention=attention, tau=tau)
    check_names(file, weights, model.state_dict())
    model.load_state_dict(weights)
    return model


def load_tokenizer(text_model: str, vocab_size: int) -> Any:
    """Load a tokenizer.

    Args:
        text_model: A folder or Hub name.
        vocab_size: Number of tokens of the checkpoint's BERT.

    Returns:
        The tokenizer of transformers.

    Raises:
        InputError: The tokenizer is missing, is not a BERT's or has more tokens than the BERT.
    """
    expected = "a folder or Hub name with the files of a BERT's tokenizer"
    with reading(text_model, expected):
        tokenizer: Any = AutoTokenizer.from_pretrained(text_model)
    if missing := [name for name in SPECIAL_TOKENS if getattr(tokenizer, name) is None]:
        raise InputError(f"text_model={text_model}", f"has no {', '.join(missing)}", expected=expected)
    if len(tokenizer) > vocab_size:
        raise InputError(
            f"text_model={text_model}",
            f"has {len(tokenizer)} tokens, the checkpoint's BERT {vocab_size}",
            expected=f"the tokenizer that the checkpoint was trained with (published: {TEXT_MODEL})",
        )
    return tokenizer


class _Inert:
    """A placeholder for objects other than tensors in a training checkpoint; it ignores its data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def _read(path: Path) -> dict[str, torch.Tensor]:
    """Read the checkpoint's tensors, without the prefix of the training module.

    Lightning saves a configuration, optimizers and callbacks in the file, whose classes torch's restricted unpickler
    refuses. Each of them becomes an inert class of the same name, so that only tensors are read.
    """
    try:
        foreign = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        names = [name.rpartition(".") for name in foreign]
        with torch.serialization.safe_globals(
            [type(name, (_Inert,), {"__module__": module}) for module, _, name in names]
        ):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        problem = "cannot be loaded (next to its weights it holds objects that only its training code can read)"
        raise InputError(path, problem, expected=EXPECTED, action=CONVERT) from error
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        action = CONVERT if isinstance(error, ValueError) else ""  # a file of torch before 1.6, or no file of torch
        raise InputError(
            path, f"cannot be loaded ({str(error).splitlines()[0]})", expected=EXPECTED, action=action
        ) from error
    weights = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(weights, Mapping) or not all(torch.is_tensor(value) for value in weights.values()):
        raise InputError(path, "has no mapping of names to tensors", expected=EXPECTED, action=CONVERT)
    renamed = {str(name).removeprefix(PREFIX): tensor for name, tensor in weights.items()}
    return {name: tensor for name, tensor in renamed.items() if name != POSITIONS}


def _sizes(path: Path, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Compute the arguments of GloriaModel that fit the weights."""

    def get_shape(name: str, n_dimensions: int = 2) -> torch.Size:
        if name not in weights or weights[name].ndim != n_dimensions:
            raise InputError(path, f"lacks {name}, or has it in another shape", expected=EXPECTED)
        return weights[name].shape

    def count_layers(pattern: str) -> int:
        return len({match[1] for name in weights if (match := re.match(pattern, name))})

    bert = "text_encoder.model."
    vocab_size, hidden = get_shape(f"{bert}embeddings.word_embeddings.weight")
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=count_layers(rf"{re.escape(bert)}encoder\.layer\.(\d+)\."),
        num_attention_heads=count_bert_heads(hidden),
        intermediate_size=get_shape(f"{bert}encoder.layer.0.intermediate.dense.weight")[0],
        max_position_embeddings=get_shape(f"{bert}embeddings.position_embeddings.weight")[0],
        type_vocab_size=get_shape(f"{bert}embeddings.token_type_embeddings.weight")[0],
    )
    return {
        "layers": [max(count_layers(rf"img_encoder\.model\.layer{stage}\.(\d+)\."), 1) for stage in range(1, 5)],
        "width": get_shape("img_encoder.model.layer1.0.conv1.weight", 4)[0],
        "bert": config,
        "no_attn": "no_attn_vec" in weights,
    }


def count_bert_heads(hidden_size: int) -> int:
    """Compute the number of heads of a checkpoint's BERT, which does not record it: each head has 64 dimensions.

    Args:
        hidden_size: Hidden size of the BERT.

    Returns:
        The number of heads; 1 if 64 does not divide the hidden size.
    """
    return hidden_size // 64 if hidden_size % 64 == 0 else 1


def check_names(
    path: str | Path,
    weights: Mapping[str, torch.Tensor],
    expected_weights: Mapping[str, torch.Tensor],
    expected: str = EXPECTED,
) -> None:
    """Check the names and shapes of weights.

    Args:
        path: Name of the file for the error.
        weights: Weights of the file.
        expected_weights: Weights of the model.
        expected: Description of the expected input.

    Raises:
        InputError: Weights are missing, unknown, or of another shape.
    """
    differences = {
        "lacks": expected_weights.keys() - weights.keys(),
        "has also": weights.keys() - expected_weights.keys(),
        "has in another shape": {
            name
            for name in expected_weights.keys() & weights.keys()
            if expected_weights[name].shape != weights[name].shape
        },
    }
    if any(differences.values()):
        problem = "; ".join(f"{difference} {format_few(names)}" for difference, names in differences.items() if names)
        raise InputError(path, problem, expected=expected)
