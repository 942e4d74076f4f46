"""GLoRIA's text encoder: the words of a sentence by a BERT (Huang et al., ICCV 2021).

After the released code (marshuang80/gloria): a word is the sum of its word pieces, a piece the sum of the last four
layers; a sentence is the sum of its words with [CLS] and [SEP], divided by the 97 places that it is padded to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import BertConfig, BertModel

MAX_TOKENS = 97
LAST_LAYERS = 4


class Tokens(NamedTuple):
    """Sentences of word pieces, padded to the longest of them.

    ids, mask: long (n, t). word: long (n, t), which word of its sentence a piece belongs to, [CLS] being the first and
    [SEP] the last; -1 for padding. n_words: of each sentence, with these two. cut: whether a sentence was longer than
    the model takes; its end is left out, as in the released code.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    word: torch.Tensor
    n_words: list[int]
    cut: list[bool]

    def to(self, device: str | torch.device) -> Tokens:
        return self._replace(ids=self.ids.to(device), mask=self.mask.to(device), word=self.word.to(device))


class Sentence(NamedTuple):
    """Embeddings of a sentence's n words, (n, d), of [CLS] and of [SEP], (d,); n_pieces: word pieces in the words."""

    words: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor
    n_pieces: int


class TextEncoder(nn.Module):
    """A BERT under the released checkpoint's name."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.model = BertModel(config)

    def forward(self, tokens: Tokens) -> tuple[list[Sentence], torch.Tensor]:
        """Embeddings of the words of each sentence, and of the sentences, (n, d)."""
        output = self.model(input_ids=tokens.ids, attention_mask=tokens.mask, output_hidden_states=True)
        pieces = torch.stack(output.hidden_states[-LAST_LAYERS:]).sum(dim=0)
        numbers = torch.arange(max(tokens.n_words), device=pieces.device)
        belongs = (tokens.word[:, None] == numbers[:, None]).to(pieces.dtype)  # (n, words, t)
        words = belongs @ pieces
        n_pieces = tokens.mask.sum(dim=1).tolist()
        sentences = [
            Sentence(own[1 : n - 1], own[0], own[n - 1], pieces_here - 2)
            for own, n, pieces_here in zip(words, tokens.n_words, n_pieces, strict=True)
        ]
        return sentences, words.sum(dim=1) / MAX_TOKENS


def clean(text: str, min_words: int = 1) -> str:
    """A text as GLoRIA reads it: in lower case, words only, without the numbers of a list ("1.").

    min_words: parts between full stops with fewer words are left out. The released code leaves out those of one word,
    and with them the whole of a sentence like "Cardiomegaly.".
    """
    parts = [part for item in re.split(r"[0-9]+\.", text.replace("\n", " ")) for part in item.split(".")]
    words = [re.findall(r"\w+", part.lower()) for part in parts]
    ascii_only = (word.encode("ascii", "ignore").decode() for own in words if len(own) >= min_words for word in own)
    return " ".join(word for word in ascii_only if word)


def tokenize(tokenizer: Any, sentences: Sequence[str], min_words: int = 1) -> Tokens:
    """Sentences for the encoder, cleaned; more than 97 word pieces are cut.

    tokenizer: of a BERT, whose continued word pieces begin with ##.
    """
    whole = tokenizer([clean(sentence, min_words) for sentence in sentences])["input_ids"]
    kept = [own if len(own) <= MAX_TOKENS else [*own[: MAX_TOKENS - 1], own[-1]] for own in whole]
    longest = max(map(len, kept))
    ids = torch.full((len(kept), longest), tokenizer.pad_token_id)
    word = torch.full((len(kept), longest), -1)
    for row, own in enumerate(kept):
        begins = [not piece.startswith("##") for piece in tokenizer.convert_ids_to_tokens(own)]
        ids[row, : len(own)] = torch.tensor(own)
        word[row, : len(own)] = torch.tensor(begins).cumsum(0) - 1
    n_words = (word.max(dim=1).values + 1).tolist()
    return Tokens(ids, (word >= 0).long(), word, n_words, [len(own) > MAX_TOKENS for own in whole])
