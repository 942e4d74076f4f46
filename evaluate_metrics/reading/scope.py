"""One scope of negation: whether a clause asserts or denies a name in it, for all readers.

A denial binds forward to its own object ("no edema", "without a grasper"). It reaches back only through a predicate
("edema is absent", "edema: absent", "edema was not seen"). A denial of a whole statement ("I do not think that ...")
turns what the rest says around. Words for what is normal ("clear", "within limits") are names like all others, so that
"not clear" denies "clear".

Cues are found once in a clause and looked up for each name, so that the time grows with the length of the text and no
faster.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

Standing = Literal["asserted", "denied", "open"]  # open: neither, as in "compared with X"

VERB = (
    r"(?:is|are|was|were|has|have|can|could|may|might|shows?|shown|contains?|i see|i can see|appears?|seems?|looks?|"
    r"reveals|demonstrates|exhibits|suffers|suggests|indicates|"
    r"(?:is|are|was|were|do|does|did|has|have|could|should|would|ca)n't)"
)
_SEEN_WORDS = (
    r"seen|present|visible|visuali[sz]ed|identified|noted|observed|evident|detected|demonstrated|appreciated|found|"
    r"apparent|there|shown|used|employed|needed|required|introduced|inserted|recogni[sz]able|discernible|likely|"
    r"suspected|in use|in sight|in shot|on screen|visibles?|sichtbar|zu sehen|zu erkennen"
)
SEEN = (
    rf"(?:{_SEEN_WORDS}|(?:in|within|among) (?:the |this )?(?:\w+ ){{0,2}}"
    r"(?:image|picture|frame|view|scene|field|tools|instruments))"
)
NORMAL = r"(?:normal|clear|healthy|unremarkable|intact|free)"
STATES = re.compile(rf"\b(?:{VERB}|see|visible|seen)\b")

# Words that look like denials and deny nothing behind them. "Not clear" denies "clear" itself, see `standings`.
NEUTRAL = re.compile(
    r"\bno (?:question|mistaking|hesitation|denying|other (?:\w+ )?(?:choice|explanation|diagnosis)(?: than)?)\b"
    r"|\b(?:can ?not|can't|hard to|impossible to) (?:be )?(?:miss(?:ed)?|overlook(?:ed)?)\b|\bhard not to\b|"
    r"\bnot (?:only|just|merely)\b|\bno doubt\b|\bwithout (?:a |any )?doubt\b|\bnot without\b|\bnot uncommon\w*"
    rf"|\bnot (?!only|merely)(?:\w+ly )?(?:sure|certain|{NORMAL})\b(?: (?:of|from)\b)?"
    rf"|\bnot (?:fully|completely|entirely) (?=(?:{SEEN}|in view)\b)"
    r"|\b(?:no|not|without)\s+(?:\w+\s+)?"
    r"(?:changed?|increased?|decreased?|improve(?:ment|d)|worsen(?:ing|ed)|progress\w*)\b"
    r"|\b(?:can ?not|can't) be (?:denied|overlooked|missed|ignored)\b"
)
_NOT_NORMAL = re.compile(
    rf"\bnot (?!only|merely)(?:\w+ly )?{NORMAL}\b"
    r"|\b(?:than|above|outside|beyond|exceeds?|at odds with|from|off|(?:left|right) of) (?:the |an? )?(?:\w+ ){0,3}?"
    r"(?:normal|midline)\b"
)
# A denial of a whole statement.
_TURNED = re.compile(
    r"\b(?:it is|it's|this is|that is) (?:not|untrue|false|incorrect|wrong)(?: (?:the case|true|correct|so))?"
    r"(?: to say)? that\b"
    r"|\b(?:do|does|did|would)(?:n't| not) (?:\w+ly )?(?:think|believe|suggest|indicate|mean|imply|feel|support)\b"
    r"|\bnothing (?:\w+ ){0,4}?(?:suggests?|indicates?|points to|supports?|shows?)\b"
    r"|\bno (?:evidence|indication|reason|sign|suggestion) (?:that|to (?:suggest|think|believe|indicate))\b"
    r"|\b(?:unlikely|improbable|doubtful) that\b|(?<!no )\bdoubt that\b"
)

_UNKNOWN = (
    r"(?:can ?not|can't|could not|couldn't|not|unable to|(?:difficult|hard|impossible|not possible) to)\s+"
    r"(?:be\s+|been\s+)?"
    r"(?:\w+ly\s+)?(?:rule out|ruled out|excluded?|assess(?:ed)?|evaluated?|determined?|confirm(?:ed)?|judged?)"
)
_FOREIGN = (
    r"pas de?|aucune?s?|sans|ni|sin|ning[uú]n[oa]?|tampoco|keine?[nrms]?|weder|ohne|sem|nenhum\w*|não|nessun\w*|senza"
    r"|không"
)
DENIED_BEFORE = re.compile(
    rf"\b(?P<open>{_UNKNOWN}|to exclude|to rule out|compared (?:to|with)|in (?:contrast|comparison) (?:to|with)|versus"
    rf"|vs|(?<!less )(?<!rather )(?<!other )(?<!or )(?:(?<!more )than|than(?! (?:one|two|an?|\d)\b)))\b"
    rf"|\b(?:no(?!\s*[,\d])|not(?!\s+(?:be\s+|\w+ly\s+)*{SEEN}\s*,)|cannot|\w+n't|without|absence of|never|"
    r"(?:absent|missing|excluded|ruled out)\s*:|"
    r"neither|nor|none of|lack(?:s|ing|ed)?(?: of)?|rather than|instead of|unlike|free (?:of|from)|clear of|"
    r"negative(?: for|:)|den(?:y|ies)|rul(?:es?|ing) out|exclud(?:es?|ing)|as opposed to|opposed to|"
    r"nothing(?!\s+(?:but|other|more|else than))|fails? to|inconsistent with|"
    r"(?:argu(?:es?|ing)|speak(?:s|ing)?|point(?:s|ing)?|evidence) (?:strongly |clearly )?against|"
    r"absent(?=\s+(?!in\b|on\b|from\b|at\b|and\b|or\b|with\b)\w)|"
    r"eliminat(?:es?|ing)|far from|anything but|by no means|"
    rf"less than(?!\s+(?:\d|a |half|one))|hardly|scarcely|{_FOREIGN})"
    r"(?=\W|$)|¬(?=\s*\w)"
)
# A denial before one of these does not reach what is behind it.
_SCOPE_END = re.compile(
    r"\b(?:shows|contains|reveals|includes|has|depicts|features (?=an?\b|the\b)|demonstrates|exhibits|suffers|suggests"
    r"|indicates|means|this is|in keeping with|(?<!not )(?<!in)(?:consistent|compatible) with)\b"
)
# Neither does it reach the cause of what is missing ("no markings are seen, indicating a pneumothorax"), nor its place.
_CAUSE = re.compile(
    r",\s*(?:thus |thereby )?(?:indicating|suggesting|suggests|meaning|pointing|confirming|representing|consistent with"
    r"|compatible with|in keeping with|which (?:means|suggests|indicates|points))\b"
    r"|\b(?:because|due to|caused by|as a result of|near|around|behind|beside|next to|adjacent to)\b"
    r"|(?<=not sharp) (?:suggesting|indicating)\b"
)
# And of what is only to be judged, or spoken about, nothing is denied ("no film to diagnose edema from").
_PURPOSE = re.compile(
    r"\bto (?!be\b|suggest|have\b|show\b|indicate|appear|support|suspect|believe|think|find\b|see\b|contain|exclude)\w+"
    r"|\b(?:about|regarding|concerning|enough|sufficient|for the|which is)\b"
)
# "Pneumothorax makes the lung collapse": a bare name whose predicate says what such a thing is or does.
_TEACHES = re.compile(
    r"\s+(?:(?:is|are) (?:an?|the(?! (?:\w+ )?(?:finding|one|abnormality|answer|choice|diagnosis|option"
    r"|explanation|most (?:likely|probable|plausible|apparent|prominent|striking|notable|consistent"
    r"|compatible))\b)|one|more|less|caused|measured|defined|diagnosed|treated|called|suggested when|air|fluid"
    r"|faster|best|better)|makes?|means|shows?|develops?|reduces?|looks? like|appears? as|shows? (?:as|up)|occurs?"
    r"|causes?|leads?|results?|collects?|blunts?|treatment|includes?|refers?|requires?|needs?|costs?|affects?|involves?"
    r"|tends?|arises?)\b"
)
_ARTICLE = re.compile(r"\W*(?:an? |the term )?\Z")
_UNDECIDED = re.compile(
    r"\s*:\s*(?:unclear|indeterminate|uncertain|unknown|undetermined|equivocal|n ?a\b|not (?:assess|evalua"
    r"|applicable|mention)"
    r"|cannot|can't|possible|possibly|maybe|\?)"
)
_WRONG = re.compile(r"\s+(?:is|was|seems) (?:\w+ly )?(?:wrong|incorrect|false|not (?:supported|correct|right|true))\b")
# "The finding which is not present is edema": nor does one within a relative clause reach what that clause describes.
_RELATIVE_END = re.compile(
    r"\b(?:which|that|who) (?:(?:is|are|was|were|can|could|do|does|did|has|have) not|\w+n't|can ?not)\b[^,;]{0,60}?"
    r"\b(?P<end>is|are|was|were)\b"
)
_FILL = r"(?:be\s+|been\s+|being\s+|yet\s+|currently\s+|all\s+|both\s+|\w+ly\s+)"
_NOT = r"(?:not|never|no longer|pas|nicht)"
_DENIED_AFTER = re.compile(
    rf"\b(?P<open>(?:(?P<verb>is|are|was|were|has|have)\s+)?{_UNKNOWN})\b"
    r"|\b(?P<verbed>"
    r"(?:(?:is|are|was|were|ca|could|do|does|did|has|have)n't|(?:can|could|is|are|was|were|do|does|did|has|have|est"
    r"|sont"
    rf"|ist|sind)\s+{_NOT}|cannot)(?:\s*(?=$|[,:])|\s+{_FILL}{{0,3}}(?:{SEEN}|appear|exist)\b)"
    rf"|(?:is|are|was|were|remains?|appears?|seems?)\s+{_FILL}{{0,2}}"
    r"(?:absent|missing|unlikely|doubtful|less likely|gone|negative|excluded|ruled out|wrong|incorrect|false"
    r"|nowhere|out of (?:the )?(?:view|frame|sight|picture))\b"
    r"|(?:has|have)\s+(?:\w+ly\s+|already\s+)?"
    r"(?:been\s+(?:removed|withdrawn|taken out|retracted from|excluded|ruled out)"
    r"|resolved|cleared|disappeared|left the)\b|can be\s+(?:\w+ly\s+)?(?:excluded|ruled out)\b"
    r"|is\s+the\s+(?:\w+\s+){1,3}?that\s+is\s+(?:absent|missing|not\s+(?:present|seen|visible))\b"
    r"|(?:was|were)\s+(?:removed|withdrawn)\b|fails?\s+to\s+(?:be\s+seen|appear|show)\b"
    r"|no se (?:ven?|observan?|aprecian?|identifican?|visualizan?)\b)"
    rf"|\b(?:{_NOT}\s+{_FILL}{{0,3}}{SEEN}\b|(?:not|pas)\s*$|no longer\s+{_FILL}{{0,2}}{SEEN}\b"
    r"|(?:absent|missing|unlikely|doubtful|less likely|negative|ruled out|not needed|abwesend|ausente|absente?)\b"
    r"|(?:no|none|false|null|n|n a|nope|nah|non|nein|nil|0(?:\.0+)?)(?=\s*(?:$|[,:\"\d]|\s\w+\s*:)))"
    r"|(?P<foreign>¬)(?=\s*(?:$|[,:.]))"
)
_WITHIN = re.compile(
    r"\b(?:not|never|\w+n't|cannot|no longer|rather than|instead of|out of|far from|by no means|anything but|hardly"
    r"|scarcely|fails? to|neither"
    r"|less than(?!\s+(?:\d|a |half|one))|nicht|¬)(?=\W)"
)
_NEXT = re.compile(r"\s*[:=,]?\s*(?:(?:visible|present|seen|detected|in use|used|status)\s*:\s*)?")
_ONE_COLON = re.compile(r"\s*,[^:]*:\s*")
_REACH = 300  # characters
_TOGETHER = re.compile(r"\s+(?:and|or)\s+(?:\w+\s+){1,2}")
# "Hook: I cannot see one.": what stands before the colon is what the rest is about.
_TOPIC_DENIED = re.compile(
    r"(?:\s+(?:in|on|at|of|within) (?:\w+ ){1,4}?\w+|\s+(?:left|right|both|bilateral))?"
    r"\s*:\s*(?:(?:i|we|it|they|there|this|that|one)\s+)?(?:(?:is|are|was|were|has|have|does|do|did|can|could)\s+)?"
    r"(?:(?:no|not|none|nope|nah|never|cannot|absent|missing|nothing|without|false|non|nein|\w+n't)\b|✗|¬)"
)
_IN_SUCH = re.compile(r"(?:^|[,:])\s*in (?!the\b|this\b|both\b)(?:\w+ ){0,2}\Z")  # "in tension pneumothorax, ..."
_BREAK = re.compile(rf"\b(?:{VERB}|(?!used (?:for|to|in|during|by)\b)(?:{_SEEN_WORDS}))\b")
_BLANKS = re.compile(r"(?<= ) +")
_MARK = re.compile(r"[✓✗]")
_UNKNOWN_TITLE = re.compile(
    r"\b(?:assess(?:ed|able)|evaluated|evaluable|determined?|uncertain|unclear|indeterminate|differential)\b"
)


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
    turned: list[int]  # where a denial of the whole statement ends
    within: list[int]  # where a denial between the words of one name begins
    not_normal: list[int]  # where a denied word for what is normal ends


def standings(words: str, spans: Sequence[tuple[int, int]], *, denied: bool = False) -> list[Standing]:
    """Say of each name in a clause whether the clause asserts or denies it.

    Args:
        words: A clause in lower case (`clauses.Clause.text`).
        spans: [start, end) of each name in the words, in order.
        denied: The clause stands under a heading that denies (`clauses.Clause.denied`).

    Returns:
        The standing of each span.

    >>> standings("there is edema, no effusion", [(9, 14), (19, 27)])
    ['asserted', 'denied']
    >>> standings("the lungs do not appear to be clear", [(30, 35)])
    ['denied']
    """
    if denied or not spans:
        return ["denied"] * len(spans)
    words, spans = _squeeze(words, spans)
    cues = _find_cues(words)
    leading = bool(cues.marks) and cues.mark_starts[0] < spans[0][0]
    found: list[Standing] = []
    for index, (start, end) in enumerate(spans):
        following = spans[index + 1][0] if index + 1 < len(spans) else len(words)
        mark = bisect_left(cues.mark_starts, start) - 1 if leading else bisect_left(cues.mark_starts, end)
        if 0 <= mark < len(cues.marks) and (leading or cues.mark_starts[mark] < following):
            found.append("denied" if cues.marks[mark][0] == "✗" else "asserted")
            continue
        standing = _stand(words, start, end, cues)
        if bisect_right(cues.turned, start) % 2 and standing != "open":
            standing = "asserted" if standing == "denied" else "denied"
        found.append(standing)
    return found


def _squeeze(words: str, spans: Sequence[tuple[int, int]]) -> tuple[str, Sequence[tuple[int, int]]]:
    """Leave one blank of each run that markup left behind, and move the spans with their words."""
    runs = list(_BLANKS.finditer(words))
    if not runs:
        return words, spans
    starts, removed = [run.end() for run in runs], [0]
    for run in runs:
        removed.append(removed[-1] + len(run[0]))
    moved = [tuple(place - removed[bisect_right(starts, place)] for place in span) for span in spans]
    return _BLANKS.sub("", words), moved  # type: ignore[return-value]


def says_denial(words: str) -> bool:
    """Whether lower-case words hold a word of denial."""
    return bool(DENIED_BEFORE.search(words.casefold()))


def stands_under(words: str) -> Standing:
    """Say what a heading says of all that is listed below it."""
    words = words.rstrip(' ":✓✗').rpartition(".")[2]
    words = NEUTRAL.sub(blank, words)
    cue = DENIED_BEFORE.search(words) or _DENIED_AFTER.search(words)
    if (cue and cue["open"]) or _UNKNOWN_TITLE.search(words):
        return "open"
    return "denied" if cue else "asserted"


def blank(match: re.Match[str]) -> str:
    """Return blanks in the length of a match."""
    return " " * len(match[0])


def _stand(words: str, start: int, end: int, cues: _Cues) -> Standing:
    teaches = _TEACHES.match(words, end) and _ARTICLE.fullmatch(words, 0, start)
    if teaches or _IN_SUCH.search(words, max(start - 40, 0), start) or _UNDECIDED.match(words, end):
        return "open"
    if _any(cues.within, start, end) or _any(cues.not_normal, start + 1, end + 1):
        return "denied"
    nearest = bisect_right(cues.before_ends, start) - 1
    if nearest >= 0 and not _any(cues.scope_ends, cues.before_ends[nearest], start):
        if cues.before[nearest]["open"] or _PURPOSE.search(words, cues.before_ends[nearest], start):
            return "open"
        return "open" if _WRONG.match(words, end) else "denied"
    cue = bisect_left(cues.after_starts, end)
    if cue < len(cues.after) and _reaches(words, end, cues.after[cue], cues.breaks, alone=cues.statement <= start):
        return "open" if cues.after[cue]["open"] else "denied"
    return "denied" if _TOPIC_DENIED.match(words, end) else "asserted"


@lru_cache(maxsize=64)
def _find_cues(words: str) -> _Cues:
    turned = list(_TURNED.finditer(words))
    words = _TURNED.sub(blank, words)
    # "Not clear" denies "clear" and nothing behind it.
    normal = [match.end() for match in _NOT_NORMAL.finditer(words)]
    plain = NEUTRAL.sub(blank, words)
    before, after, marks = (list(cue.finditer(plain)) for cue in (DENIED_BEFORE, _DENIED_AFTER, _MARK))
    statement = STATES.search(plain) if after else None
    return _Cues(
        before,
        [cue.end() for cue in before],
        sorted(
            [end.start() for end in _SCOPE_END.finditer(plain)]
            + [end.start("end") for end in _RELATIVE_END.finditer(plain)]
            + [end.start() for end in _CAUSE.finditer(plain)]
        )
        if before
        else [],
        after,
        [cue.start() for cue in after],
        [stop.start() for stop in _BREAK.finditer(plain)] if after else [],
        statement.end() if statement else len(words) + 1,
        marks,
        [mark.start() for mark in marks],
        [turn.end() for turn in turned],
        [cue.start() for cue in _WITHIN.finditer(plain)],
        normal,
    )


def _any(places: list[int], start: int, end: int) -> bool:
    """Whether one of the sorted places lies in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)


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
