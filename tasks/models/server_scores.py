"""Letters of options scored by a server: the log-probabilities of the likeliest first tokens that it would answer.

A chat endpoint gives no probability of a text that one names, only the likeliest tokens in each place (`logprobs`). So
an option is scored by its letter, and one request scores all letters of a row.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

from ..outcomes import ANSWERED, EMPTY, FILTERED, REFUSED
from . import chat_form
from .chat_form import Reply
from .server_access import no_logprobs

LEAST = -9999.0  # what endpoints list for a token that is too unlikely to have a number
MARKS = string.whitespace + "▁Ġ"  # that stand before a word in a token, as its vocabulary may write the space


def asked(n_listed: int, tokens_name: str, seed: int | None) -> dict[str, Any]:
    """The settings of a request for one token and the `n_listed` likeliest in its place."""
    return chat_form.settings({"max_gen_toks": 1, "logprobs": True, "top_logprobs": n_listed}, tokens_name, seed)


def is_letter(continuation: str) -> bool:
    """Whether it is the letter of an option, with white space around it or without."""
    text = continuation.strip()
    return len(text) == 1 and text in string.ascii_uppercase


def read(body: Any, base_url: str) -> Reply:
    """A reply whose text is JSON: token -> log-probability in nats, of the likeliest first tokens.

    An answer that a filter stopped, a refusal, and an answer without text (all tokens went into reasoning) list none.

    Raises:
        InputError: there is an answer, and nothing is listed.
        ValueError: this is no chat completion.
    """
    reply = chat_form.read(body)
    if reply.outcome in (FILTERED, REFUSED):
        return reply
    try:
        content = (body["choices"][0].get("logprobs") or {}).get("content") or [{}]
        tokens = content[0].get("top_logprobs") or ([content[0]] if content[0] else [])
        found = {str(token["token"]): float(token["logprob"]) for token in tokens}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(body)[:200]!r} is no chat completion with logprobs") from error
    if not found and reply.text.strip():
        raise no_logprobs(base_url, f"the answer {reply.text[:50]!r} has none")
    return reply._replace(outcome=ANSWERED if found else EMPTY, text=json.dumps(found))


def of_letters(likeliest: Mapping[str, float], letters: Sequence[str]) -> list[float]:
    """The log-probability of each letter, nats.

    Tokens that are the same letter but for white space count together. A letter that is not listed is NaN: it has no
    more than the least probability that is listed, so the likeliest letter is known, and a difference to it is not.

    >>> [round(score, 3) for score in of_letters({"A": -0.5, " A": -2.5, "The": -3.0}, ["A", "B"])]
    [-0.373, nan]
    """
    found: dict[str, list[float]] = {}
    for token, logprob in likeliest.items():
        if logprob > LEAST:
            found.setdefault(token.strip(MARKS), []).append(math.exp(logprob))
    return [math.log(math.fsum(found[letter])) if letter in found else math.nan for letter in letters]


def advice(rows: Sequence[Sequence[float]]) -> str:
    """How many rows list no letter of theirs, or only some, and what to do; "" where all letters are listed."""
    known = [[not math.isnan(score) for score in row] for row in rows]
    none, some = sum(not any(row) for row in known), sum(any(row) and not all(row) for row in known)
    if not none + some:
        return ""
    said = f"of {len(rows):,} rows, {none:,} list no letter of an option, and {some:,} only some letters of theirs"
    if none > len(rows) / 2:
        said += (
            "; a model that thinks first, or begins with other words, has no scores of letters. What to do: switch "
            "thinking off on the server, or run medfaith_contrabench"
        )
    return said
