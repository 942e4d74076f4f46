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
    """Return what placeholder a file is, if it is one: a pointer of Git LFS, or a web page saved under the file's name.

    Args:
        head: The first HEAD_BYTES of the file, or more; all bytes of a shorter file.

    Returns:
        What the file is, and what to do, as texts for a message; None for any other file.
    """
    start = head.lstrip().lower()
    return next((kind for beginning, kind in _KINDS.items() if start.startswith(beginning)), None)


def refuse_placeholder(path: Path, head: bytes) -> None:
    """Raise an error if a file is a pointer of Git LFS, or a web page saved under the file's name.

    Args:
        path: The file.
        head: Its first bytes.

    Raises:
        InputError: It is one.
    """
    if kind := find_placeholder(head):
        problem, action = kind
        raise InputError(path, problem, action=action)
