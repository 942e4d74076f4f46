"""Paths of a machine in a text: absolute ones, and those that leave a folder."""

from __future__ import annotations

import re

from .found import Found, shorten

EXPECTED = "paths relative to a source's root, or addresses (https://...)"
URL = re.compile(r"https?://[^\s\"'<>`|\\]+")
LONGEST_URL = 300
_ROOTS = (
    r"(?:home|Users|root|tmp|mnt|media|data|datasets|scratch|var|opt|srv|work|workspace|net|nfs|gpfs|lustre|Volumes"
    r"|content|kaggle|storage|private)"
)
_PATTERNS = {
    # Words with a stroke have a letter before it ("left/right", "1/2", "w/o"), paths below a placeholder its bracket.
    "an absolute path": re.compile(
        rf"(?<![\w/.<>\\)\]}}*%])/(?:[\w.~@+-]+/+[\w.~@+-]|{_ROOTS}\b|[\w.~@+-]*\w\.[A-Za-z]\w*)"
        r"|(?<=[>)\]}])/(?:home|Users|root|tmp|mnt|scratch)/"
    ),
    "a path on a Windows machine": re.compile(r"(?<![A-Za-z])[A-Za-z]:(?:\\+|/)[\w.$~-]"),
    "a path on a server": re.compile(r"(?<!\\)\\\\+[\w.-]+\\+[\w.$-]|(?<![\w:/])//[\w.-]+/[\w.$-]"),
    "a path of a home folder": re.compile(r"(?<![\w~/])~(?:[A-Za-z_][\w.-]*)?/"),
    "the address of a file": re.compile(r"\b(?:file|s3|gs|smb|nfs|sftp|ssh|afp):/", re.IGNORECASE),
    "a path that leads out of its folder": re.compile(r"(?<![.\w])\.\.[/\\]|[/\\]\.\.(?![.\w])|^\.\.$", re.MULTILINE),
}


def find(text: str) -> Found | None:
    """Find the first path of a machine in a text. Web addresses are allowed, unless they are long enough to be data.

    Args:
        text: The text.

    Returns:
        The leak, or None.
    """
    if "/" not in text and "\\" not in text and ".." not in text:
        return None
    for url in URL.finditer(text):
        if len(url[0]) > LONGEST_URL:
            return Found(f"holds an address of {len(url[0])} characters: {shorten(url[0])}", url.start(), EXPECTED)
    masked = URL.sub(lambda url: "x" * len(url[0]), text)
    for description, pattern in _PATTERNS.items():
        if match := pattern.search(masked):
            return Found(f"holds {description}: {shorten(text[match.start() :])}", match.start(), EXPECTED)
    return None
