"""Cues of clauses that cannot or will not answer. Data, with examples that are its tests (see cues.py)."""

from __future__ import annotations

from .cue import Cue

REFUSAL_CUES = (
    Cue(
        "decline",
        r"{cannot} (?:be )?(?:\w+ ){0,3}?{judge}",
        (
            "i cannot determine whether there is edema",
            "it is difficult to say",
            "i can't provide a diagnosis",
            "edema cannot be reliably assessed",
            "unable to confirm edema",
            "i couldn't tell",
        ),
        ("i cannot see any edema", "edema can be confirmed", "edema cannot be excluded"),
    ),
    Cue(
        "decline",
        r"{cannot} (?:\w+ly )?(?:identify|recogni[sz]e)\b"
        r"|{cannot} (?:\w+ly )?(?:see|view|select|choose|pick|name|make out|read)"
        r" (?:whether|if|which|what|between|(?:an?|the|any|your|this) (?:\w+ )?(?:{image}|answer|option|choice"
        r"|diagnosis))",
        ("i cannot identify which finding is present", "i can't see the image", "unable to choose an option"),
        ("i cannot see any effusion", "edema cannot be identified"),
    ),
    Cue(
        "decline",
        r"(?:not|n't|no|without|lacks?|too little) (?:\w+ ){0,2}?(?:enough|sufficient|adequate|conclusive)"
        r" (?:\w+ )?(?:information|details?|evidence|context|data|resolution|quality)"
        r"|insufficient (?:\w+ )?(?:information|details?|evidence|context|data|resolution|quality)"
        r"|(?:need|require|want)s? (?:more|additional|further|other|better) (?:\w+ ){0,3}?"
        r"(?:information|details?|data|context|images?|views?|history)",
        (
            "there is not enough information",
            "insufficient image quality",
            "i need more images",
            "it does not provide sufficient detail",
        ),
        ("there is enough evidence of edema",),
    ),
    Cue(
        "decline",
        r"(?:is|it's|are|remains?|was|being) (?:\w+ly )?(?:unclear|uncertain|indeterminate|unknown|equivocal"
        r"|inconclusive|undetermined|undeterminable|impossible to know)",
        ("it is unclear", "the finding remains indeterminate"),
    ),
    Cue(
        "decline",
        r"(?:not|n't) (?:\w+ly )?(?:clear|sure|certain|known|evident|obvious) (?:whether|if|what|which|how|about)"
        r"|(?:i am|i'm|we are) (?:not (?:\w+ly )?(?:sure|certain)|unsure|uncertain)"
        r"|(?:do not|don't) know|not clear enough|{cannot} be (?:\w+ )?(?:sure|certain)",
        ("it is not clear whether edema is present", "i'm not sure", "i do not know", "it is not clear enough"),
        ("the lungs are not clear",),
    ),
    Cue(
        "decline",
        r"(?:i am|i'm) (?:sorry|afraid(?! not$| so$))|\bi apologi[sz]e|as an? (?:ai|artificial|(?:large )?language)"
        r"|not qualified to"
        r"|(?:not|n't) feel comfortable|(?:would|i'd) (?:prefer|rather) not|(?:must|have to) decline|decline to"
        r"|(?:not|n't) (?:have|possess) (?:the )?(?:ability|access|means|expertise)",
        ("i'm sorry", "as an ai, i do not diagnose", "i would rather not say", "i decline to answer"),
    ),
    Cue(
        "decline",
        r"(?:have|see|got) no {image}|no {image} (?:(?:was|is|has been|were) )?(?:provided|given|attached|uploaded"
        r"|shared|included|available)"
        r"|(?:not|n't) (?:see|have|find|receive) (?:any|an|the|your) {image}"
        r"|please (?:upload|share|attach|provide|send|consult|resend|give)"
        r"|{image} (?:is|was|appears to be) (?:missing|(?:completely |entirely )?(?:black|blank|empty|white))",
        ("no image was provided", "i do not see an image", "please upload the x-ray", "the image is blank"),
    ),
    Cue(
        "decline",
        r"\bnothing (?:can|could) be (?:\w+ )?(?:said|concluded|determined|told)"
        r"|\bno (?:\w+ )?(?:conclusions?|information|judge?ment|determination|opinion|comment|assessment"
        r"|way (?:to|of) (?:know|tell|say|determin)\w*)\b"
        r"|\bneither (?:confirm|exclude|rule|prove)\w* (?:\w+ )?nor\b"
        r"|\btoo (?:\w+ )?\w+ (?:for \w+ )?to (?:see|tell|judge|identify|assess|evaluate|say|interpret|read)\b",
        (
            "nothing can be said about edema",
            "no conclusion about edema is possible",
            "there is no way to know",
            "edema is neither confirmed nor excluded",
            "the image is too dark to see edema",
        ),
    ),
    Cue(
        "decline",
        r"\brefus(?:e|es|ing) to\b|\b(?:won't|will not|would not|wouldn't|shall not|do not|don't|does not"
        r"|doesn't) (?:\w+ )?"
        r"(?:comment|speculate|guess|diagnose|provide|offer|interpret|want to (?:guess|say)|allow|permit"
        r"|support (?:an?|any))\b"
        r"|\bnot (?:my role|in a position|allowed|permitted|trained|licensed|authori[sz]ed|intended|meant|designed"
        r"|sensitive"
        r"|diagnostic|confident|convinced|saying|something|(?:been )?established|assessable|evaluable|interpretable"
        r"|(?:\w+ )?enough|sufficient|sure|been given|a substitute)\b"
        r"|\b(?:isn't|aren't|wasn't) (?:\w+ )?(?:sufficient|enough|clear (?:to|whether|if)|possible|something"
        r"|assessable)\b"
        r"|\b(?:neither|nothing|none|no)\b.{1,60}\b(?:can|could) be (?:\w+ )?(?:stated|said|determined|assessed|judged"
        r"|diagnosed|concluded|confirmed|established)\b"
        r"|\bprecludes?\b|\black(?:s|ing)? (?:the|enough|sufficient)\b|\bno (?:reliable|good|safe) way\b"
        r"|\b(?:never|do not|don't) (?:rely|use)\b|\bnothing (?:\w+ )?(?:can be stated|to say)\b"
        r"|\breplace a (?:doctor|radiologist)"
        r"|\b(?:it|that|this|the {image})(?:'s| is| remains| was) not (?:\w+ly )?clear(?! of)\b",
        (
            "i refuse to diagnose edema",
            "i won't comment on edema",
            "the film does not allow a statement about edema",
            "it is not my role to diagnose edema",
            "supine films are not sensitive for edema",
            "it is not clear",
            "my confidence is not high enough to report edema",
            "the image quality precludes evaluation",
        ),
        ("the lungs are not clear", "i do not see edema"),
    ),
    Cue(
        "decline",
        r"\bno (?:se )?pued[eo]\b|\bno es posible\b|\bno hay suficiente|\bnão (?:é possível|posso|consigo|há informaç)"
        r"|\b(?:ne|n') ?peux pas\b|\bimpossible de\b|\bil n'est pas possible\b|\bkann (?:ich )?nicht\b"
        r"|\bnicht möglich\b"
        r"|\bnon (?:posso|è possibile)\b|\blo siento\b|\bdésolé\b",
        ("no puedo determinar si hay edema", "não é possível determinar se há edema", "ich kann nicht beurteilen"),
    ),
    Cue(
        "decline",
        r"(?:only|need|needs|requires?|await) (?:\w+ ){0,3}?(?:a (?:radiologist|doctor|physician|clinician|specialist"
        r"|professional)) (?:can|could|to|should)",
        ("only a radiologist can judge this",),
    ),
)
