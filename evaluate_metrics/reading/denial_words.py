"""The words of assertions and denials, as regular expressions (see scope.py). Data."""

from __future__ import annotations

import re

VERB = (
    r"(?:is|are|was|were|has|have|can|could|may|might|shows?|shown|contains?|i see|i can see|appears?|seems?|looks?|"
    r"reveals|demonstrates|exhibits|suffers|suggests|indicates|"
    r"(?:is|are|was|were|do|does|did|has|have|could|should|would|ca)n't)"
)
SEEN_WORDS = (
    r"seen|present|visible|visuali[sz]ed|identified|noted|observed|evident|detected|demonstrated|appreciated|found|"
    r"apparent|there|shown|used|employed|needed|required|introduced|inserted|recogni[sz]able|discernible|likely|"
    r"suspected|in use|in sight|in shot|on screen|visibles?|sichtbar|zu sehen|zu erkennen"
)
SEEN = (
    rf"(?:{SEEN_WORDS}|(?:in|within|among|one of|part of|an? (?:\w+ )?(?:feature|finding) (?:of|on|in)) (?:the |this )?"
    r"(?:\w+ ){0,2}(?:image|picture|film|radiograph|study|frame|view|scene|field|slice|section|scan|tools|instruments"
    r"|findings|abnormalities))"
)
NORMAL = r"(?:normal|clear|healthy|unremarkable|intact|free)"
STATES = re.compile(rf"\b(?:{VERB}|see|visible|seen)\b")

# Words that resemble denials and deny nothing after them. "Not clear" denies "clear" itself, see `find_standings`.
NEUTRAL = re.compile(
    r"\bno (?:question|wonder|mistaking|hesitation|denying|other (?:\w+ )?(?:choice|explanation|diagnosis)(?: than)?)\b"
    r"|\b(?:can ?not|can't|hard to|impossible to) (?:be )?(?:miss(?:ed)?|overlook(?:ed)?)\b|\bhard not to\b|"
    r"\bnot (?:only|just|merely|a lot of|much of)\b|\bno doubt\b|\bwithout (?:a |any )?doubt\b|\bnot without\b"
    r"|\bnot uncommon\w*"
    rf"|\bnot (?!only|merely)(?:\w+ly )?(?:sure|certain|{NORMAL})\b(?: (?:of|from)\b)?"
    rf"|\bnot (?:fully|completely|entirely) (?=(?:{SEEN}|in view)\b)"
    r"|\b(?:no|not|without)\s+(?:\w+\s+)?"
    r"(?:changed?|increased?|decreased?|improve(?:ment|d)|worsen(?:ing|ed)|progress\w*(?! to\b))\b"
    r"|\b(?:can ?not|can't) be (?:denied|overlooked|missed|ignored)\b"
    r"|\b(?:can ?not|can't) deny\b"
    # Two denials assert.
    r"|\b(?:no|not|never|\w+n't|cannot) (?:\w+ly )?(?:an? )?(?:lack(?:s|ing)?(?: of)?|absence of|doubt(?:ing|ed)?)\b"
    r"|\b(?:not|\w+n't) (?:any|some)thing (?:but|other than|else than)\b"
)
NOT_NORMAL = re.compile(
    rf"\bnot (?!only|merely)(?:\w+ly )?{NORMAL}\b"
    r"|\b(?:than|above|outside|beyond|exceeds?|at odds with|from|off|(?:left|right) of) (?:the |an? )?(?:\w+ ){0,3}?"
    r"(?:normal|midline)\b"
)
# "A low probability of", "the chance of ... is close to zero"
ODDS = r"(?:probability|likelihood|chances?|odds) (?:of|for|that)"
LOW = (
    r"(?:(?:\w+ly |very |quite |rather |too |near |close to |about |only |less than |below |under |an? ){0,3}"
    r"(?:low|little|poor|small|slim|remote|negligible|minimal|nil|zero|0?\.[0-4]\d*|(?:[1-4]\d|[02-9])(?![\d.])|1(?= ))"
    r"(?: percent)?)"
)
# A denial of a full statement.
TURNED = re.compile(
    r"\b(?:it is|it's|this is|that is) (?:not|untrue|false|incorrect|wrong)(?: (?:the case|true|correct|so))?"
    r"(?: to say)? that\b"
    r"|\b(?:do|does|did|would)(?:n't| not) (?:\w+ly )?(?:think|believe|suggest|indicate|mean|imply|feel|support)\b"
    r"|\b(?:disagree|(?:can ?not|can't|(?:do|does|would) not|\w+n't) agree) (?:that|with)\b|\bmyth that\b"
    r"|\bnothing (?:\w+ ){0,4}?(?:suggests?|indicates?|points to|supports?|shows?)\b"
    r"|\bno (?:evidence|indication|reason|sign|suggestion) (?:that|to (?:suggest|think|believe|indicate))\b"
    r"|\b(?:neither|none|no)(?: (?:of|the|these|them|two|one|upper|lower|middle|lungs?|sides?|hemithorax|fields?"
    r"|zones?|lobes?"
    r"|bases?|views?|images?|films?)){1,4} (?:shows?|contains?|reveals?|demonstrates?|exhibits?|suggests?|indicates?"
    r"|has|have)\b"
    r"|\b(?:unlikely|improbable|implausible|inconceivable|doubtful) that\b|(?<!no )(?<!not )(?<!n't )\bdoubt (?:that"
    r"|there (?:is|are|was)|it is|it's)\b"
    rf"|\b{LOW} {ODDS}\b|\b{ODDS}\b(?=[^,;:]{{1,80}}?(?:\s*:| is| are| was| seems?| appears?| remains?"
    rf"| at) {LOW}\s*(?:$|[,;]))"
)

UNKNOWN = (
    r"(?:can ?not|can't|could not|couldn't|not|unable to|(?:difficult|hard|impossible|not possible) to)\s+"
    r"(?:be\s+|been\s+)?"
    r"(?:\w+ly\s+)?(?:rule out|ruled out|excluded?|assess(?:ed)?|evaluated?|determined?|confirm(?:ed)?|judged?)"
)
PERCEIVE = (
    r"(?:see|find|identify|detect|visuali[sz]e|locate|observe|appreciate|recogni[sz]e|discern|spot|make out|perceive"
    r"|demonstrate|show)"
)
# "All but edema" leaves edema open: "All but edema are absent" asserts it.
ALL_BUT = (
    r"(?:everything|all|any|every|each)(?: (?:of|the|these|those|them|other|listed|findings?|options?|choices?"
    r"|ones?|abnormalit(?:y|ies)|diagnos[ei]s|conditions?)){0,3} (?:but|except|save|bar|apart from|other than)(?: for)?"
)
FOREIGN = (
    r"pas de?|aucune?s?|sans|ni|sin|ning[uú]n[oa]?|tampoco|keine?[nrms]?|weder|ohne|sem|nenhum\w*|não|nessun\w*|senza"
    r"|không|non(?= (?:c'|ci\b|si\b|è\b|sono\b|mostra\b|vedo\b|presenta\b))"
)
