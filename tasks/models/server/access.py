"""Checks before a server is asked: its location, the licences of the data, its key and its model."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import urlsplit

from ....loaders import sources
from ....loaders.errors import InputError, MedfaithError
from ....loaders.secrets import KEY, refuse_url_secret
from ..chat_form import read
from .client import build_request_options, connect, describe_error, get_status, read_error

_OWN_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "::/128", "fc00::/7"),
    )
)
# Where clouds serve metadata and credentials of a machine, inside of fc00::/7: AWS, Google.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254")))
REFUSALS = (401, 403)  # status codes that refuse a key
PERMANENT = (400, 413, 422)  # the request is wrong: the same one would be refused again
MOST_REFUSALS = 5  # equal ones without any reply, after which a run ends
GONE = (429, 502, 503, 504)  # too many requests; a gateway without a server
# Fields of a listed model that are stable between calls, unlike its creation time.
VERSION = ("root", "parent", "revision", "fingerprint", "digest", "meta")


def parse_host(base_url: str, option: str = "base_url") -> str:
    """Parse the host of an endpoint.

    Args:
        base_url: URL of the endpoint.
        option: The option that names it, for messages.

    Returns:
        The host without port.

    Raises:
        InputError: The URL is not an http(s) address, or holds a password or a key.
    """
    refuse_url_secret(base_url, option)
    try:
        url = urlsplit(base_url)
        host = url.hostname if url.scheme in ("http", "https") and url.port != 0 else None
    except ValueError:  # a port above 65,535, or half a bracket
        host = None
    if not host:
        raise InputError(option, f"is {base_url!r}", expected="an address such as http://127.0.0.1:8000/v1")
    return host


def is_third_party(host: str) -> bool:
    """Check whether a host is outside of this machine and of private networks. Unresolved names count as outside.

    Link-local addresses count as outside: whoever is on the same link answers there, and clouds serve their metadata.

    Args:
        host: Name or address of the host.

    Returns:
        True if one of its addresses is not private, or if the name cannot be resolved.
    """
    try:
        address_info = socket.getaddrinfo(host, None)
    except OSError:
        return True
    addresses = [ipaddress.ip_address(str(address[0]).split("%")[0]) for *_, address in address_info]
    return not all(_is_own(getattr(address, "ipv4_mapped", None) or address) for address in addresses)


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is of this machine or of a private network (RFC 1918, RFC 4193).

    `is_private` of Python is wider: it has link-local addresses, those of documentation, and mapped public ones.
    """
    networks = (network for network in _OWN_NETWORKS if network.version == address.version)
    return address not in _METADATA and any(address in network for network in networks)


def check_named(third_party: str | None, send_images_to: str | None) -> None:
    """Check that a third party is the host that the user named to receive images.

    Args:
        third_party: The third party's host, or None.
        send_images_to: The host that the user named, or None.

    Raises:
        InputError: The hosts differ.
    """
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
    """Check that the terms of all sources let their images and words go to a third party.

    Args:
        source_ids: Ids of the sources.
        host: Host of the third party.
        permitted: Ids of sources whose owner permitted the transfer to the user.

    Raises:
        InputError: A source's terms forbid it.
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
    """Detects an outage of a server: a number of consecutive rows without any reply, each after its retries.

    The number is three times the concurrency, so that a short failure of all active requests does not end the run, and
    at least ten. An outage never ends.

    Args:
        concurrency: Maximum number of concurrent requests.
    """

    def __init__(self, concurrency: int) -> None:
        self._limit, self._n_failures, self._last_error = max(10, 3 * concurrency), 0, ""
        self._has_reply, self._refusals = False, Counter[str]()

    @property
    def is_over(self) -> bool:
        """Whether the server is unavailable."""
        return self._n_failures >= self._limit

    def describe(self, base_url: str) -> str:
        """Describe the outage and what to do.

        Args:
            base_url: URL of the endpoint.

        Returns:
            The message, or "" without an outage.
        """
        return (
            f"{base_url} gave nothing to {self._limit} rows in a row ({self._last_error}); the rows that are left are "
            "not asked\n  what to do: start the server and run the same command again"
            if self.is_over
            else ""
        )

    def update(self, error: Exception | None, reason: str = "", parameter: str = "") -> None:
        """Update with the result of a request.

        A server is unavailable if it cannot be reached, times out, or reports that it or the user's quota is exhausted.
        All other errors count as replies.

        Args:
            error: Error of the request, or None for a reply.
            reason: The error's description.
            parameter: The setting of the request that the server refuses (`find_parameter`).

        Raises:
            InputError: The server has refused a setting several times, in the same words, and has answered nothing. It
                would refuse the other requests, too.
        """
        import openai

        self._has_reply |= error is None
        if error is not None and parameter and not self._has_reply:
            self._refusals[reason] += 1
            if self._refusals[reason] >= MOST_REFUSALS:
                raise _make_refusal_error(reason, parameter)
        is_unavailable = isinstance(error, openai.APIConnectionError) or (
            error is not None and get_status(error) in GONE
        )
        if is_unavailable:
            self._last_error = reason[:200]
        if not self.is_over:
            self._n_failures = self._n_failures + 1 if is_unavailable else 0


def find_parameter(error: Any, settings: Iterable[str]) -> str:
    """Find the setting that the server refuses.

    Args:
        error: The response.
        settings: The names of the request's settings.

    Returns:
        The setting that the response names; "" if it names none, or does not refuse the request itself.
    """
    if get_status(error) not in PERMANENT:
        return ""
    names = list(settings)
    stated = next((name for name in names if error.param == name), "")
    return stated or next((name for name in names if re.search(rf"['\"`]{re.escape(name)}['\"`]", error.message)), "")


def _make_refusal_error(reason: str, parameter: str) -> InputError:
    """Build the error for a server that refuses a setting of every request."""
    return InputError(
        "the server",
        f"refuses each request because of {parameter} ({reason})",
        expected=f"a value of {parameter} that it takes",
        action=f"set another one: --gen_kwargs {parameter}=VALUE",
    )


def is_logprobs_refusal(error: Any) -> bool:
    """Check whether a response refuses log-probabilities of tokens.

    Args:
        error: The response (`openai.APIStatusError`).

    Returns:
        True if the status is 400 or 422 and the message names log-probabilities.
    """
    fields = (error.param, error.message)
    return get_status(error) in PERMANENT and any("logprob" in str(field).lower() for field in fields)


def make_logprobs_error(base_url: str, reason: str) -> InputError:
    """Build the error for an endpoint without log-probabilities of tokens.

    Args:
        base_url: URL of the endpoint.
        reason: Reason, such as the server's message.

    Returns:
        The error, to raise.
    """
    return InputError(
        base_url,
        f"gives no probabilities of tokens ({reason})",
        expected="logprobs with the likeliest tokens",
        action="lower top_logprobs in --model_args, if the endpoint lists fewer; or run a task that asks for an "
        "answer, such as medfaith_contrabench; or serve the model with vLLM, SGLang or llama.cpp",
    )


def look_up(base_url: str, key: str, model: str, tokens_name: str, max_retries: int) -> dict[str, Any]:
    """Fetch the version of a model from the server, without sending an image.

    If the server does not list the model, the model is asked to say one word.

    Args:
        base_url: URL of the endpoint.
        key: API key; "" for none.
        model: Name of the model.
        tokens_name: The endpoint's name of the token limit.
        max_retries: Maximum number of retries.

    Returns:
        Stable fields of the listed model, or `{}`.

    Raises:
        InputError: The server does not answer, or refuses the key or the model.
    """
    import openai

    options = build_request_options(key)
    with connect(base_url, key, max_retries=0) as client:
        try:
            response: Any = client.get("/models", cast_to=object, options=options)
        except openai.APIStatusError as error:
            if error.status_code in REFUSALS:
                refuse_key(error, base_url, key, model)
            response = None
        except ValueError:  # a page that says that it is JSON
            response = None
        except openai.APIConnectionError as error:
            raise _make_connection_error(base_url, describe_error(error, key)) from error
        entries = response.get("data") if isinstance(response, dict) else None
        names = {str(entry["id"]): entry for entry in entries or () if isinstance(entry, dict) and "id" in entry}
        listed = names.get(model) or names.get(f"{model}:latest")  # Ollama adds the tag
        if listed is not None:
            version = {name: listed[name] for name in VERSION if listed.get(name) is not None}
            return version or _fetch_digest(client, base_url, str(listed["id"]), options)
        body: Any = {"model": model, "messages": [{"role": "user", "content": "Say Yes."}], tokens_name: 16}
        retrying_client = client.with_options(max_retries=max_retries)
        try:
            reply = retrying_client.post("/chat/completions", body=body, cast_to=object, options=options)
            if (stated_error := read_error(reply)) is not None:
                raise stated_error
            read(reply)
        except (openai.APIConnectionError, ValueError) as error:
            raise _make_connection_error(base_url, describe_error(error, key)) from error
        except openai.APIError as error:
            if get_status(error) in REFUSALS:
                refuse_key(error, base_url, key, model)
            if get_status(error) == 429 or get_status(error) >= 500:
                raise _make_readiness_error(base_url, describe_error(error, key)) from error
            raise _make_model_error(base_url, model, describe_error(error, key), [*names]) from error
    return {}


def _fetch_digest(client: Any, base_url: str, model: str, options: Any) -> dict[str, Any]:
    """Fetch the digest of a model from Ollama, whose list for OpenAI's clients has none: a tag may get other weights.

    Only Ollama's names of models have a tag, so that no other server is asked.
    """
    import openai

    if ":" not in model:
        return {}
    try:
        response = client.get(base_url.rstrip("/").removesuffix("/v1") + "/api/tags", cast_to=object, options=options)
    except (openai.APIError, ValueError):  # another server; or a page that says that it is JSON
        return {}
    entries = response.get("models") if isinstance(response, dict) else None
    for entry in entries or ():
        if isinstance(entry, dict) and model in (entry.get("name"), entry.get("model")) and entry.get("digest"):
            return {"digest": entry["digest"]}
    return {}


def refuse_key(error: Any, base_url: str, key: str, model: str) -> NoReturn:
    """Raise InputError for a response that refuses the key.

    Args:
        error: The response (`openai.APIStatusError`).
        base_url: URL of the endpoint.
        key: API key.
        model: Name of the model.

    Returns:
        Nothing.

    Raises:
        InputError: Always.
    """
    raise InputError(
        base_url,
        f"refuses the key ({describe_error(error, key)})",
        expected=f"a key in the variable {KEY} that may use {model}",
        action=f"set {KEY}; a server without keys needs none",
    ) from error


def _make_model_error(base_url: str, model: str, reason: str, names: list[str]) -> InputError:
    expected = f"one of {', '.join(names[:20])}" if names else "the name under which the server serves it"
    return InputError(
        base_url, f"has no model {model!r} ({reason})", expected=expected, action="correct model=NAME in --model_args"
    )


def _make_readiness_error(base_url: str, reason: str) -> InputError:
    return InputError(
        base_url,
        f"does not answer a short question ({reason})",
        expected="a server that has loaded the model and takes requests",
        action="wait until it has, and run the same command again; its own log may say more",
    )


def _make_connection_error(base_url: str, reason: str) -> MedfaithError:
    return InputError(
        base_url,
        f"does not answer ({reason})",
        expected="a server that speaks chat completions",
        action="start the server, or correct base_url in --model_args (with /v1 at its end)",
    )
