"""Reader of yes/no answers (HEAL-MedVQA, section 3.2, closed-ended questions).

It reads only explicit words and infers nothing. Reasoning is removed first (`reasoning`), then markup (`markup`). The
first of these stages with a result decides:

1. "marked": a JSON field that names an answer, or a box of LaTeX;
2. "final", then "answer": "Final answer: no", "The answer is no";
3. "reply": the reply words yes and no, in several languages, anywhere; the "no" of "no edema" is not a reply;
4. "short": an answer of few words ("Present.", "It does not.", "None seen");
5. "described": sentences that state or deny the finding of the question (`parse_question`). Without a question, every
   sentence that states a presence or an absence counts.

A deciding stage with both answers is `ambiguous`. A reply that the following sentences deny is `ambiguous`, too. A text
with neither answer is `none`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from .clauses import split_clauses
from .comparisons import keep_preferred
from .contradictions import is_contradicted
from .cues import classify
from .empty_replies import remove_disowned, remove_politeness
from .markup import CROSS, TICK, readable
from .other_findings import remove_other_fields
from .outcome import Evidence, Outcome, Reason
from .question_target import SENTENCE_END, Saying, parse_question
from .reasoning import LIMIT, find_answer_span, is_truncated, remove_unfinished
from .sayings import find_sayings
from .statements import Statement, fields, remove_corrected, remove_retracted, statements
from .structured import write_out_regions
from .words import fold_text, unify_spelling, words

YesNoOutcome = Literal["yes", "no", "declined", "unread"]


class YesNo(NamedTuple):
    """An answer read as yes or no.

    Attributes:
        answer: "yes" or "no"; None unless the outcome is "answered".
        outcome: "answered", "declined" or "unread".
        stage: The stage that decided, "" without one.
        reason: The reason of an unread answer, "" for the other outcomes.
        evidence: "letter" for a single Y or N, "text" for the word itself, "prose" for sentences.
    """

    answer: Saying | None
    outcome: Outcome
    stage: str = ""
    reason: Reason = ""
    evidence: Evidence = ""


_WORD = re.compile(
    r"(?P<no>(?:no|nope|nah|false|(?:absent|negative)(?!\"?\s*:)|non|nein|nao|não|nie|нет|không)\b|不是|否|没有|沒有|无|無|不存在|不"
    r"|いいえ|아니요|아니오|아뇨)"
    r"|(?P<yes>(?:yes|yeah|yep|yup|true|(?:present|positive)(?!\"?\s*:)|affirmative|correct|oui|sim|ja|да|tak|sì|sí|có)\b"
    r"|si\b(?=\s*[,.!]|\s*$)|是的?|有|存在|はい|예(?=[\s,.]|$)|네(?=[\s,.]|$))",
    re.IGNORECASE,
)
_FILLER = re.compile(  # between "The answer is" and the word
    r"[\W_]{0,6}(?:(?:a|an|the|in the|is|it is|it's|that|there is|most likely|likely|probably|definitely|clearly"
    r"|simply|clear"
    r"|definite|resounding|option|choice|letter|[ab](?=[.):]))\b[\W_]{0,3}){0,4}",
    re.IGNORECASE,
)
ALTERNATIVES = re.compile(  # "Answer yes or no:"
    r"\b(?:yes|yeah)[\s\"'.]*(?:/|\bor\b|,|\|)\s*\(?(?:no|nope)\b(?!\s*,|\s+(?:doubt|question)\b)|\b(?:no|nope)\s*(?:/|\bor\b)\s*(?:yes|yeah)\b",
    re.IGNORECASE,
)
_CHECKBOXES = re.compile(
    rf"{re.escape(TICK)} ?(?P<first>yes|no)\s+{re.escape(CROSS)} ?(?:yes|no)\b"
    rf"|{re.escape(CROSS)} ?(?:yes|no)\s+{re.escape(TICK)} ?(?P<second>yes|no)\b",
    re.IGNORECASE,
)
_OPENING_ANSWER = re.compile(r"\A[\W_]*(?:(?:final|short|direct) )?answer[\W_]*(?=yes|no)", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?\n]*")
_CONDITION = re.compile(r"\bif (?!(?:i|we|you|one)\b)")  # the yes or no of its sentence is conditional
_SAYS_YES = re.compile(r"(?<!\ba )(?<!simple )(?<!not )(?<!may say )(?<!might say )(?<!could say )\b(?:yes|yeah|yep)\b")
_CLAUSE = r"(?:the|there|this|that|these|it|i|he|she|they|we|because|since|as)\b"
# A reply instead of a determiner: an end, a pause, or the start of a clause follows it.
_SAYS_NO = re.compile(
    r"(?<!wrong to say )(?<!may say )(?<!might say )(?<!could say )\b(?:no|nope)\b(?!\s*,\s*or\b)"
    rf"(?=\s*(?:[,.;:!?—–)\]]|-\s|$|\n)|\s+{_CLAUSE})"
)
_PAUSE = re.compile(rf"\s*(?:[,.;:!?—–()\]\-\n、。，]|$)|\s+(?:{_CLAUSE}|for\b)")
_CJK_PHRASE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_FIRST = re.compile(r"\W*")
_NO_IMAGE = re.compile(
    r"\bplease (?:upload|share|attach|provide (?:the|an|me))\b|\bi do not see (?:any|an|the) image\b"
    r"|(?:没有|无|未)(?:提供|上传|看到|收到|附上)?(?:任何)?(?:图像|图片|影像|照片)"
)
_TABLE_LINE = re.compile(r"^ ?\|.*$", re.MULTILINE)  # its cells belong to several rows, and the question is about one
_LONE_LETTER = re.compile(r"\W*(?P<letter>[yn])\W*", re.IGNORECASE)
_INTERJECTION = re.compile(r"^\W*(?:oh|well|hm+|indeed|sure),? ")
_DOUBT = re.compile(r"\b(?:wait|hmm+|maybe|perhaps|let me|let's|alternatively|not sure|unsure)\b|\?")

_SEEN = (
    r"(?:present|visible|seen|evident|visualized|visualised|identified|noted|observed|detected|found|apparent"
    r"|there|shown"
    r"|demonstrated|appreciated)"
)
_SURELY = r"(?:clearly|definitely|certainly|probably|really|obviously|apparently|evidently|currently|indeed)"
# "The region is not visible" and "The answer is" say nothing of a finding.
_FINDING_WORD = (
    r"(?!(?:answer|aorta|area|chest|diagnosis|diaphragms?|field|film|heart|image|lobe|lungs?|mediastinum|picture|question"
    r"|radiograph|region|ribs?|scan|spine|trachea|view|zone)\b)\w+"
)
_IT = rf"(?:it|this|that|they|these|there|he|she|the (?!absence|lack){_FINDING_WORD}(?: {_FINDING_WORD}){{0,2}})"
_SHORT_NO = re.compile(
    rf"(?:{_IT} )?(?:does|do|is|are|was|were|has|have|can|did) not(?: be)?(?: {_SURELY})?"
    rf"(?: (?:{_SEEN}|have (?:it|any|one)|so))?"
    rf"|(?:none|nothing|absent|negative|not(?! really))(?: (?:is|are|was|were))?(?: {_SURELY})?(?: {_SEEN})?"
    rf"|{_IT} (?:is|are) absent|there (?:is|are) (?:none|not(?: one| any)?|no such \w+)"
    rf"|(?:{_SURELY}|absolutely|surely|likely|most likely|of course|indeed) not|not at all|by no means|incorrect|untrue"
    r"|(?:very |highly )?unlikely|(?:it|that|this) is not (?:the case|so|true|correct)|not (?:that"
    r"|as far as) i can (?:see|tell)"
    r"|it (?:(?:seems|appears) not|does not (?:seem|appear|look)(?: so| that way| like it)?)|i doubt (?:it|that|so)"
    r"|i (?:do not|can not|ca not|could not) (?:see|find|detect|think so|believe so)(?: (?:it|any|one|that))?(?: here)?"
    r"|i (?:see|find|found|detect|identify) none|i (?:am|m) afraid not"
)
_SHORT_YES = re.compile(
    rf"(?:{_IT} )?(?:does|do|is|are|was|were|has|have|did)(?: {_SURELY})?(?: {_SEEN})?|(?:{_SURELY} )?{_SEEN}"
    r"|positive|correct|true|indeed|affirmative|there (?:is|are)(?: one)?|i (?:do|think so|believe so)"
    r"|(?:that|this|it) is (?:the case|so|correct|true)|it (?:seems|appears|looks) so|(?:apparently|evidently"
    r"|probably|i (?:am|m) afraid) so"
)
_OWN_QUESTIONS = re.compile(r"\A(?:[^.!?\n]{0,200}\?\s*)+")  # "Does it show edema? It does not."
_WHOLE_YES = re.compile(r"certainly|definitely|absolutely|of course|without (?:a )?doubt|undoubtedly")


# Sentences, if the question is unknown.
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
# Words after "shows" that name no disease: a denial, or the image itself ("shows a frontal chest X-ray").
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
_UNDECIDED = re.compile(r"\?|\b(?:whether|if|likely|probably)\b")
_TURN = re.compile(r"\b(?:but|however|although|while)\b")


def read_yes_no(text: str | None, question: str = "", *, cut: bool = False) -> YesNoOutcome:
    """Read a model's answer to a yes/no question.

    Args:
        text: The response.
        question: The question; without it, any finding that a sentence states or denies counts.
        cut: Whether the text is known to be truncated, for example by a token limit; otherwise its end decides.

    Returns:
        "yes" or "no" if the text answers, otherwise its outcome, "declined" or "unread".

    >>> read_yes_no("No, the left lower lung does not show it.")
    'no'
    >>> read_yes_no("The answer is **yes**."), read_yes_no("There is no evidence of edema.")
    ('yes', 'no')
    >>> read_yes_no("A small effusion, but no edema.", "Is there edema?")
    'no'
    >>> read_yes_no("Yes and no."), read_yes_no("The image is blurred.")
    ('unread', 'unread')
    """
    reading = explain_yes_no(text, question, cut=cut)
    return reading.answer or ("declined" if reading.outcome == "declined" else "unread")


def explain_yes_no(text: str | None, question: str = "", *, cut: bool = False) -> YesNo:
    """Read a model's answer like `read_yes_no`, with the stage that decided.

    Args:
        text: See `read_yes_no`.
        question: See `read_yes_no`.
        cut: See `read_yes_no`.

    Returns:
        The reading.

    >>> explain_yes_no("The image is sharp. The answer is no.")
    YesNo(answer='no', outcome='answered', stage='answer', reason='', evidence='text')
    """
    response, question = unify_spelling(text or ""), unify_spelling(question)
    start, end, span_kind = find_answer_span(response)
    is_cut = cut or is_truncated(response)
    answer_text = remove_politeness(remove_retracted(remove_unfinished(response[start:end], cut=cut)))
    answer_text = keep_preferred(remove_disowned(answer_text))
    target = parse_question(question)
    if target and (target.sides or target.levels):
        answer_text = write_out_regions(answer_text)
    clean = remove_politeness(readable(answer_text)[:LIMIT])
    single_letter = _LONE_LETTER.fullmatch(clean)
    if single_letter:
        return YesNo("yes" if single_letter["letter"] in "yY" else "no", "answered", "reply", evidence="letter")
    stated = remove_corrected([*fields(answer_text), *statements(clean)], clean)
    plain = ALTERNATIVES.sub(" ", fold_text(clean)).strip()
    stages: dict[str, Callable[[], set[Saying]]] = {
        "marked": lambda: (
            _read_statements(stated, "field") or _read_statements(stated, "box") or _read_checkboxes(clean)
        ),
        "final": lambda: _read_statements(stated, "final"),
        "answer": lambda: _read_statements(stated, "answer"),
        "reply": lambda: _find_replies(remove_other_fields(plain, target) if target else plain),
        "short": lambda: _read_short(plain),
        "described": lambda: find_sayings(answer_text, target) if target else _read_sentences(plain),
    }
    if span_kind == "open reasoning":
        answers = (
            set[Saying]().union(*(readings() for readings in stages.values())) if not _DOUBT.search(plain) else set()
        )
        return (
            YesNo(answers.pop(), "answered", span_kind, evidence="prose")
            if len(answers) == 1
            else _build_unread("none")
        )
    readings = ((name, stage()) for name, stage in stages.items())
    deciding_stage, answers = next(
        ((name, stage_answers) for name, stage_answers in readings if stage_answers), ("", set[Saying]())
    )
    if (
        deciding_stage == "reply"
        and len(answers) > 1
        and target
        and len(stage_answers := find_sayings(answer_text, target)) == 1
    ):
        deciding_stage, answers = "described", stage_answers  # "Edema: Yes. Effusion: No."
    is_opening = deciding_stage == "reply" or bool(_OPENING_ANSWER.match(clean))
    if len(answers) > 1 or (
        is_opening and answers and target and is_contradicted(_OPENING_ANSWER.sub("", answer_text), answers, target)
    ):
        return _build_unread("ambiguous", deciding_stage)
    acts = [clause.act for clause in split_clauses(answer_text)] if not answers or deciding_stage == "reply" else []
    # "No, I cannot tell": a reply to the request, unless other text answers the question.
    is_refusal = "decline" in (acts[:3] if answers else acts)
    if is_refusal and not (answers and target and find_sayings(answer_text, target)):
        return YesNo(None, "declined", "prose")
    if not answers:
        return _build_unread("cut" if is_cut else "none" if plain else "empty")
    return YesNo(
        answers.pop(),
        "answered",
        deciding_stage,
        evidence="prose" if deciding_stage in ("short", "described") else "text",
    )


def _build_unread(reason: Reason, stage: str = "") -> YesNo:
    return YesNo(None, "unread", stage, reason)


def _read_statements(stated: Iterable[Statement], kind: str) -> set[Saying]:
    digits: dict[str, Saying] = {"0": "no", "1": "yes"} if kind == "field" else {}
    return {
        word
        for statement in stated
        if statement.kind == kind and (word := digits.get(statement.text) or _read_word(_remove_choice(statement.text)))
    }


def _read_checkboxes(text: str) -> set[Saying]:
    """Read the ticked word of "[x] Yes [ ] No"."""
    match = _CHECKBOXES.search(text)
    word = (match["first"] or match["second"]).lower() if match else ""
    return {"yes"} if word == "yes" else {"no"} if word == "no" else set()


def _remove_choice(statement: str) -> str:
    """Remove "yes or no", which repeats the request; "yes, no doubt" stays."""
    return ALTERNATIVES.sub(lambda match: match[0] if "," in match[0] else " ", statement)


def _read_word(statement: str) -> Saying | None:
    """Read the word for yes or no at the beginning of a statement."""
    filler = _FILLER.match(statement)
    match = _WORD.match(statement, filler.end() if filler else 0)
    return ("no" if match["no"] else "yes") if match else None


def _find_replies(text: str) -> set[Saying]:
    if _NO_IMAGE.search(text):
        return set()
    text = _TABLE_LINE.sub("", text)
    replies: set[Saying] = set()
    beginning = _FIRST.match(text)
    first_word = _WORD.match(text, beginning.end() if beginning else 0)
    if first_word and (_PAUSE.match(text, first_word.end()) or _CJK_PHRASE.match(first_word[0])):
        replies.add("no" if first_word["no"] else "yes")
    text = " ".join(sentence for sentence in _SENTENCE.findall(text) if not _CONDITION.search(sentence))
    if _SAYS_YES.search(text):
        replies.add("yes")
    if _SAYS_NO.search(text):
        replies.add("no")
    return replies


def _read_short(text: str) -> set[Saying]:
    """Read the first sentence, if it is a short one."""
    text = _OWN_QUESTIONS.sub("", text)
    if _WHOLE_YES.fullmatch(words(text)):  # "Certainly! Let me look" only begins an answer
        return {"yes"}
    sentence_words = words(SENTENCE_END.split(_INTERJECTION.sub("", text), maxsplit=1)[0])
    if len(sentence_words) > 80:
        return set()
    return {"no"} if _SHORT_NO.fullmatch(sentence_words) else {"yes"} if _SHORT_YES.fullmatch(sentence_words) else set()


def _read_sentences(text: str) -> set[Saying]:
    """Read presence and absence from sentences about any finding."""
    answers: set[Saying] = set()
    for sentence in SENTENCE_END.split(text):
        if _UNDECIDED.search(sentence) or classify(sentence) != "state":
            continue
        remaining = sentence
        if _ABSENCE.search(remaining):
            answers.add("no")
            # "No edema is seen" is one statement; another one may follow a turn.
            remaining = "".join(_TURN.split(remaining, maxsplit=1)[1:])
        if _PRESENCE.search(remaining) and not _HEALTHY.search(remaining) and not _ABSENCE.search(remaining):
            answers.add("yes")
    return answers
