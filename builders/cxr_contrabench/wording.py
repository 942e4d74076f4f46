"""The words of CXR-ContraBench: option texts, negation forms and question forms.

The two original questions are printed in section 3.2, the negation forms in Appendix I. The paper tests three question
paraphrases (P1-P3, Table 12) without printing them; those below are ours, chosen to behave as Table 12 reports: the
literal trigger "absent" fires on the original and P2 of the absence question, and misses P1 and P3.
"""

from __future__ import annotations

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

LAYOUTS = ("original", "shuffled")


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
    """The finding as it stands in a row id: `"pleural effusion"` -> `"pleural_effusion"`."""
    return finding.replace(" ", "_")


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
