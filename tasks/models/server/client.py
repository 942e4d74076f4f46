"""Clients of OpenAI-compatible endpoints: their connections, descriptions of their errors, and plain chats."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from ....evaluate_metrics.reading.chat import Messages
from ....loaders.errors import MedfaithError
from ....loaders.retry_after import parse_pause
from ... import SERVER
from ...model_types import KINDS
from ..chat_form import read, replace_surrogates

if TYPE_CHECKING:
    import openai

LONGEST_REASON = 500  # characters of an error
LONGEST_WAIT_S = 3600  # seconds of pauses that a server may name for one request
RETRIED = (408, 409, 429, *range(500, 600))  # status codes that `openai` retries
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0  # as in `openai`
_SIGN_OF_LIFE_S = 10  # seconds until a server must answer, before it is asked


def check_installed(
    user: str, packages: Sequence[str] = KINDS[SERVER].packages, install: str = KINDS[SERVER].install
) -> None:
    """Require packages, by default those of the extra `server`.

    Args:
        user: The model type or option that needs them.
        packages: Names of the packages.
        install: How to install them.

    Raises:
        MedfaithError: A package is missing.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MedfaithError(f"{user} needs {' and '.join(missing)}\n  what to do: {install}")


def connect(url: str, key: str, max_retries: int, timeout: float = 600) -> openai.OpenAI:
    """Build a client that sends one request at a time. It follows no redirect, which could leave the network.

    Args:
        url: URL of the endpoint.
        key: API key; "" for none.
        max_retries: Maximum number of retries per request, with growing pauses or those that the server requests.
        timeout: Timeout of a request in seconds.

    Returns:
        The client.
    """
    import openai

    http_client = openai.DefaultHttpxClient(follow_redirects=False)
    return openai.OpenAI(http_client=http_client, **_build_options(url, key, max_retries, timeout))


def connect_async(url: str, key: str, max_retries: int, timeout: float = 600) -> openai.AsyncOpenAI:
    """Build a client that sends many requests at a time, otherwise like `connect`.

    Args:
        url: URL of the endpoint.
        key: API key; "" for none.
        max_retries: Maximum number of retries per request.
        timeout: Timeout of a request in seconds.

    Returns:
        The client.
    """
    import openai

    http_client = openai.DefaultAioHttpClient(follow_redirects=False)
    return openai.AsyncOpenAI(http_client=http_client, **_build_options(url, key, max_retries, timeout))


def _build_options(url: str, key: str, max_retries: int, timeout: float) -> dict[str, Any]:
    # `openai` requires a key. Without one, `build_request_options` removes its header.
    return {"base_url": url, "api_key": key or "none", "max_retries": max_retries, "timeout": timeout}


def build_request_options(key: str) -> Any:
    """Build the options of each request: without a key, no header names one.

    Args:
        key: API key; "" for none.

    Returns:
        The argument `options` of the client's `get` and `post`.
    """
    import openai

    return {} if key else {"headers": {"Authorization": openai.Omit()}}


async def post_chat(client: openai.AsyncOpenAI, body: Mapping[str, Any], key: str) -> Any:
    """Send a chat with the client's retries.

    A pause that the server names (429 with Retry-After) does not count as a failed try. An error inside a response with
    the status 200 is retried like its code.

    Args:
        client: The client.
        body: Body of the request.
        key: API key; "" for none.

    Returns:
        Body of the response.

    Raises:
        openai.OpenAIError: The request failed, or the server has named pauses for `LONGEST_WAIT_S`.
    """
    import openai

    options, end = build_request_options(key), time.monotonic() + LONGEST_WAIT_S
    n_errors = 0
    while True:
        try:
            # Not `chat.completions.create`: its type checks cost as much as the request and drop unknown fields.
            reply = await client.post("/chat/completions", body=body, cast_to=object, options=options)
            if (error := read_error(reply)) is None:
                return reply
            n_errors += 1
            if get_status(error) not in RETRIED or n_errors > client.max_retries:
                raise error
            await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (n_errors - 1), LONGEST_PAUSE_S))
        except openai.RateLimitError as error:
            headers = error.response.headers
            pause = parse_pause(headers.get("retry-after"), headers.get("date"))
            if pause is None or time.monotonic() + pause > end:
                raise
            await asyncio.sleep(pause)


def read_error(reply: Any) -> openai.APIError | None:
    """Read the error that some servers put into a response with the status 200.

    Args:
        reply: Body of the response.

    Returns:
        The error, whose `status_code` is the code that the body states, else 500. None if the body has choices or no
        error.
    """
    import openai

    stated = reply.get("error") if isinstance(reply, Mapping) else None
    if not stated or reply.get("choices"):
        return None
    code = stated.get("code") if isinstance(stated, Mapping) else None
    error: Any = openai.APIError(str(stated), cast(Any, None), body=stated)
    error.status_code = code if isinstance(code, int) and 400 <= code < 600 else 500
    return error


def get_status(error: Exception) -> int:
    """Get the status code of an error.

    Args:
        error: The error, of `openai` or of `read_error`.

    Returns:
        The code; 0 if the error is no response.
    """
    return getattr(error, "status_code", 0)


def describe_error(error: Exception, key: str) -> str:
    """Describe a failed request: its status with the server's message, or the fault of the connection or the reply.

    Args:
        error: The error, of `openai` or of the reader of the reply.
        key: API key, which the text never contains.

    Returns:
        The description, at most `LONGEST_REASON` characters.
    """
    import openai

    if isinstance(error, openai.APIError) and (status := get_status(error)):
        body = error.body
        message = body.get("message") or body if isinstance(body, Mapping) else body
        text = f"{status}: {message or error.message}"
    else:
        cause = (error.__cause__ if isinstance(error, openai.APIConnectionError) else None) or error
        text = f"{type(cause).__name__}: {str(cause) or error}"
    for form in filter(None, (key, repr(key)[1:-1])):  # escaped in the error of a header that cannot hold it
        text = text.replace(form, "***")
    return replace_surrogates(text)[:LONGEST_REASON]


def ask_chats(  # noqa: PLR0913 (one for each option of a request)
    url: str,
    model: str,
    key: str,
    prompts: Sequence[Messages],
    take: Callable[[int, str], None],
    *,
    concurrency: int = 16,
    max_tokens: int = 256,
    max_retries: int = 5,
    timeout: float = 120,
) -> None:
    """Ask a language model for replies to texts, several at a time, with greedy decoding.

    A mistyped address is reported at once: a sign of life is awaited first, without retries. After a failed request no
    other one is sent, and the replies to those that were sent are still taken.

    Args:
        url: URL of the endpoint up to and including the version, such as http://127.0.0.1:8000/v1
        model: Name of the model at the endpoint.
        key: API key; "" for none.
        prompts: The prompts.
        take: Function that takes the index of a prompt and its reply, as soon as it arrives.
        concurrency: Maximum number of concurrent requests.
        max_tokens: Limit of a reply.
        max_retries: Maximum number of retries after a lost connection and after the statuses 408, 409, 429 and 5xx.
        timeout: Timeout of a request in seconds.

    Raises:
        ConnectionError: No server answers, or a request has no reply; with the URL and the reason.
    """

    async def ask_all() -> None:
        import openai

        async with connect_async(url, key, max_retries, timeout) as client:
            with suppress(openai.APIStatusError):
                without_retries = client.with_options(max_retries=0, timeout=_SIGN_OF_LIFE_S)
                await without_retries.get("/models", cast_to=object, options=build_request_options(key))
            pending, failures = iter(enumerate(prompts)), []

            async def ask_pending() -> None:
                for number, messages in pending:
                    if failures:
                        return
                    body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": max_tokens}
                    try:
                        text = read(await post_chat(client, body, key)).text
                    except (openai.OpenAIError, ValueError) as error:
                        failures.append(error)
                        return
                    take(number, text)

            await asyncio.gather(*(ask_pending() for _ in range(concurrency)))
            if failures:
                raise failures[0]

    with _raise_connection_errors(url, key):
        asyncio.run(ask_all())


@contextmanager
def _raise_connection_errors(url: str, key: str) -> Iterator[None]:
    import openai

    try:
        yield
    except (openai.OpenAIError, ValueError) as error:
        raise ConnectionError(f"{url}: {describe_error(error, key)}") from error
