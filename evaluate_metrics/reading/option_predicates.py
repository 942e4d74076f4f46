"""What a text says of single options, rewritten so that the words for right and wrong fit the question.

Of a ranking, the most likely option is left. "B is absent" is the choice where a question asks for what is absent, and
no choice where it asks for what is present. "The least likely is B" names a wrong option, unless the question asks for
the least likely one.
"""

from __future__ import annotations

import re

_ASKS_ABSENCE = re.compile(
    r"\b(?:absent|not (?:present|seen|visible|shown|found|identified)|missing|ruled out|excluded|least likely)\b"
    r"|\b(?:which|what)\b(?:(?!\b(?:why|because|explains?|causes?|reason)\b)[^?.])*?"
    r"\b(?:(?:is|are|was|were|do|does|did|can|could|has|have) not|ca(?:n't|nnot)"
    r"|(?:is|are|was|were|do|does|did|could|has|have)n't|(?:is|are|was|were|does|do|did|can) (?:[\w ]+ )not) "
    r"(?!(?:\w+ly )?(?:normal|clear|healthy|unremarkable|intact|well)\b)",
    re.IGNORECASE,
)
# If a question asks for what is absent, "B is absent" chooses B, and "A is present" says that A is wrong.
_VERB = r"(?P<verb>\b(?:is|are|was|were|seems|appears|seems to be|appears to be)) "
_SEEN = r"(?:present|seen|visible|shown|found|identified|evident|there|detected|apparent)\b"
_LETTERED = rf"(?P<subject>\b[A-Z][)\]]?(?: ?[(\[][^)\]]{{1,60}}[)\]])? {_VERB})"
_IS_ABSENT = re.compile(
    rf"{_LETTERED}(?:the |an? )?(?:\w+ly ){{0,2}}(?:absent|missing|not (?:\w+ly )?{_SEEN}|ruled out|excluded)"
    rf"(?: (?:one|option|finding|answer|choice))?"
)
_IS_PRESENT = re.compile(rf"{_LETTERED}(?:\w+ly ){{0,2}}{_SEEN}")
# If it asks for the least likely one, that is absent for the later stages, and what is likely is present.
_ASKS_LEAST = re.compile(r"\bleast likely\b", re.IGNORECASE)
_IS_LEAST = re.compile(
    rf"{_VERB}(?:the )?(?:\w+ly )?(?:least likely|unlikely)(?: (?:one|option|finding|answer"
    rf"|choice))?(?: (?:to be )?{_SEEN})?",
    re.IGNORECASE,
)
_IS_LIKELY = re.compile(
    rf"{_VERB}(?:the )?(?:most |more |very |quite )?(?:likely|consistent|compatible)(?: (?:to be )?{_SEEN})?",
    re.IGNORECASE,
)
_NAMES_LIKELY = re.compile(
    r"\b(?:the )?most likely(?: (?:one|finding|diagnosis))?(?: (?:is|are)|:) [^.;,\n]{1,60}", re.IGNORECASE
)
# A sentence that names a wrong option, unless the question asks for it: "The least likely finding is B".
_ASKS_WRONG = re.compile(
    r"\b(?:least|not|n't|except|wrong|incorrect|false|absent|missing|excluded|ruled out|unlikely|never|no)\b|n't\b",
    re.IGNORECASE,
)
_WRONG = (
    r"(?i:(?:least|less) (?:likely|probable|plausible|suitable|appropriate|fitting)|wrong|incorrect|false|excluded"
    r"|eliminated"
    r"|rejected|implausible|unlikely|worst|poorest)"
)
_NAMES_WRONG = re.compile(
    rf"\b(?:(?i:my|the|an?|one|most) )?{_WRONG}(?: (?i:answers?|options?|choices?|ones?|findings?|diagnos[ie]s"
    rf"|statements?"
    r"|candidates?)){0,2} ?(?:(?i:is|are|would be|seems to be) |: ?(?=(?:(?i:option|choice) )?[(\[]?[A-Z]\b)"
    r"|(?<=likely|.worst|oorest): )(?:(?!,? (?i:so|but|hence|therefore|thus|while|whereas|leaving"
    r"|which)\b)[^.;\n]){1,80}"
    r"|\b(?:(?i:option|choice) )?[(\[]?[A-Z][)\]]? (?i:is|are|seems|appears|would be) (?:\w+ly )?(?i:the |an? )?"
    rf"{_WRONG} (?i:answer|option|choice|one|finding|diagnosis|statement|candidate)s?\b"
)
# "60% B, 40% A", "1. B 2. A", "From most to least likely: B, A, C".
_PERCENT_FIRST = re.compile(
    r"(?<![\w.])(\d{1,3}(?:\.\d+)?)\s?% (?:for |chance of |likely )?([A-Z])\b(?=[)\]]?(?:[,;.\n]| and\b|\Z))"
)
_NUMBERED = re.compile(r"\A\W*1[.)] ?[A-Z]\b(?: \d[.)] ?[A-Z]\b)+\W*\Z")
_LETTER = re.compile(r"[A-Z]")
_RANKED = re.compile(
    r"\b(?P<end>most|least)(?: \w+)? to (?:the )?(?:least"
    r"|most)(?: \w+)?: ?(?P<first>[A-Z])\b(?:,? ?(?:and )?[A-Z]\b){0,8}?"
    r",? ?(?:and )?(?P<last>[A-Z])\b(?=\W*(?:\n|\Z))",
    re.IGNORECASE,
)


def asks_for_absence(question: str) -> bool:
    """Whether a question asks for an absent finding, or for the least likely one.

    Args:
        question: The question.

    Returns:
        True if it does.
    """
    return bool(_ASKS_ABSENCE.search(question))


def relate_to_question(text: str, question: str) -> str:
    """Rewrite what a text says of single options, so that the words for right and wrong fit the question.

    Args:
        text: The readable text.
        question: The question.

    Returns:
        The text: "B is absent" is "B is the answer" for a question that asks for what is absent. For other questions,
        parts that name a wrong option ("The least likely is B") are removed.
    """
    text = _read_rankings(text, is_absence=asks_for_absence(question))
    if _ASKS_LEAST.search(question):
        text = _IS_LEAST.sub(r"\g<verb> absent", _NAMES_LIKELY.sub(" ", text))
        text = _IS_LIKELY.sub(r"\g<verb> present", text)
    if asks_for_absence(question):
        return _IS_PRESENT.sub(r"\g<subject>wrong", _IS_ABSENT.sub(r"\g<subject>the answer", text))
    return text if _ASKS_WRONG.search(question) else _NAMES_WRONG.sub(" ", text)


def _read_rankings(text: str, *, is_absence: bool) -> str:
    """Replace rankings of letters by the most likely one, or by the least likely one where that is asked for."""
    shares = [(float(match[1]), match[2]) for match in _PERCENT_FIRST.finditer(text)]
    if len(shares) > 1 and not is_absence:
        highest = [letter for share, letter in shares if share == max(shares)[0]]
        text = _PERCENT_FIRST.sub(lambda match: match[2] if [match[2]] == highest else " ", text)
    text = _NUMBERED.sub(lambda ranking: ", ".join(_LETTER.findall(ranking[0])), text)

    def write_first(ranking: re.Match[str]) -> str:
        is_first = (ranking["end"].casefold() == "most") != is_absence
        return f"The answer is {ranking['first' if is_first else 'last']}"

    return _RANKED.sub(write_first, text)
