"""The scope of negation: whether a clause asserts or denies a name, for all readers.

A denial applies forward to its own object ("no edema", "without a grasper"). It applies backward only through a
predicate ("edema is absent", "edema: absent", "edema was not seen"). A denial of a full statement ("I do not think that
...") inverts the rest. Words for normal states ("clear", "within limits") are names like all others, so "not clear"
denies "clear".

Cues are found once per clause and looked up for each name, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from .denial_words import (
    ALL_BUT,
    FOREIGN,
    NEUTRAL,
    NOT_NORMAL,
    PERCEIVE,
    SEEN,
    SEEN_WORDS,
    STATES,
    TURNED,
    UNKNOWN,
    VERB,
)

Standing = Literal["asserted", "denied", "open"]  # open: neither, like "compared with X"

# "Not at all consistent with" denies what follows, while "not sharp, consistent with" states it.
_INCONSISTENT = (
    r"(?:not|never|hardly|scarcely|\w+n't)(?: (?:seem|appear|look)(?: to be)?)?"
    r"(?: (?:\w+ly|at all|very|quite|so|too|also|be)){0,3} (?:consistent|compatible|in keeping|in line) with"
)
DENIED_BEFORE = re.compile(
    rf"\b(?P<open>{UNKNOWN}|{ALL_BUT}|(?:favou?r|prefer)\w*(?: \w+){{0,4}}? over|(?:i|we) considered|to exclude"
    rf"|to rule out|compared (?:to|with)"
    r"|in (?:contrast|comparison) (?:to|with)|versus"
    rf"|vs|(?<!less )(?<!rather )(?<!other )(?<!or )(?:(?<!more )than|than(?! (?:one|two|an?|\d)\b)))\b"
    rf"|\b(?:{_INCONSISTENT}"
    rf"|no(?!\s*[,\d])|not(?!\s+(?:be\s+|\w+ly\s+)*{SEEN}\s*,)|cannot|\w+n't|without|absence of|never|"
    r"(?:absent|missing|excluded|ruled out|negatives?)(?: \w+)?\s*:|"
    r"neither|nor|none of|lack(?:s|ing|ed)?(?: of)?|rather than|instead of|unlike|free (?:of|from)|clear of|"
    r"(?<!gram )neg(?: for)?(?= \w)|negative for|w o|nil(?= [a-z])|devoid of|(?:unlikely|improbable) to (?:be"
    r"|represent)|pseudo"
    r"|false(?= (?!negative|positive)[a-z])"
    r"|(?<!not )(?<!n't )(?:cleared|evacuated|drained|removed|withdrawn|withdrew|put (?:down|away)|tak(?:en|ing) out"
    r"|took out)(?= (?:the|all)\b)|den(?:y|ies)|rul(?:es?|ing) out"
    r"|exclud(?:es?"
    r"|ing)|as opposed to|opposed to|"
    rf"nothing(?!\s+(?:but|other|more|else than))|fail(?:s|ed|ing)? to|(?:un"
    rf"|not )able to(?= (?:\w+ly )?{PERCEIVE}\b)|(?:inconsistent|incompatible) with|spared (?:of|from|by)|"
    r"(?<!partial )(?<!incomplete )(?<!near complete )(?<!slow )(?<!gradual )(?<!image )"
    r"(?:resolution|clearing|disappearance) of(?! (?:the |this )?(?:image|picture|film|scan))|"
    r"(?:having|(?:i|we)(?:'ve| have)?|(?:has|have|had)) (?:\w+ly |already )?(?:ruled out|excluded|eliminated)|"
    r"(?<!not )resolved(?= (?!and\b|or\b|with\b|in\b|on\b|since\b|but\b|as\b|to\b|by\b|from\b|after\b|now\b)\w)|"
    r"zero(?= (?!doubt|question|hesitation|or\b|point)[a-z])|after (?:removing|withdrawing|(?:the )?(?:removal"
    r"|withdrawal) of)|"
    r"(?:contradicts?|refutes?|disproves?|(?:i|we) (?:reject|dismiss|discard)(?:ed)?)(?![^:]*:)|"
    r"(?<!\ba )little (?:(?:evidence|sign|indication|support|suggestion) (?:of|for)|to (?:suggest|indicate|support))|"
    r"fall(?:s)? short of|(?:argu(?:es?|ing)|go(?:es|ing)?|speak(?:s|ing)?|point(?:s|ing)?|evidence) (?:strongly "
    r"|clearly )?against|"
    r"absent(?=\s+(?!in\b|on\b|from\b|at\b|and\b|or\b|with\b)\w)|"
    r"eliminat(?:es?|ing)|far from|anything but|by no means|"
    rf"less than(?!\s+(?:\d|a |half|one))|hardly|scarcely|{FOREIGN})"
    r"(?=\W|$)|¬(?=\s*\w)"
)
# A denial before one of these words does not apply to the text after it.
_SCOPE_END = re.compile(
    r"\b(?:shows|contains|reveals|includes|has|depicts|features (?=an?\b|the\b)|demonstrates|exhibits|suffers|suggests"
    r"|indicates|means|this is|in keeping with|(?<!not )(?<!in)(?:consistent|compatible) with)\b"
    r"|, (?:persist\w+|residual|remaining|stable|unchanged|ongoing)\b"
    r"|\b(?:and|with) (?:an? |the )?(?:new|worsen\w+|persist\w+|residual|remaining|increas\w+|progressi\w+|stable"
    r"|unchanged"
    r"|ongoing|superimposed)\b"
)
# A denial does not apply to a cause ("no markings are seen, indicating a pneumothorax") or a location.
_CAUSE = re.compile(
    r",\s*(?:thus |thereby )?(?:indicating|suggesting|suggests|meaning|pointing|confirming|representing|consistent with"
    r"|compatible with|in keeping with|which (?:means|suggests|indicates|points))\b"
    r"|\b(?:because|causing|resulting in|leading to|due to|caused by|as a result of|near|around|behind|beside"
    r"|next to|adjacent to)\b"
    r"|(?<=not sharp) (?:suggesting|indicating)\b"
)
# A denial does not apply to a purpose or a topic ("no film to diagnose edema from").
_PURPOSE = re.compile(
    r"\bto (?!be\b|suggest|have\b|show\b|indicate|appear|support|suspect|believe|think|find\b|see\b|contain|exclude)\w+"
    r"|\b(?:about|regarding|concerning|enough|sufficient|for the|which is)\b"
)
# "Pneumothorax makes the lung collapse": a general predicate of a bare name.
_TEACHES = re.compile(
    r"\s+(?:(?:is|are) (?:(?:visible|seen) (?:on|in) (?:an? )?(?:x ?rays?|imaging|radiographs?|films?) as|swelling"
    r"|excess|an?|the(?! (?:\w+ )?(?:finding|one|abnormality|answer|choice|diagnosis|option"
    r"|explanation|most (?:likely|probable|plausible|apparent|prominent|striking|notable|consistent"
    r"|compatible))\b)|one|more|less|caused|measured|defined|diagnosed|treated|called|suggested when|air|fluid"
    r"|faster|best|better)|makes?|means|shows?|develops?|reduces?|looks? like|appears? as|shows? (?:as|up)|occurs?"
    r"|causes?|leads?|results?|collects?|blunts?|treatment|includes?|refers?|requires?|needs?|costs?|affects?|involves?"
    r"|tends?|arises?)\b"
)
_ARTICLE = re.compile(r"\W*(?:an? |the term )?\Z")
_UNDECIDED = re.compile(
    r"\s*:\s*(?:unclear|unsure|not (?:sure|certain)|inconclusive|undecided|ambiguous|indeterminate|uncertain|unknown"
    r"|undetermined|equivocal|n ?a\b|not (?:assess|evalua"
    r"|applicable|mention)"
    r"|cannot|can't|possible|possibly|maybe|\?|\Z)"
)
_WRONG = re.compile(r"\s+(?:is|was|seems) (?:\w+ly )?(?:wrong|incorrect|false|not (?:supported|correct|right|true))\b")
# "The finding which is not present is edema": a denial in a relative clause does not apply to its antecedent.
_RELATIVE_END = re.compile(
    r"\b(?:which|that|who) (?:(?:is|are|was|were|can|could|do|does|did|has|have) not|\w+n't|can ?not)\b[^,;]{0,60}?"
    r"\b(?P<end>is|are|was|were)\b"
)
_FILL = r"(?:now\s+|be\s+|been\s+|being\s+|yet\s+|currently\s+|all\s+|both\s+|very\s+|quite\s+|\w+ly\s+)"
_NOT = r"(?:not|never|no longer|pas|nicht)"
# "is", "seems", "has been", "is considered", "was found to be": a verb between a name and what is said of it.
COPULA = (
    r"(?:is|are|was|were|(?:has|have|had)\s+been|(?:would|should|must|can)\s+(?:\w+ly\s+)?be|remains?|appears?|seems?|looks?"
    r"|prove[sd]?)"
    r"(?:\s+(?:\w+ly\s+)?(?:thought|considered|deemed|judged|felt|found|believed|likely|(?:assessed|regarded|seen|viewed)\s+as))?"
    r"(?:\s+to\s+(?:have\s+been|be))?"
)
# "not a good fit": the finding is denied; "not the main finding" asserts it.
_NO_FIT = (
    r"(?:an?|the) (?:(?:good|correct|right|best|likely|probable|plausible|convincing|suitable|reasonable) ){0,2}"
    r"(?:fit|match|diagnosis|answer|explanation|choice|option|possibility)\b"
)
# What a finding is not if the sentence denies it; "not seen" and the like are in SEEN.
_TENABLE = (
    r"(?:supported|substantiated|backed|correct|right|true|consistent|compatible|in (?:keeping|line)|likely|probable"
    r"|plausible|credible|tenable|suggested|favou?red|convincing|suspected)"
)
_DENIED_AFTER = re.compile(
    rf"\b(?P<open>(?:(?P<verb>is|are|was|were|has|have)\s+)?{UNKNOWN}"
    r"|(?:must|(?:has|have|needs?)\s+to)\s+be\s+(?:\w+ly\s+)?(?:excluded|ruled out|considered)"
    r"|(?:was|were)\s+(?:\w+ly\s+)?considered(?=\s*(?:$|[,;]|and\b|but\b|then\b)))\b"
    r"|\b(?P<verbed>"
    r"(?:(?:is|are|was|were|ca|could|do|does|did|has|have)n't|(?:can|could|is|are|was|were|do|does|did|has|have|est"
    r"|sont"
    rf"|ist|sind)\s+{_NOT}|cannot)(?:\s*(?=$|[,:])|\s+{_FILL}{{0,3}}(?:{SEEN}|appear|exist)\b)"
    rf"|{COPULA}\s+{_FILL}{{0,2}}"
    r"(?:absent|missing|lacking|nonexistent|unlikely|doubtful|less likely|gone|negative|excluded|ruled out|wrong"
    r"|incorrect|false"
    r"|improbable|implausible|untenable|unsupported|unsubstantiated|unfounded|unconvincing|disfavou?red|contradicted"
    r"|refuted|disprove[dn]|rejected|dismissed|(?:inconsistent|incompatible) with"
    r"|nowhere|out of (?:the )?(?:view|frame|sight|picture|question)|off (?:the|my) (?:table|list)"
    r"|outside (?:of )?(?:the |this )?(?:field of )?(?:view|frame|field|image|picture)|off ?screen|drained|evacuated"
    r"|replaced|swapped"
    r"|exchanged"
    r"|(?:just )?taken out"
    rf"|{_NOT}\s+(?:what (?:the|this|these|is)\b|(?:my|our) (?!only|main|first)|{_NO_FIT})"
    rf"|{_NOT}\s+(?:to\s+be\s+)?{_FILL}{{0,2}}(?:{_TENABLE}|{SEEN}))\b"
    rf"|(?:is|are|was|were)n't\s+(?:{_FILL}{{0,2}}{_TENABLE}\b|{_NO_FIT})"
    rf"|(?:do|does|did)(?:n't|\s+{_NOT})\s+(?:(?:seem|appear|look)\s+(?:to\s+be\s+)?{_FILL}{{0,2}}(?:{_TENABLE}|{SEEN}"
    r"|an? (?:\w+ )?(?:feature|finding|concern|issue))|fit|match|agree|correspond|apply)\b"
    r"|(?:has|have|had|having)\s+(?:(?:(?!partial|part|incomplete|slight|near|most|large|main|gradual|slow)\w+ly|already|since"
    r"|now|all|also|both)\s+){0,2}"
    r"(?:been\s+(?:removed|withdrawn|taken out|retracted from|excluded|ruled out|resolved|cleared)"
    r"|resolved|cleared|disappeared|vanished|subsided|healed|gone|left the)\b|can be\s+(?:\w+ly\s+)?"
    r"(?:excluded|ruled out|dismissed|rejected|discarded|disregarded|eliminated)\b"
    r"|is\s+the\s+(?:\w+\s+){1,3}?that\s+is\s+(?:absent|missing|not\s+(?:present|seen|visible))\b"
    r"|(?:is|are|was|were)\s+(?:removed|withdrawn)\b|fails?\s+to\s+(?:be\s+seen|appear|show)\b|spar(?:es|ing)\b"
    r"|no se (?:ven?|observan?|aprecian?|identifican?|visualizan?)\b)"
    rf"|\b(?:{_NOT}\s+{_FILL}{{0,3}}{SEEN}\b|(?:not|pas)\s*$|no longer\s+{_FILL}{{0,2}}{SEEN}\b"
    r"|(?:absent|missing|(?:resolved|excluded|eliminated)(?=\s*(?:$|[,:]))|unlikely|improbable|doubtful|less likely"
    r"|neg(?:ative)?|free(?=\s*(?:$|[,:]|(?:right |left )?(?:lungs?|chest|image|scan)\b))|no more|not any ?(?:more"
    r"|longer)"
    r"|ruled out|not needed|abwesend|ausente|absente?)\b"
    r"|(?:no|none|false|null|n|n a|nope|nah|non|nein|nil|zero|0?\.[0-4]\d{0,4}|0(?:\.0+)?)(?=\s*(?:$|[,:\"\d]"
    r"|\s\w+\s*:)))"
    r"|(?P<foreign>¬)(?=\s*(?:$|[,:.]))"
)
_INNER_DENIAL = re.compile(
    r"\b(?:not|never|\w+n't|cannot|no longer|rather than|instead of|out of|far from|by no means|anything but|hardly"
    r"|scarcely|fails? to|neither"
    r"|less than(?!\s+(?:\d|a |half|one))|nicht|¬)(?=\W)"
)
_NEXT = re.compile(
    r"(?:\s*(?:right|left|upper|lower|lung|side)\b(?=[\w\s]{0,20}[:=\d])){0,3}\s*[:=,]?\s*"
    r"(?:(?:visible|present|seen|detected|in use|used|status)\s*:\s*|(?:probability|likelihood)\s*:?\s*)?"
)
# "Edema, which was present before, is gone"
_RELATIVE_ASIDE = re.compile(r"\s*,\s*(?:which|that|present|seen|noted|visible|absent)\b[^,]{1,80},\s*")
_ONE_COLON = re.compile(r"\s*,[^:]*:\s*")
_REACH = 300  # characters
_TOGETHER = re.compile(r"\s+(?:and|or)\s+(?:\w+\s+){1,2}")
# "Hook: I cannot see one.": the text before the colon is the topic of the rest.
_DENIED_TOPIC = re.compile(
    r"(?:\s+(?:in|on|at|of|within) (?:\w+ ){1,4}?\w+|\s+(?:left|right|both|bilateral))?"
    r"\s*:\s*(?:(?:i|we|it|they|there|this|that|one)\s+)?(?:(?:is|are|was|were|has|have|does|do|did|can|could)\s+)?"
    r"(?:(?:no|not|none|nope|nah|never|cannot|absent|missing|nothing|without|false|non|nein|\w+n't)\b|✗|¬)"
)
_IN_SUCH = re.compile(  # "in tension pneumothorax, ...", "which can be seen in pneumonia", "symptoms of pneumonia"
    r"(?:^|[,:])\s*in (?!the\b|this\b|both\b)(?:\w+ ){0,2}\Z"
    r"|\b(?:can|may) (?:also )?be (?:seen|found|present|observed) (?:in|with) (?:acute |chronic |early |cases of )?\Z"
    r"|\bsymptoms? of (?:acute |chronic )?\Z"
)
_REGION = re.compile(r"(?:both|left|right)\b")
_BREAK = re.compile(rf"\b(?:{VERB}|(?!used (?:for|to|in|during|by)\b)(?:{SEEN_WORDS}))\b")
_BLANKS = re.compile(r"(?<= ) +")
_WORD = re.compile(r"\w")
_MARK = re.compile(r"[✓✗]")
_UNKNOWN_TITLE = re.compile(
    r"\b(?:assess(?:ed|able)|evaluated|evaluable|determined?|uncertain|unclear|indeterminate|differential)\b"
)


class _Cues(NamedTuple):
    """The denials of a clause and the ends of their scopes; each list is in the order of the text."""

    before: list[re.Match[str]]
    before_ends: list[int]
    scope_ends: list[int]
    after: list[re.Match[str]]
    after_starts: list[int]
    breaks: list[int]
    statement: int  # end of the first words that state something
    marks: list[re.Match[str]]
    mark_starts: list[int]
    turned: list[int]  # ends of the denials of a full statement
    within: list[int]  # starts of the denials between the words of a name
    not_normal: list[int]  # ends of the denied words for normal states


def find_standings(clause: str, spans: Sequence[tuple[int, int]], *, denied: bool = False) -> list[Standing]:
    """Find for each name in a clause whether the clause asserts or denies it.

    Args:
        clause: A clause in lower case (`clauses.Clause.text`).
        spans: [start, end) of each name in the clause, in order.
        denied: Whether a heading denies the clause (`clauses.Clause.denied`).

    Returns:
        The standing of each span.

    >>> find_standings("there is edema, no effusion", [(9, 14), (19, 27)])
    ['asserted', 'denied']
    >>> find_standings("the lungs do not appear to be clear", [(30, 35)])
    ['denied']
    """
    if denied or not spans:
        return ["denied"] * len(spans)
    clause, spans = _remove_blanks(clause, spans)
    cues = _find_cues(clause)
    is_leading = bool(cues.marks) and _are_marks_leading(clause, cues.mark_starts)
    span_standings: list[Standing] = []
    for index, (start, end) in enumerate(spans):
        following = spans[index + 1][0] if index + 1 < len(spans) else len(clause)
        mark_index = bisect_left(cues.mark_starts, start) - 1 if is_leading else bisect_left(cues.mark_starts, end)
        if 0 <= mark_index < len(cues.marks) and (is_leading or cues.mark_starts[mark_index] < following):
            span_standings.append("denied" if cues.marks[mark_index][0] == "✗" else "asserted")
            continue
        standing = _find_standing(clause, start, end, cues)
        if bisect_right(cues.turned, start) % 2 and standing != "open":
            standing = "asserted" if standing == "denied" else "denied"
        span_standings.append(standing)
    return span_standings


def _are_marks_leading(clause: str, mark_starts: Sequence[int]) -> bool:
    """Whether ticks and crosses precede their names ("✓ edema ✗ effusion") and do not follow them ("edema ✓")."""
    before_first, after_last = clause[: mark_starts[0]].rstrip(), clause[mark_starts[-1] + 1 :]
    return not _WORD.search(before_first) or bool(before_first.endswith(":") and _WORD.search(after_last))


def _remove_blanks(clause: str, spans: Sequence[tuple[int, int]]) -> tuple[str, Sequence[tuple[int, int]]]:
    """Reduce each run of blanks to one blank, and move the spans with their words."""
    runs = list(_BLANKS.finditer(clause))
    if not runs:
        return clause, spans
    starts, removed = [run.end() for run in runs], [0]
    for run in runs:
        removed.append(removed[-1] + len(run[0]))

    def move(position: int) -> int:
        return position - removed[bisect_right(starts, position)]

    return _BLANKS.sub("", clause), [(move(start), move(end)) for start, end in spans]


def has_denial(text: str) -> bool:
    """Whether a text contains a denial.

    Args:
        text: The text.

    Returns:
        True for a denial.
    """
    return bool(DENIED_BEFORE.search(text.casefold()))


def read_heading(heading: str) -> Standing:
    """Read the standing that a heading gives to the items below it.

    Args:
        heading: The heading in lower case.

    Returns:
        The standing.
    """
    heading = heading.rstrip(' ":✓✗').rpartition(".")[2]
    heading = NEUTRAL.sub(fill_blanks, heading)
    cue = DENIED_BEFORE.search(heading) or _DENIED_AFTER.search(heading)
    if (cue and cue["open"]) or _UNKNOWN_TITLE.search(heading):
        return "open"
    return "denied" if cue else "asserted"


def fill_blanks(match: re.Match[str]) -> str:
    """Return blanks in the length of a match.

    Args:
        match: The match.

    Returns:
        The blanks.
    """
    return " " * len(match[0])


def _find_standing(clause: str, start: int, end: int, cues: _Cues) -> Standing:
    """Find whether a clause asserts or denies the name in [start, end)."""
    is_general = _TEACHES.match(clause, end) and _ARTICLE.fullmatch(clause, 0, start)
    is_in_such = _IN_SUCH.search(clause, max(start - 40, 0), start) and not _REGION.match(clause, start)
    if is_general or is_in_such or _UNDECIDED.match(clause, end):
        return "open"
    if _has_place(cues.within, start, end) or _has_place(cues.not_normal, start + 1, end + 1):
        return "denied"
    nearest_index = bisect_right(cues.before_ends, start) - 1
    if nearest_index >= 0 and not _has_place(cues.scope_ends, cues.before_ends[nearest_index], start):
        if cues.before[nearest_index]["open"] or _PURPOSE.search(clause, cues.before_ends[nearest_index], start):
            return "open"
        return "open" if _WRONG.match(clause, end) else "denied"
    cue_index = bisect_left(cues.after_starts, end)
    if cue_index < len(cues.after) and _is_reached(
        clause, end, cues.after[cue_index], cues.breaks, follows_statement=cues.statement <= start
    ):
        return "open" if cues.after[cue_index]["open"] else "denied"
    return "denied" if _DENIED_TOPIC.match(clause, end) else "asserted"


@lru_cache(maxsize=64)
def _find_cues(clause: str) -> _Cues:
    """Find the denials of a clause and the ends of their scopes."""
    turned_matches = list(TURNED.finditer(clause))
    clause = TURNED.sub(fill_blanks, clause)
    # "Not clear" denies "clear" and nothing after it.
    not_normal_ends = [match.end() for match in NOT_NORMAL.finditer(clause)]
    neutral_clause = NEUTRAL.sub(fill_blanks, clause)
    denials_before, denials_after, marks = (
        list(cue.finditer(neutral_clause)) for cue in (DENIED_BEFORE, _DENIED_AFTER, _MARK)
    )
    first_statement = STATES.search(neutral_clause) if denials_after else None
    return _Cues(
        denials_before,
        [cue.end() for cue in denials_before],
        sorted(
            [end.start() for end in _SCOPE_END.finditer(neutral_clause)]
            + [end.start("end") for end in _RELATIVE_END.finditer(neutral_clause)]
            + [end.start() for end in _CAUSE.finditer(neutral_clause)]
        )
        if denials_before
        else [],
        denials_after,
        [cue.start() for cue in denials_after],
        [stop.start() for stop in _BREAK.finditer(neutral_clause)] if denials_after else [],
        first_statement.end() if first_statement else len(clause) + 1,
        marks,
        [mark.start() for mark in marks],
        [turn.end() for turn in turned_matches],
        [cue.start() for cue in _INNER_DENIAL.finditer(neutral_clause)],
        not_normal_ends,
    )


def _has_place(places: list[int], start: int, end: int) -> bool:
    """Whether one of the sorted positions is in [start, end)."""
    return bisect_left(places, start) < bisect_left(places, end)


def _is_reached(clause: str, end: int, cue: re.Match[str], breaks: list[int], *, follows_statement: bool) -> bool:
    """Whether a denial after a name that ends at `end` applies to it.

    Args:
        clause: The clause.
        end: End of the name.
        cue: The denial.
        breaks: Starts of the verbs in the clause.
        follows_statement: Whether a statement precedes the name.
    """
    following = _NEXT.match(clause, end)
    assert following is not None
    aside = _RELATIVE_ASIDE.match(clause, end)
    if following.end() >= cue.start() or (aside and aside.end() >= cue.start()):
        return True
    if cue.start() - end < _REACH and _ONE_COLON.fullmatch(clause, end, cue.start()):  # "Hook, bag: absent"
        return True
    if follows_statement or _has_place(breaks, end, cue.start()):
        return False
    is_obligation = (cue["open"] or "").startswith(("must", "has", "have", "need"))
    is_predicate = bool(cue["verbed"] or cue["foreign"] or cue["verb"] or is_obligation)
    return is_predicate or bool(_TOGETHER.fullmatch(clause, end, cue.start()))
