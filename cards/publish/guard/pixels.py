"""Data in a text that must hold none: bytes, base64, hexadecimal digits, lists of numbers."""

from __future__ import annotations

import re

from .found import Found, shorten

EXPECTED = "words, numbers and references: no image data in any form"
DIGEST = 64  # hexadecimal digits of a SHA-256, the longest that is published
BLOB, PIECE = 56, 16
_PATTERNS = {
    # Tab, line feed and carriage return are the only control characters of a text. Invalid UTF-8 is read as
    # lone surrogates, and readers replace undecodable bytes by U+FFFD.
    "a control character, or bytes that are no UTF-8": "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]",
    "escaped bytes": r"(?:\\+x[0-9a-fA-F]{2}.{0,2}){4}|(?:%[0-9A-F]{2}.?){6}|(?:\\+u00[0-9a-fA-F]{2}.{0,2}){4}",
    "a data URI": r"(?i:data:(?:image|application|video)/|;base64,)",
    "bytes in hexadecimal": rf"[0-9a-fA-F]{{{DIGEST + 1},}}"
    r"|(?=(?:[0-9]{2}[\s:,]{1,2}){0,11}(?:0x|[0-9]?[a-fA-F]))(?:(?:0x)?[0-9a-fA-F]{2}[\s:,]{1,2}){12,}",
    "bytes in base64": r"A{40}",  # 30 zero bytes: the head of a DICOM or NIfTI file
    "a list of numbers as of pixels": r"(?:\b[0-9]{1,3}(?:\.[0-9]+)?[\s,;]{1,3}){63}",
}
_PATTERN = {description: re.compile(pattern) for description, pattern in _PATTERNS.items()}
_BASE64 = re.compile(rf"[A-Za-z0-9+/_-]{{{BLOB},}}")


def find(text: str) -> Found | None:
    """Find the first data in a text that may be pixels: bytes, base64, hexadecimal digits or a list of numbers.

    Args:
        text: The text.

    Returns:
        The leak, or None.
    """
    for description, pattern in _PATTERN.items():
        if match := pattern.search(text):
            return Found(f"holds {description}: {shorten(text[match.start() :])}", match.start(), EXPECTED)
    run = next((run for run in _BASE64.finditer(text) if _is_blob(run[0])), None)
    return Found(f"holds bytes in base64: {shorten(run[0])}", run.start(), EXPECTED) if run else None


def _is_blob(run: str) -> bool:
    """Return whether a run of base64 characters may be data: it mixes cases and digits, and has few separators.

    Paths and ids have many separators (/ _ + -): the parts between them have PIECE characters or fewer in the mean.
    """
    kinds = (any(c.isupper() for c in run), any(c.islower() for c in run), any(c.isdigit() for c in run))
    return all(kinds) and len(run) / len(re.split(r"[/_+-]+", run)) > PIECE
