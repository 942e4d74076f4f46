"""The language model that reads answers a second time: its options, and errors that say what to do."""

from __future__ import annotations

import argparse
import functools
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.reading.chat import Complete, Messages, chat_endpoint, replies, transformers_chat
from medfaith.evaluate_metrics.reading.language_model import Ask
from medfaith.loaders.errors import InputError, MedfaithError
from medfaith.loaders.progress import Progress

_CONNECT = 10  # seconds until a server must answer
_ACTIONS = {
    "endpoint": "check --extractor-url, --extractor-model and the key, and that the server is up; the replies that "
    "--extractor-cache keeps are not asked again",
    "local": "give --extractor-model a chat model's folder or name and install the extra hf; or name a server with "
    "--extractor-url",
}


class Extractor(NamedTuple):
    """A language model that reads answers a second time.

    Attributes:
        name: The name of the model.
        ask: Returns the model's replies to prompts, as `reading.language_model` needs it.
    """

    name: str
    ask: Ask


def add_options(job: Any) -> None:
    """Add the options of the second reading to a job.

    Args:
        job: The parser of the job.
    """
    group = job.add_argument_group(
        "a second reading",
        "A language model reads the answers, too, and the results of both readings are printed next to each other.",
    )
    group.add_argument(
        "--extractor-model", metavar="NAME",
        help="language model for a second reading; transformers loads it unless --extractor-url is given (default: no "
        "second reading)",
    )  # fmt: skip
    group.add_argument(
        "--extractor-url", metavar="URL",
        help="OpenAI-compatible endpoint that gets the answers, for example http://127.0.0.1:8000/v1; its key is read "
        "from MEDFAITH_EXTRACTOR_KEY or OPENAI_API_KEY (default: load the model on this machine)",
    )  # fmt: skip
    group.add_argument(
        "--extractor-cache", type=Path, metavar="FILE",
        help="cache of the language model's replies, so that an interrupted run can resume (default: no cache)",
    )  # fmt: skip


def from_options(arguments: argparse.Namespace) -> Extractor | None:
    """Build the language model that a job's options name.

    Args:
        arguments: The parsed options.

    Returns:
        The language model; None if the options name none.

    Raises:
        MedfaithError: The options have an endpoint or a cache, but no name of a model.
    """
    name, url, cache = arguments.extractor_model, arguments.extractor_url, arguments.extractor_cache
    if name:
        key = os.environ.get("MEDFAITH_EXTRACTOR_KEY") or os.environ.get("OPENAI_API_KEY")
        return language_model(name, url=url, api_key=key, cache=cache)
    if url or cache:
        option = "--extractor-url" if url else "--extractor-cache"
        raise MedfaithError(f"{option} names no language model\n  what to do: give --extractor-model NAME, too")
    return None


def language_model(
    model: str, *, url: str | None = None, api_key: str | None = None, cache: Path | None = None
) -> Extractor:
    """Connect a language model behind an OpenAI-compatible endpoint, or load one by transformers.

    Args:
        model: Name of the model.
        url: Address of the endpoint; None loads the model here.
        api_key: Key of the endpoint.
        cache: File of kept replies, so that an interrupted run continues.

    Returns:
        The extractor.

    Raises:
        InputError: The cache cannot be written.
        MedfaithError: The endpoint or the model is not available.
    """
    from jinja2 import TemplateError

    kind = "endpoint" if url else "local"
    opened = functools.cache(
        functools.partial(_connect_endpoint, url, model, api_key) if url else lambda: _load_local(model)
    )

    def complete(messages: Messages) -> str:
        try:
            return opened()(messages)
        except (ImportError, OSError, ValueError, RuntimeError, TemplateError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise MedfaithError(f"extractor {model}: {reason}\n  what to do: {_ACTIONS[kind]}") from error

    def ask(prompts: Sequence[Messages | None]) -> list[str]:
        bar = functools.partial(Progress, title="reading answers again", unit="answers")
        try:
            return replies(prompts, complete, model=model, cache=cache, progress=bar)
        except (sqlite3.Error, ValueError) as error:
            action = "give --extractor-cache another name, in a folder that exists"
            raise InputError(cache or "", f"cannot keep replies ({error})", action=action) from error

    return Extractor(model, ask)


def _connect_endpoint(url: str, model: str, api_key: str | None) -> Complete:
    """Asks for a sign of life first: `chat_endpoint` tries for minutes what may only be a mistyped address."""
    import requests

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    requests.get(f"{url.rstrip('/')}/models", headers=headers, timeout=_CONNECT, stream=True).close()
    return chat_endpoint(url, model, api_key)


def _load_local(model: str) -> Complete:
    return transformers_chat(model)
