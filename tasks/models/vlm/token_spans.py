"""Where an answer names the classes, and which tokens of the answer hold a span of its text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ....evaluate_metrics.reading.surgery import read_instruments, read_triplets

Span = tuple[int, int]


def find_class_spans(text: str, classes: Sequence[str], *, cut: bool = False) -> dict[str, list[Span]]:
    """Find the mentions of classes in an answer. If the classes are triplets, find triplets, otherwise instruments.

    Triplets outside the classes are included, because they are predictions as well.

    Args:
        text: The answer.
        classes: Names of the classes.
        cut: Whether the answer ended at the token limit.

    Returns:
        Class -> spans (start, end) of its mentions in the text.
    """
    triplets = any("," in name for name in classes)
    spans: dict[str, list[Span]] = {}
    for mention in (read_triplets if triplets else read_instruments)(text, cut=cut).mentions:
        spans.setdefault(mention.name, []).append((mention.start, mention.end))
    return spans


def compute_token_offsets(tokens: Sequence[int], decode: Any) -> list[Span]:
    """Compute the span of each token in the decoded text.

    The span is (n, n) for a token that adds no readable text by itself.

    Args:
        tokens: Token ids.
        decode: Function that decodes token ids to text.

    Returns:
        (start, end) of each token, in characters.
    """
    text = decode(list(tokens))
    # A token may hold part of a character, so the end is the length of the final text that is complete after it.
    ends = [_count_shared_characters(text, decode(list(tokens[: n + 1]))) for n in range(len(tokens))]
    return list(zip([0, *ends], ends, strict=False))


def _count_shared_characters(left_text: str, right_text: str) -> int:
    """Count the characters of the longest common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left_text, right_text, strict=False)))


def find_span_tokens(span: Span, offsets: Sequence[Span]) -> list[int]:
    """Find the tokens that overlap a span.

    Args:
        span: (start, end) in the text.
        offsets: Span of each token.

    Returns:
        Indices of the tokens.
    """
    return [number for number, (start, end) in enumerate(offsets) if start < span[1] and end > span[0]]
