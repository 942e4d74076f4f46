"""The variables that name certificates. tests/conftest.py hides them from clients of loopback servers."""

from __future__ import annotations

from collections.abc import Mapping

NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def restore_certificates(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the user's own values of these variables, for a program that needs the network."""
    own = {name: environment.get(f"MEDFAITH_TEST_{name}") for name in NAMES}
    hidden = {name: value for name, value in environment.items() if name not in NAMES}
    return hidden | {name: value for name, value in own.items() if value}
