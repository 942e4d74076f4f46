"""The words of CXR-ContraBench: option texts, negation forms and question forms.

The two original questions are printed in section 3.2, the negation forms in Appendix I. The paper tests three question
paraphrases (P1-P3, Table 12) without printing them; those below are ours, chosen to behave as Table 12 reports: the
literal trigger "absent" fires on the original and P2 of the absence question, and misses P1 and P3.

Questions that a source brings along (ReXVQA) are not reworded; `question_polarity` and `mark_options` say what their
words are, in the sense of the paper's audited vocabulary (Appendices B.2 and I).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

NEGATION_FORMS = {
    "canonical_no": "No {finding}",
    "absence_of": "Absence of {finding}",
    "not_present": "{finding} is not present",
    "no_evidence_of": "No evidence of {finding}",
    "clear_of": "Clear of {finding}",
}

QUESTION_FORMS = {
    "presence": {
        "original": "Which of the following findings is present on this chest X-ray study?",
        "p1": "Which finding can be seen on this chest X-ray study?",
        "p2": "Which of these findings is present in the images of this study?",
        "p3": "Which of the listed findings does this chest X-ray study show?",
    },
    "absence": {
        "original": "Which of the following findings is absent on this chest X-ray study?",
        "p1": "Which of the following findings is missing from this chest X-ray study?",
        "p2": "Which of these findings is absent from the images of this study?",
        "p3": "Which of the listed findings is not identified on this chest X-ray study?",
    },
}

LAYOUTS = ("shuffled", "original")


def positive_option(finding: str) -> str:
    """`"pleural effusion"` -> `"Pleural effusion"`."""
    return _sentence_case(finding)


def negated_option(finding: str, form: str) -> str:
    """The negated option of a finding in one of NEGATION_FORMS (Appendix I).

    >>> negated_option("edema", "canonical_no"), negated_option("edema", "not_present")
    ('No edema', 'Edema is not present')
    """
    return _sentence_case(NEGATION_FORMS[form].format(finding=finding))


def slug(finding: str) -> str:
    """The finding as a row id has it: `"pleural effusion"` -> `"pleural_effusion"`."""
    return finding.replace(" ", "_")


# What says in a question that something is there, that it is not, or leaves it open which of the two is asked for.
# The words are those of the verifier, `evaluate_metrics/reading/negation.py`; a test holds the patterns equal.
_SEEN = (
    "(?:present|seen|visible|visuali[sz]ed|show|shows|shown|evident|demonstrate|demonstrates|demonstrated|identified"
    "|observed|detected|noted|depict|depicts|depicted|apparent|reveal|reveals|revealed|found|displayed)"
)
_EVIDENCE = "(?:evidence|sign|signs|indication|indications|trace|suggestion)"
_ABSENCE = re.compile(
    rf"\b(?:not (?:be |been |to be )?{_SEEN}|absent|missing|lack|lacks|lacking|excluded|ruled out"
    rf"|(?:{_SEEN} )?no {_EVIDENCE}(?: of)?|negative(?: for)?|free of|clear of|without)\b"
)
_DENIAL = re.compile(r"\b(?:no|not|never|none|neither|nor|absence|nothing|fails?|failed)\b")
_LEAST = re.compile(r"\bleast likely(?: to be)?(?: present)?\b")
_HEDGE = re.compile(
    r"\b(?:least|most|more|less|likely|unlikely|likelihood|probabl[ey]|possibl[ey]|suspected|suspicious|except"
    r"|excluding|excludes?|other than|besides|rather|instead|unless|if|may|might|could|would|should|false|incorrect"
    r"|wrong|untrue|inconsistent|contradict\w*|hardly|barely|rarely|partially)\b"
)
# What makes an option an explicitly negated one. As in the authors' verifier "clear" and "normal" count: an answer set
# with such an option beside "No X" has no unique negated option.
_NEGATED = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|absent|absence|clear|negative|free of|lack|lacks|lacking|normal"
    r"|unremarkable|excluded|ruled out|missing)\b"
)
_NEGATED_CONCEPT = (
    re.compile(
        r"^(?:there (?:is|are) )?"
        r"(?:no|without|absent|absence of|lack of|negative for|(?:(?:\w+ ){1,3}(?:is|are) )?(?:clear|free) of)"
        rf"(?: any)?(?: {_EVIDENCE} of)? (?P<concept>.+?)(?:(?: (?:is|are))? {_SEEN})?$"
    ),
    re.compile(
        r"^(?P<concept>.+?)(?: (?:is|are|was|were))?"
        rf" (?:(?:can )?not (?:be )?{_SEEN}|absent|missing|excluded|ruled out)$"
    ),
)


class Marks(NamedTuple):
    """negated: index of the only explicitly negated option, counterpart: of the one option that states its concept.

    -1 where there is none or more than one. concept: lower case, "" where the negation's words are not known.
    """

    negated: int
    counterpart: int
    concept: str


def question_polarity(question: str) -> tuple[str, str]:
    """Polarity (presence, absence or other) and negation cue ("" for none) of a question, by its words alone.

    The cue is the first negating phrase. A question can have one and still be `other`, where it does not plainly ask
    for what is absent: "least likely present".

    >>> question_polarity("Which finding is not seen on this radiograph?")
    ('absence', 'not seen')
    >>> question_polarity("Which finding is least likely present?")
    ('other', 'least likely present')
    """
    text = _words(question)
    rest, n_absent = _ABSENCE.subn(" ", text)
    found = [m for pattern in (_LEAST, _ABSENCE, _DENIAL) if (m := pattern.search(text))]
    cue = min(found, key=lambda m: (m.start(), -m.end()))[0] if found else ""
    if _HEDGE.search(text) or _DENIAL.search(rest):
        return "other", cue
    seen = re.search(rf"\b{_SEEN}\b", rest)
    if n_absent == 1 and not seen:
        return "absence", cue
    return ("presence" if seen and not n_absent else "other"), cue


def mark_options(options: Sequence[str]) -> Marks:
    """The only explicitly negated option among `options`, and its positive counterpart.

    >>> mark_options(["Edema", "No evidence of edema", "Fracture"])
    Marks(negated=1, counterpart=0, concept='edema')
    """
    texts = [_words(option) for option in options]
    negated = [i for i, text in enumerate(texts) if _NEGATED.search(text)]
    if len(negated) != 1:
        return Marks(-1, -1, "")
    matches = [m for pattern in _NEGATED_CONCEPT if (m := pattern.match(texts[negated[0]]))]
    # Two negations in one option ("No absence of edema") leave open what is meant.
    concept = next((m["concept"] for m in matches if not _NEGATED.search(m["concept"])), "")
    equal = [i for i, text in enumerate(texts) if i != negated[0] and _bare(text) == _bare(concept)]
    return Marks(negated[0], equal[0] if concept and len(equal) == 1 else -1, concept)


def _words(text: str) -> str:
    """Lower-case words with one space between them."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(re.findall(r"[^\W_]+", text.replace("n't", " not").replace("cannot", "can not")))


def _bare(text: str) -> str:
    return " ".join(word for word in text.split() if word not in ("a", "an", "the"))


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
