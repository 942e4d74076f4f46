"""Placeholders of files: pointers of Git LFS, and web pages that were saved under the name of a file."""

from __future__ import annotations

from pathlib import Path

from .errors import InputError

HEAD_BYTES = 64  # enough to know a placeholder by
_WEB_PAGE = "is a web page, such as one that asks for a login, and not the file", "log in, and download the file again"
# The beginning of a file, in lower case -> what it is, and what to do.
_KINDS = {
    b"version https://git-lfs": ("is a pointer of Git LFS, and not the file", "run `git lfs pull` in its folder"),
    b"<!doctype html": _WEB_PAGE,
    b"<html": _WEB_PAGE,
}


def find_placeholder(head: bytes) -> tuple[str, str] | None:
    """Find out whether a file is a placeholder of another.

    Args:
        head: Its first bytes, HEAD_BYTES at least if it has them.

    Returns:
        What it is, and what to do; None for any other file.
    """
    start = head.lstrip().lower()
    return next((kind for beginning, kind in _KINDS.items() if start.startswith(beginning)), None)


def refuse_placeholder(path: Path, head: bytes) -> None:
    """Raise an error if a file is a placeholder of another.

    Args:
        path: The file.
        head: Its first bytes.

    Raises:
        InputError: It is one.
    """
    if kind := find_placeholder(head):
        problem, action = kind
        raise InputError(path, problem, action=action)
