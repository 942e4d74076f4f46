"""GLoRIA's text encoder: the words of a sentence by a BERT (Huang et al., ICCV 2021).

It follows the released code (marshuang80/gloria): a word is the sum of its word pieces, and a piece the sum of the last
four layers. A sentence is the sum of its words with [CLS] and [SEP], divided by the padded length of 97.
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
    """Word pieces of sentences, padded to the longest sentence.

    Attributes:
        ids: Token ids, long (n, t).
        mask: Attention mask, long (n, t).
        word: long (n, t), index of each piece's word in its sentence, including [CLS] and [SEP]; -1 for padding.
        n_words: Number of words of each sentence, including [CLS] and [SEP].
        cut: Whether a sentence was too long for the model and was truncated, as in the released code.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    word: torch.Tensor
    n_words: list[int]
    cut: list[bool]

    def to(self, device: str | torch.device) -> Tokens:
        """Move the tensors to a device.

        Args:
            device: The device.

        Returns:
            A copy with the moved tensors.
        """
        return self._replace(ids=self.ids.to(device), mask=self.mask.to(device), word=self.word.to(device))


class Sentence(NamedTuple):
    """Embeddings of a sentence.

    Attributes:
        words: Embeddings of the n words (n, d).
        start: Embedding of [CLS] (d,).
        end: Embedding of [SEP] (d,).
        n_pieces: Number of word pieces in the words.
    """

    words: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor
    n_pieces: int


class TextEncoder(nn.Module):
    """A BERT under the released checkpoint's name.

    Args:
        config: Configuration of the BERT.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.model = BertModel(config)

    def forward(self, tokens: Tokens) -> tuple[list[Sentence], torch.Tensor]:
        """Encode sentences.

        Args:
            tokens: Tokens of n sentences.

        Returns:
            Embeddings of the words of each sentence, and of the sentences (n, d).
        """
        output = self.model(input_ids=tokens.ids, attention_mask=tokens.mask, output_hidden_states=True)
        pieces = torch.stack(output.hidden_states[-LAST_LAYERS:]).sum(dim=0)
        numbers = torch.arange(max(tokens.n_words), device=pieces.device)
        belongs = (tokens.word[:, None] == numbers[:, None]).to(pieces.dtype)  # (n, words, t)
        word_embeddings = belongs @ pieces
        n_pieces = tokens.mask.sum(dim=1).tolist()
        sentences = [
            Sentence(embeddings[1 : n - 1], embeddings[0], embeddings[n - 1], n_own_pieces - 2)
            for embeddings, n, n_own_pieces in zip(word_embeddings, tokens.n_words, n_pieces, strict=True)
        ]
        return sentences, word_embeddings.sum(dim=1) / MAX_TOKENS


def clean(text: str, min_words: int = 1) -> str:
    """Clean a text as GLoRIA does: lower case, words only, without numbers of a list ("1.").

    Args:
        text: The text.
        min_words: Segments between full stops with fewer words are omitted. The released code omits segments of one
            word, and with them a sentence like "Cardiomegaly.".

    Returns:
        The words, joined by spaces; characters outside of ASCII are removed. It may be empty.
    """
    segments = [segment for item in re.split(r"[0-9]+\.", text.replace("\n", " ")) for segment in item.split(".")]
    segment_words = [re.findall(r"\w+", segment.lower()) for segment in segments]
    ascii_only = (
        word.encode("ascii", "ignore").decode()
        for tokens in segment_words
        if len(tokens) >= min_words
        for word in tokens
    )
    return " ".join(word for word in ascii_only if word)


def tokenize(tokenizer: Any, sentences: Sequence[str], min_words: int = 1) -> Tokens:
    """Clean and tokenize sentences, truncated to 97 word pieces.

    Args:
        tokenizer: Tokenizer of a BERT, whose continued word pieces begin with ##.
        sentences: The sentences.
        min_words: As in `clean`.

    Returns:
        Token ids and masks, padded to the longest sentence, with the number of words of each sentence and whether it
        was cut.
    """
    id_lists = tokenizer([clean(sentence, min_words) for sentence in sentences])["input_ids"]
    truncated = [
        token_ids if len(token_ids) <= MAX_TOKENS else [*token_ids[: MAX_TOKENS - 1], token_ids[-1]]
        for token_ids in id_lists
    ]
    longest = max(map(len, truncated))
    ids = torch.full((len(truncated), longest), tokenizer.pad_token_id)
    word = torch.full((len(truncated), longest), -1)
    for row, token_ids in enumerate(truncated):
        begins = [not piece.startswith("##") for piece in tokenizer.convert_ids_to_tokens(token_ids)]
        ids[row, : len(token_ids)] = torch.tensor(token_ids)
        word[row, : len(token_ids)] = torch.tensor(begins).cumsum(0) - 1
    n_words = (word.max(dim=1).values + 1).tolist()
    return Tokens(ids, (word >= 0).long(), word, n_words, [len(token_ids) > MAX_TOKENS for token_ids in id_lists])
