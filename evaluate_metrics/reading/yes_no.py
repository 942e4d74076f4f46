"""Reading a yes/no answer (HEAL-MedVQA, section 3.2, closed-ended questions).

Only what a text says outright is read; nothing is inferred. Reasoning is dropped first (`reasoning`), then markup
(`markup`). Of these stages, in this order, the first that says anything decides:

1. "marked": a JSON field that names an answer, or a box of LaTeX;
2. "final", then "answer": "Final answer: no", "The answer is no";
3. "reply": the reply words yes and no, in several languages, wherever they stand; the "no" of "no edema" is none;
4. "short": an answer of few words ("Present.", "It does not.", "None seen");
5. "described": sentences that state or deny what was asked (`asked`). Without a question, every sentence counts that
   states a presence or an absence.

Both answers where one of these decides are `ambiguous`, and so is a reply that the sentences behind it deny. A text
that says neither is `none`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from .clauses import split_clauses
from .cues import classify
from .markup import readable
from .outcome import Evidence, Outcome, Reason
from .question_target import SENTENCE_END, Saying, asked_by, contradicts, says_about
from .reasoning import LIMIT, answer_span, looks_cut, without_cut
from .statements import Statement, drop_corrected, fields, statements
from .words import folded, words

YesNoOutcome = Literal["yes", "no", "declined", "unread"]


class YesNo(NamedTuple):
    """An answer read as yes or no.

    Attributes:
        answer: "yes" or "no"; None unless the outcome is "answered".
        outcome: "answered", "declined" or "unread".
        stage: The stage that decided, "" where none did.
        reason: Why the answer is unread, "" for the other outcomes.
        evidence: "letter" for Y or N alone, "text" for the word itself, "prose" for sentences.
    """

    answer: Saying | None
    outcome: Outcome
    stage: str = ""
    reason: Reason = ""
    evidence: Evidence = ""


_WORD = re.compile(
    r"(?P<no>(?:no|nope|nah|false|absent|negative|non|nein|nao|não|nie|нет|không)\b|不是|否|没有|沒有|无|無|不存在|不"
    r"|いいえ|아니요|아니오|아뇨)"
    r"|(?P<yes>(?:yes|yeah|yep|yup|true|present|positive|affirmative|correct|oui|sim|ja|да|tak|sì|sí|có)\b"
    r"|si\b(?=\s*[,.!]|\s*$)|是的?|有|存在|はい|예(?=[\s,.]|$)|네(?=[\s,.]|$))",
    re.IGNORECASE,
)
_FILLER = re.compile(  # between "The answer is" and the word
    r"[\W_]{0,6}(?:(?:a|an|the|is|it is|it's|that|there is|most likely|likely|probably|definitely|clearly|simply|clear"
    r"|definite|resounding|option|choice|letter|[ab](?=[.):]))\b[\W_]{0,3}){0,4}",
    re.IGNORECASE,
)
_CHOICE = re.compile(  # "Answer yes or no:"
    r"\b(?:yes|yeah)[\s\"'.]*(?:/|\bor\b|,|\|)\s*\(?(?:no|nope)\b(?!\s*,|\s+(?:doubt|question)\b)|\b(?:no|nope)\s*(?:/|\bor\b)\s*(?:yes|yeah)\b"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?\n]*")
_IF = re.compile(r"\bif (?!(?:i|we|you|one)\b)")  # the yes or no of its sentence stands under a condition
_SAYS_YES = re.compile(r"(?<!\ba )(?<!simple )\b(?:yes|yeah|yep)\b")
_CLAUSE = r"(?:the|there|this|that|these|it|i|he|she|they|we|because|since|as)\b"
# A reply, not a determiner: it is followed by an end, by a pause, or by the start of a clause.
_SAYS_NO = re.compile(rf"\b(?:no|nope)\b(?!\s*,\s*or\b)(?=\s*(?:[,.;:!?—–)\]]|-\s|$|\n)|\s+{_CLAUSE})")
_PAUSE = re.compile(rf"\s*(?:[,.;:!?—–()\]\-\n、。，]|$)|\s+(?:{_CLAUSE}|for\b)")
_CJK_PHRASE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_FIRST = re.compile(r"\W*")
_NO_IMAGE = re.compile(
    r"\bplease (?:upload|share|attach|provide (?:the|an|me))\b|\bi do not see (?:any|an|the) image\b"
)
_TABLE_LINE = re.compile(r"^ ?\|.*$", re.MULTILINE)  # its cells belong to rows of which only one was asked for
_LONE_LETTER = re.compile(r"\W*(?P<letter>[yn])\W*", re.IGNORECASE)
_INTERJECTION = re.compile(r"^\W*(?:oh|well|hm+|indeed|sure),? ")
_DOUBT = re.compile(r"\b(?:wait|hmm+|maybe|perhaps|let me|let's|alternatively|not sure|unsure)\b|\?")

_SEEN = (
    r"(?:present|visible|seen|evident|visualized|visualised|identified|noted|observed|detected|found|apparent"
    r"|there|shown"
    r"|demonstrated|appreciated)"
)
_SURELY = r"(?:clearly|definitely|certainly|probably|really|obviously|apparently|evidently|currently|indeed)"
_IT = r"(?:it|this|that|they|these|there|he|she|the \w+(?: \w+){0,2})"
_SHORT_NO = re.compile(
    rf"(?:{_IT} )?(?:does|do|is|are|was|were|has|have|can|did) not(?: be)?(?: {_SURELY})?"
    rf"(?: (?:{_SEEN}|have (?:it|any|one)|so))?"
    rf"|(?:none|nothing|absent|negative|not(?! really))(?: (?:is|are|was|were))?(?: {_SURELY})?(?: {_SEEN})?"
    rf"|{_IT} (?:is|are) absent|there (?:is|are) (?:none|not(?: one| any)?|no such \w+)"
    r"|not at all|(?:very |highly )?unlikely|probably not"
    r"|i do not (?:see|think so|believe so)(?: (?:it|any|one|that))?(?: here)?"
)
_SHORT_YES = re.compile(
    rf"(?:{_IT} )?(?:does|do|is|are|was|were|has|have|did)(?: {_SURELY})?(?: {_SEEN})?|(?:{_SURELY} )?{_SEEN}"
    r"|positive|correct|true|indeed|affirmative|there (?:is|are)(?: one)?|i (?:do|think so|believe so)"
)

# Sentences, where nothing is known of the question.
_ABSENCE = re.compile(
    r"^\W*no\s+(?!doubt|idea|image|picture|information|question|answer|comment|problem|way|one)\w"
    r"|\b(?:there\s+(?:is|are|was|were)|shows?|has|have|had|demonstrates?|reveals?|with|see|find)\s+no\s+\w"
    r"|\bno\s+(?:\w+\s+){0,2}(?:evidence|signs?|indications?|features?)\s+of\b"
    r"|\bthere\s+(?:is|are|was|were)\s+not\b"
    rf"|\b(?:is|are|was|were|be|been)\s+not\s+(?:\w+ly\s+)?(?:{_SEEN}|affected|involved)\b"
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
_OPEN = re.compile(r"\?|\b(?:whether|if|likely|probably)\b")
_TURN = re.compile(r"\b(?:but|however|although|while)\b")


def read_yes_no(text: str | None, question: str = "", *, cut: bool = False) -> YesNoOutcome:
    """What a model's text answers to a yes/no question.

    Args:
        text: the response.
        question: what was asked; without it, any finding that a sentence states or denies is taken for the one asked.
        cut: the text is known to be cut, as at a limit of tokens; without it the end of the text tells.

    Returns:
        "yes" or "no" where the text answers, else its outcome, "declined" or "unread".

    >>> read_yes_no("No, the left lower lung does not show it.")
    'no'
    >>> read_yes_no("The answer is **yes**."), read_yes_no("There is no evidence of edema.")
    ('yes', 'no')
    >>> read_yes_no("A small effusion, but no edema.", "Is there edema?")
    'no'
    >>> read_yes_no("Yes and no."), read_yes_no("The image is blurred.")
    ('unread', 'unread')
    """
    read = explain_yes_no(text, question, cut=cut)
    return read.answer or ("declined" if read.outcome == "declined" else "unread")


def explain_yes_no(text: str | None, question: str = "", *, cut: bool = False) -> YesNo:
    """`read_yes_no` with the stage that decided.

    >>> explain_yes_no("The image is sharp. The answer is no.")
    YesNo(answer='no', outcome='answered', stage='answer', reason='', evidence='text')
    """
    written = text or ""
    start, end, how = answer_span(written)
    is_cut = cut or looks_cut(written)
    part, asked = without_cut(written[start:end], cut=cut), asked_by(question)
    clean = readable(part)[:LIMIT]
    lone = _LONE_LETTER.fullmatch(clean)
    if lone:
        return YesNo("yes" if lone["letter"] in "yY" else "no", "answered", "reply", evidence="letter")
    stated = drop_corrected([*fields(part), *statements(clean)], clean)
    plain = _CHOICE.sub(" ", folded(clean)).strip()
    stages: dict[str, Callable[[], set[Saying]]] = {
        "marked": lambda: _said(stated, "field") or _said(stated, "box"),
        "final": lambda: _said(stated, "final"),
        "answer": lambda: _said(stated, "answer"),
        "reply": lambda: _replied(plain),
        "short": lambda: _short(plain),
        "described": lambda: says_about(part, asked) if asked else _described(plain),
    }
    if how == "open reasoning":
        found = set[Saying]().union(*(read() for read in stages.values())) if not _DOUBT.search(plain) else set()
        return YesNo(found.pop(), "answered", how, evidence="prose") if len(found) == 1 else _unread("none")
    read = ((name, stage()) for name, stage in stages.items())
    why, found = next(((name, said) for name, said in read if said), ("", set[Saying]()))
    if why == "reply" and len(found) > 1 and asked and len(said := says_about(part, asked)) == 1:
        why, found = "described", said  # "Edema: Yes. Effusion: No."
    if len(found) > 1 or (why == "reply" and asked and contradicts(part, found, asked)):
        return _unread("ambiguous", why)
    acts = [clause.act for clause in split_clauses(part)] if not found or why == "reply" else []
    # "No, I cannot tell": a reply to the request, where nothing else says what was asked.
    refuses = "decline" in (acts[:3] if found else acts)
    if refuses and not (found and asked and says_about(part, asked)):
        return YesNo(None, "declined", "prose")
    if not found:
        return _unread("cut" if is_cut else "none" if plain else "empty")
    return YesNo(found.pop(), "answered", why, evidence="prose" if why in ("short", "described") else "text")


def _unread(reason: Reason, stage: str = "") -> YesNo:
    return YesNo(None, "unread", stage, reason)


def _said(stated: Iterable[Statement], kind: str) -> set[Saying]:
    digits: dict[str, Saying] = {"0": "no", "1": "yes"} if kind == "field" else {}
    return {word for one in stated if one.kind == kind and (word := digits.get(one.said) or _word(one.said))}


def _word(said: str) -> Saying | None:
    """The word for yes or no that a statement begins with."""
    filler = _FILLER.match(said)
    match = _WORD.match(said, filler.end() if filler else 0)
    return ("no" if match["no"] else "yes") if match else None


def _replied(text: str) -> set[Saying]:
    if _NO_IMAGE.search(text):
        return set()
    text = _TABLE_LINE.sub("", text)
    found: set[Saying] = set()
    begin = _FIRST.match(text)
    first = _WORD.match(text, begin.end() if begin else 0)
    if first and (_PAUSE.match(text, first.end()) or _CJK_PHRASE.match(first[0])):
        found.add("no" if first["no"] else "yes")
    text = " ".join(sentence for sentence in _SENTENCE.findall(text) if not _IF.search(sentence))
    if _SAYS_YES.search(text):
        found.add("yes")
    if _SAYS_NO.search(text):
        found.add("no")
    return found


def _short(text: str) -> set[Saying]:
    """Of the first sentence, if it is a short one."""
    said = words(SENTENCE_END.split(_INTERJECTION.sub("", text), maxsplit=1)[0])
    if len(said) > 80:
        return set()
    return {"no"} if _SHORT_NO.fullmatch(said) else {"yes"} if _SHORT_YES.fullmatch(said) else set()


def _described(text: str) -> set[Saying]:
    """What sentences state or deny, whatever it is."""
    found: set[Saying] = set()
    for sentence in SENTENCE_END.split(text):
        if _OPEN.search(sentence) or classify(sentence) != "state":
            continue
        said = sentence
        if _ABSENCE.search(said):
            found.add("no")
            # "No edema is seen" is one statement; what follows a turn may be another.
            said = "".join(_TURN.split(said, maxsplit=1)[1:])
        if _PRESENCE.search(said) and not _HEALTHY.search(said) and not _ABSENCE.search(said):
            found.add("yes")
    return found
