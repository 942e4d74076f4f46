"""What a model only thinks, before it answers, is no part of its answer: `<think>` and its like."""

from __future__ import annotations

import re

_THINKING = r"(?:think|thinking|reasoning|thought)"
FINISHED = re.compile(rf"\A.*</{_THINKING}\s*>", re.IGNORECASE | re.DOTALL)
UNFINISHED = re.compile(rf"<{_THINKING}\s*>.*", re.IGNORECASE | re.DOTALL)
_ANSWER_TAG = re.compile(r"<answer\s*>(.*?)</answer\s*>", re.IGNORECASE | re.DOTALL)


def without_thinking(text: str) -> str:
    """What follows the thinking; of that, what stands in answer tags where there are any.

    >>> without_thinking("<think>Perhaps no.</think>So: <answer>Yes</answer>")
    'Yes'
    """
    text = FINISHED.sub("", text) if "</" in text else text
    answers = [answer for answer in _ANSWER_TAG.findall(text) if answer.strip()]
    return "\n".join(answers) if answers else UNFINISHED.sub("", text)
