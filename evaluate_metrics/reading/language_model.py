"""What a language model reads in an answer: the option chosen, yes or no, or the diseases named.

HEAL-MedVQA has open-ended answers read so (section 5: Llama 3.1 8B) and prints no prompt; these prompts are ours. They
hold what the model under test was shown and what it answered, no gold. A reply is read strictly: what is not the one
word, letter or list that the prompt asks for is unread. `chat` asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from .chat import Messages
from .disease_names import CLASSES
from .diseases import Extraction
from .letters import index
from .options import option_texts
from .reasoning import answer_part
from .yes_no import YesNoOutcome

Ask = Callable[[Sequence[Messages | None]], list[str]]  # prompts in, replies out, as `chat.replies`

_RULES = """\
- Read only what the answer says; do not answer the question yourself.
- If the answer reasons first, its conclusion counts.
"""
CHOICE_PROMPT = f"""\
You read answers to multiple-choice questions about a medical image, and say which option each answer chooses.

Rules:
{_RULES}\
- Give the letter of the option that the answer chooses, also when it names the option in other words.
- If it chooses no option, or several, the reply is: none
- Reply with one letter or the word none, and nothing else.
"""
YES_NO_PROMPT = f"""\
You read answers to yes/no questions about a medical image, and say what each answer means.

Rules:
{_RULES}\
- Give yes or no, also when the answer says so in other words.
- If it says neither, or both, the reply is: unclear
- Reply with one word, yes, no or unclear, and nothing else.
"""
DISEASES_PROMPT = """\
You turn free-text answers about a chest X-ray into disease labels.

The labels, spelled exactly:
{labels}

Rules:
- Give the label of every disease that the answer says or suspects is there, also when it uses another word for it.
- Leave out what the answer denies ("no effusion", "without nodules").
- Use no other label. If the answer names no disease of the list, give an empty list.
- Reply with one JSON list of strings and nothing else.

Example answer: The right lung shows a small effusion and possible nodules; there is no pneumothorax.
Example reply: ["Pleural effusion", "Nodule/Mass"]
"""
_BARE = re.compile(r"[\s\"'`*(\[]*(?P<said>[A-Za-z]+)[\s\"'`*)\].]*")  # one word, in quotes, brackets or bold letters


def choices(texts: Sequence[str | None], questions: Sequence[tuple[str, Sequence[str]]], ask: Ask) -> list[int | None]:
    """Of n answers the option that each chooses, None for unread.

    Args:
        texts: n answers; one of None or of spaces is unread unasked.
        questions: n pairs of what was asked and its options, in the order shown.
        ask: gives the model's replies.
    """
    prompts = [choice_messages(text, *asked) for text, asked in zip(texts, questions, strict=True)]
    read = zip(ask(prompts), questions, strict=True)
    return [parse_choice(reply, len(options)) for reply, (_, options) in read]


def yes_no(texts: Sequence[str | None], questions: Sequence[str], ask: Ask) -> list[YesNoOutcome]:
    """ "yes", "no" or "unread" of n answers to n questions; as `choices`."""
    prompts = [yes_no_messages(text, question) for text, question in zip(texts, questions, strict=True)]
    return [parse_yes_no(reply) for reply in ask(prompts)]


def diseases(texts: Sequence[str | None], ask: Ask, vocabulary: Sequence[str] = CLASSES) -> list[Extraction]:
    """The labels of the vocabulary that each of n answers names; as `choices`."""
    return [parse_diseases(reply, vocabulary) for reply in ask([disease_messages(text, vocabulary) for text in texts])]


def choice_messages(text: str | None, question: str, options: Sequence[str]) -> Messages | None:
    """The chat messages that ask which option an answer chooses; None where there is nothing to read."""
    lettered = "\n".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(option_texts(options)))
    return _messages(CHOICE_PROMPT, f"Question: {question}\nOptions:\n{lettered}\n", text)


def yes_no_messages(text: str | None, question: str) -> Messages | None:
    """The chat messages that ask whether an answer means yes or no; None where there is nothing to read."""
    return _messages(YES_NO_PROMPT, f"Question: {question}\n", text)


def disease_messages(text: str | None, vocabulary: Sequence[str] = CLASSES) -> Messages | None:
    """The chat messages that ask for the labels of one answer; None where there is nothing to read."""
    return _messages(DISEASES_PROMPT.format(labels="\n".join(f"- {label}" for label in vocabulary)), "", text)


def parse_choice(reply: str, n_options: int) -> int | None:
    """The option whose letter is all of a reply.

    >>> parse_choice(" (b) ", 3), parse_choice("none", 3), parse_choice("D", 3), parse_choice("B or C", 3)
    (1, None, None, None)
    """
    said = _said(reply)
    return index(said) if len(said) == 1 and index(said) < n_options else None


def parse_yes_no(reply: str) -> YesNoOutcome:
    """What is all of a reply; "unread" for unclear, and for anything else.

    >>> parse_yes_no("**Yes**."), parse_yes_no("unclear"), parse_yes_no("Yes, it is.")
    ('yes', 'unread', 'unread')
    """
    said = _said(reply).casefold()
    return "yes" if said == "yes" else "no" if said == "no" else "unread"


def parse_diseases(reply: str, vocabulary: Collection[str] = CLASSES) -> Extraction:
    """The labels in a reply, unread unless it holds exactly one JSON list, of known labels only.

    >>> parse_diseases('Here it is: ["edema"]').labels
    frozenset({'Edema'})
    >>> parse_diseases("[]").outcome, parse_diseases('["Pneumonia"]').outcome, parse_diseases("Edema").outcome
    ('answered', 'unread', 'unread')
    >>> parse_diseases("[" * 20_000).outcome
    'unread'
    """
    unread = Extraction(frozenset(), "unread")
    known = {label.casefold(): label for label in vocabulary}
    try:
        lists = list(_json_lists(answer_part(reply)))
    except RecursionError:  # thousands of brackets in each other
        return unread
    if len(lists) != 1 or not all(isinstance(item, str) and item.strip().casefold() in known for item in lists[0]):
        return unread
    labels = frozenset(known[item.strip().casefold()] for item in lists[0])
    return Extraction(labels, "answered")


def _messages(prompt: str, asked: str, text: str | None) -> Messages | None:
    if not text or not text.strip():
        return None
    return [{"role": "system", "content": prompt}, {"role": "user", "content": f"{asked}Answer: {text}\nReply:"}]


def _said(reply: str) -> str:
    match = _BARE.fullmatch(answer_part(reply))
    return match["said"] if match else ""


def _json_lists(text: str) -> Iterator[list]:
    """The outermost JSON lists in a text."""
    decoder, place = json.JSONDecoder(), text.find("[")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            end = place + 1
        else:
            yield value
        place = text.find("[", end)
