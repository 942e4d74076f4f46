"""The wording of CXR-ContraBench: option texts, negation forms and question forms.

Section 3.2 prints the two original questions, and Appendix I the negation forms. The paper tests three question
paraphrases (P1-P3, Table 12) without printing them. The paraphrases below are ours, chosen to behave as Table 12
reports: the literal trigger "absent" matches the original and P2 of the absence question, but not P1 and P3.

Questions of a source (ReXVQA) are not reworded. `read_question_polarity` and `mark_options` classify their wording by
the paper's audited vocabulary (Appendices B.2 and I).
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

LAYOUTS = ("shuffled", "original", "authors")


def format_positive_option(finding: str) -> str:
    """Format the positive option of a finding: `"pleural effusion"` -> `"Pleural effusion"`.

    Args:
        finding: Display name of the finding, in lower case.

    Returns:
        The text of the option.
    """
    return _capitalize(finding)


def format_negated_option(finding: str, form: str) -> str:
    """Format the negated option of a finding (Appendix I).

    Args:
        finding: Display name of the finding, in lower case.
        form: One of NEGATION_FORMS.

    Returns:
        The text of the option.

    >>> format_negated_option("edema", "canonical_no"), format_negated_option("edema", "not_present")
    ('No edema', 'Edema is not present')
    """
    return _capitalize(NEGATION_FORMS[form].format(finding=finding))


def slug(finding: str) -> str:
    """Format a finding for row ids: `"pleural effusion"` -> `"pleural_effusion"`.

    Args:
        finding: Display name of the finding, in lower case.

    Returns:
        The part of the id.
    """
    return finding.replace(" ", "_")


# Words in a question for presence and for absence, and words that leave open which of the two the question means. They
# equal the words of the verifier, `evaluate_metrics/reading/negation.py`; a test compares the patterns.
_VISIBLE = (
    "(?:present|seen|visible|visuali[sz]ed|show|shows|shown|evident|demonstrate|demonstrates|demonstrated|identified"
    "|observed|detected|noted|depict|depicts|depicted|apparent|reveal|reveals|revealed|found|displayed)"
)
_EVIDENCE = "(?:evidence|sign|signs|indication|indications|trace|suggestion)"
_ABSENCE = re.compile(
    rf"\b(?:not (?:be |been |to be )?{_VISIBLE}|absent|missing|lack|lacks|lacking|excluded|ruled out"
    rf"|(?:{_VISIBLE} )?no {_EVIDENCE}(?: of)?|negative(?: for)?|free of|clear of|without)\b"
)
_DENIAL = re.compile(r"\b(?:no|not|never|none|neither|nor|absence|nothing|fails?|failed)\b")
_LEAST = re.compile(r"\bleast likely(?: to be)?(?: present)?\b")
_HEDGE = re.compile(
    r"\b(?:least|most|more|less|likely|unlikely|likelihood|probabl[ey]|possibl[ey]|suspected|suspicious|except"
    r"|excluding|excludes?|other than|besides|rather|instead|unless|if|may|might|could|would|should|false|incorrect"
    r"|wrong|untrue|inconsistent|contradict\w*|hardly|barely|rarely|partially)\b"
)
# Words that make an option an explicitly negated one. "clear" and "normal" count, like in the authors' verifier: an
# answer set with such an option and "No X" has no unique negated option.
_NEGATED = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|absent|absence|clear|negative|free of|lack|lacks|lacking|normal"
    r"|unremarkable|excluded|ruled out|missing)\b"
)
_NEGATED_CONCEPT = (
    re.compile(
        r"^(?:there (?:is|are) )?"
        r"(?:no|without|absent|absence of|lack of|negative for|(?:(?:\w+ ){1,3}(?:is|are) )?(?:clear|free) of)"
        rf"(?: any)?(?: {_EVIDENCE} of)? (?P<concept>.+?)(?:(?: (?:is|are))? {_VISIBLE})?$"
    ),
    re.compile(
        r"^(?P<concept>.+?)(?: (?:is|are|was|were))?"
        rf" (?:(?:can )?not (?:be )?{_VISIBLE}|absent|missing|excluded|ruled out)$"
    ),
)


class Marks(NamedTuple):
    """The negated option of an answer set and its counterpart.

    Attributes:
        negated: Index of the only explicitly negated option; -1 unless it is unique.
        counterpart: Index of the only option that states its concept; -1 unless it is unique.
        concept: The negated concept, in lower case; "" if the form of the negation is unknown.
    """

    negated: int
    counterpart: int
    concept: str


def read_question_polarity(question: str) -> tuple[str, str]:
    """Read the polarity and the negation cue of a question from its wording.

    The cue is the first negating phrase. A question with a cue is still `other` if it does not plainly ask for an
    absent finding: "least likely present".

    Args:
        question: The question.

    Returns:
        The polarity (presence, absence or other) and the cue; "" if there is no cue.

    >>> read_question_polarity("Which finding is not seen on this radiograph?")
    ('absence', 'not seen')
    >>> read_question_polarity("Which finding is least likely present?")
    ('other', 'least likely present')
    """
    text = _normalize_words(question)
    remainder, n_absent = _ABSENCE.subn(" ", text)
    matches = [m for pattern in (_LEAST, _ABSENCE, _DENIAL) if (m := pattern.search(text))]
    cue = min(matches, key=lambda m: (m.start(), -m.end()))[0] if matches else ""
    if _HEDGE.search(text) or _DENIAL.search(remainder):
        return "other", cue
    visible = re.search(rf"\b{_VISIBLE}\b", remainder)
    if n_absent == 1 and not visible:
        return "absence", cue
    return ("presence" if visible and not n_absent else "other"), cue


def mark_options(options: Sequence[str]) -> Marks:
    """Find the only explicitly negated option and its positive counterpart.

    Args:
        options: The texts of the options.

    Returns:
        The indices and the concept.

    >>> mark_options(["Edema", "No evidence of edema", "Fracture"])
    Marks(negated=1, counterpart=0, concept='edema')
    """
    texts = [_normalize_words(option) for option in options]
    negated = [i for i, text in enumerate(texts) if _NEGATED.search(text)]
    if len(negated) != 1:
        return Marks(-1, -1, "")
    matches = [m for pattern in _NEGATED_CONCEPT if (m := pattern.match(texts[negated[0]]))]
    # An option with two negations ("No absence of edema") is ambiguous.
    concept = next((m["concept"] for m in matches if not _NEGATED.search(m["concept"])), "")
    equal = [i for i, text in enumerate(texts) if i != negated[0] and _strip_articles(text) == _strip_articles(concept)]
    return Marks(negated[0], equal[0] if concept and len(equal) == 1 else -1, concept)


def _normalize_words(text: str) -> str:
    """Normalize text to lower-case words with one space between them."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(re.findall(r"[^\W_]+", text.replace("n't", " not").replace("cannot", "can not")))


def _strip_articles(text: str) -> str:
    return " ".join(word for word in text.split() if word not in ("a", "an", "the"))


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
