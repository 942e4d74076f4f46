"""Texts of others (models' answers, questions, names) made harmless and visible."""

from __future__ import annotations

import re

from medfaith.loaders.escaping import escape_controls

LONGEST = 2000  # characters of an answer that the page shows


def shown(text: str, longest: int = LONGEST) -> str:
    """A text as the page shows it: cut, and with control characters and marks of direction made visible.

    >>> shown("a\\x1b[31mb\\u202ec")
    'a␛[31mb⟨U+202E⟩c'
    >>> shown("long answer", longest=4)
    'long … (11 characters; the first 4 are shown)'
    """
    cut = text[:longest] + (
        f" … ({len(text):,} characters; the first {longest:,} are shown)" if len(text) > longest else ""
    )
    return escape_controls(cut)


def without_paths(text: str) -> str:
    """A text with each path on a machine cut to its last part. Addresses of servers stay.

    >>> without_paths("/home/me/models/a-7b"), without_paths("org/name"), without_paths("C:\\\\x\\\\y")
    ('a-7b', 'org/name', 'y')
    >>> without_paths("at http://127.0.0.1:8000/v1, in file:///home/me/x")
    'at http://127.0.0.1:8000/v1, in file://x'
    """
    return re.sub(
        r"https?://[^\s,;\"']+|(?:~|[A-Za-z]:|\.{1,2})?[/\\\\](?:[^\s/\\\\,;\"']+[/\\\\])*([^\s/\\\\,;\"']+)",
        _last_part,
        text,
    )


def _last_part(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    before = found.string[: found.start()][-1:]
    return found[0] if before.isalnum() else found[1]  # behind a letter it is part of a name, such as org/name
