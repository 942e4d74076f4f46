"""Answers to open questions with a gold answer in words: what is left to compare, and how much of it agrees.

The comparison is that of SQuAD (Rajpurkar et al., 2016): lower case, no punctuation, no articles; exact match and F1 of
the words. The recall of the gold words is the figure that LLaVA-Med (Li et al., 2023) reports for open questions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from .clauses import split_clauses
from .diseases import COUNTED
from .outcome import ANSWERED, DECLINED, UNREAD, Outcome
from .reasoning import extract_answer, remove_unfinished
from .statements import statements

_ARTICLES = frozenset(("a", "an", "the"))
_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_STATED = ("final", "answer")


class FreeAnswer(NamedTuple):
    """A reading of an answer to an open question.

    Attributes:
        words: The words of the answer, folded; empty if it is declined or unread.
        outcome: "answered", "declined" or "unread".
    """

    words: tuple[str, ...]
    outcome: Outcome


class Agreement(NamedTuple):
    """The agreement of an answer with the accepted answer that fits it best.

    Attributes:
        exact: 1 if the words are equal, otherwise 0.
        f1: F1 of the words.
        recall: The share of the accepted answer's words that the answer has.
    """

    exact: float
    f1: float
    recall: float


def read_free_answer(text: str | None, *, cut: bool = False) -> FreeAnswer:
    """Read the words of an answer, without reasoning and without the words that introduce it.

    Args:
        text: The response.
        cut: Whether the text is known to be truncated, for example by a token limit.

    Returns:
        The reading. A text of which each sentence declines is declined; a text without words is unread.

    >>> read_free_answer("The answer is: a pneumothorax.")
    FreeAnswer(words=('pneumothorax',), outcome='answered')
    >>> read_free_answer("I cannot see the image.").outcome, read_free_answer("...").outcome
    ('declined', 'unread')
    """
    answer = extract_answer(remove_unfinished(text or "", cut=cut))
    stated = [_SENTENCE_END.split(item.text.strip())[0] for item in statements(answer) if item.kind in _STATED]
    answer = stated[-1] if stated and fold_words(stated[-1]) else answer
    acts = {clause.act for clause in split_clauses(answer)}
    if "decline" in acts and not acts & {*COUNTED}:
        return FreeAnswer((), DECLINED)
    words = fold_words(answer)
    return FreeAnswer(words, ANSWERED if words else UNREAD)


def fold_words(text: str) -> tuple[str, ...]:
    """Fold a text to words in lower case, without punctuation, accents and articles.

    Args:
        text: The text.

    Returns:
        The words. A text of articles alone keeps them: "A" can be an answer.

    >>> fold_words("The left  Lung, (lower lobe) 3.5 cm")
    ('left', 'lung', 'lower', 'lobe', '3.5', 'cm')
    """
    plain = unicodedata.normalize("NFKD", text.casefold())
    words = _WORD.findall("".join(sign for sign in plain if not unicodedata.combining(sign)))
    return tuple(word for word in words if word not in _ARTICLES) or tuple(words)


def compute_agreement(words: Sequence[str], accepted: Sequence[str]) -> Agreement:
    """Compute the agreement with the accepted answer that has the highest F1, then the highest recall.

    Args:
        words: The folded words of the answer.
        accepted: The accepted answers, at least one.

    Returns:
        The agreement; zeros for an answer without words.

    >>> compute_agreement(("large", "pneumothorax"), ["pneumothorax", "air"])
    Agreement(exact=0.0, f1=0.6666666666666666, recall=1.0)
    """
    candidates = [_compare(words, fold_words(text)) for text in accepted]
    return max(candidates, key=lambda agreement: (agreement.f1, agreement.recall))


def _compare(words: Sequence[str], gold: Sequence[str]) -> Agreement:
    n_shared = (Counter(words) & Counter(gold)).total()
    f1 = 2 * n_shared / (len(words) + len(gold)) if words or gold else 0.0
    return Agreement(float(tuple(words) == tuple(gold) and bool(gold)), f1, n_shared / len(gold) if gold else 0.0)
