"""Reading a yes/no answer (HEAL-MedVQA, section 3.2, closed-ended questions).

Only what a text says outright is read; nothing is inferred. The first of these that says anything decides:

1. what stands in `<answer>` tags;
2. statements of the answer ("The answer is no", "Answer: Yes", JSON's "answer"); a final answer overrules others;
3. the reply words yes and no, wherever they stand; the "no" of "no edema" is none;
4. sentences that state a presence ("... is present", "there is edema", "the heart shows ...") or an absence ("no
   edema", "there is no ...", "... is not seen", "does not show ..."), as if they were about what was asked. Hedged
   sentences and questions state nothing.

Thinking is dropped first. Both answers where one of these decides are `ambiguous`; a text that says neither is `none`.
"""

from __future__ import annotations

import re
from typing import Literal

from .thinking import without_thinking
from .words import folded

Outcome = Literal["yes", "no", "ambiguous", "none"]

_MARKUP = re.compile(r"\\(?:boxed|text|textbf|mathrm)\b|</?[a-z_]{1,20}>|[*_`\"“”${}\[\]()#>]")
_QUOTE = re.compile(r"(?<!\w)['‘]|['’](?!\w)")  # an apostrophe within a word stays
_SENTENCE_END = re.compile(r"[.;!\n]+|(?<=\?)")

_YES, _NO = r"(?:yes|yeah|yep)", r"(?:no|nope)"
_CHOICE = re.compile(rf"\b(?:{_YES}\s*(?:/|\bor\b)\s*{_NO}|{_NO}\s*(?:/|\bor\b)\s*{_YES})\b")  # "Answer yes or no:"
_STATEMENT = re.compile(
    r"\b(?P<final>final\s+)?answer\s*(?:to\s+(?:the|this|your)\s+question\s*)?"
    rf"(?:is|was|would\s+be|should\s+be|:|=)[\s:]*(?:a\s+)?(?P<word>{_YES}|{_NO})\b"
)
_SAYS_YES = re.compile(rf"\b{_YES}\b")
# A reply, not a determiner: it is followed by an end, by a pause, or by the start of a clause.
_SAYS_NO = re.compile(
    rf"\b{_NO}\b(?!\s*,\s*or\b)(?=\s*(?:[,.;:!?—–]|-\s|$|\n)"
    r"|\s+(?:the|there|this|that|these|it|i|he|she|they|we|because|since|as)\b)"
)
_LONE_LETTER = re.compile(r"\W*(?P<letter>[yn])\W*")

_HEDGE = re.compile(
    r"\?|\b(?:whether|if|may|might|could|can ?not|unable|unclear|uncertain|possibl[ey]|perhaps|probably|likely|"
    r"determine|assess|rule out)\b"
)
_SEEN = (
    r"(?:present|visible|seen|evident|visualized|visualised|identified|noted|observed|detected|found|apparent|"
    r"demonstrated|appreciated)"
)
_ABSENCE = re.compile(
    r"^\W*no\s+(?!doubt|idea|image|picture|information|question|answer|comment|problem|way|one)\w"
    r"|\b(?:there\s+(?:is|are|was|were)|shows?|has|have|had|demonstrates?|reveals?|with|see|find)\s+no\s+\w"
    r"|\bno\s+(?:\w+\s+)?(?:evidence|signs?|indications?|features?)\s+of\b"
    r"|\bthere\s+(?:is|are|was|were)\s+not\b"
    rf"|\b(?:is|are|was|were|be|been)\s+not\s+(?:\w+ly\s+)?(?:{_SEEN}|there|affected|involved)\b"
    r"|\b(?:do|does|did)\s+not\s+(?:\w+ly\s+)?"
    r"(?:have|show|suffer|contain|demonstrate|exhibit|appear\s+to\s+have|reveal|see|seem\s+to\s+have)\b"
    r"|\b(?:is|are|was|were)\s+absent\b|\b(?:is|are|was|were|appears?)\s+free\s+(?:of|from)\b|\babsence\s+of\b"
)
# What may follow "shows" and names no disease: a denial, or the picture itself ("shows a frontal chest X-ray").
_NOTHING = (
    r"(?:no|not|nothing|neither|been)\b"
    r"|(?:\w+\s+){0,3}(?:x-?\s?rays?|radiographs?|views?|films?|images?|lungs|thorax|patient)\b"
)
_PRESENCE = re.compile(
    rf"\b(?:is|are|was|were)\s+(?:\w+ly\s+)?{_SEEN}\b"
    rf"|\bthere\s+(?:is|are|was|were)\s+(?!{_NOTHING})\w"
    rf"|\b(?:shows?|has|demonstrates?|reveals?|exhibits?|suffers\s+from)\s+(?!{_NOTHING})\w"
    r"|\bdoes\s+(?:have|show|suffer)\b"
)
_HEALTHY = re.compile(r"\b(?:normal|clear|healthy|unremarkable|intact)\b")  # "normal lung is seen" asserts no disease


def read_yes_no(text: str | None) -> Outcome:
    """What a model's text answers to a yes/no question.

    >>> read_yes_no("No, the left lower lung does not show it.")
    'no'
    >>> read_yes_no("The answer is **yes**."), read_yes_no("There is no evidence of edema.")
    ('yes', 'no')
    >>> read_yes_no("Yes and no."), read_yes_no("The image is blurred.")
    ('ambiguous', 'none')
    """
    clean = _clean(without_thinking(text or ""))
    lone = _LONE_LETTER.fullmatch(clean)
    if lone:
        return "yes" if lone["letter"] == "y" else "no"
    for read in (_stated, _replied, _described):
        found = read(clean)
        if found:
            return found.pop() if len(found) == 1 else "ambiguous"
    return "none"


def _clean(text: str) -> str:
    return _CHOICE.sub(" ", _QUOTE.sub(" ", _MARKUP.sub(" ", folded(text)))).strip()


def _stated(text: str) -> set[Outcome]:
    said = list(_STATEMENT.finditer(text))
    final = [match for match in said if match["final"]]
    return {"yes" if match["word"].startswith("y") else "no" for match in final or said}


def _replied(text: str) -> set[Outcome]:
    found: set[Outcome] = set()
    if _SAYS_YES.search(text):
        found.add("yes")
    if _SAYS_NO.search(text):
        found.add("no")
    return found


def _described(text: str) -> set[Outcome]:
    found: set[Outcome] = set()
    for sentence in _SENTENCE_END.split(text):
        if _HEDGE.search(sentence):
            continue
        if _ABSENCE.search(sentence):
            found.add("no")
            # "No edema is seen" is one statement; what follows a turn may be another.
            turn = re.split(r"\b(?:but|however|although|while)\b", sentence, maxsplit=1)[1:]
            sentence = "".join(turn)  # noqa: PLW2901
        if _PRESENCE.search(sentence) and not _HEALTHY.search(sentence) and not _ABSENCE.search(sentence):
            found.add("yes")
    return found
