"""Masking of keys, tokens and passwords in records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "..."
_NAME = r"\w*(?:token|key|secret|password)"
_TOKENS_OF_TEXT = ("bos_token", "eos_token", "pad_token", "image_token")  # tokens of a tokenizer
_ASSIGNMENT = re.compile(rf"(?i)({_NAME})=[^,\s'\"]+")


def is_secret(name: str) -> bool:
    """Return whether the name of an argument says that its value is secret.

    Args:
        name: The name.

    Returns:
        True for names such as api_key, token or password.
    """
    return re.fullmatch(_NAME, name, re.IGNORECASE) is not None and name not in _TOKENS_OF_TEXT


def mask_text(text: str) -> str:
    """Mask the values of assignments such as api_key=VALUE in a text.

    Args:
        text: The text.

    Returns:
        The text with masked values.

    >>> mask_text("medfaith eval --model_args base_url=http://host,api_key=abc")
    'medfaith eval --model_args base_url=http://host,api_key=...'
    """
    return _ASSIGNMENT.sub(rf"\1={MASK}", text)


def mask_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Mask the values of arguments whose names say that they are secret.

    Args:
        arguments: Name -> value.

    Returns:
        A copy. Only texts are masked.

    >>> mask_arguments({"base_url": "http://host", "api_key": "abc"})
    {'base_url': 'http://host', 'api_key': '...'}
    """
    return {name: MASK if isinstance(value, str) and is_secret(name) else value for name, value in arguments.items()}
