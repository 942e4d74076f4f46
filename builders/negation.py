"""Findings in radiology reports. Each mention is present, absent, uncertain or historical.

The algorithm follows ConText (Harkema et al. 2009) and NegEx (Chapman et al. 2001) and is written for chest X-ray
reports. Its rules are tables: FINDINGS (the phrases to find), CUES (the phrases that decide the status) and LIMITS
(adjectives that weaken a negation). Each sentence takes one pass:

1. A sentence ends at `.`, `;`, `!`, `?` or an empty line.
2. From left to right, each cue consumes its words, so that "no change in" never matches "no". The tables of CUES are
   tried in their order.
3. A cue applies to every finding between itself and the next `stop` cue: to the right (`before` the finding) or to the
   left (`after` it). So "no X, Y or Z" negates three findings, "no X but Y" one.
4. If several cues apply to a finding, the cue after it decides (it is the predicate), otherwise the nearest cue before
   it.
5. "X or Y" and "X versus Y" assert neither finding, even if only one of them is in the vocabulary.

A status describes the current image. In doubt it is never "absent": "no large effusion" does not exclude a small
effusion and is uncertain, like "no new effusion". "The effusion has resolved" and "previously seen effusion" are
historical, but "previously seen effusion is unchanged" is present. OpenI's de-identification writes XXXX, often in
place of a hedge ("most XXXX represents scarring"). XXXX counts as a hedge wherever it can be one.
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
    """One mention of a finding: `text[start:end]`.

    Attributes:
        finding: The display name of the finding.
        status: The status of the finding.
        cue: The phrase that decided the status, in lower case; "" if no cue applied.
        start: Index of the first character.
        end: Index after the last character.
    """

    finding: str
    status: Status
    cue: str
    start: int
    end: int


# In all tables a space matches any white space. (...)* repeats up to nine times, which bounds the time of a match.
# Among phrases with the same beginning the longest comes first.

# Display name -> phrases. The first four are the targets of CXR-ContraBench section 3.2 (any consolidation counts as
# "focal consolidation"). The others are further findings in reports. Decoys ("") only consume their words.
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

_VISIBLE = (
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
_HEDGE_WORDS = r"(?:(?:which|is|are|was|were|may|might|could|can|be|most|more|xxxx|probably|possibly|likely) )*"
# Structures outside of the lungs that project onto them and can look like a finding.
_OUTSIDE_LUNGS = (
    r"(?:overl(?:ying|apping|ap|ay)|superimpos(?:ed|ition)|summation|soft tissues?|nipples?|breasts?|bones?|bony|"
    r"ribs?|sternoclavicular|telemetry|fat|artifacts?|artefacts?)"
)
_EXCLUDE = r"(?:(?:entirely|completely|definitely) )?(?:exclude|rule out)"
_EXCLUDED = r"(?:(?:entirely|completely|definitely) )?(?:excluded|ruled out)"

# (effect, side, phrases), tried in this order at every word. `side` is the position of the cue: before the finding,
# after it, or either.
#   neutral      consumes its words and decides nothing (pseudo-negation)
#   persists     the finding is still present: overrides historical and has no other effect
#   absent, uncertain, historical
#   suggests     uncertain ("suspicious for X"); after a negation, part of the negation ("nothing suspicious for X")
#   stop         ends the scope of the cues on both sides
CUES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "neutral",
        "either",
        (
            rf"(?:no|without|not any) {_DEGREE}(?:{_CHANGE} (?:in|of)|changes?)",
            r"not (?:(?:significantly|appreciably|substantially) )?(?:changed|increased|decreased|improved|worsened)",
            r"not (?:only|just|merely|necessarily)",
            # The finding is visible now, or in another view.
            rf"{_BE}not (?:(?:clearly|definitely|well) )?{_VISIBLE} on (?:the )?"
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
            rf"{_BE}again {_VISIBLE}",
        ),
    ),
    (
        "historical",
        "after",
        (
            r"(?:has|have|had|is|are) (?:(?:now|since|completely|entirely) )*(?:resolved|cleared)",
            rf"{_BE}no longer (?:(?:clearly|definitely|well) )?{_VISIBLE}",
        ),
    ),
    ("historical", "either", (rf"{_BE}(?:previously|formerly) {_VISIBLE}",)),
    (
        "uncertain",
        "after",
        (
            rf"(?:can ?not|could not|difficult to|hard to) be {_EXCLUDED}",
            rf"(?:is|are|would be) (?:difficult|hard) to {_EXCLUDE}",
            rf"{_BE}not {_EXCLUDED}",
            rf"{_BE}not (?:definitely|clearly|well|definitively|convincingly|confidently) {_VISIBLE}",
            r"(?:is|are) (?:(?:felt to be|considered|thought|less|also|not) )*(?:possible|likely|unlikely|suspected|"
            r"questionable|questioned|probable|favou?red|doubtful|suggested)",
            r"(?:may|might|could|should|must) (?:also )?be (?:present|considered|excluded|entertained)",
            r"(?:suspected|questioned)$",
            # An artefact, or the shadow of another structure.
            rf"{_HEDGE_WORDS}(?:artifact\w*|artefact\w*|(?:{_CAUSE}|{_MEANS}|(?:exaggerated|simulated) by)"
            rf" (?:(?!no )[\w']+ ){{0,3}}{_OUTSIDE_LUNGS})",
            r"(?:, )?(?:xxxx|possible|probable|likely) nipples?",
        ),
    ),
    (
        "absent",
        "after",
        (
            rf"{_BE}not {_VISIBLE}",
            rf"(?:can ?not|could not) be {_VISIBLE}",
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
            # A hedge that the de-identification replaced: "most XXXX", "is XXXX scarring", "opacities, XXXX scarring".
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

# Adjectives between a negation and its finding. The negation then does not exclude another kind, size or side of the
# finding. XXXX is a word that OpenI's de-identification replaced; "no XXXX of" was "no signs of", a full negation.
LIMITS = (
    r"(?:large|larger|moderate|sizea?ble|significant|substantial|massive|marked|suspicious|definite|obvious|gross|overt|"
    r"frank|new|worsening|enlarging|increasing|displaced|acute|tension|dominant|non-?calcified|"
    r"(?:left|right)(?:-sided)?|xxxx(?!\s+of))"
)

_LIMIT_WINDOW = 200  # characters before a finding that are searched for such an adjective

_OR = r"(?P<cue>\b(?:and/or|or|versus|vs\.?)(?!\w)|/)"
# After these words the alternative does not include the finding: "opacity which may be atelectasis or scarring" asserts
# the opacity.
_VERBS = (
    r"(?:with|which|that|is|are|was|were|may|might|could|can|xxxx|due|related|secondary|compatible|consistent|"
    r"suggest\w*|represent\w*|reflect\w*|indicat\w*)"
)

_DECIDING = ("absent", "uncertain", "historical", "suggests")


@dataclass(frozen=True, slots=True)
class _Cue:
    effect: str
    side: str
    start: int
    end: int


def find_mentions(text: str, findings: Mapping[str, tuple[str, ...]] = FINDINGS) -> list[Mention]:
    """Find every mention of a finding, in order of position.

    Args:
        text: The text.
        findings: A table like FINDINGS. Its phrases are regular expressions in lower case.

    Returns:
        The mentions.
    """
    patterns = _build_patterns(tuple(findings.items()))
    # Lower case of the same length, so that indices are valid for `text`.
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    sentences = _iterate_sentences(lowered, patterns)
    return [mention for start, end in sentences for mention in _find_sentence_mentions(lowered, start, end, patterns)]


def _iterate_sentences(text: str, patterns: _Patterns) -> Iterator[tuple[int, int]]:
    start = 0
    for boundary in patterns.boundary.finditer(text):
        yield start, boundary.start()
        start = boundary.end()
    yield start, len(text)


def _find_sentence_mentions(text: str, start: int, end: int, patterns: _Patterns) -> list[Mention]:
    findings = [match for match in patterns.findings.finditer(text, start, end) if patterns.names[match.lastgroup]]
    if not findings:
        return []
    cues = [_Cue(*patterns.rules[match.lastgroup], *match.span()) for match in patterns.cues.finditer(text, start, end)]
    starts, ends = [cue.start for cue in cues], [cue.end for cue in cues]
    reaches_before, reaches_after = _collect_reaches(cues, "before"), _collect_reaches(cues[::-1], "after")
    mentions = []
    for match in findings:
        n_before, n_after = bisect_right(ends, match.start()), len(cues) - bisect_left(starts, match.end())
        status, cue = _resolve_status(text, *match.span(), reaches_before[n_before], reaches_after[n_after], patterns)
        phrase = "" if cue is None else " ".join(text[cue.start : cue.end].split())
        mentions.append(Mention(patterns.names[match.lastgroup], status, phrase, *match.span()))
    return _resolve_alternatives(text, mentions, patterns, start, end)


class _Reach(NamedTuple):
    """The cues that apply to a finding from one side.

    Attributes:
        nearest: The nearest cue that decides.
        firm: The nearest cue that decides and is not "suggests".
        persists: Whether a cue says that the finding is still present.
    """

    nearest: _Cue | None = None
    firm: _Cue | None = None
    persists: bool = False


def _collect_reaches(cues: Iterable[_Cue], side: str) -> list[_Reach]:
    """Return what applies to a finding from one side after the first 0, 1, 2, ... cues there, the farthest cue first.

    Each reach is derived from the previous one, so the time is linear in the length of the sentence. A cue that stops
    the others ends what came before it.
    """
    reaches = [reach := _Reach()]
    for cue in cues:
        if cue.effect == "stop":
            reach = _Reach()
        elif cue.effect == "persists":
            # "X has increased and Y is not seen": X has its own predicate, so the next predicate does not apply to X.
            reach = _Reach(persists=True) if side == "after" else reach._replace(persists=True)
        elif cue.effect in _DECIDING and cue.side in (side, "either"):
            reach = reach._replace(nearest=cue, firm=reach.firm if cue.effect == "suggests" else cue)
        reaches.append(reach)
    return reaches


def _resolve_status(
    text: str, start: int, end: int, before: _Reach, after: _Reach, patterns: _Patterns
) -> tuple[Status, _Cue | None]:
    """Resolve the status of the finding at `text[start:end]` and the cue that decided (steps 3 and 4 above)."""
    cue = after.nearest or before.nearest
    if cue is None:
        return "present", None
    if cue.effect == "suggests":
        cue = after.firm or before.firm or cue
        return ("absent" if cue.effect == "absent" else "uncertain"), cue
    if cue.effect == "absent":
        limited = cue.end <= start and patterns.limited.search(text, max(cue.end, start - _LIMIT_WINDOW), start)
        return ("uncertain" if limited else "absent"), cue
    if cue.effect == "historical":
        return ("present", None) if before.persists or after.persists else ("historical", cue)
    return "uncertain", cue


def _resolve_alternatives(
    text: str, mentions: list[Mention], patterns: _Patterns, start: int, end: int
) -> list[Mention]:
    """Make the findings of "X or Y", "X versus Y" and "X/Y" uncertain unless they are negated.

    An X whose Y is not a mention ("effusion versus thickening") becomes uncertain, too. `start` and `end` delimit the
    sentence.
    """
    for i, (earlier, later) in enumerate(pairwise(mentions)):
        separator = patterns.alternative.fullmatch(text, earlier.end, later.start)
        if separator and {earlier.status, later.status} <= {"present", "uncertain"}:
            cue = separator.group("cue")
            mentions[i] = replace(earlier, status="uncertain", cue=earlier.cue or cue)
            mentions[i + 1] = replace(later, status="uncertain", cue=later.cue or cue)
    ends = [start, *(mention.end for mention in mentions)]
    starts = [*(mention.start for mention in mentions), end]
    for i, mention in enumerate(mentions):
        match = mention.status == "present" and (
            patterns.other_before.search(text, ends[i], mention.start)
            or patterns.other_after.match(text, mention.end, starts[i + 1])
        )
        if match:
            mentions[i] = replace(mention, status="uncertain", cue=match.group("cue"))
    return mentions


@dataclass(frozen=True, slots=True)
class _Patterns:
    boundary: re.Pattern[str]
    findings: re.Pattern[str]
    names: dict[str | None, str]  # name of a group in `findings` -> finding
    cues: re.Pattern[str]
    rules: dict[str | None, tuple[str, str]]  # name of a group in `cues` -> effect, side
    limited: re.Pattern[str]
    alternative: re.Pattern[str]
    other_before: re.Pattern[str]
    other_after: re.Pattern[str]


@cache
def _build_patterns(findings: tuple[tuple[str, tuple[str, ...]], ...]) -> _Patterns:
    return _Patterns(
        boundary=re.compile(r"[;!?]|(?<!\bvs)\.(?!\d)|\n\s*\n"),
        findings=_build_alternation("f", (phrases for _, phrases in findings)),
        names={f"f{number}": finding for number, (finding, _) in enumerate(findings)},
        cues=_build_alternation("c", (phrases for _, _, phrases in CUES)),
        rules={f"c{number}": (effect, side) for number, (effect, side, _) in enumerate(CUES)},
        limited=re.compile(rf"\b{LIMITS}(?:\s+(?!(?:or|and|nor)\b)[\w-]+){{0,3}}\s*$"),
        alternative=re.compile(rf"(?:\s+(?!with\b)[\w-]+){{0,3}}\s*{_OR}\s*(?:[\w-]+\s+){{0,3}}"),
        other_before=re.compile(rf"\w\s*{_OR}\s*(?:[\w-]+\s+){{0,2}}\Z"),
        other_after=re.compile(rf"(?:\s+(?!{_VERBS}\b)[\w-]+){{0,2}}\s*{_OR}\s*\w"),
    )


def _build_alternation(prefix: str, tables: Iterable[Iterable[str]]) -> re.Pattern[str]:
    """Build one pattern of complete words. The name of a group is the prefix and the number of its table."""
    groups = "|".join(f"(?P<{prefix}{number}>{'|'.join(phrases)})" for number, phrases in enumerate(tables))
    pattern = rf"(?:(?<![\w-])|(?=[,:]))(?:{groups})(?![\w-])"
    return re.compile(pattern.replace(" ", r"(?:\s+)").replace(")*", "){0,9}"))
