"""Texts of others (models' answers, findings, names, paths) made harmless where a person reads them.

A terminal runs escape sequences, and a viewer of Markdown runs HTML and follows links: here they are words.
"""

from __future__ import annotations

import re
import unicodedata

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # they turn the text around them
# Other signs of "less than" begin no tag, and one behind an odd number of backslashes is a text already.
_HTML = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")


def escape_controls(text: str) -> str:
    """The text with symbols for control characters and marks of direction. Line breaks and tabs stay.

    >>> escape_controls("a\\x1b[31mb\\u202ec")
    'a␛[31mb⟨U+202E⟩c'
    """
    return text if text.isprintable() and text.isascii() else "".join(map(_visible, text))


def escape_markdown(text: str) -> str:
    r"""`visible` text that is neither HTML nor a link, nor says where one leads, in Markdown.

    >>> print(escape_markdown("<img src=x> [a](javascript:b) p < 0.05, [0.1, 0.2]"))
    \<img src=x> [a]\(javascript:b) p < 0.05, [0.1, 0.2]
    """
    return _HTML.sub(r"\1\<", escape_controls(text)).replace("](", r"]\(").replace("]:", r"]\:")


def _visible(character: str) -> str:
    if character in "\n\t" or (character.isprintable() and character not in _MARKS):
        return character
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)  # the symbols for control characters
    hidden = character in _MARKS or unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn")
    return f"⟨U+{number:04X}⟩" if hidden else character
