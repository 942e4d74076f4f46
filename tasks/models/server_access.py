"""Whether a server may and can be asked: where it is, what the licences of the data say, its key and its model."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ...loaders import sources
from ...loaders.errors import InputError, MedfaithError

KEY = "OPENAI_API_KEY"
REFUSALS = (401, 403)  # of a key
GONE = (429, 502, 503, 504)  # too many requests; no server behind a gateway
# What a list of models may say of one that does not change from call to call, as its time of creation does.
VERSION = ("root", "parent", "revision", "fingerprint", "digest", "meta")


def host_of(base_url: str) -> str:
    """The host of an endpoint. Raises InputError for what is no http(s) address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("base_url", f"is {base_url!r}", expected="an address such as http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise InputError("base_url", "holds a password", action=f"put the key into the variable {KEY}")
    return parts.hostname


def is_third_party(host: str) -> bool:
    """Whether a host is neither this machine nor one of a private network. A name that has no address counts as one."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return True
    addresses = [ipaddress.ip_address(str(address[0]).split("%")[0]) for *_, address in found]
    return not all(address.is_loopback or address.is_private for address in addresses)


def check_named(third_party: str | None, send_images_to: str | None) -> None:
    """Raises InputError where the third party, if there is one, is not the host that was named to get the images."""
    if third_party and send_images_to != third_party:
        raise InputError(
            "base_url",
            f"{third_party} is no machine of yours or of a private network",
            expected=f"--send-images-to {third_party}, if images may go there"
            + (f"; it is {send_images_to}" if send_images_to else ""),
            action=f"add --send-images-to {third_party} (plain lm_eval: send_images_to={third_party} in the "
            "--model_args of medfaith-server), or serve the model on a machine of your own",
        )


def check_licences(source_ids: Iterable[str], host: str, permitted: Iterable[str]) -> None:
    """Raises InputError for a source whose terms do not let its images and words go to a third party.

    permitted: ids of sources for which the user has the permission of whoever owns them.
    """
    for source_id in sorted(set(source_ids) - set(permitted)):
        entry = sources.source(source_id)
        if not entry.third_parties:
            raise InputError(
                f"source {source_id}",
                f"its terms do not let its data go to a third party such as {host}",
                expected=f"a server of your own: {entry.terms} ({entry.licence_url})",
                action="serve the model on a machine of your own; or, if whoever owns the source has given you "
                f"permission, add --i-have-permission {source_id} (plain lm_eval: i_have_permission={source_id} in the "
                "--model_args of medfaith-server)",
            )


class Outage:
    """Whether a server is gone: so many rows in a row got nothing from it, each after its retries.

    That are three times the requests at a time, so that a short failure, which all that are under way see, ends no run;
    and no fewer than ten. Once over, it stays over.
    """

    def __init__(self, concurrency: int) -> None:
        self._most, self._n, self._last = max(10, 3 * concurrency), 0, ""

    @property
    def over(self) -> bool:
        """Whether the server is gone."""
        return self._n >= self._most

    def sentence(self, base_url: str) -> str:
        """What is said of a server that is gone; "" of another."""
        return (
            f"{base_url} gave nothing to {self._most} rows in a row ({self._last}); the rows that are left are not "
            "asked\n  what to do: start the server and run the same command again"
            if self.over
            else ""
        )

    def saw(self, error: Exception | None) -> None:
        """Takes what a request ended with, None for a reply.

        A server is gone where it cannot be reached, is too slow, or says that it or the user's quota is exhausted. Any
        other error is one of its answers.
        """
        import openai

        gone = isinstance(error, openai.APIConnectionError) or getattr(error, "status_code", 0) in GONE
        if gone:
            self._last = f"{type(error).__name__}: {error}"[:200]
        if not self.over:
            self._n = self._n + 1 if gone else 0


def refuses_logprobs(error: Any) -> bool:
    """Whether a response (`openai.APIStatusError`) refuses the request for probabilities of tokens."""
    told = (error.param, error.message)
    return error.status_code in (400, 422) and any("logprob" in str(words).lower() for words in told)


def no_logprobs(base_url: str, words: str) -> InputError:
    """The error for an endpoint that gives no probabilities of tokens."""
    return InputError(
        base_url,
        f"gives no probabilities of tokens ({words})",
        expected="logprobs with the likeliest tokens",
        action="lower top_logprobs in --model_args, if the endpoint lists fewer; or run a task that asks for an "
        "answer, such as medfaith_contrabench; or serve the model with vLLM, SGLang or llama.cpp",
    )


def look_up(base_url: str, key: str, model: str, tokens_name: str, max_retries: int) -> dict[str, Any]:
    """What the server tells of the version of a model, `{}` if nothing. No image is sent.

    A model that the server does not list, or a server without a list, is asked to say one word.

    Raises MedfaithError where the server does not answer, or does not take the key or the model.
    """
    import openai

    with openai.OpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        try:
            listed: Any = client.get("/models", cast_to=object, options={"follow_redirects": False})
        except openai.APIStatusError as error:
            if error.status_code in REFUSALS:
                refuse_key(error, base_url, model)
            listed = None
        except openai.APIConnectionError as error:
            raise _down(base_url, error) from error
        entries = listed.get("data") if isinstance(listed, dict) else None
        names = {str(entry["id"]): entry for entry in entries or () if isinstance(entry, dict) and "id" in entry}
        if model in names:
            return {name: names[model][name] for name in VERSION if names[model].get(name) is not None}
        hello: Any = {"model": model, "messages": [{"role": "user", "content": "Say Yes."}], tokens_name: 16}
        asking = client.with_options(max_retries=max_retries)
        try:
            asking.post("/chat/completions", body=hello, cast_to=object, options={"follow_redirects": False})
        except openai.APIStatusError as error:
            if error.status_code in REFUSALS:
                refuse_key(error, base_url, model)
            raise _no_model(base_url, model, f"{error.status_code}: {error.message}", [*names]) from error
        except openai.APIConnectionError as error:
            raise _down(base_url, error) from error
    return {}


def refuse_key(error: Any, base_url: str, model: str) -> NoReturn:
    """Raises InputError for a response (`openai.APIStatusError`) that says so."""
    raise InputError(
        base_url,
        f"refuses the key ({error.status_code}: {error.message})",
        expected=f"a key in the variable {KEY} that may use {model}",
        action=f"set {KEY}; a server without keys needs none",
    ) from error


def _no_model(base_url: str, model: str, words: str, names: list[str]) -> InputError:
    expected = f"one of {', '.join(names[:20])}" if names else "the name under which the server serves it"
    return InputError(
        base_url, f"has no model {model!r} ({words})", expected=expected, action="correct model=NAME in --model_args"
    )


def _down(base_url: str, error: Exception) -> MedfaithError:
    cause = error.__cause__ or error
    return InputError(
        base_url,
        f"does not answer ({type(cause).__name__}: {cause})",
        expected="a server that speaks chat completions",
        action="start the server, or correct base_url in --model_args (with /v1 at its end)",
    )
