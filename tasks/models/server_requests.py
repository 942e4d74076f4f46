"""The requests of a run to a server: so many at a time, and each reply kept as it comes.

A row's images are encoded when its request is about to be sent, so that memory holds the images of `concurrency` rows
and a few more, however many there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from lm_eval.api.instance import Instance

from ..outcomes import FILTERED, UNANSWERED
from . import server_access
from .answer_store import AnswerStore, key_of
from .chat_form import FILTERS, Encoding, Picture, Reply, Turn, messages, picture, turns_of
from .image_lm import images_of, row_id

AHEAD = 8  # requests under way for each row whose images are encoded in the meantime
LONGEST_REASON = 500  # characters of an error


class Endpoint(NamedTuple):
    """Where and how is asked. identity: what tells its answers from those of other models."""

    url: str
    model: str
    key: str
    identity: Mapping[str, Any]
    encoding: Encoding
    concurrency: int
    max_retries: int
    timeout: float


class Question(NamedTuple):
    """One request. settings: as it has them; read: a response's body -> the reply, at whose `stops` it ends.

    repeat: its number among its copies.
    """

    request: Instance
    settings: Mapping[str, Any]
    read: Callable[[Any], Reply]
    stops: Sequence[str] = ()
    repeat: int = 0

    @property
    def turns(self) -> list[Turn]:
        """Of its prompt."""
        return turns_of(cast(Any, self.request.args)[0])


async def ask(
    endpoint: Endpoint,
    questions: Iterable[Question],
    store: AnswerStore,
    take: Callable[[int, Question, Reply, bool], None],
) -> server_access.Outage:
    """Asks what the store does not hold.

    take: gets the place of each question, the question, its reply, and whether the store had it, in the order in which
    they come.

    Returns whether the server was gone, and why: questions after that are unanswered, and were not asked.

    Raises MedfaithError: an image cannot be opened, or the server has begun to refuse the key or the model.
    """
    import openai

    http = openai.DefaultAioHttpClient(follow_redirects=False)  # a redirect could lead out of the network
    options: Any = {"max_retries": endpoint.max_retries, "timeout": endpoint.timeout, "http_client": http}
    outage = server_access.Outage(endpoint.concurrency)
    waiting, free = enumerate(questions), asyncio.Semaphore(endpoint.concurrency)

    async def work() -> None:
        for place, question in waiting:
            if outage.over:
                take(place, question, Reply(UNANSWERED, reason="the server was gone"), False)
                continue
            pictures = await asyncio.to_thread(pictures_of, question, endpoint.encoding)
            key = _key(endpoint, question, pictures)
            kept = store.get(key)
            if kept is None:
                async with free:
                    reply = await _ask(client, endpoint, question, pictures, outage)
                store.put(key, reply, question.request.task_name or "", row_id(question.request))
                take(place, question, reply, False)
            else:
                take(place, question, kept, True)

    async with openai.AsyncOpenAI(base_url=endpoint.url, api_key=endpoint.key, **options) as client:
        n_at_once = endpoint.concurrency + endpoint.concurrency // AHEAD
        await asyncio.gather(*(work() for _ in range(n_at_once)))
    return outage


def pictures_of(question: Question, encoding: Encoding) -> list[Picture]:
    """Its images as they are sent. Raises MedfaithError for one that cannot be opened."""
    images = images_of(question.request)
    # By their places: a row without images (control none) refuses those that go through them, who need one.
    return [picture(images[place], encoding) for place in range(len(images))]


def _key(endpoint: Endpoint, question: Question, pictures: Sequence[Picture]) -> str:
    shown = messages(question.turns, [one.digest for one in pictures])
    how = {"settings": question.settings, "stops": question.stops, "repeat": question.repeat}
    return key_of(**endpoint.identity, messages=shown, **how)


async def _ask(
    client: Any,
    endpoint: Endpoint,
    question: Question,
    pictures: Sequence[Picture],
    outage: server_access.Outage,
) -> Reply:
    """What comes of one request and its retries. Raises as `ask`."""
    import openai

    shown = messages(question.turns, [one.url for one in pictures])
    body = {"model": endpoint.model, "messages": shown, **question.settings}
    try:
        # Not `chat.completions.create`: its checked types cost as much as the request, and drop unknown fields.
        reply = question.read(await client.post("/chat/completions", body=body, cast_to=object))
    except openai.APIStatusError as error:
        outage.saw(error)
        if error.status_code == 401:
            server_access.refuse_key(error, endpoint.url, endpoint.model)
        if "logprobs" in question.settings and server_access.refuses_logprobs(error):
            raise server_access.no_logprobs(endpoint.url, str(error.message)) from error
        outcome = FILTERED if error.code in FILTERS else UNANSWERED
        return Reply(outcome, reason=f"{error.status_code}: {error.message}"[:LONGEST_REASON])
    except openai.APIConnectionError as error:  # also of requests that took too long
        outage.saw(error)
        return Reply(UNANSWERED, reason=f"{type(error).__name__}: {error}"[:LONGEST_REASON])
    except (openai.OpenAIError, ValueError) as error:
        outage.saw(None)
        return Reply(UNANSWERED, reason=f"{type(error).__name__}: {error}"[:LONGEST_REASON])
    outage.saw(None)
    return reply
