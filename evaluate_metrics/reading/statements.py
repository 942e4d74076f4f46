"""Explicit statements of the answer: boxes, JSON, "Final answer: ...", "The answer is ...", "I choose ...".

This module only finds statements; the readers of choices and of yes and no interpret their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from .markup import BOX

Kind = Literal["field", "box", "final", "answer", "chosen"]


class Statement(NamedTuple):
    """A statement of the answer.

    Attributes:
        kind: The kind of its marker.
        text: The following text, up to `REACH` characters.
        start: Position of the marker.
    """

    kind: Kind
    text: str
    start: int


REACH = 300
_KEY = (
    r"(?:final[_ ]?|correct[_ ]?|predicted[_ ]?|selected[_ ]?|chosen[_ ]?|model[_ ]?|best[_ ]?)?"
    r"(?:answer|choice|option|prediction|response|label|selection|letter|result|output|verdict|decision|conclusion)"
    r"(?:[_ ]?(?:letter|text|choice|option|label|key))?"
)
_FIELD = re.compile(
    rf"""["'“‘]{_KEY}["'”’]\s?:\s{{0,20}}(?:"(?P<text>[^"\n]{{0,300}})"?|'(?P<quoted>[^'\n]{{0,300}})'?"""
    r"|(?P<bare>\[?[A-Za-z0-9_.-]{1,20}))",
    re.IGNORECASE,
)
_SINGLE_PAIR = re.compile(  # any key but one for a wrong option
    r"\W*(?:json)?\s*\{\s*\"(?![^\"]*(?:incorrect|wrong|reject|exclu))[^\"]{1,80}\"\s*:"
    r"\s*\"(?P<value>[^\"\n]{1,200})\"\s*\}\W*",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(?:final[ _]?)?answer\s*[ :=]\s*[\"']?(?P<value>[^<>\"']{1,60}?)[\"']?\s*/?>", re.IGNORECASE)
_PRAISE = (
    r"(?:(?:correct|right|best|proper|closest|accurate|appropriate|suitable|likely|probable|plausible|most|chosen"
    r"|selected|only|likeliest|overall|single) ){1,3}"
)
_IS = (
    r"(?:is|was|are|would be|should be|must be|will be|has to be|seems to be|appears to be|remains|is likely"
    r"|=|:|->|→|–|-)"
)
_ASIDE = r"(?:,? (?:here|to|for|among|from|of|given|based|in|that|which|about|as|regarding)\b[^.;:!?\n]{0,80}?,?)?"
_ANSWER = re.compile(
    rf"\b(?P<final>(?:my )?(?:(?:final|corrected|revised|updated|amended) ){{1,2}})?(?:answer"
    rf"|{_PRAISE}(?:answer|option|choice|response|selection|statement)"
    r"|(?:my|the) (?:answer|choice|selection|pick|guess|vote))"
    rf"(?P<aside>{_ASIDE}) ?(?P<is>{_IS}(?=[\s\W])\s?:?)",
    re.IGNORECASE,
)
_CHANGED = re.compile(r"\b(?:chang(?:e|ing)|revis(?:e|ing)|correct(?:ing)?) (?:my|the) answer to\b", re.IGNORECASE)
_FINAL_BARE = re.compile(
    r"\bfinal (?:answer|choice)\b(?! (?:is|was|would|should|must|will)\b)(?=[\s(\[])", re.IGNORECASE
)
# "Correction: B", not "Correction: no effusion is seen"
_CORRECTION = re.compile(r"(?:(?<=\bcorrection)|(?<=\bedit)|(?<=\berratum)) ?:(?!\W*no \w)(?=\W*\w)", re.IGNORECASE)
_HEADING = re.compile(r"^[#> ]*(?:final )?(?:answer|conclusion) ?:?\n\s*", re.IGNORECASE | re.MULTILINE)
_AT_START = re.compile(r"\A\W*answer\s", re.IGNORECASE)
_OTHER_LANGUAGES = re.compile(
    r"(?:(?:正确|最终|最佳|最合适的?)?(?:答案|选项)(?:应该|应)?(?:是|为|选|[:：])|故选|(?<!不)应选|(?<!不)(?<!不应)(?<!不应该)我?选择?(?=\s?[:：(]?\s?[A-Z](?![a-z]))"
    r"|正解は|答えは|回答は|정답(?:은|:)|답(?:은|:)|\bответ\s?(?:[:—–-]|это)|\bправильный (?:ответ|вариант)\s?[:—–-]?"
    r"|\b(?:la |a )?(?:respuesta|resposta|risposta)(?: (?:correcta|correta|corretta|final|es la))?(?: (?:es|é|è)|\s?:)"
    r"|\b(?:elijo|escojo|je choisis|(?:eu )?escolho|scelgo)\b"
    r"|\b(?:opción|opção|opzione) (?:correcta|correta|corretta) (?:es|é|è)"
    r"|\b(?:la )?(?:bonne |meilleure )?réponse(?: correcte| finale)?(?: est|\s?:)"
    r"|\b(?:die )?(?:richtige |korrekte )?antwort(?: (?:ist|lautet|wäre)|\s?:)"
    r"|\b(?:đáp án|câu trả lời|lựa chọn)(?: (?:đúng|chính xác|đúng nhất|cuối cùng|của tôi)){0,2}(?: là|\s?:))",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"\b(?<!shall )(?<!should )(?<!would )(?<!could )(?<!can )(?<!do )I(?:'d| would| will|'ll| have| shall"
    r"| am going to|'m going to)?(?: (?:therefore|thus|also|rather|now"
    r"|probably|have)){0,2} "
    r"(?:choos|chose|select|pick|go(?:ing)? with|opt(?:ed|ing)? for|lean(?:ing)?(?: towards?| to)?|settle on|answer|say"
    r"|think|believe|guess|prefer|favou?r|vote(?: for)?)"
    r"(?:e|n|ed|ing)?(?: that)?(?: the)?\b"
    r"|\bmost (?:likely|probable|plausible|appropriate|suitable|accurate|fitting|compatible|consistent|likely to be)"
    r"(?: \w+){0,4}? (?:is|are|would be|with|seems to be|appears to be)(?= )"
    r"|\bbest (?:described as|characterized as|explained by|classified as|represented by|supported by)"
    r"|\bbest (?:diagnosis|description|explanation|match|fit|conclusion|interpretation|candidate)"
    r"(?: \w+){0,4}? (?:is|are|would be)(?= )"
    r"|\b(?:leading|likely|working|probable|correct|final|primary|presumptive) diagnosis(?: \w+){0,4}? ?(?:is"
    r"|would be|:)"
    r"|\bdiagnosis ?:"
    r"|\b(?:the|this) (?:\w+ ){0,2}?(?:finding|one|abnormality|pathology|condition|diagnosis|disease)"
    r"(?: (?:that is|which is|that|which|shown|seen|present|absent|visible|here|in (?:this|the) \w+|not"
    r"|missing)){0,5} (?:is|would be)\b(?! not\b)"
    r"|\b(?:correspond(?:s|ing)?|point(?:s|ing)?|lead(?:s|ing)?(?: me)?) to (?=(?:the )?(?:option|choice|answer"
    r"|first|second|third|\())"
    r"|\b(?:that|this|which) leaves\b|\b(?:that|this|it)(?: would|'d) be(?= (?:option |choice )?[(\[]?(?-i:[A-Z])\b)",
    re.IGNORECASE,
)
# "The answer is not B", "If it were blunted, the answer would be C".
_NEGATED_ASIDE = re.compile(r"\b(?:not|cannot|never|unless)\b|n't\b", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|were|had|unless|suppose|supposing)\b[^.!?\n]{0,120}$", re.IGNORECASE)


_CORRECTS = re.compile(
    r"\b(?:correction|(?:edit|erratum)(?= ?:)|(?:i mean|or rather)(?=,? (?:option )?[(\[]?(?-i:[A-Z])\b)"
    r"|correct (?:this|that|my|myself)|i (?:was|am) (?:wrong|mistaken)|i made (?:a mistake|an error)"
    r"|on (?:second|closer) (?:thoughts?|look)|on (?:reflection|reconsideration)|(?:re-?(?:consider|evaluat|examin"
    r"|check"
    r"|assess|vis)|revis|chang)(?:e|es|ed|ing|it) (?:my|this|the|that|it)|wait|hmm+,? no|scratch that)\b"
    r"|(?:(?<!\.)\.{2,}+|…|[—–]|--| -) ?(?:no|sorry|oops|actually|or rather)\b(?=\W)"
    r"|\b(?<!my )(?=(?:my )?(?:corrected|revised|updated|amended) (?:final )?(?:answer|choice|option)\b)"
    r"|\b(?:no|sorry),? (?:i meant |it is |it's |rather )?(?=(?:option )?[(\[]?(?-i:[A-Z])\b)",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\b(?:no, sorry|sorry, no|scratch that|wait, no|(?<!if )(?<!unless )i (?:was|am) (?:wrong|mistaken)"
    r"|(?:no|wait|actually),? (?:actually )?(?:that|this|it)(?: is|'s| might| may) (?:be )?(?:wrong|incorrect"
    r"|not (?:be )?right)"
    r"|actually,? i(?: am|'m) not sure"
    r"|i (?:take (?:that|this|it) back|(?:retract|withdraw) (?:that|this|it|my|the))"
    r"|(?:disregard|ignore) (?:the|my|this|that) (?:(?:above|previous|last|earlier|first) )?(?:answer|response|choice)"
    r"|i (?:can ?not|can't|won't) commit to (?:it|that|this|an answer|any|either)"
    r"|i(?: am|'m) (?:(?!not|no)\w+ )?(?:undecided|torn|in two minds|on the fence)(?=\s*(?:[.!]|\Z)))\b",
    re.IGNORECASE,
)
_CANNOT_TELL = re.compile(  # after a correction: "On second thoughts, I can't tell"
    r"\W*(?:(?:actually|overall|now|no|but|that)\W+){0,2}"
    r"(?:i(?:'m| am)? (?:really |actually |honestly )?(?:not (?:able|sure|certain)|unable|unsure"
    r"|undecided|can ?not|can't|do(?:n't| not) know)\b"
    r"|(?:it|this|that) (?:can ?not|can't) be (?:\w+ )?(?:determined|told|assessed|judged|answered)\b"
    r"|(?:it is|it's|this is) (?:unclear|uncertain|impossible|not possible)\b)",
    re.IGNORECASE,
)
# "If a line is seen, the answer is yes", "The answer is yes if ..."; "If I had to choose" is not a condition.
_IF_BEFORE = re.compile(r"\b[Ii]f (?!(?:I|we|you|one|forced|pressed|only)\b)[^.!?\n]{0,150}\Z")
_IF_AFTER = re.compile(r"[^.!?\n]{0,80}\b(?:if|when) (?!(?:I|we|you)\b)")
_OTHERS_SAY = re.compile(
    r"\b(?:users?|you|others?|someone|some|they|people|prompt|reports?) (?:\w+ ){0,2}?(?:said|says?|claims?|claimed"
    r"|thinks?|thought"
    r"|suggests?|suggested|states?|stated|believes?|believed) (?:that )?\Z",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"\bexample (?:of an? )?\Z", re.IGNORECASE)


def statements(text: str) -> Iterator[Statement]:
    """Iterate over the statements in a readable text (`markup.readable`), in the order of the text for each marker.

    Args:
        text: The text.

    Yields:
        The statements.

    >>> [(statement.kind, statement.text) for statement in statements("The best answer is B.")]
    [('answer', 'B.')]
    """
    for place in _iterate_places(text, BOX):
        yield Statement("box", text[place + 1 : place + 1 + REACH], place)
    for match in _ANSWER.finditer(text):
        if match["is"].strip() in "-–" and not match["final"]:
            continue  # "answer - ..." is not a statement
        if _NEGATED_ASIDE.search(match["aside"]) or _is_conditional(text, match):
            continue
        yield Statement("final" if match["final"] else "answer", _extract_after(text, match.end()), match.start())
    marked_patterns: tuple[tuple[re.Pattern[str], Kind], ...] = (
        (_CHANGED, "final"),
        (_FINAL_BARE, "final"),
        (_CORRECTION, "final"),
        (_HEADING, "answer"),
        (_AT_START, "answer"),
        (_OTHER_LANGUAGES, "answer"),
        (_CHOSEN, "chosen"),
    )
    for pattern, kind in marked_patterns:
        for match in pattern.finditer(text):
            if not _is_conditional(text, match):
                yield Statement(kind, _extract_after(text, match.end()), match.start())


def fields(text: str) -> Iterator[Statement]:
    """Iterate over the values of JSON keys that name an answer, in the model's own text; the JSON may be broken.

    Args:
        text: The text.

    Yields:
        The statements.

    >>> [statement.text for statement in fields('{"reason": "seen", "answer": "B"')]
    ['B']
    """
    field_matches = list(_FIELD.finditer(text))
    for match in field_matches:
        value = match["text"] if match["text"] is not None else match["quoted"]
        yield Statement("field", (match["bare"] if value is None else value).strip("[ "), match.start())
    single_pair = None if field_matches or len(text) > REACH * 2 else _SINGLE_PAIR.fullmatch(text)
    if single_pair:  # any key counts
        yield Statement("field", single_pair["value"], single_pair.start("value"))
    for match in _TAG.finditer(text):  # <answer no></answer>
        yield Statement("field", match["value"], match.start())


def _iterate_places(text: str, sign: str) -> Iterator[int]:
    position = text.find(sign)
    while position >= 0:
        yield position
        position = text.find(sign, position + 1)


def _extract_after(text: str, start: int) -> str:
    return text[start : start + REACH]


def _is_conditional(text: str, match: re.Match[str]) -> bool:
    preceding_text = text[max(match.start() - 160, 0) : match.start()]
    if (
        _EXAMPLE.search(preceding_text)
        or _OTHERS_SAY.search(preceding_text)
        or _IF_BEFORE.search(preceding_text)
        or _IF_AFTER.match(text, match.end())
    ):
        return True
    return "would" in match[0] and bool(_CONDITION.search(preceding_text))


def remove_retracted(text: str) -> str:
    """Remove the part of an answer that it takes back ("The answer is A. No, that is wrong", "A. Wait, I can't tell").

    A correction that names another answer ("A. Wait, B") takes nothing back here: `remove_corrected` decides on it.

    Args:
        text: The text after `markup.readable`.

    Returns:
        The text after the last retraction ("that is wrong"), and, if a decline follows the last correction ("Wait"),
        the text after this correction. Without either, the same text.
    """
    text = text[_find_retraction(text) :]
    correction = find_correction(text)
    return text[correction:] if correction and _CANNOT_TELL.match(text, correction) else text


def _find_retraction(text: str) -> int:
    *_, last_retraction = [0, *(match.end() for match in _TAKES_BACK.finditer(text))]
    return last_retraction


def find_correction(text: str) -> int:
    """Return the position after the words that announce the last correction of an answer ("wait", "let me correct").

    Args:
        text: The text after `markup.readable`.

    Returns:
        The position; 0 without a correction.
    """
    *_, last_correction = [0, *(match.end() for match in _CORRECTS.finditer(text))]
    return last_correction


def remove_corrected(stated: Sequence[Statement], text: str) -> list[Statement]:
    """Remove statements that a correction retracts: those before the last correction, if others of their kind follow.

    Args:
        stated: The statements of a text.
        text: The text after `markup.readable`.

    Returns:
        The remaining statements.
    """
    last_correction = find_correction(text)
    last_retraction = _find_retraction(text)
    kinds = {statement.kind for statement in stated if statement.start >= last_correction and statement.kind != "field"}
    return [
        statement
        for statement in stated
        if statement.kind == "field"
        or (statement.start >= last_retraction and (statement.start >= last_correction or statement.kind not in kinds))
    ]
