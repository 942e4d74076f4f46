"""Prompts of SurgXBench (appendix C.2): LVLMs get one question a frame, contrastive models one sentence a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medfaith.loaders import cholec80_boxes
from medfaith.loaders.cholec_triplets import NULL_VERB, TARGETS, TRIPLETS

_NOUNS = {"specimen_bag": "bag"}  # the paper's prompt says Bag


def _get_noun(instrument: str) -> str:
    return _NOUNS.get(instrument, instrument)


def _format_abilities() -> str:
    """Describe the verbs of each instrument among the 100 triplets, one sentence for each instrument."""
    verbs: dict[str, list[str]] = {}
    for instrument, verb, _ in TRIPLETS:
        if verb != NULL_VERB:
            verbs.setdefault(instrument, []).append(verb)
    return " ".join(
        f"A {instrument} can {_join_names([*dict.fromkeys(own_verbs)])}." for instrument, own_verbs in verbs.items()
    )


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _format_sentence(instrument: str, verb: str, target: str) -> str:
    """Format a triplet as a sentence. The paper prints none: its Figure 1 shows only the sentence for an instrument."""
    if verb == NULL_VERB:
        return f"The {instrument} is in the image and does nothing."
    return f"The {instrument} is used to {verb} the {target.replace('_', ' ')}."


def format_choice(instruments: Sequence[str]) -> str:
    """Format the instruments that a question offers.

    Args:
        instruments: Their names.

    Returns:
        The list in the question.
    """
    return ", ".join(_get_noun(name).capitalize() for name in instruments)


def format_question(instruments: Sequence[str]) -> str:
    """Format the question for instruments, which the paper prints.

    >>> format_question(["grasper", "specimen_bag"])
    'What surgical tools do you see? Choose from: Grasper, Bag'

    Args:
        instruments: The names of the instruments that it offers.

    Returns:
        The question.
    """
    return f"What surgical tools do you see? Choose from: {format_choice(instruments)}"


def format_class_prompt(instrument: str) -> str:
    """Format the sentence for an instrument (Figure 1).

    Args:
        instrument: Its name.

    Returns:
        The sentence.
    """
    return f"The {_get_noun(instrument)} is in the image."


LISTS = {  # lists in the questions, the same in every wording
    "instruments": format_choice(cholec80_boxes.INSTRUMENTS),
    "abilities": _format_abilities(),
    "targets": ", ".join(name for name in TARGETS if name != "null_target"),
}
QUESTIONS = {
    "instruments": format_question(cholec80_boxes.INSTRUMENTS),
    # The paper describes this question and prints only its last sentence. The lists come from CholecT45.
    "triplets": "Look at the surgical image carefully and name every action that you can see. "
    f"{LISTS['abilities']} Possible targets: {LISTS['targets']}. "
    'Answer with one action a line, in three words: "instrument verb target".',
}
CLASS_PROMPTS = {
    "instruments": [*map(format_class_prompt, cholec80_boxes.INSTRUMENTS)],
    "triplets": [_format_sentence(*triplet) for triplet in TRIPLETS],
}


def prompt(doc: dict[str, Any]) -> str:
    """Format the frame and the question.

    Args:
        doc: The document.

    Returns:
        The prompt.
    """
    return f"{'<image>' * len(doc['images'])}{doc['question']}"


def target(doc: dict[str, Any]) -> str:
    """Return the right answer in words.

    Args:
        doc: The document.

    Returns:
        The text of the right option.
    """
    return doc["options"][doc["answer"]]
