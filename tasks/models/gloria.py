"""GLoRIA (Huang et al., ICCV 2021), as That's the Wrong Lung! evaluates it: attention of a sentence's words on regions.

The paper and the released code (marshuang80/gloria, and the paper's fork of it) differ; `attention` chooses.

`paper`: a word's attention on the regions is the softmax of their inner products over tau (equation 1), a sentence's
is the mean over its words. The local similarity is GLoRIA's: log sum exp over the words of 5 x the cosine of the word
and the regions that it attends to. tau is not printed; 0.25, the default, is the inverse of the released `temp1`.

`code`: inner products go through a softmax over the words first, which is then multiplied by temp1 = 4 and put through
the softmax over the regions: the weights of two regions never differ by more than a factor of e^4, and attention stays
close to uniform, as the published entropies are. [CLS] is one of the words. For the local similarity it is not, [SEP]
is, as many zeros follow as the words have further word pieces, and the largest cosine counts instead of all. Parts of
one word are left out of the text.

A model with a "No Attn" vector (section 4.1) has one region more, which is nowhere; its share is what a map lacks to 1.
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

from ...evaluate_metrics.localization.input_view import window
from ...loaders.atomic import atomic_file
from ...loaders.errors import InputError
from ..explain.geometry import Geometry
from .aligners import Alignment, vocabulary_digest
from .clinical_bert import TEXT_MODEL, reading
from .contrastive_encoders import few, weights_digest
from .gloria_image import PREPROCESSING, RESNET_50, ImageEncoder, pixels
from .gloria_text import Sentence, TextEncoder, Tokens, tokenize

ATTENTIONS = ("paper", "code")
TEMP1, TEMP2 = 4.0, 5.0
TAU = 1 / TEMP1
PREFIX = "gloria."
POSITIONS = "text_encoder.model.embeddings.position_ids"  # 0, 1, 2, ...: older releases of transformers kept them
EXPECTED = "a checkpoint of GLoRIA: the weights of a ResNet of bottlenecks, of a BERT and of two embedders"
CONVERT = (
    "where the file is trusted and its training code is installed, save the weights alone: "
    "torch.save({'state_dict': torch.load(PATH, weights_only=False)['state_dict']}, NEW_PATH)"
)


class Embedded(NamedTuple):
    """n images and n sentences: `local` (n, d, h, w) are of regions, `whole` (n, d) of images, `text` (n, d) of texts.

    attention: of each image and its sentence, (queries, regions), as `GloriaModel.attention`.
    """

    local: torch.Tensor
    whole: torch.Tensor
    sentences: list[Sentence]
    text: torch.Tensor
    attention: list[torch.Tensor]


class GloriaModel(nn.Module):
    """Both encoders, the attention between them and the similarities; gradients flow through all.

    Args:
        layers, width: of the ResNet (see gloria_image.ImageEncoder).
        bert: its configuration; BERT-base with Bio_ClinicalBERT's vocabulary by default.
        no_attn: with a "No Attn" vector. attention, tau: see the module.

    Raises:
        InputError: `attention` or `tau` is none.
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
        """n images, as `gloria_image.pixels`, and a sentence for each."""
        local, whole = self.encode_images(images)
        sentences, text = self.encode_texts(tokens)
        attention = [self.attention(own, local[n : n + 1])[0] for n, own in enumerate(sentences)]
        return Embedded(local, whole, sentences, text, attention)

    def encode_images(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels (n, 3, 224, 224) -> embeddings of regions (n, d, h, w) and of whole images (n, d)."""
        return self.img_encoder(images)

    def encode_texts(self, tokens: Tokens) -> tuple[list[Sentence], torch.Tensor]:
        """Tokens of n sentences -> embeddings of the words of each, and of the sentences (n, d)."""
        return self.text_encoder(tokens)

    def attention(self, sentence: Sentence, local: torch.Tensor) -> torch.Tensor:
        """What each word of a sentence attends to in each image: (n, queries, h * w), one more with a "No Attn" vector.

        Queries are the words; by the code [CLS] and the words. local: (n, d, h, w). Each query's sum is 1.
        """
        queries = sentence.words if self.kind == "paper" else torch.cat([sentence.start[None], sentence.words])
        return self._weights(queries, self._regions(local))

    def similarities(
        self, images: tuple[torch.Tensor, torch.Tensor], texts: tuple[Sequence[Sentence], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Local and global similarity of n images, as `encode_images`, and k texts, as `encode_texts`: (n, k) each."""
        regions = self._regions(images[0])
        local = torch.stack([self._local_similarity(sentence, regions) for sentence in texts[0]], dim=1)
        return local, cosine_similarity(images[1][:, None], texts[1][None], dim=-1)

    def save_checkpoint(self, path: str | Path) -> None:
        """Writes the weights under the released checkpoint's names; the file is whole or not there."""
        weights = {PREFIX + name: tensor for name, tensor in self.state_dict().items()}
        with atomic_file(Path(path)) as partial:
            torch.save({"state_dict": weights}, partial)

    def _regions(self, local: torch.Tensor) -> torch.Tensor:
        """(n, h * w, d), with the "No Attn" vector as the last region."""
        regions = local.flatten(2).transpose(1, 2)
        if self.no_attn_vec is None:
            return regions
        return torch.cat([regions, self.no_attn_vec.expand(len(regions), 1, -1)], dim=1)

    def _weights(self, queries: torch.Tensor, regions: torch.Tensor) -> torch.Tensor:
        products = queries @ regions.transpose(1, 2)
        if self.kind == "paper":
            return (products / self.tau).softmax(dim=-1)
        return (products.softmax(dim=-2) * TEMP1).softmax(dim=-1)

    def _local_similarity(self, sentence: Sentence, regions: torch.Tensor) -> torch.Tensor:
        queries = sentence.words
        if self.kind == "code":
            zeros = queries.new_zeros(sentence.n_pieces - len(queries), queries.shape[1])
            queries = torch.cat([queries, sentence.end[None], zeros])
        context = self._weights(queries, regions) @ regions
        scaled = TEMP2 * cosine_similarity(queries[None], context, dim=-1)
        return scaled.logsumexp(dim=-1) if self.kind == "paper" else scaled.amax(dim=-1)


class GloriaAligner:
    """A checkpoint of GLoRIA for `medfaith-alignment`.

    Args:
        path: the checkpoint. text_model: a folder or Hub name with the BERT's tokenizer.
        attention, tau: see the module.

    Raises:
        InputError: as `load_gloria`; the tokenizer is not there or has more tokens than the BERT.
    """

    def __init__(
        self, path: str, device: str, text_model: str = TEXT_MODEL, attention: str = "paper", tau: float = TAU
    ) -> None:
        model = load_gloria(path, attention, tau)
        self._tokenizer = load_tokenizer(text_model, model.text_encoder.model.config.vocab_size)
        self.identity: Mapping[str, Any] = {
            "model": f"gloria:{Path(path).name}",
            "weights": weights_digest(model),
            "preprocessing": PREPROCESSING,
            "vocabulary": vocabulary_digest(self._tokenizer),
            "attention": attention,
            "tau": model.tau if attention == "paper" else None,
        }
        self._device, self._model = device, model.eval().requires_grad_(False).to(device)
        self._min_words = 1 if attention == "paper" else 2

    def align(self, images: Sequence[Image.Image], sentences: Sequence[str]) -> list[Alignment]:
        """One for each image and its sentence; one without a word attends to nothing and has no local similarity."""
        model = self._model
        opened = {id(image): image for image in images}  # sentences about one image come with the same object
        place = {key: n for n, key in enumerate(opened)}
        tokens = tokenize(self._tokenizer, sentences, self._min_words).to(self._device)
        with torch.no_grad():
            local, whole = model.encode_images(pixels(list(opened.values())).to(self._device))
            found, texts = model.encode_texts(tokens)
            alignments = []
            for image, sentence, text, cut in zip(images, found, texts, tokens.cut, strict=True):
                at = slice(place[id(image)], place[id(image)] + 1)
                weights = model.attention(sentence, local[at])[0]
                similar, overall = model.similarities((local[at], whole[at]), ([sentence], text[None]))
                height, width = local.shape[2:]
                # The sum, not the mean: of no word at all it is 0.
                grid = (weights.sum(dim=0) / max(len(weights), 1))[: height * width].reshape(height, width)
                size = (image.height, image.width)
                local_value = float(similar) if len(weights) else None
                geometry = Geometry(size, window(size))
                alignments.append(Alignment(grid.float().cpu().numpy(), geometry, local_value, float(overall), cut))
        return alignments


def load_gloria(path: str | Path, attention: str = "paper", tau: float = TAU) -> GloriaModel:
    """A model with a checkpoint's weights and of its sizes; heads of the BERT have 64 dimensions.

    No code in the file is run: what is not a tensor is not read.

    Raises:
        InputError: the file is no checkpoint, or has other weights than GLoRIA.
    """
    file = Path(path).expanduser()
    weights = _read(file)
    model = GloriaModel(**_sizes(file, weights), attention=attention, tau=tau)
    check_names(file, weights, model.state_dict())
    model.load_state_dict(weights)
    return model


def load_tokenizer(text_model: str, vocab_size: int) -> Any:
    """The tokenizer in a folder or of a Hub name. Raises InputError where there is none, or one of too many tokens."""
    with reading(text_model, "a folder or Hub name with the files of a BERT's tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(text_model)
    if len(tokenizer) > vocab_size:
        raise InputError(
            f"text_model={text_model}",
            f"has {len(tokenizer)} tokens, the checkpoint's BERT {vocab_size}",
            expected=f"the tokenizer that the checkpoint was trained with (published: {TEXT_MODEL})",
        )
    return tokenizer


class _Inert:
    """In place of whatever a training run kept beside its weights; does nothing with what it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def _read(path: Path) -> dict[str, torch.Tensor]:
    """The checkpoint's tensors, without the prefix of the training's module.

    Lightning keeps a configuration, optimizer and callbacks in the file, whose classes torch's restricted unpickler
    refuses. Here each gets an inert class of its name, so that the tensors can be read and nothing else is.
    """
    try:
        foreign = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        names = [name.rpartition(".") for name in foreign]
        with torch.serialization.safe_globals([type(name, (_Inert,), {"__module__": at}) for at, _, name in names]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = "cannot be loaded (beside its weights it holds objects that only its training code can read)"
        raise InputError(path, found, expected=EXPECTED, action=CONVERT) from error
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        action = CONVERT if isinstance(error, ValueError) else ""  # a file of torch before 1.6, or none of torch
        raise InputError(
            path, f"cannot be loaded ({str(error).splitlines()[0]})", expected=EXPECTED, action=action
        ) from error
    weights = content.get("state_dict", content) if isinstance(content, Mapping) else content
    if not isinstance(weights, Mapping) or not all(torch.is_tensor(value) for value in weights.values()):
        raise InputError(path, "has no mapping of names to tensors", expected=EXPECTED, action=CONVERT)
    named = {str(name).removeprefix(PREFIX): tensor for name, tensor in weights.items()}
    return {name: tensor for name, tensor in named.items() if name != POSITIONS}


def _sizes(path: Path, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Arguments of GloriaModel that fit the weights."""

    def shape(name: str, n_dimensions: int = 2) -> torch.Size:
        if name not in weights or weights[name].ndim != n_dimensions:
            raise InputError(path, f"lacks {name}, or has it in another shape", expected=EXPECTED)
        return weights[name].shape

    def count(pattern: str) -> int:
        return len({match[1] for name in weights if (match := re.match(pattern, name))})

    bert = "text_encoder.model."
    vocab_size, hidden = shape(f"{bert}embeddings.word_embeddings.weight")
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=count(rf"{re.escape(bert)}encoder\.layer\.(\d+)\."),
        num_attention_heads=bert_heads(hidden),
        intermediate_size=shape(f"{bert}encoder.layer.0.intermediate.dense.weight")[0],
        max_position_embeddings=shape(f"{bert}embeddings.position_embeddings.weight")[0],
        type_vocab_size=shape(f"{bert}embeddings.token_type_embeddings.weight")[0],
    )
    return {
        "layers": [max(count(rf"img_encoder\.model\.layer{stage}\.(\d+)\."), 1) for stage in range(1, 5)],
        "width": shape("img_encoder.model.layer1.0.conv1.weight", 4)[0],
        "bert": config,
        "no_attn": "no_attn_vec" in weights,
    }


def bert_heads(hidden_size: int) -> int:
    """How many heads the BERT of a checkpoint has, which does not say it: each has 64 dimensions."""
    return hidden_size // 64 if hidden_size % 64 == 0 else 1


def check_names(
    where: str | Path,
    weights: Mapping[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    expected: str = EXPECTED,
) -> None:
    """Raises InputError naming what is missing, unknown, or of another shape."""
    named = {
        "lacks": wanted.keys() - weights.keys(),
        "has also": weights.keys() - wanted.keys(),
        "has in another shape": {
            name for name in wanted.keys() & weights.keys() if wanted[name].shape != weights[name].shape
        },
    }
    if any(named.values()):
        found = "; ".join(f"{what} {few(names)}" for what, names in named.items() if names)
        raise InputError(where, found, expected=expected)
