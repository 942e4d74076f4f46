"""Lists that give every option a truth value or a probability: "A: 0.1, B: 0.7, C: 0.2", {"A": false, "B": true}."""

from __future__ import annotations

import re
from itertools import islice

from .letters import get_letter_index
from .naming import NOTHING, Named
from .options import CONFLICT, MOST, Options
from .words import words

_BARE_VALUE = r"(?:0?\.\d|\d{1,3} ?%|(?:[01]|true|false|yes|no|(?:in)?correct)\b)"  # "A 10%, B 70%"
_VALUE = re.compile(
    r"[\"'(\[]?(?P<name>(?:option )?[A-Z](?:[.):] ?(?=[A-Za-z])[^|\n:,;]{1,60}?)?"
    r"|[^\"'\n:=,;{}()\[\]–—]{2,60}?)[\"')\].]{0,2}\s?"
    rf"(?:[:=(|]|(?:(?<=\b[A-Z])|(?<=\b[A-Z][).])) (?={_BARE_VALUE})|[-–—](?= )|->|→)\s?[\"']?"
    r"(?P<value>true|false|yes|no|correct|incorrect|(?:not )?(?:present|seen|visible)|absent|(?:un)?likely|(?:0"
    r"|1)?\.\d{1,4}"
    r"|[01](?:\.0+)?(?![\d.]|\s?%)"
    r"|\d{1,3}(?:\.\d+)?\s?%)(?!\w|\.\w)",
    re.IGNORECASE,
)
_SIGNED = re.compile(
    rf"(?:[:=(|]|[A-Z][).]?(?= {_BARE_VALUE})|[-–—] |->|→)\s?[\"']?(?:true|false|yes|no|(?:in)?correct"
    rf"|(?:not )?(?:present|seen|visible)|absent|(?:un)?likely|[\d.])",
    re.IGNORECASE,
)
_TICK, _CROSS = re.compile(r" ?[✓✔✅☑🗸]"), re.compile(r" ?[✗✘❌✖☒❎]")
_PRESENCE = {
    **dict.fromkeys(("present", "seen", "visible", "likely"), 1.0),
    **dict.fromkeys(("not present", "not seen", "not visible", "absent", "unlikely"), 0.0),
}
_TRUTH = {"true": 1.0, "yes": 1.0, "correct": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


def find_highest_valued(text: str, choices: Options, *, absence: bool) -> Named:
    """Find the one true or most probable option in a list that gives each option a value.

    If the question asks for absent findings, a list of texts may describe present findings, and chooses nothing.

    Args:
        text: The answer in the model's own form.
        choices: The question's options.
        absence: Whether the question asks for absent findings.

    Returns:
        The options with the highest value; a conflict if every value is 0; nothing if an option has no value.

    >>> find_highest_valued("A: 0.1, B: 0.7, C: 0.2", Options(["Edema", "No edema", "Nodule"]), absence=False).places
    {1}
    """
    text = _CROSS.sub(" no", _TICK.sub(" yes", text))
    if len(_SIGNED.findall(text)) < max(choices.n, 2):
        return NOTHING
    values: dict[int, float] = {}
    for match in islice(_VALUE.finditer(text), MOST):
        name, value = match["name"].strip(" -*•"), match["value"].casefold()
        letter, _, text_after_letter = re.sub(r"\A[Oo]ption ", "", name).partition(" ")
        is_letter = re.fullmatch(r"[A-Z][.):]?", letter) and (
            not text_after_letter or words(text_after_letter) in choices.words
        )
        places = {get_letter_index(letter[0])} if is_letter else choices.find_options(words(name))
        if value in _PRESENCE:
            number = 1 - _PRESENCE[value] if absence else _PRESENCE[value]
        elif absence and places and not is_letter:
            return Named({CONFLICT}, "text")
        else:
            number = _TRUTH[value] if value in _TRUTH else float(value.rstrip("% ")) / (100 if "%" in value else 1)
        for place in places:
            if values.setdefault(place, number) != number:
                return NOTHING
    if set(values) != set(range(choices.n)) or choices.are_yes_and_no:
        return NOTHING
    highest = max(values.values())
    return Named({place for place in values if values[place] == highest} if highest > 0 else {CONFLICT}, "letter")
