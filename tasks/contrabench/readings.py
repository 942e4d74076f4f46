"""Readings of CXR-ContraBench's filters, as lm-eval logs them: a filter of lm-eval returns text."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple


class Reading(NamedTuple):
    """Output of a filter for one answer.

    Attributes:
        choice: Option after the verifier; None for none.
        before: Option before the verifier; None for none.
        outcome: See `reading.outcome`.
        reason: Why the answer could not be read; see `reading.outcome`.
        evidence: The words that the option was read from; see `reading.outcome`.
        verifier: The verifier's reason.
    """

    choice: int | None
    before: int | None
    outcome: str
    reason: str
    evidence: str
    verifier: str


def encode(reading: Reading) -> str:
    """Encode a reading as JSON text.

    Args:
        reading: The reading.

    Returns:
        The text.
    """
    return json.dumps(reading._asdict())


@lru_cache(maxsize=2**10)
def decode(text: str) -> Reading:
    """Decode a reading, with a cache: many rows have the same reading.

    Logs of earlier versions have neither reason nor evidence, which are then "" (unknown).

    Args:
        text: The JSON text.

    Returns:
        The reading; its values are not checked.

    Raises:
        ValueError: The text is no JSON; KeyError, TypeError, AttributeError or RecursionError: it is no reading.
    """
    values: dict[str, Any] = {"reason": "", "evidence": "", **json.loads(text)}
    return Reading(*(values[name] for name in Reading._fields))
