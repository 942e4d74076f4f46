"""Cues: words that give a clause another act than to assert or deny. Data, with examples that are its tests.

A pattern is a regular expression over lower-case words with one space between them; `{name}` is a placeholder for one
of `FRAGMENTS`. Patterns are Python and not TOML because `evaluate` fetches only imported Python files from the Hub.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from .cue import FRAGMENTS, Act, Cue
from .refusal_cues import REFUSAL_CUES
from .scope import DENIED_BEFORE

CUES = (
    *REFUSAL_CUES,
    # ---- asks, or announces an inspection
    Cue(
        "ask",
        r"^\W*(?:\d+\W+)?(?:step \d+\W+)?(?:first\W+|next\W+|then\W+|please\W+|now\W+)?"
        r"(?:{inspect}|observe|look|scan|visuali[sz]e|note|ensure|see)\b(?! that\b| is\b| of\b|s\b)(?=.* )",
        ("examine the image for edema", "step 1: identify opacities", "first, look at the lungs"),
        ("observe that the base shows edema", "compare"),
    ),
    Cue(
        "ask",
        r"\b(?:let us|let's|let me|allow me to)\b"
        r"|\b(?:i|we|you|one|it|doctors?|clinicians?|radiologists?|physicians?|readers?)"
        r"(?:'ll|'m|'re| am| are| is| will| would| must| should| shall| can| need| have| want| try| usually| often"
        r"| first| now| to| always| routinely| then| also| next){0,4}"
        r"(?! (?:can |have )?(?:\w+ly )?(?:exclude|rule out)\b) (?:{inspect}|{inspecting})\b(?! that\b)",
        (
            "let us look for edema", "we look for edema", "i am looking for a grasper", "i will now assess the lungs",
            "radiologists check for pneumothorax", "i need to determine the severity",
        ),
        ("i see edema", "i identified edema"),
    ),
    Cue(
        "ask",
        r"\b(?:look|looks|looking|looked|check|checks|checking|search|searches|searching|screen|screens|screening"
        r"|watch|watching|inspect|inspecting|examine|examining|assess|assessing|evaluate|evaluating"
        r"|hunt|hunting|examined|assessed|evaluated|inspected|reviewed|monitor|monitoring) (?:\w+ ){0,5}?for\b",
        ("looking for edema", "the lungs are checked and evaluated for edema"),
        ("it looks like edema",),
    ),
    Cue(
        "ask",
        r"\b(?:need|needs|needed|necessary|want|wants|important|required|requires?|helpful|aim|aims|goal is|task is"
        r"|order|going|used|ordered|performed|done|able|trying|try|like|attempt|us|me|how|where|best)"
        r" to (?:\w+ly )?(?:{inspect})\b"
        r"|^\W*(?:in order )?to (?:\w+ly )?(?:{inspect}|see|know|decide)\b"
        r"|\b(?:question|task|prompt|goal|aim|user|clinician|doctor|physician|request) (?:is|asks|wants|here is"
        r"|about)\b"
        r"|\boption [a-z] (?:states|says|means|claims|describes|refers|reads)\b|\b(?:asked|asking) (?:to|about|for)\b",
        (
            "we need to carefully examine the image", "to determine edema, a view is needed",
            "the question asks about edema", "it is used to detect edema",
        ),
        ("there is a need for drainage",),
    ),
    Cue(
        "ask",
        r"\b(?:recommend\w*|advis(?:e|ed|able)|clinical correlation|follow ?-?up|further (?:imaging|evaluation|tests?"
        r"|testing|work ?-?up|views?|studies|investigations?))\b",
        ("recommend clinical correlation for edema", "further imaging is advised"),
    ),
    # ---- defines, or describes other cases
    Cue(
        "general",
        r"^\W*(?!scissors)\w+s are used (?:to|for)\b|\b{often}(?: be)?(?: (?:used|seen|found|present|observed"
        r"|visible|employed|associated))?\b|\bin general\b"
        r"|\b(?:in|during|for) (?:such|these|this (?:type|kind) of) (?:\w+ )?(?:procedures?|operations?|surger(?:y|ies)"
        r"|cases)\b",
        ("graspers are commonly used", "graspers are used to hold tissue", "edema usually blurs the vessels"),
        unless_here=True,
    ),
    Cue(
        "general",
        r"\b(?:can|may|might|could) (?:also )?(?:be (?:caused by|due to|a sign of|associated with|confused with"
        r"|mistaken for)|be (?:seen|found|present|used) (?:in|with|for) (?:patients|people|many|such|several|various"
        r"|other)|follow|occur|arise|result from|lead to|cause|accompany|mimic|appear (?:as|in|with)|develop)\b",
        ("edema can cause a haze", "effusions may be caused by infection"),
        unless_here=True,
    ),
    Cue(
        "general",
        r"\brefers? to\b|\b(?:is|are) (?:defined|characteri[sz]ed)\b|\bcommon \w+ (?:include|are|for|of|in)\b"
        r"|\bcauses (?:of|include|are)\b|\bmeans? (?:that )?(?:an?|the) \w+ (?:of|in)\b"
        r"|\b(?:(?:signs?|features?|symptoms?|indicators?|hallmarks?|manifestations?) (?:of (?:\w+ ){1,5}?)?"
        r"|findings? of (?:\w+ ){1,5}?)"
        r"(?:include|would|consist|typical)\b",
        (
            "edema is defined as fluid", "findings of edema include lines", "signs of edema include lines",
            "common causes are edema",
        ),
        ("signs of edema are seen", "findings include edema"),
    ),
    Cue(
        "general",
        r"(?<!\bthere )(?<!\bit )(?<!\bthis )\b(?:is|are) (?:also |not )?(?:an?|the|one of the) (?:[\w-]+ ){0,4}?"
        r"(?:condition|term|hallmark|feature|indicator|clue|symptom|pattern|type|form|kind|accumulation|collection"
        r"|disorder|disease|signs?|cause|presence"
        r"|build ?-?up|buildup|infection|inflammation|enlargement|abnormality|process|situation|organ|gland|muscle|bone"
        r"|vessel|structure|device|pouch|way|means|method|clue)s?"
        r" (?:of|in|that|which|where|for|used|caused|around|within|between|affecting|characteri[sz]ed|marked|when"
        r"|behind|beneath|below|above|implanted|to)\b"
        r"(?! (?:this|the) (?:\w+ )?(?:image|film|radiograph|scan|study|frame)\b)",
        (
            "edema is a condition in which fluid fills the lungs", "pneumothorax is the presence of air",
            "the liver is the largest organ of the abdomen", "biopsy is the only way to diagnose edema",
        ),
        ("there is a collection of fluid", "this is a sign of edema"),
    ),
    Cue(
        "general",
        r"\b(?:history of|admitted (?:for|with)|presented with|referred for|complain\w* of|no (?:previous|prior)"
        r"|reported in|in such (?:patients|cases)|risk of|treatment (?:of|for)|criteria for|complication of"
        r"|indication (?:for|was)|clinical (?:history|question|indication|information)|leads? to|is called|mimics?"
        r"|mimicking|simulat\w+|imitat\w+|resembl\w+|(?:is|was) an (?:\w+ )?artifact|false appearance"
        r"|what (?:looks|appears) like|previously"
        r"|(?<!than )(?<!since )(?<!with )(?<!from )(?<!to )(?<!than the )(?<!since the )"
        r"(?<!with the )(?<!from the )(?<!to the )prior (?:study|film|image)|(?:last|previous) (?:time|day|week"
        r"|month|year|visit)"
        r"|(?<!since )yesterday|(?:days?|weeks?|months?|years?) (?:ago|earlier|before)|used to be|trained to|(?:tool"
        r"|model"
        r"|ai) detects?"
        r"|choose from|possible (?:labels|diseases|diagnoses|answers|options)|for instance|example|(?:common|frequent)"
        r" (?:\w+ )?(?:findings|diseases|complication|causes?)|pertinent negatives|what it (?:looks"
        r"|would look) like)\b|^\W*an? (?:\w+ ){1,3}is (?:air|fluid|blood|gas|pus|water|tissue)\b"
        r"|^\W*(?:the )?(?:option |letter )?[b-z] (?:stands for|means|denotes|corresponds to)\b"
        r"|\b(?:is|are|was|were) (?:only )?(?:listed|mentioned|named|given|included) (?:as|in|among) (?:an? "
        r"|the )?(?:\w+ )?"
        r"(?:options?|choices?|answers?|questions?)\b"
        r"|\b(?:one of|among) the (?:\w+ )?(?:options|choices|answers|possibilities)\b|\bthe options are\b"
        r"|\bon the list of (?:options|choices|answers)\b"
        r"|\b(?:first|second|third|fourth|last) (?:option|choice) (?:is|says|reads)\b"
        r"|^\W*(?:history|indications?|comparison|technique|reason for (?:the )?(?:exam\w*|study|request)) ?:"
        r"|^\W*query \w"
        r"|\b(?:is|are) (?:\w+ly )?(?:common|frequent|rare) (?:in|among|after)\b|^\W*prior (?:pleural |pulmonary )?\w+$"
        r"|\b(?:some|others?|many|one|radiologists?|doctors?|physicians?|people|someone) (?:would|might|may|could)"
        r" (?:\w+ )?(?:call|say|read|label|describe|diagnose|interpret|classify)\b",
        (
            "history of edema", "edema was seen last week", "patients at risk of edema",
            "what looks like edema is a fold",
            "edema has been reported in such patients", "a cyst is fluid in the lung",
            "edema is one of the options", "b stands for edema", "edema is listed as option b",
            "indication: edema", "prior edema", "query edema", "some would call this edema",
            "edema is common in intensive care", "the first option is edema", "edema is on the list of options",
        ),
    ),
    Cue(
        "general",
        r"\b(?:is|are|was) (?:not )?(?:an? |the )?(?:\w+ ){0,3}?(?:best|appropriate|preferred|ideal|gold|right|optimal"
        r"|suitable|better) (?:\w+ )?{test}\b|\bgold standard\b|\b(?:difficult|hard|challenging|easy) (?:to|in|for)\b"
        r"|\b(?:better|best) (?:seen|evaluated|assessed) (?:on|with|by)\b",
        ("ct is not the best test for edema", "mri is the gold standard", "a small one can be hard to detect"),
    ),
    Cue(
        "general",
        r"\b(?:is|are) (?:an? |the )(?:best|preferred|ideal|optimal|desired|recommended|correct|usual|typical|expected"
        r"|appropriate|proper) (?:\w+ )?(?:position|location|level|place|placement|site|range|size|depth|distance)s?\b"
        r"|^\W*(?:an? )?(?!(?:this|that|it|which|these|those|the|left|right|both|his|her)\b)"
        r"(?:(?!the\b|left\b|right\b)\w+ ){1,4}?means? (?:that )?(?:no|there|the)\b",
        ("above the carina is the ideal position", "clear lungs mean that there is no edema"),
        ("the tube is in the ideal position", "this means that there is edema"),
    ),
    Cue(
        "general",
        r"\b(?:would|should|ought to)(?! be (?:noted|mentioned|emphasi[sz]ed|stressed)\b)"
        r"(?! (?:\w+ )?(?:say|choose|go|call|classify|diagnose|describe|conclude|lean|rate|grade|judge|pick|select|opt"
        r"|estimate|report|interpret|guess|argue|be (?:consistent|compatible))\b)"
        r"(?: not|n't)?(?: \w+ly| also| still| then| have)? \w+",
        ("edema would appear white", "the fields should be clear", "it would show lines"),
        ("i would say there is edema", "it should be noted that there is edema"),
    ),
    Cue(
        "general",
        r"\b(?:a|an|any|every|each|most|all|many|some|in|other) (?:\w+ )?(?:normal|healthy|typical|unaffected|diseased)"
        r" (?:\w+ ){0,3}?(?:has|have|shows?|does|do|contains?|looks?|appears?|there|(?:is|are)(?! (?:\w+ly )?(?:{seen}"
        r"|present|visible|shown|evident)\b))\b"
        r"|\bin (?:an? |the )?(?:normal|healthy|typical|unaffected)\b"
        r"|\b(?:normal|healthy) (?:lungs|hearts|patients|people|subjects|individuals|radiographs|images|scans)"
        r" (?:have|show|contain|do|lack)\b",
        ("a normal patient has no edema", "in a normal radiograph there is no edema", "healthy lungs show no edema"),
        ("a normal heart", "the heart is normal"),
    ),
    Cue(
        "general",
        r"\b(?:when|where) (?:seen|present|visible|any)\b|\b(?:on|in) any \w+\b|^\W*in the absence of\b"
        r"|^\W*to be clear\b"
        r"|\b(?:on|in) (?!these|the|both|your|all)(?:\w+ )?(?:films|radiographs|images|scans)\b|^\W*here is how\b"
        r"|\bis an? (?:\w+ )?(?:tool|instrument|device|emergency)\b|\bwill (?:be|then|later|introduce|insert|use)\b"
        r"|\blater\b"
        r"|\b(?:used|seen|present|visible) (?:before|earlier)\b|(?<!than )\b(?:before|earlier)$|\bin (?:the next|every"
        r"|a typical)\b"
        r"|\b(?:on|in|(?<!unchanged )(?<!improved )(?<!worsened )(?<!stable )from) (?:the |a )?(?:previous|prior"
        r"|earlier|old)\b|\bis a (?:matter|guess)\b|\b(?:labels?"
        r"|classes|format|choices|list of \w+) (?:to choose from )?(?:is|are)\b"
        r"|^\W*(?:common|possible|available) \w+(?: \w+){0,4} (?:are|is|include)\b",
        ("a grasper is a tool for holding tissue", "the hook will be used later", "the format is a triplet"),
    ),
    Cue(
        "general",
        r"\b(?:patients|people|individuals|children|adults|cases|those|someone|anyone) (?:with|without|who|having"
        r"|suffering)\b"
        r"|\b(?:were|had|suppose|supposing|assuming|unless|imagine) (?:there|the|it|this|that|an?|edema)\b"
        r"|^\W*(?:when|whenever|once|in case) (?:an?|there|the|someone|fluid|air)\b",
        ("patients with edema cough", "were there edema, lines appear", "assuming the heart is enlarged"),
        ("a patient with edema",),
    ),
    Cue(
        "general",
        r"\b(?:less|more|equally|as) (?:likely|probable|common|frequent|often)\b|\bnot the (?:most|more) (?:likely"
        r"|probable)\b"
        r"|\b(?:easier|harder) to (?:see|detect|spot)\b|\b(?:often|easily|sometimes) missed\b|\bmay or may not\b"
        r"|^\W*{often}\b|\bseen best\b|\bin (?:many|most|some|other) \w+\b|\b(?:a|the) typical\b",
        (
            "edema is less likely", "edema is easier to see on ct", "typically, edema is seen",
            "edema may or may not be there",
            "in many patients the lungs are clear",
        ),
        ("edema is likely", "the most likely finding is edema"),
    ),
    Cue(
        "general",
        r"\b(?:you|users?|reports?|request|referrer|colleagues?|mother|others?|someone|some|prompt) "
        r"(?:says?|said|mentions?|mentioned|claims?|claimed|states?|stated|suspects?|suspected|thinks?|thought|believes?"
        r"|believed|wrote|writes)\b"
        r"|\b(?:i|we) (?:(?:initially|first|originally) )?thought\b|\b(?:i|we) (?:initially|first|originally) \w+"
        r"|\bat first\b|\binitially\b|\bfirst impression\b|\br o\b"
        r"|\b(?:is|are) (?:considered )?(?:enlarged|abnormal|present|displaced) (?:when|if)\b"
        r"|\bmakes? (?:the |it )(?:\w+ )?(?:look|appear)\b|\bgives? (?:the|an) impression of\b"
        r"|\b(?:due to|because of|because|from) (?:the )?(?:patient is rotated|ap\b|supine|portable|rotat\w+"
        r"|technique|projection"
        r"|position\w*|magnification|(?:shallow|poor|low) (?:inspiration|lung volumes))"
        r"|\b(?:apparent(?:ly)?|looks?|seems?|appears?|exaggerated|accentuated|magnified)\b[^,;.]{1,60}?"
        r" (?:due to|because of|by|from) (?:the )?(?:\w+ )?(?:ap|supine|portable|rotation|technique|projection"
        r"|position\w*"
        r"|magnification|inspiration|lung volumes)\b"
        r"|\b(?:previous|prior|old|earlier|comparison) (?:film|study|image|scan|x ray|radiograph|exam\w*) (?:showed|had"
        r"|demonstrated|revealed)\b"
        r"|\babout to\b|\ba moment ago\b|\basks? for\b|\btypical (?:\w+ ){1,4}include\b"
        r"|\bpredispos\w+ to\b|\brisk factor\b",
        (
            "you mentioned edema", "the user says there is edema", "i thought there was edema",
            "at first glance this looks like edema", "r o edema",
            "the heart is enlarged when the ratio is above 0.5", "the heart appears enlarged due to the ap projection",
        ),
        ("i think there is edema",),
    ),
    # ---- leaves open
    Cue(
        "weigh",
        r"^\W*so (?:is|are) \w+$"
        r"|\b(?:may|might)\b|\bcould\b(?! not| be (?:\w+ly )?{seen}\b| have been)|(?<!not )\bpossibl[ey]\b"
        r"|\bpossibility\b"
        r"|\b(?:perhaps|maybe|potential|potentially|presumabl[ey]|questionable|concern"
        r"|concerns|concerned|border|borderline|differentials?|hypothetical|conceivabl[ey]|plausible|equivocal)\b|可能",
        ("edema may be present", "possible edema", "this raises concern"),
        ("edema could be seen", "i could not see edema"),
    ),
    Cue(
        "weigh",
        r"\b(?:suspected|suspicion|suspicious|worrisome|such as)\b",
        ("suspicious for edema", "conditions such as edema"),
        unless_denied=True,  # "not suspicious for edema" denies
    ),
    Cue(
        "weigh",
        r"\bcan (?!be (?:\w+ly )?(?:{seen}|reported|concluded|diagnosed|stated|said|ruled out|excluded|confirmed)\b"
        r"|(?:\w+ly )?(?:exclude|rule out|dismiss|see|identify|confirm|conclude|say|note|observe|report|not"
        r"|also see)\b)",
        ("edema can look white",),
        ("edema can be seen", "edema can not be seen", "i can clearly see edema"),
    ),
    Cue(
        "general",
        r"{cannot} (?:be )?(?:\w+ )?(?:exclude|excluded|rule out|ruled out|dismiss(?:ed)?|ignored?|eliminated?)\b"
        r"|\b(?:not|n't) (?:be )?(?:\w+ly )?(?:excluded?|ruled? out|excluding)\b|\b(?:to|and|must|should) rule out\b"
        r"|\bto exclude\b",
        ("edema cannot be excluded", "we could not rule out edema", "this does not exclude edema"),
        ("edema can be excluded", "edema is ruled out"),
    ),
    Cue(
        "weigh",
        r"^\W*(?:unlike|compared (?:to|with)|in contrast to|as opposed to)\b|\bquestion of\b"
        r"|\b(?<!low )(?<!high )(?<!small )(?<!great )likelihood (?:of|for)\b(?! .{0,80}\b(?:low|high|small|great"
        r"|negligible"
        r"|minimal|zero)\b)"
        r"|\b(?:consider|considering"
        r"|consideration|considerations)\b|\b\w+ diagnosis (?:includes?|of)\b|\be\.?g\b"
        r"|\beither\b.{1,60}\bor\b|\b(?:hesitate|hesitant|reluctant) to\b"
        r"|\b(?:weigh|weighs|balance|debate|debatable|versus|vs)\b|\bdiagnos[ie]s of\b",
        ("a question of edema", "edema versus pneumonia"),
        ("edema is likely",),
    ),
)  # fmt: skip


HERE = re.compile(  # words that refer to this image
    r"\b(?:visible|seen|noted|identified|observed|evident|detected|present|here|there (?:is|are)|i (?:can )?see"
    r"|(?:image|picture|x ray|radiograph|film|frame|scan|it|this) (?:\w+ly )?shows"
    r"|in (?:the|this) (?:image|picture|frame|view|scene|radiograph|x ray|film))\b"
)


_RELATIVE = re.compile(r"\b(?:which|where|that|who|as)\b.*")


class FoundCue(NamedTuple):
    """The first cue of a clause.

    Attributes:
        act: The act of the clause.
        start: The start of the cue in its words.
    """

    act: Act
    start: int


def compile_cue(cue: Cue) -> re.Pattern[str]:
    """Compile a cue's pattern with its fragments.

    Args:
        cue: The cue.

    Returns:
        The pattern.
    """
    pattern = cue.pattern
    for _ in range(2):  # a fragment may contain another one
        pattern = re.sub(r"\{([a-z]+)\}", lambda match: FRAGMENTS[match[1]], pattern)
    return re.compile(pattern)


@lru_cache(maxsize=1)
def _compile_cues() -> tuple[tuple[Act, bool, bool, re.Pattern[str]], ...]:
    """Build one pattern for each act and each value of `unless_here` and `unless_denied`, in the order of the table."""
    patterns: dict[tuple[Act, bool, bool], list[str]] = {}
    for cue in CUES:
        patterns.setdefault((cue.act, cue.unless_here, cue.unless_denied), []).append(f"(?:{compile_cue(cue).pattern})")
    return tuple((*key, re.compile("|".join(act_patterns))) for key, act_patterns in patterns.items())


def find_cue(clause: str, *, always: bool = False) -> FoundCue | None:
    """Find the act of a clause, if it is another one than to assert or deny.

    Args:
        clause: A clause in lower case, without markup, with one space between words.
        always: Whether to find a cue even if the clause describes this image (`Cue.unless_here`).

    Returns:
        The act, in the order decline, ask, general, weigh, and the start of its cue; None for a clause that states.

    >>> find_cue("i cannot determine whether there is edema"), find_cue("edema is present")
    (FoundCue(act='decline', start=2), None)
    """
    for act, unless_here, unless_denied, pattern in _compile_cues():
        match = pattern.search(clause)
        if match is None or (unless_denied and DENIED_BEFORE.search(clause, 0, match.start())):
            continue
        if always or not (unless_here and HERE.search(_RELATIVE.sub("", pattern.sub(" ", clause)))):
            return FoundCue(act, match.start())
    return None


def classify(clause: str) -> Act:
    """Classify the act of a clause: `find_cue` for a text with any blanks between its words.

    Args:
        clause: A clause in lower case.

    Returns:
        The act.
    """
    cue = find_cue(" ".join(clause.split()))
    return cue.act if cue else "state"
