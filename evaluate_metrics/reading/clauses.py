"""Clauses of a model's answer and what they deny, in the answer's own character positions.

Every step keeps the length of the text: what is of no interest becomes blanks, so that a span found here is a span of
the answer as written, and can be led back to the tokens that wrote it. Cues are found once in a clause and looked up
for each name, so that the time grows with the length of the text and no faster.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from .reasoning import answer_span

Standing = Literal["asserted", "denied", "open"]  # open: neither, as in "X cannot be excluded"


class Clause(NamedTuple):
    """text: a part of `plain(answer)`; start: where it begins; denied: it stands under a heading that denies."""

    text: str
    start: int
    denied: bool


# ---- one spelling

_TAG = re.compile(r"<\|[^|<>]{1,40}\|>|</?[A-Za-z_]{1,20}\s?>")
_DASH = re.compile(r"(?<=[^\W_])([*_]{0,2})[^\S\n][-–—]+(?=\s)")  # between words; at the start of a line it is a bullet
_WRAPPED = re.compile(r"(?<=[{\[,])[^\S\n]*\n\s*(?=[\"{])|\n(?=[^\S\n]*[\]}])")  # JSON over several lines
_SIGNS = str.maketrans(dict.fromkeys("✔✅☑🗸", "✓") | dict.fromkeys("✘❌❎✖🚫", "✗") | {"。": ".", "、": ","})
_ABBREVIATION = re.compile(r"\b(?:e\.g\.|i\.e\.),?", re.IGNORECASE)
_BOX = re.compile(r"(?<=[-*+•] )\[[ xX✓✔✗✘]\](?= )")
_LOOSE_QUOTE = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_NOISE = re.compile(r"[^\w\s.,;:!?'\"✓✗¬]|_")
_CJK_DENIAL = re.compile(r"没有|沒有|未见|未見|看不到|不可见|不存在|无(?!法)|無(?!法)|なし|없")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

# ---- lines, sentences, clauses

_LINE = re.compile(r"[^\n]+")
_BULLET = re.compile(r"\s*(?:[-*•+–]|\d+[.)]|[✓✗])\s")
_TITLE = re.compile(r"\s*(?:#{1,6}\s[^\n]*|\*\*[^*\n]+\*\*:?\s*)")
_LIST = re.compile(r":\s?\[([^\[\]]*)\]")
_STATUS = re.compile(
    r"\s*(?:not?\s+)?(?:visible|present|seen|absent|missing|identified|detected)(?:\s+(?:tools?|instruments?|findings?))?\s*"
)
_UNKNOWN_TITLE = re.compile(
    r"\b(?:assess(?:ed|able)|evaluated|evaluable|determined?|uncertain|unclear|indeterminate|differential)\b"
)
_ITEM_END = re.compile(  # of a JSON or Python list: each item is a sentence
    r"(\"\s*),(?=\s*\"(?!(?:visible|present|seen|detected|in use|used|status)\"\s*:\s?\"?"
    r"(?:true|false|yes|no|null|\d)))"
)
_SENTENCE = re.compile(r"(?:[^.;!?\n]|\.(?=\d))+[.;!?\n]?")
_REPLY = re.compile(r"\?(?=[\s\"]{0,4}(?:yes|yep|yeah|yup|no|nope|nah|none|not|absent|present|✓|✗)(?![^\W_]))")
_WHETHER = re.compile(r"\b(?:whether|if)\b.*", re.DOTALL)
_VERB = (
    r"(?:is|are|was|were|has|have|can|could|may|might|shows?|shown|contains?|i see|i can see|appears?|seems?|looks?|"
    r"reveals|demonstrates|exhibits|suffers|suggests|indicates|"
    r"(?:is|are|was|were|do|does|did|has|have|could|should|would|ca)n't)"
)
_OFTEN = r"(?:commonly|typically|usually|generally|often|frequently|sometimes|occasionally)"
_CLAUSE_END = re.compile(
    r"\b(?:but|however|although|though|except(?: for)?|whereas|while|yet|apart from|aside from|other than|besides)\b"
    r"|(?<!\bcan )\b(?:only|just|merely)\b"
    r"|\b(?:instead(?! of)|rather(?! than))\b"
    r"|,\s*(?:so\s+)?(?=(?:with|showing|there|the|it|this|i|we)\b)"
    rf"|(?P<list>,)(?!\s*(?:or|nor|and|{_VERB})\b)(?=(?:(?!\b(?:that|which|who)\b)[^,])*\b{_VERB}\b)"
    rf"|,\s*(?=which (?:may|can|might|could|(?:is|are) {_OFTEN})\b)"
    r"|\b(?P<and>and)\s+(?=(?:there|the|it|i|we)\b)"
)
_ANSWERED = re.compile(r"\s*(?:no|nope),")  # "No, ...": a reply
_NEUTRAL = re.compile(  # words that look like denials
    r"\bnot (?:only|just|merely)\b|\bno doubt\b|\bwithout (?:a |any )?doubt\b"
    r"|\bnot (?:\w+ly )?(?:sure|certain|clear|normal|healthy|unremarkable|free)\b(?: (?:of|from)\b)?"
    r"|\bnot (?:fully|completely|entirely)\b"
    r"|\b(?:no|not|without)\s+(?:\w+\s+)?"
    r"(?:changed?|increased?|decreased?|improve(?:ment|d)|worsen(?:ing|ed)|progress\w*)\b"
)

# ---- sentences about other cases than this one

_GENERAL = re.compile(
    rf"\b(?:{_OFTEN}(?: be)?(?: (?:used|seen|found|present|observed|visible|employed))?"
    r"|(?:in|during|for) (?:such|these|this (?:type|kind) of) (?:\w+ )?"
    r"(?:procedures?|operations?|surger(?:y|ies)|cases)"
    r"|(?:can|may|might|could) (?:also )?"
    r"(?:be (?:caused by|due to|a sign of|associated with|confused with|mistaken for)"
    r"|be (?:seen|found|present|used) (?:in|with|for) (?:patients|people|many|such|several|various|other)"
    r"|follow|occur|arise|result from|lead to|cause|accompany|mimic|appear|develop)"
    r"|refers? to|(?:is|are) (?:defined|characteri[sz]ed)"
    r"|common \w+ (?:include|are|for|of|in)|causes (?:of|include|are)"
    r"|(?:is|are) (?:an? |the )?(?:\w+ ){0,3}"
    r"(?:condition|term|pattern|type|form|kind|accumulation|collection|disorder)s?"
    r" (?:of|in|that|which|where|for|used)|would (?:be (?:used|needed|required)|require|need|show)|can be difficult)\b"
)
_HERE = re.compile(
    r"\b(?:visible|seen|noted|identified|observed|evident|detected|present|here|shows|there (?:is|are)|i (?:can )?see"
    r"|in (?:the|this) (?:image|picture|frame|view|scene|radiograph|x ray|film))\b"
)

# ---- denials

_SCOPE_END = re.compile(
    r"\b(?:shows|contains|reveals|includes|has|depicts|features|demonstrates|exhibits|suffers|suggests|indicates)\b"
)
_SEEN = (
    r"(?:seen|present|visible|visuali[sz]ed|identified|noted|observed|evident|detected|demonstrated|appreciated|found|"
    r"apparent|there|used|employed|needed|required|introduced|inserted|shown|recogni[sz]able|discernible|likely|suspected|"
    r"in use|in sight|in shot|on screen|visibles?|sichtbar|zu sehen|zu erkennen|"
    r"(?:in|within|among) (?:the |this )?(?:\w+ ){0,2}(?:image|picture|frame|view|scene|field|tools|instruments))"
)
_OF_ALL = re.compile(r"\b(?:none of|neither)\b")
_UNKNOWN = (
    r"(?:can ?not|can't|could not|couldn't|not|unable to|(?:difficult|hard|impossible|not possible) to)\s+"
    r"(?:be\s+|been\s+)?"
    r"(?:\w+ly\s+)?(?:rule out|ruled out|excluded?|assess(?:ed)?|evaluated?|determined?|confirm(?:ed)?|judged?)"
)
_DENIED_BEFORE = re.compile(
    rf"\b(?P<open>{_UNKNOWN}|to exclude|to rule out)\b"
    rf"|\b(?:no(?!\s*[,\d])|not(?!\s+(?:be\s+|\w+ly\s+)*{_SEEN}\s*,)|cannot|\w+n't|without|absence of|never|"
    r"(?:absent|missing|excluded|ruled out)\s*:|"
    r"neither|nor|none of|lack(?:s|ing|ed)?(?: of)?|rather than|instead of|unlike|free (?:of|from)|clear of|"
    r"negative(?: for|:)|den(?:y|ies)|rules? out|excludes|as opposed to|nothing (?:to|that|suggest\w+)|fails? to|"
    r"pas de?|aucune?s?|sans|ni|sin|ning[uú]n[oa]?|keine?[nrms]?|weder|ohne)(?=\W|$)"
    r"|¬(?=\s*\w)"
)
_FILL = r"(?:be\s+|been\s+|being\s+|yet\s+|currently\s+|\w+ly\s+)"
_NOT = r"(?:not|never|no longer|pas|nicht)"
_DENIED_AFTER = re.compile(
    rf"\b(?P<open>(?:(?P<verb>is|are|was|were)\s+)?{_UNKNOWN})\b"
    r"|\b(?P<verbed>"
    r"(?:(?:is|are|was|were|ca|could|do|does|did|has|have)n't|(?:can|could|is|are|was|were|do|does|did|has|have|est|sont"
    rf"|ist|sind)\s+{_NOT}|cannot)(?:\s*(?=$|[,:])|\s+{_FILL}{{0,3}}(?:{_SEEN}|appear|exist)\b)"
    rf"|(?:is|are|was|were|remains?|appears?|seems?)\s+{_FILL}{{0,2}}"
    r"(?:absent|missing|unlikely|doubtful|less likely|gone|negative|excluded|ruled out|out of (?:the )?"
    r"(?:view|frame|sight|picture))\b"
    r"|(?:has|have)\s+(?:\w+ly\s+|already\s+)?"
    r"(?:been\s+(?:removed|withdrawn|taken out|retracted from|excluded|ruled out)"
    r"|resolved|cleared|disappeared|left the)\b|can be\s+(?:\w+ly\s+)?(?:excluded|ruled out)\b"
    r"|(?:was|were)\s+(?:removed|withdrawn)\b"
    r"|no se (?:ven?|observan?|aprecian?|identifican?|visualizan?)\b)"
    rf"|\b(?:{_NOT}\s+{_FILL}{{0,3}}{_SEEN}\b|(?:not|pas)\s*$|no longer\s+{_FILL}{{0,2}}{_SEEN}\b"
    r"|(?:absent|missing|unlikely|doubtful|less likely|negative|ruled out|not needed|abwesend|ausente|absente?)\b"
    r"|(?:no|none|false|null|n|n a|nope|nah|non|nein|nil|0(?:\.0+)?)(?=\s*(?:$|[,:\"\d]|\s\w+\s*:)))"
    r"|(?P<foreign>¬)(?=\s*(?:$|[,:.]))"
)
_NEXT = re.compile(r"\s*[:=,]?\s*(?:(?:visible|present|seen|detected|in use|used|status)\s*:\s*)?")
_ONE_COLON = re.compile(r"\s*,[^:]*:\s*")
_REACH = 300  # characters
_TOGETHER = re.compile(r"\s+(?:and|or)\s+(?:\w+\s+){1,2}")
# "Hook: I cannot see one.": what stands before the colon is what the rest is about.
_TOPIC_DENIED = re.compile(
    r"\s*:\s*(?:(?:i|we|it|they|there|this|that|one)\s+)?(?:(?:is|are|was|were|has|have|does|do|did|can|could)\s+)?"
    r"(?:(?:no|not|none|nope|nah|never|cannot|absent|missing|nothing|without|false|non|nein|\w+n't)\b|✗|¬)"
)
_BREAK = re.compile(rf"\b(?:{_VERB}|(?!used (?:for|to|in|during|by)\b){_SEEN})\b")
_SEEN_WORD = re.compile(rf"\b{_SEEN}\b")
_STATES = re.compile(rf"\b(?:{_VERB}|see|visible|seen)\b")
_MARK = re.compile(r"[✓✗]")


def plain(text: str) -> str:
    """The text in lower case, thinking, markup and underscores as blanks, quotation marks as ", in the same length.

    Ticks and crosses become ✓ and ✗, a Chinese denial becomes ¬.

    >>> plain("**Grasper**, “cystic_duct”")
    '  grasper  , "cystic duct"'
    """
    start, end, how = answer_span(text)
    end = start if how == "open reasoning" else end
    text = " " * start + _TAG.sub(_blanks, text[start:end]) + " " * (len(text) - end)
    if not text.isascii():
        text = "".join(map(_simple, text.translate(_SIGNS)))
        text = _CJK.sub(" ", _CJK_DENIAL.sub(lambda match: f"{'¬':<{len(match[0])}}", text))
    text = _ABBREVIATION.sub(_blanks, text)
    text = _BOX.sub(lambda match: " ✗ " if match[0] == "[ ]" else " ✓ ", text)
    text = _DASH.sub(lambda match: f"{':':<{len(match[0])}}", _WRAPPED.sub(_blanks, text.lower()))
    return _NOISE.sub(" ", _LOOSE_QUOTE.sub('"', text))


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _simple(character: str) -> str:
    if character in "’‘":
        return "'"
    if character in "“”«»":
        return '"'
    folded = unicodedata.normalize("NFKC", character).lower()
    return folded if len(folded) == 1 else character if len(character.lower()) == 1 else " "


def clauses(text: str) -> Iterator[Clause]:
    """The clauses of a text that state something.

    Left out are questions, what follows "whether" and "if", sentences about other cases ("commonly used", "may
    be caused by"), and what stands under a heading such as "Cannot be assessed".
    """
    words = plain(text)
    under, listed, last_end = "asserted", False, 0
    for line in _LINE.finditer(words):
        written = line[0]
        if not written.strip(" .,"):
            continue
        raw = text[line.start() : line.end()]
        bullet = bool(_BULLET.match(raw) or _BULLET.match(written))
        apart = line.start() - last_end > 1
        last_end = line.end()
        if written.rstrip(' "').endswith(":") or _STATUS.fullmatch(written) or (not bullet and _TITLE.fullmatch(raw)):
            standing = _of_heading(written)
            if not bullet or standing != "asserted" or _SEEN_WORD.search(written):
                under, listed = standing, False
        elif bullet:
            listed = True
        elif _STATES.search(written) or (listed and apart):
            under = "asserted"
        else:
            listed = True
        if under == "open":
            continue
        lists = [found.span(1) for found in _LIST.finditer(raw) if _of_key(written, found.start()) == "denied"]
        begins = [begin for begin, _ in lists]
        for clause, start in _of_line(_ITEM_END.sub(r"\1.", written)):
            item = bisect_right(begins, start + len(clause)) - 1
            yield Clause(clause, line.start() + start, under == "denied" or (item >= 0 and start < lists[item][1]))


def _of_heading(words: str) -> Standing:
    """What a heading says of all that stands below it."""
    said = words.rstrip(' ":✓✗').rpartition(".")[2]
    said = _NEUTRAL.sub(_blanks, said)
    cue = _DENIED_BEFORE.search(said) or _DENIED_AFTER.search(said)
    if (cue and cue["open"]) or _UNKNOWN_TITLE.search(said) or _is_general(said):
        return "open"
    return "denied" if cue or "✗" in words else "asserted"


def _of_key(words: str, end: int) -> Standing:
    return _of_heading(words[max(end - 40, 0) : end].rstrip('" ').rpartition('"')[2])


def _of_line(line: str) -> Iterator[tuple[str, int]]:
    for sentence in _SENTENCE.finditer(_REPLY.sub(":", line)):
        if sentence[0].endswith("?"):
            continue
        words = _WHETHER.sub(_blanks, _NEUTRAL.sub(_blanks, sentence[0])).replace('"', " ")
        reply = _ANSWERED.match(words)
        start = reply.end() if reply else 0
        if reply:
            yield reply[0].rstrip(","), sentence.start()
        general = False
        for end in (*_turns(words, start), None):
            part = words[start : end.start() if end else len(words)]
            general = _is_general(part, general)
            if part.strip() and not general:
                yield part.rstrip(".;!\n"), sentence.start() + start
            general = general and bool(end) and end[0].startswith((",", "and"))
            start = end.end() if end else start


def _turns(words: str, start: int) -> Iterator[re.Match[str]]:
    """Where a sentence turns to another statement."""
    ends = list(_CLAUSE_END.finditer(words, start))
    if not ends:
        return
    states, denials, of_all = (
        [match.start() for match in pattern.finditer(words)] for pattern in (_STATES, _DENIED_BEFORE, _OF_ALL)
    )
    for end in ends:
        here = start, end.start()
        if end["and"] and not _any(states, *here):
            continue  # "The grasper and the hook are ...": one subject
        if end["list"] and (not _any(denials, *here) or _any(of_all, *here)):
            continue  # "Grasper, hook, bag are not visible", "None of grasper, hook, bag are visible": one list
        yield end
        start = end.end()


def _any(places: list[int], start: int, end: int) -> bool:
    """Whether one of the sorted places lies in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)


def _is_general(words: str, before: bool = False) -> bool:
    """Whether words speak of what is usual, and not of this image; before: those before them in the sentence do."""
    return (before or bool(_GENERAL.search(words))) and not _HERE.search(_GENERAL.sub(_blanks, words))


class _Cues(NamedTuple):
    """Where a clause's words deny, and where a denial ends; each list in the order of the text."""

    before: list[re.Match[str]]
    before_ends: list[int]
    scope_ends: list[int]
    after: list[re.Match[str]]
    after_starts: list[int]
    breaks: list[int]
    statement: int  # the end of the first words that state something
    marks: list[re.Match[str]]
    mark_starts: list[int]


@lru_cache(maxsize=16)
def _cues(words: str) -> _Cues:
    before, after, marks = (list(cue.finditer(words)) for cue in (_DENIED_BEFORE, _DENIED_AFTER, _MARK))
    statement = _STATES.search(words) if after else None
    return _Cues(
        before,
        [cue.end() for cue in before],
        [end.start() for end in _SCOPE_END.finditer(words)] if before else [],
        after,
        [cue.start() for cue in after],
        [stop.start() for stop in _BREAK.finditer(words)] if after else [],
        statement.end() if statement else len(words) + 1,
        marks,
        [mark.start() for mark in marks],
    )


def standings(clause: Clause, spans: Sequence[tuple[int, int]]) -> list[Standing]:
    """For each [start, end) of the text, in order, which begins in the clause: what the clause says of it."""
    if clause.denied or not spans:
        return ["denied"] * len(spans)
    words = clause.text
    before, before_ends, scope_ends, after, after_starts, breaks, statement, marks, mark_starts = _cues(words)
    leading = bool(marks) and mark_starts[0] < spans[0][0] - clause.start
    found: list[Standing] = []
    for index, (start, end) in enumerate((start - clause.start, end - clause.start) for start, end in spans):
        following = spans[index + 1][0] - clause.start if index + 1 < len(spans) else len(words)
        mark = bisect_left(mark_starts, start) - 1 if leading else bisect_left(mark_starts, end)
        if 0 <= mark < len(marks) and (leading or mark_starts[mark] < following):
            found.append("denied" if marks[mark][0] == "✗" else "asserted")
            continue
        nearest = bisect_right(before_ends, start) - 1
        if nearest >= 0 and not _any(scope_ends, before_ends[nearest], start):
            found.append("open" if before[nearest]["open"] else "denied")
            continue
        cue = bisect_left(after_starts, end)
        if cue < len(after) and _reaches(words, end, after[cue], breaks, alone=statement <= start):
            found.append("open" if after[cue]["open"] else "denied")
        else:
            found.append("denied" if _TOPIC_DENIED.match(words, end) else "asserted")
    return found


def _reaches(words: str, end: int, cue: re.Match[str], breaks: list[int], *, alone: bool) -> bool:
    """Whether a denial that follows a name which ends here is one of that name; alone: a statement stands before it."""
    if _NEXT.match(words, end).end() >= cue.start():  # type: ignore[union-attr]
        return True
    if cue.start() - end < _REACH and _ONE_COLON.fullmatch(words, end, cue.start()):  # "Hook, bag: absent"
        return True
    if alone or _any(breaks, end, cue.start()):
        return False
    together = bool(cue["verbed"] or cue["foreign"] or cue["verb"])
    return together or bool(_TOGETHER.fullmatch(words, end, cue.start()))
