"""Model output as plain lines of text: no Markdown, LaTeX, tags or quotation marks; ticks become words."""

from __future__ import annotations

import re
import unicodedata

TICK, CROSS = "(correct)", "(incorrect)"
_TAG = re.compile(r"<\|[^|<>]{1,40}\|>|</?[A-Za-z_]{1,20}/?>|<image ?\d*>")
_SIGNS = str.maketrans(
    {"【": "(", "】": ")", "「": " ", "」": " ", "『": " ", "』": " ", "、": ",", "。": ". ", "~": " "}
    | dict.fromkeys("✓✔✅☑🗸", f" {TICK} ")
    | dict.fromkeys("✗✘❌✖☒❎☐", f" {CROSS} ")
    | dict.fromkeys('*`"“”„«»$', " ")
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f\xad\x7f", "")
    | dict.fromkeys(range(9), "")  # control characters, such as NUL at the end of an answer; others are blanks
    | dict.fromkeys(range(14, 28), "")
)
_FRACTION = re.compile(r"\\[dt]?frac ?\{ ?([^{}]{1,40}) ?\} ?\{ ?([^{}]{1,40}) ?\}")
_BOX = re.compile(r"\\(?:f?boxed|fbox)\b\s?\{?")
_COMMAND = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|rm|bf|left|right|quad|qquad|displaystyle)\b|\\[()\[\],;!: ]"
)
_BRACES = re.compile(r"[{}]")
_CHECKBOX = re.compile(r"^[^\S\n]*(?:[-*+•] ?)?\[(?P<mark>[ xX])\](?= ?\w)", re.MULTILINE)  # "[x] B"
_SIGN = re.compile(r"\(\s?(?P<sign>[-–−+])\s?\)|(?<=: )(?P<alone>[-–−+])(?= ?(?:$|[,;]))", re.MULTILINE)  # "edema (-)"
_EMPHASIS = re.compile(r"(?<!\w)_+|(?<!_)_++(?!\w)")
_QUOTE = re.compile(r"(?<!\w)['‘’]|['‘’](?!\w)")  # an apostrophe within a word stays
_STRUCK = re.compile(r"~~(?=\S)[^~\n]{1,200}(?<=\S)~~")  # "~~B~~ A"
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n ?")
BOX = "\x02"  # marks the beginning of a box


def readable(text: str) -> str:
    r"""Remove markup from a text; every box of LaTeX begins with `BOX`, and runs of blanks become one blank.

    Args:
        text: The text.

    Returns:
        The text without markup.

    >>> readable("**B.** No edema ✅")
    'B. No edema (correct)'
    >>> readable(r"It is $45 \mathrm{~cm}$.")
    'It is 45 cm .'
    """
    text = _STRUCK.sub(" ", text)
    text = _SIGN.sub(lambda match: f" {TICK if '+' in match[0] else CROSS} ", text)
    text = _CHECKBOX.sub(lambda box: CROSS if box["mark"] == " " else TICK, text)
    text = _TAG.sub("\n", unicodedata.normalize("NFKC", text.replace(BOX, "")).translate(_SIGNS))
    if "\\" in text:
        text = _COMMAND.sub(" ", _BOX.sub(BOX, _FRACTION.sub(r"\1/\2", text)))
    if not text.isascii():
        text = "".join(" " if unicodedata.category(character) == "So" else character for character in text)
    text = _QUOTE.sub(" ", _EMPHASIS.sub(" ", _BRACES.sub(" ", text)))
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()
