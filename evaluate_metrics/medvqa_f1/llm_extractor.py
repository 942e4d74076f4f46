"""Which diseases an open-ended answer names, read by a language model as in HEAL-MedVQA (section 5: Llama 3.1 8B).

The paper does not print its prompt; this one is ours. A model is any callable from chat messages to a text:
`chat_endpoint` and `transformers_chat` make two. The libraries they need are imported when they are called.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..reading.disease_names import CLASSES
from ..reading.diseases import Extraction
from ..reading.reasoning import answer_part

Messages = list[dict[str, str]]
Complete = Callable[[Messages], str]

PROMPT = """\
You turn free-text answers about a chest X-ray into disease labels.

The labels, spelled exactly:
{labels}

Rules:
- Give the label of every disease that the answer says or suspects is there, also when it uses another word for it.
- Leave out what the answer denies ("no effusion", "without nodules").
- Use no other label. If the answer names no disease of the list, give an empty list.
- Reply with one JSON list of strings and nothing else.

Example answer: The right lung shows a small effusion and possible nodules; there is no pneumothorax.
Example reply: ["Pleural effusion", "Nodule/Mass"]
"""


def messages_for(text: str, vocabulary: Sequence[str] = CLASSES) -> Messages:
    """The chat messages that ask for the labels of one answer."""
    return [
        {"role": "system", "content": PROMPT.format(labels="\n".join(f"- {label}" for label in vocabulary))},
        {"role": "user", "content": f"Answer: {text}\nReply:"},
    ]


def parse_reply(reply: str, vocabulary: Collection[str] = CLASSES) -> Extraction:
    """The labels in a model's reply, unreadable unless it holds exactly one JSON list, of known labels only.

    >>> parse_reply('Here it is: ["edema"]').labels
    frozenset({'Edema'})
    >>> parse_reply("[]").outcome, parse_reply('["Pneumonia"]').outcome, parse_reply("Edema").outcome
    ('normal', 'unreadable', 'unreadable')
    """
    unreadable = Extraction(frozenset(), "unreadable")
    known = {label.casefold(): label for label in vocabulary}
    lists = list(_json_lists(answer_part(reply)))
    if len(lists) != 1 or not all(isinstance(item, str) and item.strip().casefold() in known for item in lists[0]):
        return unreadable
    labels = frozenset(known[item.strip().casefold()] for item in lists[0])
    return Extraction(labels, "found" if labels else "normal")


def extract(
    texts: Sequence[str | None],
    complete: Complete,
    vocabulary: Sequence[str] = CLASSES,
    *,
    model: str = "",
    cache: str | Path | None = None,
    progress: Callable[[Iterable[str]], Iterable[str]] | None = None,
) -> list[Extraction]:
    """Labels of each text, in order. Equal texts are asked once; a text of None or of spaces is unreadable unasked.

    Args:
        texts: n answers.
        complete: asks the model: chat messages in, its reply out.
        vocabulary: the labels that may occur.
        model: its name and version, part of the cache's key.
        cache: SQLite file of replies by sha256 of model, prompt and text; it is made, and grows with each reply, so
            that a stopped run goes on where it was.
        progress: wraps the texts that are asked, as tqdm does.

    Raises:
        ValueError: a cache without a model's name, or a file that is no such cache.
    """
    if cache is not None and not model:
        raise ValueError("cache: name the model too; without it one model would be given another's replies")
    asked = list(dict.fromkeys(text for text in texts if text and text.strip()))
    replies: dict[str, str] = {}
    with _replies(cache) as (load, save):
        for text in progress(asked) if progress else asked:
            messages = messages_for(text, vocabulary)
            key = hashlib.sha256(json.dumps([model, messages]).encode()).hexdigest()
            reply = load(key)
            if reply is None:
                reply = complete(messages)
                save(key, reply)
            replies[text] = reply
    return [parse_reply(replies.get(text or "", ""), vocabulary) for text in texts]


def chat_endpoint(
    base_url: str,
    model: str,
    api_key: str | None = None,
    *,
    max_tokens: int = 256,
    retries: int = 5,
    backoff: float = 1.0,
    timeout: float = 120.0,
) -> Complete:
    """A model behind an OpenAI-compatible endpoint, asked greedily.

    Args:
        base_url: up to and with the version, such as http://127.0.0.1:8000/v1
        model: its name there.
        api_key: sent as a bearer token, if there is one.
        max_tokens: of a reply.
        retries, backoff: how often a lost connection and the statuses 429 and 5xx are tried again, and the seconds of
            the first pause, which doubles.
        timeout: seconds to wait for a reply.

    Raises (the callable):
        ConnectionError: no connection, a status that says no, or a reply that is no chat completion.
    """
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    statuses = [429, 500, 502, 503, 504]
    policy = Retry(
        total=retries, backoff_factor=backoff, status_forcelist=statuses, allowed_methods=None, raise_on_status=False
    )
    session = requests.Session()
    session.mount(base_url, HTTPAdapter(max_retries=policy))
    url = f"{base_url.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def complete(messages: Messages) -> str:
        body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": max_tokens}
        try:
            response = session.post(url, json=body, headers=headers, timeout=timeout)
        except requests.RequestException as error:
            raise ConnectionError(f"{url}: no answer after {retries} retries ({error}); is the server up?") from error
        if not response.ok:
            raise ConnectionError(
                f"{url}: status {response.status_code}: {response.text[:200]!r}; "
                "check the address, the model's name and the key"
            )
        try:
            return str(response.json()["choices"][0]["message"]["content"] or "")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ConnectionError(f"{url}: {response.text[:200]!r} is no chat completion") from error

    return complete


def transformers_chat(model: str | Path, *, max_new_tokens: int = 256, **pipeline_arguments: Any) -> Complete:
    """A local model with a chat template, asked greedily through transformers.

    Args:
        model: its name or folder.
        max_new_tokens: of a reply.
        pipeline_arguments: of `transformers.pipeline`, such as device_map="auto" or dtype="bfloat16".
    """
    from transformers import pipeline

    generate: Any = pipeline("text-generation", model=str(model), **pipeline_arguments)

    def complete(messages: Messages) -> str:
        (generated,) = generate(messages, max_new_tokens=max_new_tokens, do_sample=False)
        return generated["generated_text"][-1]["content"]

    return complete


def agreement(
    ours: Sequence[Extraction], theirs: Sequence[Extraction], vocabulary: Sequence[str] = CLASSES
) -> dict[str, float | int]:
    """How far two extractors agree on the same n texts; unreadable counts as no label.

    Returns:
        exact: share of texts with the same labels; jaccard: labels in both over labels in either, counted over all
        texts; kappa: Cohen's, over the n times len(vocabulary) decisions whether a label is there; each NaN where
        undefined (no text; no label at all; chance agreement of 1). With n, and n_unreadable of each.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} and {len(theirs)} extractions: give both on the same texts")
    first, second = (
        np.array([[label in extraction.labels for label in vocabulary] for extraction in side], dtype=bool).reshape(
            len(side), len(vocabulary)
        )
        for side in (ours, theirs)
    )
    n, nan = len(ours), float("nan")
    either = int(np.sum(first | second))
    kappa = nan
    if first.size:
        observed, p, q = float(np.mean(first == second)), float(np.mean(first)), float(np.mean(second))
        chance = p * q + (1 - p) * (1 - q)
        kappa = (observed - chance) / (1 - chance) if chance < 1 else nan
    return {
        "exact": float(np.mean(np.all(first == second, axis=1))) if n else nan,
        "jaccard": int(np.sum(first & second)) / either if either else nan,
        "kappa": kappa,
        "n": n,
        "n_unreadable_ours": sum(extraction.outcome == "unreadable" for extraction in ours),
        "n_unreadable_theirs": sum(extraction.outcome == "unreadable" for extraction in theirs),
    }


def _json_lists(text: str) -> Iterator[list]:
    """The outermost JSON lists in a text."""
    decoder, place = json.JSONDecoder(), text.find("[")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            end = place + 1
        else:
            yield value
        place = text.find("[", end)


@contextmanager
def _replies(cache: str | Path | None) -> Iterator[tuple[Callable[[str], str | None], Callable[[str, str], None]]]:
    """load(key) and save(key, reply) of a cache file; each save is one transaction."""
    if cache is None:
        yield (lambda key: None), (lambda key, reply: None)
        return
    with closing(sqlite3.connect(cache)) as database:
        try:
            with database:
                database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{cache}: {error}; expected a cache of replies: name another file") from error

        def load(key: str) -> str | None:
            row = database.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return row[0] if row else None

        def save(key: str, reply: str) -> None:
            with database:
                database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply))

        yield load, save
