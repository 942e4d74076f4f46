"""Masking of keys, tokens and passwords in records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .errors import InputError

MASK, KEY = "...", "OPENAI_API_KEY"  # the variable of the environment with the key of a server
_NAME = (
    r"[\w-]*(?:token|key|secret|password|passwd|passphrase|pwd|credentials?|signature|authorization"
    r"|(?<![a-zA-Z])(?:sig|auth|pass))"
)
_TOKENS_OF_TEXT = ("bos_token", "eos_token", "pad_token", "image_token")  # tokens of a tokenizer
# NAME=VALUE, and "NAME": VALUE of JSON; a value may be quoted.
_ASSIGNMENT = re.compile(rf"""(?i)({_NAME})(=|['"]\s*:\s*)("[^"]*"|'[^']*'|[^,\s'"&}}]+)""")
_USER = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]*://)((?:(?!,\w+=)[^\s/?#'"])*)@""")  # `,NAME=` begins another argument
_QUERY = re.compile(rf"""(?i)[?&#]{_NAME}=[^\s'"&#]""")


def is_secret(name: str) -> bool:
    """Return whether the name of an argument says that its value is secret.

    Args:
        name: The name.

    Returns:
        True for names such as api_key, token or password.
    """
    return re.fullmatch(_NAME, name, re.IGNORECASE) is not None and name not in _TOKENS_OF_TEXT


def find_url_secret(text: str) -> str:
    """Find a secret in an address.

    Args:
        text: The address, or a text with addresses.

    Returns:
        "a user or password", "a key in its query", or "" without a secret.

    >>> find_url_secret("http://me:abc@host/v1"), find_url_secret("https://host/v1?api_key=abc")
    ('a user or password', 'a key in its query')
    >>> find_url_secret("http://host:8000/v1?revision=main")
    ''
    """
    if _USER.search(text):
        return "a user or password"
    return "a key in its query" if "://" in text and _QUERY.search(text) else ""


def refuse_url_secret(url: str, option: str) -> None:
    """Refuse an address with a password or a key: logs, results and messages would hold it.

    Args:
        url: The address.
        option: The option that names it, for messages.

    Raises:
        InputError: The address holds a secret. The message does not.
    """
    if secret := find_url_secret(url):
        raise InputError(
            option,
            f"holds {secret}, which logs and results would hold, too",
            expected="an address without it",
            action=f"put the key into the variable {KEY}, and leave it out of the address",
        )


def mask_text(text: str) -> str:
    """Mask the values of assignments such as api_key=VALUE in a text, and users and passwords in addresses.

    Args:
        text: The text.

    Returns:
        The text with masked values.

    >>> mask_text("medfaith eval --model_args base_url=http://me:abc@host/v1,api_key=abc")
    'medfaith eval --model_args base_url=http://...@host/v1,api_key=...'
    """
    return _ASSIGNMENT.sub(rf"\1\2{MASK}", mask_users(text))


def mask_users(text: str) -> str:
    """Mask users and passwords in the addresses of a text.

    Args:
        text: The text.

    Returns:
        The text with masked users.

    >>> mask_users("no server at http://me:abc@host/v1")
    'no server at http://...@host/v1'
    """
    return _USER.sub(rf"\1{MASK}@", text)


def mask_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Mask the values of arguments whose names say that they are secret, and secrets in addresses.

    Args:
        arguments: Name -> value.

    Returns:
        A copy, with masks also in mappings and lists inside. Truth values stay.

    >>> mask_arguments({"base_url": "http://me:abc@host", "api_key": "abc", "headers": {"Authorization": "abc"}})
    {'base_url': 'http://...@host', 'api_key': '...', 'headers': {'Authorization': '...'}}
    """
    return {name: _mask_value(name, value) for name, value in arguments.items()}


def _mask_value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_arguments(value)
    if isinstance(value, list | tuple):
        return [_mask_value(name, item) for item in value]
    # lm-eval reads digits as a number; a number of tokens is none.
    is_text = isinstance(value, str) or (type(value) in (int, float) and not name.lower().endswith("token"))
    if is_text and is_secret(str(name)):
        return MASK
    return mask_text(value) if isinstance(value, str) and "://" in value else value
