"""Findings in radiology text, and whether each mention is present, absent, uncertain or historical.

A ConText-style algorithm (Harkema et al. 2009, after NegEx, Chapman et al. 2001), made for chest X-ray reports and
written as tables: FINDINGS (what is mentioned), CUES (the words that decide) and LIMITS (adjectives that shrink a
negation). One pass per sentence:

1. A sentence ends at `.`, `;`, `!`, `?` or an empty line.
2. Reading left to right, each cue takes its words, so that "no change in" never reads as "no". The tables of CUES are
   tried in their order.
3. A cue reaches every finding between itself and the next `stop` cue: to the right (`before` the finding) or to the
   left (`after` it). So "no X, Y or Z" negates three, "no X but Y" one.
4. Of the cues that reach a finding the one after it decides (it is the predicate), otherwise the nearest one before it.
5. "X or Y" and "X versus Y" assert neither, whether or not the other one is in the vocabulary.

What the statuses say is about the image at hand, and in doubt never "absent": "no large effusion" leaves a small one
open and is uncertain, "no new effusion" too; "the effusion has resolved" and "previously seen effusion" are historical,
but "previously seen effusion is unchanged" is present. OpenI's de-identification writes XXXX, often for a hedge ("most
XXXX represents scarring"); where it can be one, it counts as one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

Status = Literal["present", "absent", "uncertain", "historical"]


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention of a finding: `text[start:end]`. `cue` is the phrase that decided, lower case, "" for none."""

    finding: str
    status: Status
    cue: str
    start: int
    end: int


# In all tables a space means any white space, (...)* means up to nine times, so that a phrase is tried in little time
# whatever is repeated, and of phrases that begin alike the longest comes first.

# Display name -> phrases. The first four are the targets of CXR-ContraBench section 3.2 (any consolidation counts as
# "focal consolidation"), the others what reports mention beside them. Decoys ("") only take their words.
FINDINGS: dict[str, tuple[str, ...]] = {
    "": (
        r"(?:pericardial|joint|knee) effusions?",
        r"(?:subcutaneous|mediastinal) emphysema",
        r"(?:soft tissue|subcutaneous|peripheral|lower extremity|leg|pedal|chest wall|laryngeal|airway) o?edema",
        r"mass effect",
        r"(?:soft tissue|breast|chest wall) (?:mass(?:es)?|nodul\w+|opacit\w+)",
    ),
    "pneumothorax": (r"(?:hydro|ha?emo)?-?pneumothora(?:x|ces|xes)",),
    "pleural effusion": (
        r"(?:pericardial (?:or|and|/) )?pleural (?:(?:or|and|/) pericardial )?effusions?",
        r"pleural fluid",
        r"effusions?",
    ),
    "focal consolidation": (
        r"(?:(?:focal|lobar|segmental|alveolar|air ?-?space|parenchymal|pulmonary|lung) )*consolidations?",
        r"consolidative (?:changes?|process(?:es)?|opacit(?:y|ies)|infiltrates?|diseases?)",
    ),
    "pulmonary edema": (r"(?:(?:pulmonary|interstitial|alveolar|lung|air ?-?space) )*o?edema",),
    "airspace disease": (
        r"(?:focal )?(?:alveolar )?air ?-?space "
        r"(?:diseases?|process(?:es)?|opacit(?:y|ies)|infiltrates?|opacifications?)",
    ),
    "atelectasis": (r"atelecta(?:sis|ses|tic changes?)",),
    "cardiomegaly": (
        r"cardiomegaly",
        r"(?:cardiac|heart|cardiomediastinal) enlargement",
        r"enlargement of the (?:cardiac (?:silhouette|shadow)|cardiomediastinal silhouette|heart)",
        r"enlarged (?:cardiac (?:silhouette|shadow)|cardiomediastinal silhouette|heart)",
        r"(?:heart|cardiac silhouette|cardiomediastinal silhouette)(?: size)? (?:is|appears|remains) "
        r"(?:(?:again|mildly|moderately|markedly|slightly|significantly|severely|diffusely) )*enlarged",
    ),
    "emphysema": (r"(?:bullous )?emphysema",),
    "fracture": (r"fractures?",),
    "granuloma": (r"(?:calcified )?granuloma(?:s|ta)?",),
    "hiatal hernia": (r"hiat(?:al|us) hernias?",),
    "infiltrate": (r"infiltrat(?:es?|ions?)",),
    "mass": (r"mass(?:es)?",),
    "nodule": (r"nodules?", r"nodular densit(?:y|ies)"),
    "opacity": (r"opacit(?:y|ies)", r"opacifications?"),
    "pneumonia": (r"(?:broncho)?pneumonias?",),
    "scarring": (r"scar(?:s|ring)?",),
    "scoliosis": (r"(?:levo|dextro|kypho)?scoliosis",),
    "vascular congestion": (r"(?:(?:pulmonary|central|venous) )*(?:vascular|venous|pulmonary) congestion",),
}

_SEEN = (
    r"(?:seen|identified|visuali[sz]ed|present|evident|demonstrated|appreciated|detected|noted|observed|shown|visible|"
    r"found|apparent|described|mentioned|reported)"
)
_BE = r"(?:(?:is|are|was|were|has been|have been) )?"
_CHANGE = r"(?:change|increase|decrease|improvement|worsening|progression|enlargement|growth|difference)s?"
_DEGREE = r"(?:(?:significant|interval|appreciable|definite|substantial|further|other|acute|gross|apparent) )*"
_EVIDENCE = r"(?:evidence|signs?|indication|suggestion|findings?|features?)"
_KIND = r"(?:(?:radiographic|plain film|imaging|other|further|current|specific) )*"
_HEDGED = r"(?:definite|definitive|obvious|convincing|typical|clear|conclusive|overt|frank|gross)"
_NEARLY = r"(?:largely|partially|nearly|almost|mostly|essentially|slightly|significantly|incompletely|near completely)"
_CAUSE = r"(?:related|due|secondary|attributable|attributed|owing) to"
_MEANS = (
    r"(?:represents?|representing|representative of|reflects?|reflecting|indicates?|indicating|corresponds? to|"
    r"relates? to)"
)
_SHADOW = r"(?:opacit(?:y|ies)|opacifications?|densit(?:y|ies)|diseases?|blunting|markings)"
_SUPPOSED = r"(?:(?:which|is|are|was|were|may|might|could|can|be|most|more|xxxx|probably|possibly|likely) )*"
# What lies in front of or behind the lungs and looks like a finding there.
_OTHER = (
    r"(?:overl(?:ying|apping|ap|ay)|superimpos(?:ed|ition)|summation|soft tissues?|nipples?|breasts?|bones?|bony|"
    r"ribs?|sternoclavicular|telemetry|fat|artifacts?|artefacts?)"
)
_EXCLUDE = r"(?:(?:entirely|completely|definitely) )?(?:exclude|rule out)"
_EXCLUDED = r"(?:(?:entirely|completely|definitely) )?(?:excluded|ruled out)"

# (effect, side, phrases), tried in this order at every word. `side` says where the cue is: before the finding, after
# it, or either.
#   neutral      takes its words and says nothing (pseudo-negation)
#   persists     "still there": lifts historical, says nothing else
#   absent, uncertain, historical
#   suggests     uncertain ("suspicious for X"), but under a negation part of it ("nothing suspicious for X")
#   stop         ends the reach of the cues on either side
CUES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "neutral",
        "either",
        (
            rf"(?:no|without|not any) {_DEGREE}(?:{_CHANGE} (?:in|of)|changes?)",
            r"not (?:(?:significantly|appreciably|substantially) )?(?:changed|increased|decreased|improved|worsened)",
            r"not (?:only|just|merely|necessarily)",
            # It is there now, or in another view.
            rf"{_BE}not (?:(?:clearly|definitely|well) )?{_SEEN} on (?:the )?"
            r"(?:prior|previous|comparison|lateral|frontal)",
            r"(?:compatible|consistent|associated|in keeping) with",
            r"(?:prior|previous) (?:stud(?:y|ies)|exam(?:s|inations?)?|radiographs?|films?|ct|chest|x-?rays?|imaging)",
            r"(?:from|to|since|than) (?:the )?(?:prior|previous)",
        ),
    ),
    (
        "persists",
        "either",
        (
            r"(?:near|near-complete|near complete|nearly complete|almost complete|partial|incomplete) "
            r"(?:resolution|clearing) of",
            rf"(?:has|have) {_NEARLY} (?:resolved|cleared)",
            r"(?:(?:is|are|has|have) )?(?:(?:again|now|" + _NEARLY + r") )*(?:unchanged|stable|persists?|persistent|"
            r"persisted|persisting|increased|increasing|decreased|decreasing|improved|improving|larger|smaller|worsened|"
            r"redemonstrated|remains?|resolving|residual)",
            rf"{_BE}again {_SEEN}",
        ),
    ),
    (
        "historical",
        "after",
        (
            r"(?:has|have|had|is|are) (?:(?:now|since|completely|entirely) )*(?:resolved|cleared)",
            rf"{_BE}no longer (?:(?:clearly|definitely|well) )?{_SEEN}",
        ),
    ),
    ("historical", "either", (rf"{_BE}(?:previously|formerly) {_SEEN}",)),
    (
        "uncertain",
        "after",
        (
            rf"(?:can ?not|could not|difficult to|hard to) be {_EXCLUDED}",
            rf"(?:is|are|would be) (?:difficult|hard) to {_EXCLUDE}",
            rf"{_BE}not {_EXCLUDED}",
            rf"{_BE}not (?:definitely|clearly|well|definitively|convincingly|confidently) {_SEEN}",
            r"(?:is|are) (?:(?:felt to be|considered|thought|less|also|not) )*(?:possible|likely|unlikely|suspected|"
            r"questionable|questioned|probable|favou?red|doubtful|suggested)",
            r"(?:may|might|could|should|must) (?:also )?be (?:present|considered|excluded|entertained)",
            r"(?:suspected|questioned)$",
            # An artefact, or the shadow of something else.
            rf"{_SUPPOSED}(?:artifact\w*|artefact\w*|(?:{_CAUSE}|{_MEANS}|(?:exaggerated|simulated) by)"
            rf" (?:(?!no )[\w']+ ){{0,3}}{_OTHER})",
            r"(?:, )?(?:xxxx|possible|probable|likely) nipples?",
        ),
    ),
    (
        "absent",
        "after",
        (
            rf"{_BE}not {_SEEN}",
            rf"(?:can ?not|could not) be {_SEEN}",
            r"(?:is|are) (?:absent|excluded|ruled out|negative)",
            r": none",
        ),
    ),
    (
        "uncertain",
        "before",
        (
            rf"(?:can ?not|can't|could not|difficult to|hard to|not|does not) {_EXCLUDE}",
            rf"(?:no|without) {_HEDGED}(?: {_KIND}{_EVIDENCE} (?:of|for|to suggest))?",
            r"(?:no|without) (?:new|developing|worsening|increasing|enlarging|progressive|additional)(?: or \w+)?",
            r"(?:not (?:certain|clear|sure) )?(?:whether|if)",
            rf"(?:most|possibly|probably|likely|perhaps|presumably) {_CAUSE}",
            # A hedge that the de-identification took out: "most XXXX", "is XXXX scarring", "opacities, XXXX scarring".
            rf"(?:most|more|(?<!there\s)(?:is|are|was|were)|,|, and|{_SHADOW}) xxxx(?: {_CAUSE})?",
            rf"xxxx (?:{_CAUSE}|{_MEANS}|(?:consistent|compatible) with|(?:a )?(?:combination|component))",
            r"(?:may|might|could|would|can) (?:(?:also|well|possibly|again) )?(?:be (?:related|due|secondary) to|be|"
            r"represent|reflect|indicate|suggest|relate to|have|include)",
            r"(?:questionable|question|possibl[ey]|possibility|probabl[ey]|perhaps|presumed|presumably|likely|unlikely|"
            r"suspected|suspect|equivocal|doubtful|borderline|potential|potentially|rather than|favou?r(?:ed|ing|s)?|"
            r"r/o|versus|vs\.?)",
            r"differential(?: considerations?| diagnosis)?(?: includes?)?",
            r"(?:rule out|evaluate for|evaluation (?:for|of))",
        ),
    ),
    (
        "suggests",
        "before",
        (
            r"(?:to )?suggest(?:s|ing|ive|ion)?(?: of)?",
            r"(?:suspicious|concerning|worrisome|suspicion|concern|indicative|diagnostic|characteristic) (?:for|of)",
        ),
    ),
    (
        "absent",
        "before",
        (
            rf"no {_KIND}{_EVIDENCE} (?:of|for|to suggest|suggesting)",
            rf"without (?:any )?{_KIND}{_EVIDENCE} (?:of|for|to suggest|suggesting)",
            r"(?:negative for|free of|clear of|devoid of|absence of|none of|lack of|lacks|lacking)",
            r"(?:does|do|did) not (?:demonstrate|show|reveal|have|contain|identify|see|appear to (?:be|have))",
            r"fail(?:s|ed)? to (?:demonstrate|show|reveal)",
            r"(?:without|neither|nor|denies|absent|excludes|no|not)",
        ),
    ),
    (
        "historical",
        "before",
        (
            r"(?:history of|h/o|hx of|status post|s/p)",
            r"(?:(?:interval|complete) )*(?:resolution|clearing) of",
            r"(?:resolved|previous|prior)",
        ),
    ),
    (
        "stop",
        "either",
        (
            r"(?:but|however|although|though|except(?: for)?|apart from|aside from|other than|besides|with|which|while|"
            r"whereas|yet|because|since|secondary to|due to|despite|otherwise|where|when|related to|adjacent to)",
            r"(?:,|and) (?:the|this|these|a|an|stable|unchanged|persistent|again|mild|moderate)",
            r"(?:is|are|was|were|has|have|had|shows?|demonstrates?|reveals?|appears?|there)",
        ),
    ),
)

# Between a negation and its finding these leave another kind, size or side of the finding open. XXXX is a word that the
# de-identification of OpenI took out; "no XXXX of" was "no signs of" and leaves nothing open.
LIMITS = (
    r"(?:large|larger|moderate|sizea?ble|significant|substantial|massive|marked|suspicious|definite|obvious|gross|overt|"
    r"frank|new|worsening|enlarging|increasing|displaced|acute|tension|dominant|non-?calcified|"
    r"(?:left|right)(?:-sided)?|xxxx(?!\s+of))"
)

_BESIDE = 200  # characters before a finding in which such a word stands

_OR = r"(?P<cue>\b(?:and/or|or|versus|vs\.?)(?!\w)|/)"
# After these the alternative is another one: "opacity which may be atelectasis or scarring" asserts the opacity.
_VERBS = (
    r"(?:with|which|that|is|are|was|were|may|might|could|can|xxxx|due|related|secondary|compatible|consistent|"
    r"suggest\w*|represent\w*|reflect\w*|indicat\w*)"
)

_DECIDE = ("absent", "uncertain", "historical", "suggests")


@dataclass(frozen=True, slots=True)
class _Cue:
    effect: str
    side: str
    start: int
    end: int


def find_mentions(text: str, findings: Mapping[str, tuple[str, ...]] = FINDINGS) -> list[Mention]:
    """Every mention of a finding in `text`, in order of place. Pure.

    findings: a table like FINDINGS, whose phrases are regular expressions in lower case.
    """
    patterns = _patterns(tuple(findings.items()))
    # Lower case, but never of another length: places are those of `text`.
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    sentences = _sentences(lowered, patterns)
    return [mention for start, end in sentences for mention in _sentence_mentions(lowered, start, end, patterns)]


def _sentences(text: str, patterns: _Patterns) -> Iterator[tuple[int, int]]:
    start = 0
    for boundary in patterns.boundary.finditer(text):
        yield start, boundary.start()
        start = boundary.end()
    yield start, len(text)


def _sentence_mentions(text: str, start: int, end: int, patterns: _Patterns) -> list[Mention]:
    findings = [match for match in patterns.findings.finditer(text, start, end) if patterns.names[match.lastgroup]]
    if not findings:
        return []
    cues = [_Cue(*patterns.rules[match.lastgroup], *match.span()) for match in patterns.cues.finditer(text, start, end)]
    starts, ends = [cue.start for cue in cues], [cue.end for cue in cues]
    before, after = _reaching(cues, "before"), _reaching(cues[::-1], "after")
    mentions = []
    for match in findings:
        n_before, n_after = bisect_right(ends, match.start()), len(cues) - bisect_left(starts, match.end())
        status, cue = _status(text, *match.span(), before[n_before], after[n_after], patterns)
        phrase = "" if cue is None else " ".join(text[cue.start : cue.end].split())
        mentions.append(Mention(patterns.names[match.lastgroup], status, phrase, *match.span()))
    return _alternatives(text, mentions, patterns, start, end)


class _Reach(NamedTuple):
    """What reaches a finding from one side: the nearest cue that decides, the nearest that does so whatever it stands
    beside (not "suggests"), and whether one says "still there".
    """

    nearest: _Cue | None = None
    firm: _Cue | None = None
    persists: bool = False


def _reaching(cues: Iterable[_Cue], side: str) -> list[_Reach]:
    """What reaches a finding beside the first 0, 1, 2, ... cues of a side, of which each is nearer than the last.

    Each is found from the one before, so that a sentence takes time in proportion to its length.
    """
    found = [reach := _Reach()]
    for cue in cues:
        if cue.effect == "stop":
            reach = _Reach()
        elif cue.effect == "persists":
            # "X has increased and Y is not seen": a predicate of its own keeps X from the next one.
            reach = _Reach(persists=True) if side == "after" else reach._replace(persists=True)
        elif cue.effect in _DECIDE and cue.side in (side, "either"):
            reach = reach._replace(nearest=cue, firm=reach.firm if cue.effect == "suggests" else cue)
        found.append(reach)
    return found


def _status(
    text: str, start: int, end: int, before: _Reach, after: _Reach, patterns: _Patterns
) -> tuple[Status, _Cue | None]:
    """The status of the finding at `text[start:end]` and the cue that decided (steps 3 and 4 above)."""
    cue = after.nearest or before.nearest
    if cue is None:
        return "present", None
    if cue.effect == "suggests":
        cue = after.firm or before.firm or cue
        return ("absent" if cue.effect == "absent" else "uncertain"), cue
    if cue.effect == "absent":
        limited = cue.end <= start and patterns.limited.search(text, max(cue.end, start - _BESIDE), start)
        return ("uncertain" if limited else "absent"), cue
    if cue.effect == "historical":
        return ("present", None) if before.persists or after.persists else ("historical", cue)
    return "uncertain", cue


def _alternatives(text: str, mentions: list[Mention], patterns: _Patterns, start: int, end: int) -> list[Mention]:
    """ "X or Y", "X versus Y" and "X/Y", not negated, assert neither: both become uncertain.

    So does an X whose Y is no mention ("effusion versus thickening"); start, end: of their sentence.
    """
    for i, (first, second) in enumerate(pairwise(mentions)):
        between = patterns.alternative.fullmatch(text, first.end, second.start)
        if between and {first.status, second.status} <= {"present", "uncertain"}:
            cue = between.group("cue")
            mentions[i] = replace(first, status="uncertain", cue=first.cue or cue)
            mentions[i + 1] = replace(second, status="uncertain", cue=second.cue or cue)
    ends = [start, *(mention.end for mention in mentions)]
    starts = [*(mention.start for mention in mentions), end]
    for i, mention in enumerate(mentions):
        beside = mention.status == "present" and (
            patterns.other_before.search(text, ends[i], mention.start)
            or patterns.other_after.match(text, mention.end, starts[i + 1])
        )
        if beside:
            mentions[i] = replace(mention, status="uncertain", cue=beside.group("cue"))
    return mentions


@dataclass(frozen=True, slots=True)
class _Patterns:
    boundary: re.Pattern[str]
    findings: re.Pattern[str]
    names: dict[str | None, str]  # group of `findings` -> finding
    cues: re.Pattern[str]
    rules: dict[str | None, tuple[str, str]]  # group of `cues` -> effect, side
    limited: re.Pattern[str]
    alternative: re.Pattern[str]
    other_before: re.Pattern[str]
    other_after: re.Pattern[str]


@cache
def _patterns(findings: tuple[tuple[str, tuple[str, ...]], ...]) -> _Patterns:
    return _Patterns(
        boundary=re.compile(r"[;!?]|(?<!\bvs)\.(?!\d)|\n\s*\n"),
        findings=_alternation("f", (phrases for _, phrases in findings)),
        names={f"f{number}": finding for number, (finding, _) in enumerate(findings)},
        cues=_alternation("c", (phrases for _, _, phrases in CUES)),
        rules={f"c{number}": (effect, side) for number, (effect, side, _) in enumerate(CUES)},
        limited=re.compile(rf"\b{LIMITS}(?:\s+(?!(?:or|and|nor)\b)[\w-]+){{0,3}}\s*$"),
        alternative=re.compile(rf"(?:\s+(?!with\b)[\w-]+){{0,3}}\s*{_OR}\s*(?:[\w-]+\s+){{0,3}}"),
        other_before=re.compile(rf"\w\s*{_OR}\s*(?:[\w-]+\s+){{0,2}}\Z"),
        other_after=re.compile(rf"(?:\s+(?!{_VERBS}\b)[\w-]+){{0,2}}\s*{_OR}\s*\w"),
    )


def _alternation(prefix: str, tables: Iterable[Iterable[str]]) -> re.Pattern[str]:
    """One pattern of whole words; the group that matched is named by the prefix and the number of its table."""
    groups = "|".join(f"(?P<{prefix}{number}>{'|'.join(phrases)})" for number, phrases in enumerate(tables))
    words = rf"(?:(?<![\w-])|(?=[,:]))(?:{groups})(?![\w-])"
    return re.compile(words.replace(" ", r"(?:\s+)").replace(")*", "){0,9}"))
