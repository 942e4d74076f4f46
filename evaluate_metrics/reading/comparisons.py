"""Comparisons of two findings: "pneumonia is more likely than edema" names pneumonia, and leaves edema open."""

from __future__ import annotations

import re

_NAME = (  # a few words, none of which begins a condition, a denial or a general statement
    r"(?:(?!(?:in|if|when|where|with|for|of|can|may|might|could|not|no|neither|nor|never|patients?|whether|than|more"
    r"|less|equally|usually|often|generally|typically|is|are|seems?|appears?|looks?)\b)[\w/-]+ ){1,5}?"
)
_LEAD = (
    r"(?P<lead>(?:^|(?<=[.;!?\n]))[\s*_>-]{0,9}"
    r"(?:(?:overall|therefore|thus|so|hence|here|in (?:this|the) (?:image|case)"
    r"|i (?:think|believe|would say)(?: that)?),? )?)"
)
_LIKELY = r"(?:likely|probable|plausible|convincing|consistent|compatible|in keeping)"
_BETTER = rf"(?:more {_LIKELY}|likelier|(?:a )?better (?:fit|supported))"
_IS = r"(?:is|are|seems|appears|looks) (?:(?:much|far|somewhat|slightly|therefore|clearly|considerably) ){0,2}"
_END = r"(?: here| in this (?:image|case))?(?=[^\S\n]*(?:[.;!,\n]|\Z))"
_OTHER = r"(?P<other>[\w/ -]{1,60}?)"
_FLAGS = re.IGNORECASE
_COMPARES = re.compile(r"\b(?:than|over|as)\b", re.IGNORECASE)
_PREFERRED = tuple(
    (re.compile(pattern, _FLAGS), kept)
    for pattern, kept in (
        (rf"{_LEAD}(?P<name>{_NAME}){_IS}{_BETTER} than {_OTHER}{_END}", "name"),
        (rf"{_LEAD}(?P<name>{_NAME}){_IS}less {_LIKELY} than {_OTHER}{_END}", "other"),
        (rf"{_LEAD}(?P<name>{_NAME})(?:is|are|seems|appears) not (?:as|so) {_LIKELY} as {_OTHER}{_END}", "other"),
        (
            rf"{_LEAD}(?:(?:it|this) (?:is|seems) )?more (?:likely|probably) (?P<name>{_NAME})than {_OTHER}{_END}",
            "name",
        ),
        (
            rf"{_LEAD}(?:(?:it|this) (?:is|seems) )?less (?:likely|{_LIKELY} with) (?P<name>{_NAME})"
            rf"than (?:with )?{_OTHER}{_END}",
            "other",
        ),
        (rf"{_LEAD}(?:(?:i|we) )?(?:would )?favou?r (?P<name>{_NAME})over {_OTHER}{_END}", "name"),
    )
)


def keep_preferred(text: str) -> str:
    """Reduce each comparison of two findings to the finding that it prefers.

    Args:
        text: The text.

    Returns:
        The text, in which "It is pneumonia" replaces "Pneumonia is more likely than edema".

    >>> keep_preferred("Pneumonia is more likely than edema."), keep_preferred("Edema is less likely than pneumonia.")
    ('It is Pneumonia.', 'It is pneumonia.')
    >>> keep_preferred("Pneumonia is no more likely than edema.")
    'Pneumonia is no more likely than edema.'
    """
    for pattern, kept in _PREFERRED if _COMPARES.search(text) else ():
        text = pattern.sub(lambda match, kept=kept: f"{match['lead']}It is {match[kept].strip()}", text)
    return text
