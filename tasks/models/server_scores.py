"""Letters of options scored by a server: the log-probabilities of the first token that it would answer."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

from .chat_form import ANSWERED, UNANSWERED, Reply

MOST = 20  # likeliest tokens that OpenAI's API and vLLM give


def asked(tokens_name: str) -> dict[str, Any]:
    """The settings of a request for the likeliest first tokens."""
    return {tokens_name: 1, "temperature": 0.0, "logprobs": True, "top_logprobs": MOST}


def is_letter(continuation: str) -> bool:
    """Whether it is the letter of an option, with white space around it or without."""
    text = continuation.strip()
    return len(text) == 1 and text in string.ascii_uppercase


def read(body: Any) -> Reply:
    """A reply whose text is JSON: token -> log-probability, of the likeliest first tokens; unanswered without them."""
    try:
        (first,) = body["choices"][0]["logprobs"]["content"][:1]
        found = {str(one["token"]): float(one["logprob"]) for one in first["top_logprobs"]}
    except (KeyError, IndexError, TypeError, ValueError):
        return Reply(UNANSWERED, reason="the server gives no logprobs")
    usage = body.get("usage") or {}
    return Reply(
        ANSWERED, json.dumps(found), version=str(body.get("system_fingerprint") or ""),
        prompt_tokens=usage.get("prompt_tokens"), answer_tokens=usage.get("completion_tokens"),
    )  # fmt: skip


def of_letters(likeliest: Mapping[str, float], letters: Sequence[str]) -> tuple[list[float], list[bool]]:
    """The log-probability of each letter, nats, and whether the server named it.

    Tokens that are the same letter but for white space count together. A letter that the server does not name has at
    most the least log-probability that it names: that is what it gets. All are NaN where it names no letter at all.

    >>> of_letters({"A": -0.5, "The": -3.0}, ["A", "B"])
    ([-0.5, -3.0], [True, False])
    """
    named = [[value for token, value in likeliest.items() if token.strip() == letter] for letter in letters]
    if not any(named):
        return [math.nan] * len(letters), [False] * len(letters)
    least = min(likeliest.values())
    return [math.log(math.fsum(map(math.exp, of))) if of else least for of in named], [bool(of) for of in named]
