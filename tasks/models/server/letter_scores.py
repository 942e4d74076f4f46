"""Scores of option letters by a server: the log-probabilities of the likeliest first tokens of its answer.

A chat endpoint returns only the likeliest tokens at each position (`logprobs`), not the probability of a given text.
Therefore each option is scored by its letter, and one request scores all letters of a row.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...outcomes import ANSWERED, EMPTY, FILTERED, REFUSED
from .. import chat_form
from ..chat_form import Reply
from .access import make_logprobs_error

LEAST = -9999.0  # value that endpoints list for very unlikely tokens
TOLERANCE = 1e-3  # rounding above 0, the logarithm of a certain token
MARKS = string.whitespace + "▁Ġ"  # prefixes of a word in a token, including a vocabulary's symbols for a space


def build_settings(n_listed: int, tokens_name: str, seed: int | None) -> dict[str, Any]:
    """Build the settings of a request for one token and the likeliest alternatives.

    Args:
        n_listed: Number of listed tokens.
        tokens_name: The endpoint's name of the token limit.
        seed: Seed of the request, or None.

    Returns:
        The settings, as `chat_form.build_settings`.
    """
    return chat_form.build_settings({"max_gen_toks": 1, "logprobs": True, "top_logprobs": n_listed}, tokens_name, seed)


def is_letter(continuation: str) -> bool:
    """Check whether a continuation is an option letter, possibly with white space.

    Args:
        continuation: The continuation.

    Returns:
        True for one upper-case letter from A to Z.
    """
    text = continuation.strip()
    return len(text) == 1 and text in string.ascii_uppercase


def read(body: Any, base_url: str) -> Reply:
    """Read a reply whose text becomes JSON: token -> log-probability in nats, for the likeliest first tokens.

    Filtered answers, refusals and answers without text (all tokens are reasoning) list no tokens.

    Args:
        body: Body of the response.
        base_url: URL of the endpoint.

    Returns:
        The reply; its outcome is EMPTY if no token is listed.

    Raises:
        InputError: The answer has text but no log-probabilities, or other numbers in their place.
        ValueError: The body is not a chat completion.
    """
    reply = chat_form.read(body)
    if reply.outcome in (FILTERED, REFUSED):
        return reply
    try:
        return read_likeliest(reply, body["choices"][0].get("logprobs"), base_url)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(body)[:200]!r} is no chat completion with logprobs") from error


def list_likeliest(logprobs: Mapping[str, Any] | None) -> dict[str, float]:
    """List the likeliest first tokens of an answer.

    Some servers show several tokens as the same text, such as "▁A" and "A" as "A": their probabilities add up. The same
    text with the same log-probability is one token that is listed twice.

    Args:
        logprobs: The `logprobs` of a choice of a chat completion, or None.

    Returns:
        Log-probability in nats by token; empty if no token is listed.

    Raises:
        ValueError: A number is no log-probability.

    >>> listed = [{"token": "A", "logprob": -0.5}, {"token": "A", "logprob": -2.5}, {"token": "B", "logprob": -3}]
    >>> {token: round(logprob, 3) for token, logprob in list_likeliest({"content": [{"top_logprobs": listed}]}).items()}
    {'A': -0.373, 'B': -3.0}
    """
    content = (logprobs or {}).get("content") or [{}]
    tokens = content[0].get("top_logprobs") or ([content[0]] if content[0] else [])
    logprobs_by_token: dict[str, set[float]] = {}
    for token in tokens:
        logprob = float(token["logprob"])
        if logprob > TOLERANCE:
            raise ValueError(f"the logprob {logprob:g} of {token['token']!r} is no logarithm of a probability")
        logprobs_by_token.setdefault(str(token["token"]), set()).add(min(logprob, 0.0))
    return {token: _add_logprobs(values) for token, values in logprobs_by_token.items()}


def _add_logprobs(logprobs: Iterable[float]) -> float:
    """Compute the log-probability of any of several tokens; NaN and numbers up to `LEAST` count as impossible."""
    possible = [logprob for logprob in logprobs if logprob > LEAST]
    highest = max(possible, default=LEAST)
    return highest + math.log(math.fsum(math.exp(logprob - highest) for logprob in possible) or 1)


def read_likeliest(reply: Reply, logprobs: Mapping[str, Any] | None, engine: str) -> Reply:
    """Replace the text of a reply by the likeliest first tokens.

    Args:
        reply: The reply; neither filtered nor a refusal.
        logprobs: The `logprobs` of the choice, or None.
        engine: Name of the endpoint, for the message.

    Returns:
        The reply with JSON as its text; its outcome is EMPTY if no token is listed.

    Raises:
        InputError: The answer has text but no log-probabilities, or other numbers in their place.
    """
    try:
        likeliest = list_likeliest(logprobs)
    except ValueError as error:
        raise make_logprobs_error(engine, str(error)) from error
    if not likeliest and reply.text.strip():
        raise make_logprobs_error(engine, f"the answer {reply.text[:50]!r} has none")
    return reply._replace(outcome=ANSWERED if likeliest else EMPTY, text=json.dumps(likeliest))


def rank_letters(text: str, letters: Sequence[str]) -> list[tuple[float, bool]]:
    """Score the letters of a row by the scored text of its reply.

    Args:
        text: The likeliest tokens as JSON, or "" without an answer.
        letters: The letters.

    Returns:
        The log-probability of each letter, NaN if it is not listed, and whether the letter is the likeliest.
    """
    scores = score_letters(json.loads(text) if text else {}, letters)
    best = max((score for score in scores if not math.isnan(score)), default=math.nan)
    return [(score, score == best) for score in scores]


def score_letters(likeliest: Mapping[str, float], letters: Sequence[str]) -> list[float]:
    """Compute the log-probability of each letter, in nats.

    Tokens that differ from a letter only in white space or in a vocabulary's sign for it ("▁A") add up. The score of an
    unlisted letter is NaN: its probability is at most the lowest listed one, so the likeliest letter is known, but the
    difference to it is not. A log-probability of LEAST or less counts as unlisted.

    Args:
        likeliest: Log-probability by token.
        letters: The letters.

    Returns:
        A score for each letter, in the same order.

    >>> [round(score, 3) for score in score_letters({"A": -0.5, " A": -2.5, "The": -3.0}, ["A", "B"])]
    [-0.373, nan]
    """
    logprobs: dict[str, list[float]] = {}
    for token, logprob in likeliest.items():
        if logprob > LEAST:
            logprobs.setdefault(token.strip(MARKS), []).append(logprob)
    return [_add_logprobs(logprobs[letter]) if letter in logprobs else math.nan for letter in letters]


def describe_missing(rows: Sequence[Sequence[float]]) -> str:
    """Describe how many rows list no option letter, or only some, and what to do.

    Args:
        rows: Scores of the letters of each row.

    Returns:
        The message, or "" if all letters are listed.
    """
    is_listed = [[not math.isnan(score) for score in row] for row in rows]
    n_none, n_some = sum(not any(row) for row in is_listed), sum(any(row) and not all(row) for row in is_listed)
    if not n_none + n_some:
        return ""
    message = (
        f"of {len(rows):,} rows, {n_none:,} list no letter of an option, and {n_some:,} only some letters of theirs"
    )
    if n_none > len(rows) / 2:
        message += (
            "; a model that thinks first, or begins with other words, has no scores of letters. What to do: switch "
            "thinking off on the server, or run medfaith_contrabench"
        )
    return message
