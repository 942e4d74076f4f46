"""Cutting and escaping of texts from outside: models' answers, questions, names."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from medfaith.loaders.escaping import escape_controls

LONGEST = 2000  # characters of an answer that the page shows


def shown(text: str, longest: int = LONGEST) -> str:
    r"""Cut a text and escape its control characters and marks of direction, as the page shows it.

    >>> shown("a\x1b[31mb\u202ec")
    'a␛[31mb⟨U+202E⟩c'
    >>> shown("long answer", longest=4)
    'long … (11 characters; the first 4 are shown)'

    Args:
        text: The text.
        longest: Number of characters to keep.

    Returns:
        The escaped text, with a note if it is cut.
    """
    cut = text[:longest] + (
        f" … ({len(text):,} characters; the first {longest:,} are shown)" if len(text) > longest else ""
    )
    return escape_controls(cut)


def show_name(name: str) -> Markup:
    """Escape a name, as the page shows it, with places where its line may break.

    >>> show_name("org/model_7b <i>")
    Markup('org/<wbr>model_<wbr>7b &lt;i&gt;')

    Args:
        name: The name of a model, a task or a benchmark.

    Returns:
        The markup: a line may break after each `_` and `/` that is followed by a letter or a number.
    """
    return Markup(re.sub(r"(?<=[_/])(?=\w)", "<wbr>", str(escape(shown(name, 120)))))  # noqa: S704 (escaped)


def without_paths(text: str) -> str:
    r"""Cut each path of a machine in a text to its last part; addresses of servers stay.

    >>> without_paths("/home/me/models/a-7b"), without_paths("org/name"), without_paths("C:\\x\\y")
    ('a-7b', 'org/name', 'y')
    >>> without_paths("at http://127.0.0.1:8000/v1, in file:///home/me/x")
    'at http://127.0.0.1:8000/v1, in file://x'

    Args:
        text: The text.

    Returns:
        The text without paths.
    """
    return re.sub(
        r"https?://[^\s,;\"']+|(?:~|[A-Za-z]:|\.{1,2})?[/\\\\](?:[^\s/\\\\,;\"']+[/\\\\])*([^\s/\\\\,;\"']+)",
        _cut_path,
        text,
    )


def _cut_path(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    previous = match.string[: match.start()][-1:]
    return match[0] if previous.isalnum() else match[1]  # after a letter it is part of a name, such as org/name
