"""`medfaith-server`: a model behind an OpenAI-compatible chat endpoint (vLLM, SGLang, Ollama, llama.cpp, hosted ones).

All images of a row are sent, each where its placeholder stands in the prompt. A row's images are encoded when its
request is about to be sent, so that memory holds the images of `concurrency` rows and a few more, however many there
are.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from lm_eval.api.instance import Instance
from PIL import Image
from tqdm import tqdm

from ...loaders.errors import InputError, MedfaithError
from . import server_access, server_scores, tally
from .answer_store import AnswerStore, key_of, with_repeats
from .chat_form import (
    FILTERED,
    FILTERS,
    PLACEHOLDER,
    UNANSWERED,
    Encoding,
    Picture,
    Prompt,
    Reply,
    check_encoding,
    messages,
    n_placeholders,
    picture,
    read,
    settings,
    stops_of,
    turns_of,
)
from .first_answers import FirstAnswers
from .image_lm import ImageLM, images_of

LM_EVALS = ("batch_size", "max_batch_size", "device")  # given to every model; a server has its own
AHEAD = 8  # requests under way for each row whose images are encoded in the meantime
LONGEST_REASON = 500  # characters of an error
TOKENS_NAMES = ("max_tokens", "max_completion_tokens")
FEWEST_LOST = 5  # requests lost in a row, each after its retries, that show a server to be down; or all at a time


class ServerLM(ImageLM):
    """Asks a server, and counts what came of it (`tally`). Only whole answers are scored; others are "".

    A failing request is retried with growing pauses, or after as long as the server asks for (`openai`'s retries). A
    row that still has no answer is unanswered, and the run goes on. If the server cannot be reached for as many
    requests in a row as are under way, the rows that are left are unanswered, too, and are not asked. The key comes
    from the variable OPENAI_API_KEY.

    Args:
        base_url: up to and with the version, such as http://127.0.0.1:8000/v1
        model: its name there.
        concurrency: requests at a time.
        image_format, image_quality, image_max_side: how images are sent: png, or jpeg with its quality; made smaller
            until the longest side has so many pixels.
        max_retries, timeout: of each request; seconds.
        max_tokens_name: what the endpoint calls the limit of an answer, one of `TOKENS_NAMES`.
        seed: sent with each request; none by default.
        answers: SQLite file of the answers (AnswerStore). Without it a killed run starts anew.
        send_images_to: the host of `base_url`, where it is outside of the user's network.
        i_have_permission: sources, joined by +, whose images may go to that host though their terms do not say so.

    Raises:
        InputError: an option that there is not; a third party that is not named; a server that does not answer, or
            takes neither the key nor the model.
    """

    def __init__(
        self,
        base_url: str = "",
        model: str = "",
        concurrency: int = 32,
        image_format: str = "png",
        image_quality: int = 90,
        image_max_side: int | None = None,
        max_retries: int = 5,
        timeout: float = 600,
        max_tokens_name: str = "max_tokens",
        seed: int | None = None,
        answers: str | None = None,
        send_images_to: str | None = None,
        i_have_permission: str = "",
        **others: Any,
    ) -> None:
        super().__init__()
        limits: dict[str, Any] = {
            "concurrency": (concurrency, 1),
            "max_retries": (max_retries, 0),
            "timeout": (timeout, 0),
        }
        _check_options(others, max_tokens_name=max_tokens_name, **limits)
        _check_installed()
        if not model:
            raise InputError("--model_args", "names no model", expected="base_url=URL,model=NAME")
        host = server_access.host_of(base_url)
        self._third_party = host if server_access.is_third_party(host) else None
        server_access.check_named(self._third_party, send_images_to)
        self._permitted = set(str(i_have_permission).split("+"))
        self._encoding = Encoding(image_format, image_quality, image_max_side)
        check_encoding(self._encoding)
        self._url, self._model = base_url.rstrip("/"), str(model)
        self._key = os.environ.get(server_access.KEY) or "none"  # `openai` wants one
        self._concurrency, self._max_retries, self._timeout = concurrency, max_retries, timeout
        self._tokens_name, self._seed = max_tokens_name, seed
        self._answers = Path(answers).expanduser() if answers else None
        self._first = FirstAnswers()
        version = server_access.look_up(self._url, self._key, self._model, max_tokens_name, max_retries)
        self._lost = 0  # requests in a row that did not reach the server, or lost it
        self._identity = {"endpoint": self._url, "model": self._model, "version": version}
        with AnswerStore(self._answers):  # one that cannot be used is refused here
            pass
        if self._answers is None:
            print(
                "medfaith-server: answers are not kept; name a file with answers=FILE, or a killed run starts anew",
                file=sys.stderr,
            )

    @property
    def tokenizer_name(self) -> str:
        return "medfaith-server"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns as they are: the server applies the model's template."""
        return Prompt(chat_history)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The whole answers; "" in the place of others.

        Raises:
            InputError: a prompt names more or fewer images than its row has, or a source's terms do not let its images
                go to the server. No image has been opened then.
            MedfaithError: an image cannot be opened, or the server has begun to refuse the key or the model.
        """
        for request in requests:
            self._check(request)
        with AnswerStore(self._answers) as store:
            replies, outcomes = asyncio.run(self._ask_all(requests, store, disable_tqdm))
        tally.count(outcomes)
        if said := tally.sentence(outcomes):
            print(f"medfaith-server: {said}", file=sys.stderr)
        return replies

    def _check(self, request: Instance) -> None:
        images = images_of(request)
        n_named, n_images = n_placeholders(turns_of(cast(Any, request.args)[0])), len(images)
        if n_named != n_images:
            raise InputError(
                request.task_name or "request",
                f"the prompt has {n_named} image placeholders for {n_images} images",
                expected=f"one {PLACEHOLDER} an image",
                action="let doc_to_text write as many placeholders as doc_to_image gives images",
                row=_row_id(request),
            )
        if self._third_party:
            server_access.check_licences(getattr(images, "sources", ()), self._third_party, self._permitted)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-probability of an option's letter, whether it is the likeliest), NaN of a row without an answer.

        A row's letters are scored by one request (server_scores). Other continuations are refused: a server gives the
        probabilities of what it would say, not of what it is told.

        Raises: as `generate_until`.
        """
        rows: dict[tuple[str, int], list[int]] = {}
        for number, request in enumerate(requests):
            context, continuation = cast(Any, request.args)[:2]
            if not server_scores.is_letter(continuation):
                raise self._no_probability()
            rows.setdefault((context, id(images_of(request))), []).append(number)
        first = [requests[numbers[0]] for numbers in rows.values()]
        for request in first:
            self._check(request)
        with AnswerStore(self._answers) as store:
            likeliest, outcomes = asyncio.run(self._ask_all(first, store, disable_tqdm, scores=True))
        tally.count(outcomes)
        if said := tally.sentence(outcomes):
            print(f"medfaith-server: {said}", file=sys.stderr)
        return self._scored(requests, list(rows.values()), likeliest)

    def _scored(
        self, requests: Sequence[Instance], rows: Sequence[Sequence[int]], likeliest: Sequence[str]
    ) -> list[tuple[float, bool]]:
        scores: dict[int, tuple[float, bool]] = {}
        n_bounded = 0
        for numbers, said in zip(rows, likeliest, strict=True):
            letters = [cast(Any, requests[number].args)[1].strip() for number in numbers]
            values, named = server_scores.of_letters(json.loads(said) if said else {}, letters)
            n_bounded += any(named) and not all(named)
            scores |= {number: (value, value == max(values)) for number, value in zip(numbers, values, strict=True)}
        if n_bounded:
            print(
                f"medfaith-server: in {n_bounded:,} of {len(rows):,} rows a letter is not among the "
                f"{server_scores.MOST} likeliest tokens; it has the score of the least likely of these at most",
                file=sys.stderr,
            )
        return [scores[number] for number in range(len(requests))]

    async def _ask_all(
        self, requests: Sequence[Instance], store: AnswerStore, quiet: bool, scores: bool = False
    ) -> tuple[list[str], Counter[str]]:
        """What is scored of each answer, and how many answers had each outcome. scores: the likeliest first tokens."""
        import openai

        self._lost = 0  # another task tries again
        scored, outcomes = [""] * len(requests), Counter[str]()
        waiting, free = enumerate(with_repeats(requests)), asyncio.Semaphore(self._concurrency)
        http = openai.DefaultAioHttpClient(follow_redirects=False)  # a redirect could lead out of the network
        options: Any = {"max_retries": self._max_retries, "timeout": self._timeout, "http_client": http}
        bar = tqdm(total=len(requests), disable=True if quiet else None, desc="ask the server")

        async def work() -> None:
            for number, (request, repeat) in waiting:
                reply = await self._answer(client, free, store, request, repeat, scores)
                scored[number] = reply.scored
                if not scores:
                    self._first.see(request.doc, reply, reply.scored)
                outcomes[reply.outcome] += 1
                bar.update()

        with bar:
            async with openai.AsyncOpenAI(base_url=self._url, api_key=self._key, **options) as client:
                await asyncio.gather(*(work() for _ in range(self._concurrency + self._concurrency // AHEAD)))
        return scored, outcomes

    async def _answer(
        self,
        client: Any,
        free: asyncio.Semaphore,
        store: AnswerStore,
        request: Instance,
        repeat: int,
        scores: bool,
    ) -> Reply:
        """The stored reply, or the server's, which is stored."""
        if self._is_down():
            return Reply(UNANSWERED, reason="the server could not be reached any more")
        context, given = cast(Any, request.args)[:2]
        turns, stops = turns_of(context), []
        if scores:
            asked = server_scores.asked(self._tokens_name)
        else:
            asked, stops = settings(given, self._tokens_name, self._seed), stops_of(given)
        pictures = await asyncio.to_thread(self._pictures, images_of(request))
        shown = messages(turns, [one.digest for one in pictures])
        key = key_of(**self._identity, messages=shown, settings=asked, stops=stops, repeat=repeat)
        reply = store.get(key)
        if reply is None:
            body = {"model": self._model, "messages": messages(turns, [one.url for one in pictures]), **asked}
            async with free:
                reply = await self._ask(client, body, server_scores.read if scores else partial(read, stops=stops))
            store.put(key, reply, request.task_name or "", _row_id(request))
        return reply

    def _pictures(self, images: Sequence[Image.Image]) -> list[Picture]:
        # By their places: a row without images (control none) refuses those that go through them, who need one.
        return [picture(images[place], self._encoding) for place in range(len(images))]

    async def _ask(self, client: Any, body: dict[str, Any], reading: Callable[[Any], Reply]) -> Reply:
        """What comes of one request and its retries. Raises InputError where the key is refused."""
        import openai

        try:
            # Not `chat.completions.create`: its checked types cost as much as the request, and drop unknown fields.
            reply = reading(await client.post("/chat/completions", body=body, cast_to=object))
        except openai.APIConnectionError as error:  # also of requests that took too long
            return self._lose(error)
        except openai.APIStatusError as error:
            if error.status_code == 401:
                server_access.refuse_key(error, self._url, self._model)
            outcome = FILTERED if error.code in FILTERS else UNANSWERED
            return Reply(outcome, reason=f"{error.status_code}: {error.message}"[:LONGEST_REASON])
        except (openai.OpenAIError, ValueError) as error:
            return Reply(UNANSWERED, reason=f"{type(error).__name__}: {error}"[:LONGEST_REASON])
        self._lost = 0
        return reply

    def _lose(self, error: Exception) -> Reply:
        self._lost += 1
        if self._lost == max(self._concurrency, FEWEST_LOST):
            print(
                f"medfaith-server: {self._url} could not be reached for {self._lost} requests in a row; the rows "
                "that are left are not asked\n  what to do: start the server and run the same command again",
                file=sys.stderr,
            )
        return Reply(UNANSWERED, reason=f"{type(error).__name__}: {error}"[:LONGEST_REASON])

    def _is_down(self) -> bool:
        return self._lost >= max(self._concurrency, FEWEST_LOST)


def _row_id(request: Instance) -> str:
    return str(request.doc.get("id", request.doc_id))


def _check_options(others: Mapping[str, Any], **limits: Any) -> None:
    """Raises InputError for an option that there is not, or a value that none can have."""
    unknown = sorted(others.keys() - set(LM_EVALS))
    if unknown:
        expected = ", ".join(name for name in inspect.signature(ServerLM).parameters if name != "others")
        raise InputError("--model_args", f"medfaith-server has no option {', '.join(unknown)}", expected=expected)
    tokens_name = limits.pop("max_tokens_name")
    if tokens_name not in TOKENS_NAMES:
        raise InputError("max_tokens_name", f"is {tokens_name!r}", expected=" or ".join(TOKENS_NAMES))
    for name, (value, least) in limits.items():
        if not isinstance(value, (int, float)) or value < least:
            raise InputError(name, f"is {value!r}", expected=f"a number from {least}")


def _check_installed() -> None:
    missing = [name for name in ("openai", "aiohttp") if importlib.util.find_spec(name) is None]
    if missing:
        raise MedfaithError(f"medfaith-server needs {' and '.join(missing)}\n  what to do: install medfaith[server]")
