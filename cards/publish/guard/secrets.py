"""Secrets and names of people and machines in a text: tokens, private keys, e-mail addresses, users, hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .found import Found

EXPECTED = "no secret, and no name of a person or a machine"
_PATTERNS = {
    "a token of the Hugging Face Hub": r"\bhf_[A-Za-z0-9]{8,}",
    "a token of GitHub or GitLab": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,})",
    "a key of a cloud": r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[\w-]{10,}|AccountKey=[\w+/=]{20,})",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    "a signed token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.",
    "a password": r"(?i)\b(?:password|passwd|secret|api[_-]?key|access[_-]?token)\s*[=:]\s*[^\s,;\"'<>`]{6,}",
    "the password of an address": r"\b\w+://[^\s/:@]+:[^\s/@]+@",
    "an e-mail address": r"\b[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}\b",
}
_PATTERN = {description: re.compile(pattern) for description, pattern in _PATTERNS.items()}
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:API|ACCESS)_?KEY|PRIVATE|(?:^|_)KEY(?:_|$)", re.IGNORECASE)
SHORTEST = 8  # characters of a value of the environment


def find(text: str) -> Found | None:
    """Find the first secret or e-mail address. The leak does not quote it.

    Args:
        text: The text.

    Returns:
        The leak, or None.
    """
    for description, pattern in _PATTERN.items():
        if match := pattern.search(text):
            return Found(f"holds {description}", match.start(), EXPECTED)
    return None


def find_value(text: str, values: Mapping[str, str]) -> Found | None:
    """Find the first secret of the environment.

    Args:
        text: The text.
        values: Name of a variable -> its value.

    Returns:
        The leak, or None.
    """
    for name, value in values.items():
        if (start := text.find(value)) >= 0:
            return Found(f"holds the value of {name}, a variable of the environment", start, EXPECTED)
    return None


def find_name(text: str, names: Mapping[str, str]) -> Found | None:
    """Find the first name of the user or the machine.

    Args:
        text: The text.
        names: Description -> the name.

    Returns:
        The leak, or None.
    """
    for description, name in names.items():
        if match := re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE):
            return Found(f"holds {description}", match.start(), EXPECTED)
    return None


def select_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Select the variables with names of secrets.

    Args:
        environment: The environment.

    Returns:
        Name -> value.
    """
    return {n: v for n, v in environment.items() if _SECRET.search(n) and len(v) >= SHORTEST}
