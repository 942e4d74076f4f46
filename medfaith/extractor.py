"""The language model that reads answers a second time: its options, and errors that say what to do."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.reading.chat import Messages, collect_replies
from medfaith.evaluate_metrics.reading.language_model import Ask
from medfaith.loaders.errors import MedfaithError
from medfaith.loaders.progress import Progress
from medfaith.tasks.models.answer_store import AnswerStore, StoredReply, hash_facts
from medfaith.tasks.models.chat_form import Reply
from medfaith.tasks.models.server.access import parse_host
from medfaith.tasks.models.server.client import ask_chats, check_installed
from medfaith.tasks.outcomes import ANSWERED, EMPTY

_URL, _CACHE = "--extractor-url", "--extractor-cache"
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
    """Add the options for a language model that reads the answers, too (a second reading), to a job.

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
        _URL, metavar="URL",
        help="OpenAI-compatible endpoint that gets the answers, for example http://127.0.0.1:8000/v1; its key is read "
        "from MEDFAITH_EXTRACTOR_KEY or OPENAI_API_KEY (default: load the model on this machine)",
    )  # fmt: skip
    group.add_argument(
        _CACHE, type=Path, metavar="FILE",
        help="cache of the language model's replies, so that an interrupted run can resume (default: no cache)",
    )  # fmt: skip


def from_options(arguments: argparse.Namespace) -> Extractor | None:
    """Build the language model that a job's options name.

    Args:
        arguments: The parsed options.

    Returns:
        The language model; None if the options name none.

    Raises:
        MedfaithError: The options have an endpoint or a cache, but no name of a model; or as `language_model`.
    """
    name, url, cache = arguments.extractor_model, arguments.extractor_url, arguments.extractor_cache
    if name:
        key = os.environ.get("MEDFAITH_EXTRACTOR_KEY") or os.environ.get("OPENAI_API_KEY")
        return language_model(name, url=url, api_key=key, cache=cache)
    if url or cache:
        raise MedfaithError(
            f"{_URL if url else _CACHE} names no language model\n  what to do: give --extractor-model NAME, too"
        )
    return None


def language_model(
    model: str, *, url: str | None = None, api_key: str | None = None, cache: Path | None = None
) -> Extractor:
    """Name a language model behind an OpenAI-compatible endpoint, or one that transformers loads.

    The model is connected or loaded at the first prompt whose reply is not stored.

    Args:
        model: Name of the model.
        url: Address of the endpoint; None loads the model here.
        api_key: Key of the endpoint.
        cache: File of stored replies (AnswerStore), so that an interrupted run continues.

    Returns:
        The extractor. Its `ask` raises MedfaithError if the endpoint or the model is not available.

    Raises:
        InputError: The URL is no http(s) address, or the cache cannot be used.
        MedfaithError: The client's package is not installed.
    """
    if url:
        parse_host(url, _URL)
        check_installed(_URL)
    with AnswerStore(cache, f"{_CACHE} FILE"):  # an unusable file is refused before anything is read
        pass

    @functools.cache
    def load() -> Callable[[Messages], str]:
        return load_chat(model)

    def ask_model(prompts: Sequence[Messages], take: Callable[[int, str], None]) -> None:
        if url:
            ask_chats(url, model, api_key or "", prompts, take)
        else:
            for number, messages in enumerate(prompts):
                take(number, load()(messages))

    def ask(prompts: Sequence[Messages | None]) -> list[str]:
        return collect_replies(prompts, complete)

    def complete(prompts: Sequence[Messages]) -> list[str]:
        keys = [hash_facts(reader=model, messages=messages) for messages in prompts]
        with AnswerStore(cache, f"{_CACHE} FILE") as store:
            stored = {number: reply.text for number, key in enumerate(keys) if (reply := store.get(key)) is not None}
            missing = [number for number in range(len(prompts)) if number not in stored]
            with Progress(title="reading answers again", total=len(prompts), unit="answers", done=len(stored)) as bar:

                def take(place: int, text: str) -> None:
                    number = missing[place]
                    stored[number] = text
                    reply = Reply(ANSWERED if text.strip() else EMPTY, text)
                    store.put(StoredReply(keys[number], reply, "second reading"))
                    bar.update()

                if missing:
                    with _raise_medfaith_errors(model, _ACTIONS["endpoint" if url else "local"]):
                        ask_model([prompts[number] for number in missing], take)
        return [stored[number] for number in range(len(prompts))]

    return Extractor(model, ask)


@contextlib.contextmanager
def _raise_medfaith_errors(model: str, action: str) -> Iterator[None]:
    """Raise the errors of endpoints and of transformers as MedfaithError, with what to do."""
    from jinja2 import TemplateError

    try:
        yield
    except (ImportError, OSError, ValueError, RuntimeError, TemplateError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise MedfaithError(f"extractor {model}: {reason}\n  what to do: {action}") from error


def load_chat(model: str, *, max_new_tokens: int = 256) -> Callable[[Messages], str]:
    """Load a local model with a chat template, with greedy decoding through transformers.

    Args:
        model: Its name or folder.
        max_new_tokens: Limit of a reply.

    Returns:
        The model.
    """
    from transformers import pipeline

    generate: Any = pipeline("text-generation", model=model)

    def complete(messages: Messages) -> str:
        (generated,) = generate(messages, max_new_tokens=max_new_tokens, do_sample=False)
        return generated["generated_text"][-1]["content"]

    return complete
