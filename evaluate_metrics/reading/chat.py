"""Clients of language models: an OpenAI-compatible endpoint or a model in transformers, with a cache of replies.

A model is any callable from chat messages to a text. Each constructor imports the libraries that its model needs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

Messages = list[dict[str, str]]
Complete = Callable[[Messages], str]


def replies(
    prompts: Sequence[Messages | None],
    complete: Complete,
    *,
    model: str = "",
    cache: str | Path | None = None,
    progress: Callable[[Sequence[str]], Any] | None = None,
) -> list[str]:
    """Collect the model's reply to each prompt, in order; equal prompts are sent once.

    Args:
        prompts: n prompts; the reply to None is "", without a request.
        complete: The model: chat messages in, its reply out.
        model: Its name and version, part of the cache's key.
        cache: SQLite file of replies by sha256 of model and prompt; it is created if missing, and grows with each
            reply, so a stopped run continues.
        progress: Wraps the prompts' keys, like tqdm.

    Returns:
        n replies.

    Raises:
        ValueError: A cache without a model's name, or a file that is not a cache.
    """
    if cache is not None and not model:
        raise ValueError("cache: name the model too; without it one model would get the replies of another")
    keys = [None if prompt is None else _hash_prompt(model, prompt) for prompt in prompts]
    prompts_by_key = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key and prompt}
    replies_by_key: dict[str, str] = {}
    with _open_cache(cache) as (load, save):
        for key in progress([*prompts_by_key]) if progress else prompts_by_key:
            reply = load(key)
            if reply is None:
                reply = complete(prompts_by_key[key])
                save(key, reply)
            replies_by_key[key] = reply
    return [replies_by_key[key] if key else "" for key in keys]


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
    """Build a client of a model at an OpenAI-compatible endpoint, with greedy decoding.

    The client raises ConnectionError without a connection, for an error status, and for a reply that is not a chat
    completion.

    Args:
        base_url: The address up to and with the version, such as http://127.0.0.1:8000/v1
        model: The model's name at the endpoint.
        api_key: The bearer token, or None.
        max_tokens: Limit of a reply.
        retries: Number of retries after a lost connection and after the statuses 429 and 5xx.
        backoff: Seconds of the first pause between retries, which doubles each time.
        timeout: Seconds to wait for a reply.

    Returns:
        The client.
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
    """Build a client of a local model with a chat template, with greedy decoding through transformers.

    Args:
        model: Its name or folder.
        max_new_tokens: Limit of a reply.
        pipeline_arguments: Arguments of `transformers.pipeline`, such as device_map="auto" or dtype="bfloat16".

    Returns:
        The client.
    """
    from transformers import pipeline

    generate: Any = pipeline("text-generation", model=str(model), **pipeline_arguments)

    def complete(messages: Messages) -> str:
        (generated,) = generate(messages, max_new_tokens=max_new_tokens, do_sample=False)
        return generated["generated_text"][-1]["content"]

    return complete


def _hash_prompt(model: str, prompt: Messages) -> str:
    return hashlib.sha256(json.dumps([model, prompt]).encode()).hexdigest()


@contextmanager
def _open_cache(cache: str | Path | None) -> Iterator[tuple[Callable[[str], str | None], Callable[[str, str], None]]]:
    """Open a cache file and yield load(key) and save(key, reply); each save is one transaction."""
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
