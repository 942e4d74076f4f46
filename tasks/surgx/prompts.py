"""What models are asked (appendix C.2): LVLMs one question a frame, contrastive models one sentence a class."""

from __future__ import annotations

from typing import Any

from medfaith.loaders import cholec80_boxes
from medfaith.loaders.cholec_triplets import NULL_VERB, TARGETS, TRIPLETS

_NOUNS = {"specimen_bag": "bag"}  # the paper's prompt says Bag


def _noun(instrument: str) -> str:
    return _NOUNS.get(instrument, instrument)


def _abilities() -> str:
    """What each instrument does among the 100 triplets, in a sentence of its own."""
    verbs: dict[str, list[str]] = {}
    for instrument, verb, _ in TRIPLETS:
        if verb != NULL_VERB:
            verbs.setdefault(instrument, []).append(verb)
    return " ".join(f"A {instrument} can {_listed([*dict.fromkeys(of_one)])}." for instrument, of_one in verbs.items())


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _sentence(instrument: str, verb: str, target: str) -> str:
    """A triplet as a sentence. The paper prints none: its Figure 1 has only the form for an instrument."""
    if verb == NULL_VERB:
        return f"The {instrument} is in the image and does nothing."
    return f"The {instrument} is used to {verb} the {target.replace('_', ' ')}."


LISTS = {  # of the questions, in whatever words
    "instruments": ", ".join(_noun(name).capitalize() for name in cholec80_boxes.INSTRUMENTS),
    "abilities": _abilities(),
    "targets": ", ".join(name for name in TARGETS if name != "null_target"),
}
QUESTIONS = {
    # As printed.
    "instruments": f"What surgical tools do you see? Choose from: {LISTS['instruments']}",
    # The paper describes this one and prints only its last demand; the lists are those of CholecT45.
    "triplets": "Look at the surgical image carefully and name every action that you can see. "
    f"{LISTS['abilities']} Possible targets: {LISTS['targets']}. "
    'Answer with one action a line, in three words: "instrument verb target".',
}
CLASS_PROMPTS = {
    "instruments": [f"The {_noun(name)} is in the image." for name in cholec80_boxes.INSTRUMENTS],  # Figure 1
    "triplets": [_sentence(*triplet) for triplet in TRIPLETS],
}


def prompt(doc: dict[str, Any]) -> str:
    """The frame and the question."""
    return f"{'<image>' * len(doc['images'])}{doc['question']}"


def target(doc: dict[str, Any]) -> str:
    """The right answer in words."""
    return doc["options"][doc["answer"]]
