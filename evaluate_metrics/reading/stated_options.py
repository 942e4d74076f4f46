"""Options that a predicate names: "It's edema", "The finding is edema"."""

from __future__ import annotations

import re
from itertools import islice

from .clauses import split_clauses
from .naming import Named, find_asserted
from .options import MOST, Options
from .words import build_word_set, words

_IS = re.compile(
    r"(?:(?P<it>\b(?:it|this|that)(?: is|'s))|\b(?:is|are)) (?:thus |therefore |most likely |probably )?(?:the |an? )?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\w+(?: \w+){0,3}?(?:,? (?:to|or) (?:even )?(?:an? |the )?| ?/ ?)")
_CHOICE_END = re.compile(r"[,(]| (?:and|or|but|because|as|rather)\b")
_SMALL_WORDS = build_word_set(
    """
    a an the is are of in on to this that these those which what who how does do for with by it present seen shown
    following listed
    """
)


def read_predicates(text: str, choices: Options, question: str) -> Named:
    """Read the option in a predicate: "It's edema", "the finding is edema" for "Which finding is present?".

    Args:
        text: The readable text.
        choices: The question's options.
        question: The question, whose words may be the subject.

    Returns:
        The option; nothing if there is none, or several.

    >>> read_predicates("The finding is edema.", Options(["Edema", "Nodule"]), "Which finding is present?").places
    {0}
    """
    question_words = set(words(question).split()) - _SMALL_WORDS
    places: set[int] = set()
    for clause in split_clauses(text):
        clause_places: set[int] = set()
        for match in islice(_IS.finditer(clause.text), MOST) if clause.act == "state" else ():
            subject = words(clause.text[max(match.start() - 60, 0) : match.start()]).split()[-6:]
            if match["it"] or question_words & set(subject):
                predicate = clause.text[match.end() :][:200]
                clause_places |= choices.find_starting(_CHOICE_END.split(predicate, maxsplit=1)[0])
                if clause_places and (next_text := _RANGE.match(predicate)):  # "mild to moderate"
                    clause_places |= choices.find_starting(predicate[next_text.end() :])
        places |= clause_places & find_asserted(clause.text, choices) if clause_places else clause_places
    return Named(places if len(places) == 1 else set(), "text")
