"""Readings of an answer by a language model: the chosen option, yes or no, or the named diseases.

HEAL-MedVQA reads open-ended answers this way (section 5: Llama 3.1 8B) and prints no prompt; these prompts are ours.
They contain the question of the model under test and its answer, but no gold. A reply is read strictly: any reply other
than the one word, letter or list of the prompt is unread. `chat` sends the prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from .chat import Messages
from .disease_names import CLASSES
from .diseases import Extraction
from .letters import get_letter_index
from .options import strip_option_letters
from .reasoning import extract_answer
from .yes_no import YesNoOutcome

Ask = Callable[[Sequence[Messages | None]], list[str]]  # prompts in, replies out, like `chat.collect_replies`

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
    """Find the option that each of n answers chooses.

    Args:
        texts: n answers; None and blank answers are unread, without a request.
        questions: n pairs of a question and its options, in the displayed order.
        ask: Returns the model's replies.

    Returns:
        n indices; None for unread.
    """
    prompts = [build_choice_messages(text, *question) for text, question in zip(texts, questions, strict=True)]
    parsed_replies = zip(ask(prompts), questions, strict=True)
    return [parse_choice(reply, len(options)) for reply, (_, options) in parsed_replies]


def yes_no(texts: Sequence[str | None], questions: Sequence[str], ask: Ask) -> list[YesNoOutcome]:
    """Read n answers to n yes/no questions.

    Args:
        texts: See `choices`.
        questions: n questions.
        ask: See `choices`.

    Returns:
        "yes", "no" or "unread" for each.
    """
    prompts = [build_yes_no_messages(text, question) for text, question in zip(texts, questions, strict=True)]
    return [parse_yes_no(reply) for reply in ask(prompts)]


def diseases(texts: Sequence[str | None], ask: Ask, vocabulary: Sequence[str] = CLASSES) -> list[Extraction]:
    """Read the labels of the vocabulary that each of n answers names.

    Args:
        texts: See `choices`.
        ask: See `choices`.
        vocabulary: The labels.

    Returns:
        n readings.
    """
    return [
        parse_diseases(reply, vocabulary) for reply in ask([build_disease_messages(text, vocabulary) for text in texts])
    ]


def build_choice_messages(text: str | None, question: str, options: Sequence[str]) -> Messages | None:
    """Build the chat messages that ask for the option that an answer chooses.

    Args:
        text: The answer.
        question: The question.
        options: Its options, in the displayed order.

    Returns:
        The messages; None for an empty answer.
    """
    lettered = "\n".join(f"{chr(65 + place)}. {option}" for place, option in enumerate(strip_option_letters(options)))
    return _build_messages(CHOICE_PROMPT, f"Question: {question}\nOptions:\n{lettered}\n", text)


def build_yes_no_messages(text: str | None, question: str) -> Messages | None:
    """Build the chat messages that ask whether an answer means yes or no.

    Args:
        text: The answer.
        question: The question.

    Returns:
        The messages; None for an empty answer.
    """
    return _build_messages(YES_NO_PROMPT, f"Question: {question}\n", text)


def build_disease_messages(text: str | None, vocabulary: Sequence[str] = CLASSES) -> Messages | None:
    """Build the chat messages that ask for the labels of one answer.

    Args:
        text: The answer.
        vocabulary: The labels.

    Returns:
        The messages; None for an empty answer.
    """
    return _build_messages(DISEASES_PROMPT.format(labels="\n".join(f"- {label}" for label in vocabulary)), "", text)


def parse_choice(reply: str, n_options: int) -> int | None:
    """Parse a reply that consists of an option's letter.

    Args:
        reply: The reply.
        n_options: Number of options.

    Returns:
        The index of the option; None for any other reply.

    >>> parse_choice(" (b) ", 3), parse_choice("none", 3), parse_choice("D", 3), parse_choice("B or C", 3)
    (1, None, None, None)
    """
    word = _read_single_word(reply)
    return get_letter_index(word) if len(word) == 1 and get_letter_index(word) < n_options else None


def parse_yes_no(reply: str) -> YesNoOutcome:
    """Parse a reply that consists of yes or no.

    Args:
        reply: The reply.

    Returns:
        "yes", "no", or "unread" for unclear and any other reply.

    >>> parse_yes_no("**Yes**."), parse_yes_no("unclear"), parse_yes_no("Yes, it is.")
    ('yes', 'unread', 'unread')
    """
    word = _read_single_word(reply).casefold()
    return "yes" if word == "yes" else "no" if word == "no" else "unread"


def parse_diseases(reply: str, vocabulary: Collection[str] = CLASSES) -> Extraction:
    """Parse the labels in a reply, unread unless it has exactly one JSON list, with known labels only.

    Args:
        reply: The reply.
        vocabulary: The labels.

    Returns:
        The labels and the outcome.

    >>> parse_diseases('Here it is: ["edema"]').labels
    frozenset({'Edema'})
    >>> parse_diseases("[]").outcome, parse_diseases('["Pneumonia"]').outcome, parse_diseases("Edema").outcome
    ('answered', 'unread', 'unread')
    >>> parse_diseases("[" * 20_000).outcome
    'unread'
    """
    unread = Extraction(frozenset(), "unread")
    labels_by_name = {label.casefold(): label for label in vocabulary}
    try:
        lists = list(_iterate_json_lists(extract_answer(reply)))
    except RecursionError:  # thousands of nested brackets
        return unread
    if len(lists) != 1 or not all(
        isinstance(item, str) and item.strip().casefold() in labels_by_name for item in lists[0]
    ):
        return unread
    labels = frozenset(labels_by_name[item.strip().casefold()] for item in lists[0])
    return Extraction(labels, "answered")


def _build_messages(prompt: str, question_text: str, text: str | None) -> Messages | None:
    if not text or not text.strip():
        return None
    return [
        {"role": "system", "content": prompt},
        {"role": "user", "content": f"{question_text}Answer: {text}\nReply:"},
    ]


def _read_single_word(reply: str) -> str:
    match = _BARE.fullmatch(extract_answer(reply))
    return match["said"] if match else ""


def _iterate_json_lists(text: str) -> Iterator[list]:
    """Iterate over the outermost JSON lists in a text."""
    decoder, place = json.JSONDecoder(), text.find("[")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            end = place + 1
        else:
            yield value
        place = text.find("[", end)
