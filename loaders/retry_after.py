"""The header Retry-After, by which a server asks for a pause (RFC 9110, 10.2.3)."""

from __future__ import annotations

import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_pause(text: str | None, sent: str | None = None) -> float | None:
    """Parse the header Retry-After: seconds, or a date.

    Args:
        text: The value of the header; None without one.
        sent: The header Date of the same response; a date counts from it, because clocks differ. None counts from now.

    Returns:
        The pause in seconds, at least 0; None if the header names none.

    >>> parse_pause("1.5"), parse_pause("Wed, 21 Oct 2015 07:28:00 GMT")
    (1.5, 0.0)
    >>> parse_pause("soon"), parse_pause("nan"), parse_pause("-7")
    (None, None, None)
    >>> parse_pause("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:27:30 GMT")
    30.0
    """
    if text is None:
        return None
    try:
        pause = float(text)
    except ValueError:
        try:
            pause = max(_parse_date(text) - (_parse_date(sent) if sent else time.time()), 0.0)
        except (ValueError, OverflowError):
            return None
    return pause if math.isfinite(pause) and pause >= 0 else None


def _parse_date(text: str) -> float:
    """Return the seconds since the epoch. The zone -0000, which has no `tzinfo`, is UTC (RFC 5322, 3.3)."""
    date = parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
