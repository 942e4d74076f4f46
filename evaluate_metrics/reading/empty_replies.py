"""Replies that answer nothing: "Yes, I can see the image", "Yes, that is a good question", "I would not say no"."""

from __future__ import annotations

import re

_IMAGE = r"(?:chest |medical )?(?:images?|pictures?|photo|x-?\s?rays?|radiographs?|films?|scans?|frames?)"
_POLITE = re.compile(  # "Yes, I can see the image.": a reply to the request, or to nothing
    r"\A\W*(?:yes|sure|of course|certainly|absolutely)\b\W*(?:(?:i(?: can|'ll| will|'d be happy to"
    r"| would be happy to)? "
    r"(?:see|view|look at|help(?: you)?(?: with| to \w+)?|assist(?: you)? with|analy[sz]e|describe|interpret|read"
    rf"|examine|review) (?:the|this|these|your|an?) (?:\w+ ){{0,2}}?{_IMAGE}(?: (?:you|for|that) [^.!?\n]{{0,40}})?"
    r"|i(?: can|'ll| will|'d be happy to| would be happy to) (?:help|assist)(?: you)?(?: with (?:that|this|it))?"
    rf"|(?:this|it|the (?:\w+ )?{_IMAGE})(?:'s| is| shows| displays| appears to be)"
    rf" (?:an?|the) (?:\w+ ){{0,2}}?{_IMAGE}"
    r"(?: of (?:a|the) (?:chest|patient|thorax|person))?))\s*(?:[.!:]|\Z)",
    re.IGNORECASE,
)
# "Yes, you should see a doctor". After "Yes." the same words only add to the answer.
_TALK = re.compile(
    r"\A\W*(?:yes|sure|of course|certainly|absolutely), (?:you should|it(?: is|'s) (?:always )?(?:important|advisable"
    r"|best|a good idea|recommended)(?: for \w+)? to (?:see|consult|seek|speak|talk|ask|contact)"
    r"|i (?:\w+ly )?(?:understand|appreciate|acknowledge) (?:your|the) (?:\w+ )?(?:questions?|concerns?|requests?|task"
    r"|instructions?)"
    r"|(?:that|this|it)(?: is|'s) an? (?:\w+ ){0,3}?question"
    r"|(?:(?:we|you|one|i) can|it(?: is|'s) possible to) (?:check|look|screen|test) for"
    r"|(?!there|this|that|it)(?:\w+ ){1,3}is an? (?:\w+ ){0,3}?(?:disease|condition|infection|disorder|illness)"
    r"(?! (?:\w+ )?(?:here|present|seen|visible|shown|found)\b))"
    r"\b[^.!?\n,]{0,120}(?:[.!]|\Z)"
    # "Yes, edema can occur in heart failure"
    r"|\A\W*yes, (?:(?!the|an?|there|this|that|it|they|these|we|i|you)\w+ ){1,3}(?:can|may)"
    r" (?!be\b|not\b|explain|account|represent)\w+\b[^.!?\n]{0,120}(?:[.!]|\Z)"
    r"|\A\W*no, i(?: am|'m) (?:not|only|just) an? (?:\w+ ){0,2}?(?:doctor|radiologist|physician|clinician|surgeon|ai"
    r"|model|assistant)\b\s*(?:[.!]|\Z)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(  # "For example, A. Edema"
    r"(?:\A|(?<=[.!?\n]))\W{0,4}(?:for (?:example|instance)|(?:as )?an example(?: would be| is)?)\b"
    r"(?:[^.!?\n]|(?<=\b[A-Z])\.)*[.!?]?",
    re.IGNORECASE,
)
_DISOWNED = re.compile(  # "would not say no", "a radiologist would say no"
    r"(?:\bi(?:'d|'m)? )?(?:\b(?:would|will|do|am) ?)?(?:(?<!can )\b(?:not|never)|(?<!ca)n['’]t)"
    r" (?:(?!only|just)\w+ ){0,3}?"
    r"(?:say|saying|answer|reply|claim)(?: with)?(?: an?)?(?: \w+)? (?:yes|no)\b(?! \w)"
    r"|\bnot an? (?:(?:simple|clear|definite|firm|straightforward|hard) )?(?:yes|no)\b(?! \w)"
    r"|\b(?:if|that) i (?:said|say|answered) (?:yes|no)\b(?! \w)"
    r"|\b(?:radiologists?|doctors?|physicians?|clinicians?|experts?|someone|some|others?|one|you|they|people|many)"
    r" (?:would|might|may|could|can|will)(?: \w+)? (?:say|answer) (?:yes|no)\b(?! \w)"
    r"|\b(?:almost|nearly|tempted to|wanted to) (?:say|said|answer|answered) (?:yes|no)\b(?! \w)",
    re.IGNORECASE,
)


def remove_politeness(text: str) -> str:
    """Remove an opening that only accepts the request, such as "Yes, I can see the image".

    Args:
        text: The readable text.

    Returns:
        The text; a full stop stands for the opening.

    >>> remove_politeness("Yes, I can see the image. No edema."), remove_politeness("Yes, I can see edema.")
    ('. No edema.', 'Yes, I can see edema.')
    """
    return _TALK.sub(".", _POLITE.sub(".", text))


def remove_examples(text: str) -> str:
    """Remove sentences that only give an example.

    Args:
        text: The readable text.

    Returns:
        The text.

    >>> remove_examples("For example, A. Edema."), remove_examples("It is edema, for example.")
    ('', 'It is edema, for example.')
    """
    return _EXAMPLE.sub("", text)


def remove_disowned(text: str) -> str:
    """Remove a yes or no that the text does not say itself.

    Args:
        text: The text.

    Returns:
        The text.

    >>> remove_disowned("i would not say no."), remove_disowned("i would say no.")
    ('.', 'i would say no.')
    """
    return _DISOWNED.sub("", text)
