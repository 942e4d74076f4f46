"""Concurrent requests of a run to a server; each reply is stored as it arrives.

A row's images are encoded shortly before its request is sent, so that memory holds the images of about `concurrency`
rows, whatever the number of rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from lm_eval.api.instance import Instance

from ...outcomes import FILTERED, UNANSWERED
from ..answer_store import AnswerStore, hash_facts
from ..chat_form import FILTERS, Encoding, Picture, Reply, Turn, build_messages, encode_picture, get_turns
from ..image_lm import build_stored_reply, get_images
from . import access
from .client import connect_async, describe_error, get_status, post_chat

AHEAD = 8  # active requests per row whose images are encoded ahead


class Endpoint(NamedTuple):
    """Address and settings of a server.

    Attributes:
        url: URL of the endpoint.
        model: Name of the model.
        key: API key; "" for none.
        identity: Properties that distinguish the model from other models.
        encoding: Encoding of images.
        concurrency: Maximum number of concurrent requests.
        max_retries: Maximum number of retries per request.
        timeout: Timeout of a request in seconds.
    """

    url: str
    model: str
    key: str
    identity: Mapping[str, Any]
    encoding: Encoding
    concurrency: int
    max_retries: int
    timeout: float


class Question(NamedTuple):
    """One request.

    Attributes:
        request: The request of lm-eval.
        settings: Settings of the HTTP request.
        read_reply: Function that reads the reply in a response's body.
        stops: Stop strings of the reply.
        repeat: The request's number among its copies.
    """

    request: Instance
    settings: Mapping[str, Any]
    read_reply: Callable[[Any], Reply]
    stops: Sequence[str] = ()
    repeat: int = 0

    @property
    def turns(self) -> list[Turn]:
        """Turns of the prompt."""
        return get_turns(cast(Any, self.request.args)[0])


async def ask(
    endpoint: Endpoint,
    questions: Iterable[Question],
    store: AnswerStore,
    take: Callable[[int, Question, Reply, bool], None],
) -> access.Outage:
    """Ask the questions that the store does not hold.

    Args:
        endpoint: The server.
        questions: The questions.
        store: Store of the replies.
        take: Function that receives each question's index, the question, its reply, and whether the store held it, in
            order of arrival.

    Returns:
        The outage that tells whether the server became unavailable. Later questions are unanswered and were not asked.

    Raises:
        MedfaithError: An image cannot be opened, or the server starts to refuse the key or the model.
    """
    outage = access.Outage(endpoint.concurrency)
    pending, slots = enumerate(questions), asyncio.Semaphore(endpoint.concurrency)

    async def answer_pending() -> None:
        for index, question in pending:
            if outage.is_over:
                take(index, question, Reply(UNANSWERED, reason="the server was gone"), False)
                continue
            pictures = await asyncio.to_thread(pictures_of, question, endpoint.encoding)
            key = compute_key(endpoint.identity, question, pictures)
            stored_reply = store.get(key)
            if stored_reply is None:
                async with slots:
                    reply = await _send(client, endpoint, question, pictures, outage)
                store.put(build_stored_reply(key, reply, question.request))
                take(index, question, reply, False)
            else:
                take(index, question, stored_reply, True)

    async with connect_async(endpoint.url, endpoint.key, endpoint.max_retries, endpoint.timeout) as client:
        n_at_once = endpoint.concurrency + endpoint.concurrency // AHEAD
        await asyncio.gather(*(answer_pending() for _ in range(n_at_once)))
    return outage


def pictures_of(question: Question, encoding: Encoding) -> list[Picture]:
    """Encode the images of a question.

    Args:
        question: The question.
        encoding: Encoding of images.

    Returns:
        The encoded images, in the order of the placeholders.

    Raises:
        MedfaithError: An image cannot be opened.
    """
    images = get_images(question.request)
    # By index: a row without images (control none) refuses iteration.
    return [encode_picture(images[place], encoding) for place in range(len(images))]


def compute_key(identity: Mapping[str, Any], question: Question, pictures: Sequence[Picture]) -> str:
    """Compute the key of a question: a SHA-256 of everything that its answer depends on.

    Args:
        identity: Properties that distinguish the model from other models.
        question: The question.
        pictures: The encoded images.

    Returns:
        The hexadecimal digest.
    """
    messages = build_messages(question.turns, [picture.digest for picture in pictures])
    options = {"settings": question.settings, "stops": question.stops, "repeat": question.repeat}
    return hash_facts(**identity, messages=messages, **options)


async def _send(
    client: Any,
    endpoint: Endpoint,
    question: Question,
    pictures: Sequence[Picture],
    outage: access.Outage,
) -> Reply:
    """Send one request with its retries and return the reply. Raises as `ask`."""
    import openai

    messages = build_messages(question.turns, [picture.url for picture in pictures])
    body = {"model": endpoint.model, "messages": messages, **question.settings}
    try:
        reply = question.read_reply(await post_chat(client, body, endpoint.key))
    except (openai.OpenAIError, ValueError) as error:
        reason = describe_error(error, endpoint.key)
        outage.update(error, reason, access.find_parameter(error, question.settings))
        outcome = UNANSWERED
        if isinstance(error, openai.APIError) and get_status(error):
            if get_status(error) == 401:
                access.refuse_key(error, endpoint.url, endpoint.key, endpoint.model)
            if "logprobs" in question.settings and access.is_logprobs_refusal(error):
                raise access.make_logprobs_error(endpoint.url, reason) from error
            outcome = FILTERED if error.code in FILTERS else UNANSWERED
        return Reply(outcome, reason=reason)
    outage.update(None)
    return reply
