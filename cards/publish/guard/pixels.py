"""Image data in a file or a text: as bytes, escaped, in hexadecimal, in base64, or as a list of numbers."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence

from .found import Found, shortened

# Kind, bytes that always stand at the beginning or near it, and what stands around them.
SIGNATURES = tuple(
    (name, literal, re.compile(pattern, re.DOTALL))
    for name, literal, pattern in (
        ("JPEG", b"\xff\xd8\xff", rb"\xff\xd8\xff[\xc0-\xfe]"),
        ("PNG", b"\x89PNG", rb"\x89PNG\r?\n"),
        ("GIF", b"GIF8", rb"GIF8[79]a"),
        ("WebP", b"WEBP", rb"RIFF.{4}WEBP"),
        ("TIFF", b"II*\0", rb"II\*\0"),
        ("TIFF", b"MM\0*", rb"MM\0\*"),
        # File header with its reserved bytes, then one of the sizes of an information header.
        ("BMP", b"BM", rb"BM.{4}\0{4}.{2}\0\0[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}"),
        ("DICOM", b"DICM", rb"DICM\x02\0"),
        ("JPEG 2000", b"jP  ", rb"\0\0\0\x0cjP  \r?\n"),
        ("JPEG 2000", b"\xff\x4f\xff\x51", rb"\xff\x4f\xff\x51\0"),
        ("NIfTI", b"n+1\0", rb"n\+1\0"),
        ("NIfTI", b"ni1\0", rb"ni1\0"),
        ("gzip", b"\x1f\x8b\x08", rb"\x1f\x8b\x08[\0-\x1f]"),
        ("zip", b"PK\x03\x04", rb"PK\x03\x04"),
        ("NumPy", b"\x93NUMPY", rb"\x93NUMPY"),
    )
)
EXPECTED = "words, numbers and references: no image data in any form"

# Tab, line feed and carriage return are the only control characters of a text. Bytes that are no UTF-8 are read as lone
# surrogates, and what a careless reader could not decode is U+FFFD.
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")
_ESCAPE = re.compile(r"\\+x([0-9a-fA-F]{2})|\\+u00([0-9a-fA-F]{2})|\\+([0-3][0-7]{2})|%([0-9A-F]{2})|\\+([rntbf0])")
_PLAIN = dict(zip("rntbf0", b"\r\n\t\b\f\0", strict=True))
_DATA_URI = re.compile(r"data:(?:image|application|video)/|;base64,", re.IGNORECASE)
_PAIRS = re.compile(r"(?:(?:0x)?[0-9a-fA-F]{2}[\s:,]{0,2}){12,}")
DIGEST = 64  # hexadecimal digits of a SHA-256, the longest that is published
_HEX = re.compile(rf"[0-9a-fA-F]{{{DIGEST + 1},}}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_ZEROS = re.compile(r"A{40}")  # 30 zero bytes in base64: the head of a DICOM or NIfTI file
_NUMBERS = re.compile(r"(?:\b[0-9]{1,3}(?:\.[0-9]+)?[\s,;]{1,3}){63}")
_STANDARD = str.maketrans("-_", "+/")
BLOB, PIECE = 56, 16


def kind(data: bytes) -> str | None:
    """The kind of image or archive that a file is, by its first bytes; None for another."""
    if data[128:132] == b"DICM":
        return "DICOM"  # whatever stands in its preamble
    return next((name for name, _, pattern in SIGNATURES if pattern.match(data)), None)


def find(text: str) -> Found | None:
    """The first image data in a text."""
    for how, data, place in _readings(text):
        for name, literal, pattern in SIGNATURES:
            if literal in data and (found := pattern.search(data)):
                start = place(found.start())
                return Found(f"holds {name} data{how}: {shortened(text[start:])}", start, EXPECTED)
    for pattern, what in (
        (_CONTROL, "a control character, or bytes that are no UTF-8"),
        (_DATA_URI, "a data URI"),
        (_HEX, "bytes in hexadecimal"),
        (_ZEROS, "bytes in base64"),
        (_NUMBERS, "a list of numbers as of pixels"),
    ):
        if found := pattern.search(text):
            return Found(f"holds {what}: {shortened(text[found.start() :])}", found.start(), EXPECTED)
    for run in _BASE64.finditer(text):
        if len(run[0]) >= BLOB and _is_blob(run[0]):
            return Found(f"holds bytes in base64: {shortened(run[0])}", run.start(), EXPECTED)
    return None


def _readings(text: str) -> Iterator[tuple[str, bytes, Callable[[int], int]]]:
    """The bytes that a text may stand for: how they are written, they themselves, and where in the text each stands."""
    yield "", _bytes(text), lambda i: i
    if escapes := list(_ESCAPE.finditer(text)):
        data, places = _unescaped(text, escapes)
        yield " with escapes", data, places.__getitem__
    for run in _PAIRS.finditer(text):
        digits = re.sub(r"0x|[\s:,]", "", run[0])
        if len(digits) == len(run[0]) == DIGEST:
            continue  # among hundreds of thousands of digests some have the bytes of a signature by chance
        yield " in hexadecimal", bytes.fromhex(digits[: len(digits) // 2 * 2]), _always(run.start())
    for run in _BASE64.finditer(text):
        sextets = run[0].translate(_STANDARD)
        for start in range(4):  # something may stand before it
            whole = sextets[start : start + (len(sextets) - start) // 4 * 4]
            yield " in base64", base64.b64decode(whole), _always(run.start() + start)


def _bytes(text: str) -> bytes:
    """One byte a character: of Latin-1, or what a surrogate stands for; "?" for others."""
    if text.isascii():
        return text.encode()
    codes = (code - 0xDC00 if 0xDC80 <= (code := ord(c)) <= 0xDCFF else code for c in text)
    return bytes(code if code < 0x100 else ord("?") for code in codes)


def _unescaped(text: str, escapes: Sequence[re.Match[str]]) -> tuple[bytes, list[int]]:
    """The bytes of a text with escapes, and where each stands."""
    data, places, last = bytearray(), [], 0
    for escape in escapes:
        data += _bytes(text[last : escape.start()])
        places += range(last, escape.start() + 1)
        hexadecimal, octal = escape[1] or escape[2] or escape[4], escape[3]
        data.append(int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else _PLAIN[escape[5]])
        last = escape.end()
    return bytes(data + _bytes(text[last:])), [*places, *range(last, len(text))]


def _always(place: int) -> Callable[[int], int]:
    return lambda _: place


def _is_blob(run: str) -> bool:
    """Whether a run has all kinds of characters and few of the separators that paths and ids have many of."""
    kinds = (any(c.isupper() for c in run), any(c.islower() for c in run), any(c.isdigit() for c in run))
    return all(kinds) and len(run) / len(re.split(r"[/_+-]+", run)) > PIECE
