"""Text of one failed answer for the page that sorts failed answers; it imports no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from medfaith.reporting.page.text import shown

from .errors import ErrorSession


def format_case(session: ErrorSession, index: int, pictures: Sequence[str]) -> str:
    """Format a case as HTML with its images. The texts are escaped.

    Args:
        session: The session.
        index: The index of the failure.
        pictures: Data URLs of the images.

    Returns:
        The HTML.
    """
    case, number = session.failures[index]
    answer = case.answers[number]
    figures = "".join(f'<figure><img alt="" src="{url}"></figure>' for url in pictures)
    facts: list[tuple[str, Any]] = [
        ("Right answer", case.gold), ("The model said", answer.raw), ("Read as", answer.read or "nothing"),
        ("After the verifier", answer.ended or "the same"), ("Model", answer.model), ("Case", case.id),
    ]  # fmt: skip
    options = "".join(f"<li>{escape(shown(option))}</li>" for option in case.options)
    rows = "".join(f"<p><b>{name}:</b> {escape(shown(str(value)))}</p>" for name, value in facts)
    question = f'<div class="prompt">{escape(shown(case.question))}</div>'
    return f'{question}<ul>{options}</ul>{rows}<div class="pictures">{figures}</div>'
