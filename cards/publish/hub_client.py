"""The client of the Hub: access, requests that wait when the Hub asks for it, and errors that say what to do."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import HfApi, constants, get_session
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)

from ...loaders.errors import InputError, MedfaithError
from ...loaders.retry_after import parse_pause

LONGEST = 600  # seconds of the longest wait; the Hub counts requests in windows of 300
REPEATS = 5


def get_client() -> HfApi:
    """Return the Hub's client. It prints on stderr when the Hub asks it to wait.

    Returns:
        The client.
    """
    hooks = get_session().event_hooks["response"]
    if _print_wait not in hooks:
        hooks.append(_print_wait)
    return HfApi()


def check_access(api: HfApi, org: str) -> None:
    """Raise an error unless there is a token of the organisation.

    Args:
        api: The Hub's client.
        org: The organisation.

    Raises:
        InputError: There is no token, or its user does not belong to the organisation.
    """
    try:
        with reachable(org, LocalTokenNotFoundError):
            me = retry(api.whoami)
    except LocalTokenNotFoundError:
        action = "make a token with write access, then: hf auth login, or set HF_TOKEN"
        raise InputError("the Hub", "no token is known", action=action) from None
    names = [me["name"], *(member["name"] for member in me.get("orgs", []))]
    if org not in names:
        expected = f"one of {', '.join(names)}"
        raise InputError(f"--org {org}", f"{me['name']} does not belong to it", expected=expected, action="correct it")


@contextmanager
def reachable(repo_id: str, *passing: type[Exception], retry_action: str = "try again") -> Iterator[None]:
    """Convert errors of the Hub's client to errors that say what to do.

    Args:
        repo_id: `<org>/<name>` on the Hub.
        passing: Types of error that the caller handles.
        retry_action: What to do if nothing is wrong on this side.

    Yields:
        Nothing.

    Raises:
        InputError: The repository is gated, or its name is malformed.
        MedfaithError: The Hub refuses or cannot be reached, or offline mode is on.
    """
    try:
        yield
    except GatedRepoError as error:  # a subclass of RepositoryNotFoundError
        page = build_page_address(repo_id, error.repo_type or "dataset")
        action = f"ask for access on its page, {page}, and log in: hf auth login, or set HF_TOKEN"
        raise InputError(repo_id, "is gated: its owner lets readers in one by one", action=action) from None
    except passing:
        raise
    except OfflineModeIsEnabled:
        raise MedfaithError(f"{repo_id}: offline mode is on\n  what to do: unset HF_HUB_OFFLINE") from None
    except HFValidationError as error:
        raise InputError(repo_id, f"is no name of a repository ({error})", action="correct it") from None
    except LocalEntryNotFoundError as error:  # any answer but the file, or none
        raise _build_hub_error(repo_id, error.__cause__ or error, retry_action) from error
    except (HfHubHTTPError, HTTPError, ConnectionError, TimeoutError, json.JSONDecodeError) as error:
        raise _build_hub_error(repo_id, error, retry_action) from error
    except RuntimeError as error:  # raised by the client for any error while it sends a large file
        if isinstance(error.__cause__, MedfaithError):
            raise error.__cause__ from None
        if not isinstance(error.__cause__, HfHubHTTPError | HTTPError | OSError):
            raise
        raise _build_hub_error(repo_id, error.__cause__, retry_action) from error


def retry(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Repeat a request after the time that the Hub asks for, if it has had too many (429).

    This is for requests that the client does not repeat itself, unlike listings and large files.

    Args:
        call: A method of the client.
        arguments: Its positional arguments.
        options: Its keyword arguments.

    Returns:
        The answer of the Hub.

    Raises:
        HfHubHTTPError: The Hub refuses the request for another reason, names no time, or refuses all repeats.
        MedfaithError: The Hub asks to wait too long.
    """
    for _ in range(REPEATS):
        try:
            return call(*arguments, **options)
        except HfHubHTTPError as error:
            seconds = _read_wait(error.response)
            if seconds is None:
                raise
            time.sleep(seconds)
    return call(*arguments, **options)


def build_page_address(repo_id: str, repo_type: str) -> str:
    """Build the address of a repository's page.

    Args:
        repo_id: `<org>/<name>` on the Hub.
        repo_type: The type of the repository.

    Returns:
        The address.
    """
    return f"{constants.ENDPOINT}/{repo_type}s/{repo_id}"


def _print_wait(response: Any) -> None:
    if seconds := _read_wait(response):
        print(f"medfaith: the Hub has had too many requests: waiting {seconds} seconds", file=sys.stderr, flush=True)


def _read_wait(response: Any) -> int | None:
    """Read the seconds to wait before a refused request is repeated; None for other answers, or if they are not stated.

    Raises MedfaithError if the wait is too long.
    """
    if response.status_code != 429:
        return None
    window = re.search(r"\bt=(\d+)", response.headers.get("RateLimit", ""))  # seconds to its end
    header = response.headers.get("Retry-After", window[1] if window else "")
    pause = parse_pause(header, response.headers.get("Date"))
    if pause is None:
        return None
    seconds = 1 + math.ceil(pause)  # the Hub rounds down
    if seconds > LONGEST:
        problem = f"the Hub has had too many requests, and asks to wait {seconds} seconds"
        raise MedfaithError(
            f"{problem}\n  what to do: run it again after that; large files that have arrived stay there"
        )
    return seconds


def _build_hub_error(repo_id: str, error: BaseException, action: str) -> MedfaithError:
    """Convert an HTTP error of the Hub, or a missing response, to an error that says what to do."""
    if not isinstance(error, HfHubHTTPError):
        return MedfaithError(f"{repo_id}: the Hub cannot be reached ({error})\n  what to do: {action}")
    status = error.response.status_code
    if status in (401, 403):
        action = "log in with a token that has access to it (write access to publish): hf auth login, or set HF_TOKEN"
    elif status == 402:
        action = "get a plan that covers it; a Space that is a static page is free: publish-metrics --sdk static"
    elif status == 404:
        action = "correct the names of organisation and repository; a token has to have access to what is not public"
    elif status == 429:
        action = "wait five minutes and run it again; large files that have arrived are not sent twice"
    elif status in (409, 412):
        action = "it has changed meanwhile: run it again, and see what is there now"
    reason = str(error.server_message or error).strip().splitlines()[0]
    return MedfaithError(f"{repo_id}: the Hub answers {status} ({reason})\n  what to do: {action}")
