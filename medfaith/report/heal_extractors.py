"""A language model that reads the labels of open-ended answers, with errors that say what to do."""

from __future__ import annotations

import functools
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import TemplateError
from tqdm import tqdm

from medfaith.evaluate_metrics.medvqa_f1.llm_extractor import (
    Complete,
    Messages,
    chat_endpoint,
    extract,
    transformers_chat,
)
from medfaith.evaluate_metrics.reading.diseases import Extraction
from medfaith.loaders.errors import InputError, MedfaithError

_CONNECT = 10  # seconds in which a server has to answer at all
_ACTIONS = {
    "endpoint": "check --extractor-url, --extractor-model and the key, and that the server is up; the replies that "
    "--extractor-cache keeps are not asked again",
    "local": "give --extractor-model a chat model's folder or name and install the extra hf; or name a server with "
    "--extractor-url",
}


class Extractor(NamedTuple):
    """name: of the model; read: from n answers to n extractions."""

    name: str
    read: Callable[[Sequence[str]], list[Extraction]]


def language_model(
    model: str, *, url: str | None = None, api_key: str | None = None, cache: Path | None = None
) -> Extractor:
    """A language model behind an OpenAI-compatible endpoint, or one that transformers loads here.

    It is connected to or loaded when the first answer that the cache does not have is read.

    Args:
        model: its name at the endpoint; without one a name on the Hub, or a folder.
        url: of the endpoint, up to and with its version. api_key: for the endpoint.
        cache: a file in which replies are kept, so that an interrupted run goes on where it stopped.

    Raises (`read`):
        MedfaithError: no connection, no such model, a model that cannot answer, or a file that is no such cache.
    """
    kind = "endpoint" if url else "local"
    opened = functools.cache(functools.partial(_endpoint, url, model, api_key) if url else lambda: _local(model))

    def complete(messages: Messages) -> str:
        try:
            return opened()(messages)
        except (ImportError, OSError, ValueError, RuntimeError, TemplateError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise MedfaithError(f"extractor {model}: {reason}\n  what to do: {_ACTIONS[kind]}") from error

    def read(answers: Sequence[str]) -> list[Extraction]:
        bar = functools.partial(tqdm, desc="extractor", unit=" answers", disable=None, leave=False, file=sys.stderr)
        try:
            return extract(answers, complete, model=model, cache=cache, progress=bar)
        except (sqlite3.Error, ValueError) as error:
            action = "give --extractor-cache another name, in a folder that exists"
            raise InputError(cache or "", f"cannot keep replies ({error})", action=action) from error

    return Extractor(model, read)


def _endpoint(url: str, model: str, api_key: str | None) -> Complete:
    """Asks for a sign of life first: `chat_endpoint` tries for minutes what may only be a mistyped address."""
    import requests

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    requests.get(f"{url.rstrip('/')}/models", headers=headers, timeout=_CONNECT, stream=True).close()
    return chat_endpoint(url, model, api_key)


def _local(model: str) -> Complete:
    return transformers_chat(model)
