"""Escape texts of models, reports and file names before a person reads them.

A terminal runs escape sequences, and a viewer of Markdown runs HTML and follows links. Escaped, they are plain text.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # they turn the text around them
# Other uses of "<" do not begin a tag. After an odd number of backslashes "<" is already escaped.
_HTML = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")


def escape_controls(text: str) -> str:
    r"""Replace control characters and marks of direction by symbols. Line breaks and tabs stay.

    >>> escape_controls("a\x1b[31mb\u202ec")
    'a␛[31mb⟨U+202E⟩c'

    Args:
        text: Any text.

    Returns:
        The text without characters that act on a terminal.
    """
    return text if text.isprintable() and text.isascii() else "".join(map(_escape_character, text))


def escape_markdown(text: str) -> str:
    r"""Escape a text for Markdown: control characters as in `escape_controls`, HTML tags, links and link targets.

    >>> print(escape_markdown("<img src=x> [a](javascript:b) p < 0.05, [0.1, 0.2]"))
    \<img src=x> [a]\(javascript:b) p < 0.05, [0.1, 0.2]

    Args:
        text: Any text.

    Returns:
        The text, which Markdown shows without HTML and links.
    """
    return _HTML.sub(r"\1\<", escape_controls(text)).replace("](", r"]\(").replace("]:", r"]\:")


def escape_unencodable() -> None:
    r"""Let stdout and stderr escape the characters that are not in their encoding, such as "–" in ASCII (\u2013).

    Otherwise a print ends in UnicodeEncodeError. A choice by PYTHONIOENCODING, such as ascii:replace, is kept.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _escape_character(character: str) -> str:
    if character in "\n\t" or (character.isprintable() and character not in _MARKS):
        return character
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)  # the symbols for control characters
    hidden = character in _MARKS or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn")
    return f"⟨U+{number:04X}⟩" if hidden else character
