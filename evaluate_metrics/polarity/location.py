"""Location repair, the part of M2 that follows QCCV-Neg (CXR-ContraBench, section 4, Appendix D.3), as a pure function.

The paper calls M2 a location-sensitive scaffold for left/right and upper/lower conflicts and prints no rules. Those
here are ours and conservative: a prediction is replaced only when the question plainly asks about one pole of an axis,
the predicted option names only the opposite pole, and one other option agrees. It looks at words only, never at an
image or at the gold answer.

Side: left, right. Level: upper or superior, lower or inferior. "Both", "bilateral", "middle", "apical", "basal" and the
like conflict with nothing, but an option that has them may agree too, and then nothing is replaced. Names that hold a
pole whichever place is meant ("left ventricle", "superior vena cava", "upper limit") and other senses of the words
("what is left", "the right answer") are no locations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..reading.options import option_texts
from ..reading.words import words
from .verifier import Verdict

REASONS = (
    "fired",
    "no_prediction",
    "no_location",
    "location_unclear",
    "no_conflict",
    "no_matching_option",
    "several_matching_options",
    "polarity_changes",
)

_OPPOSITE = {"left": "right", "right": "left", "upper": "lower", "lower": "upper"}
_NEITHER = "neither"  # stands among the poles of an axis for a place that may be, or is, outside both
_AXES = (  # of each axis, what its two poles are called, and what blocks it
    re.compile(
        r"\b(?:(?P<left>left|lt)|(?P<right>right|rt)"
        r"|(?P<neither>both|either|each|bilateral(?:ly)?|bi(?:apical|basal|basilar)|ipsilateral|contralateral))\b"
    ),
    re.compile(
        r"\b(?:(?P<upper>upper|superior)|(?P<lower>lower|inferior)"
        r"|(?P<neither>both|either|each|middle|mid|midlung|midzone|central|(?:bi)?apical|apex|apices"
        r"|(?:bi)?bas(?:al|ilar)|bases?|lingula|lingular))\b"
    ),
)
_LOBES = {"rul": "right upper", "rml": "right middle", "rll": "right lower", "lul": "left upper", "lll": "left lower"}

_NOT_A_PLACE = re.compile(
    r"\b(?:"
    # the heart, its chambers and vessels
    r"(?:left|right) (?:sided )?(?:ventric\w*|atri\w+|auric\w+|heart|cardiac|bundle|coronary|axis)"
    r"|(?:superior|inferior) (?:vena|segments?)"  # a lower lobe has a superior segment
    # how the image was taken
    r"|(?:left|right) (?:(?:anterior|posterior) )?(?:lateral )?(?:oblique|decubitus|lateral (?:view|projection|film))"
    # correct; remaining; less
    r"|right (?:answer|option|choice|statement|response|diagnosis|finding|description|conclusion|interpretation|one"
    r"|now|away|angles?|after|before)"
    r"|(?:is|are|was|were|be|been|being|has|have|had) (?:left|right)"
    r"(?! (?:sided|lungs?|hemi\w+|upper|lower|mid|middle|pleural|hilar|hilum|basal|basilar|apical))"
    r"|(?<!the )left (?:the|a|an|untreated|alone|behind|over|after|out|unchanged)"
    r"|(?:upper|lower) (?:limits?|bounds?|normal|(?:lung )?volumes?|density|attenuation|intensity|quality|grade|risk)"
    r")\b"
)
# A place named by its relation to another, a direction, or the side of the picture and not of the patient.
_RELATIVE = re.compile(
    r"\b(?:(?:superior|inferior|lower|upper|higher|relative|opposite|due) (?:to|than)|towards?|away|across|cross\w*"
    r"|shift\w*|deviat\w*|displac\w*|rotat\w*|leftwards?|rightwards?|above|below|beneath|between|beyond|opposite|viewer"
    r"|(?:left|right|upper|lower)(?: hand)?(?: (?:side|half|part|edge|corner|margin))? of (?:the|this) "
    r"(?:image|radiograph|film|picture|screen|x ray|chest x ray|view)|(?:image|screen|picture) (?:left|right))\b"
)
# A question in which the place that is named need not be the place of the answer.
_UNSAFE = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|absent|absence|missing|lacks?|lacking|negative|free|excluded|ruled out"
    r"|except|excluding|excludes?|exclude|besides|apart|addition|additional|other than|rather|instead|unlike|despite"
    r"|than|versus|vs|compar\w+|differ\w*|contrast|least|unlikely|false|incorrect|incorrectly|wrong|untrue|spared"
    r"|sparing|unaffected|uninvolved|(?:which|what) (?:side|lung|hemithorax|hemidiaphragm)"
    r"|catheters?|lines?|tubes?|picc|ports?|pacemakers?|leads?|wires?|drains?|tips?)\b"
)
_DENIAL = re.compile(
    r"\b(?:no|not|never|none|neither|nor|without|absent|absence|missing|clear|negative|free|lacks?|lacking|normal"
    r"|unremarkable|intact|unaffected|spared|excluded|ruled out)\b"
)


def verify_location(question: str, options: Sequence[str], choice: int | None) -> Verdict:
    """The prediction after the location repair, and why it was or was not replaced.

    An option matches if it agrees with every location that the question asks for, on the axes in conflict by name; the
    one that does takes the prediction's place, unless one of the two denies something and the other does not.

    Args:
        question: the question as asked. One that denies, compares or excludes, asks for the side itself, or asks about
            a device, which may end elsewhere, has no clear location.
        options: the answer set in the order shown.
        choice: the predicted index; None or an index outside the options passes through.

    Returns:
        The verdict with one of `REASONS` of this module.

    >>> question = "Which finding is seen in the left lung?"
    >>> verify_location(question, ["Right pleural effusion", "Left pleural effusion", "Cardiomegaly"], 0)
    Verdict(choice=1, fired=True, reason='fired')
    >>> verify_location(question, ["Right pleural effusion", "Bilateral pleural effusions", "Left nodule"], 0).reason
    'several_matching_options'
    """
    if choice is None or not 0 <= choice < len(options):
        return Verdict(choice, False, "no_prediction")
    texts = [words(text) for text in option_texts(options)]
    asked = _asked(words(question))
    conflicts = {axis for axis, pole in asked.items() if _poles(texts[choice], axis) == {_OPPOSITE[pole]}}
    matching = [i for i, text in enumerate(texts) if _may_match(text, asked, conflicts)]
    first = matching[0] if matching else choice
    refusals = (
        ("no_location", not _names_a_pole(words(question))),
        ("location_unclear", not asked),
        ("no_conflict", not conflicts),
        ("several_matching_options", len(matching) > 1),
        ("no_matching_option", not _matches(texts[first], asked, conflicts)),
        ("polarity_changes", bool(_DENIAL.search(texts[first])) != bool(_DENIAL.search(texts[choice]))),
    )
    reason = next((reason for reason, refused in refusals if refused), "fired")
    return Verdict(first, True, reason) if reason == "fired" else Verdict(choice, False, reason)


def _asked(question: str) -> dict[int, str]:
    """The pole that the question plainly asks for, by axis."""
    if _UNSAFE.search(question):
        return {}
    named = ((axis, _poles(question, axis)) for axis in range(len(_AXES)))
    return {axis: next(iter(poles)) for axis, poles in named if len(poles) == 1 and _NEITHER not in poles}


def _names_a_pole(question: str) -> bool:
    return any(_poles(question, axis) - {_NEITHER} for axis in range(len(_AXES)))


def _poles(text: str, axis: int) -> set[str]:
    """The poles of an axis that a text names, with `_NEITHER` for what blocks it."""
    text = " ".join(_LOBES.get(word, word) for word in text.split())
    found = {match.lastgroup or _NEITHER for match in _AXES[axis].finditer(_NOT_A_PLACE.sub(" ", text))}
    return found | {_NEITHER} if _RELATIVE.search(text) else found


def _may_match(text: str, asked: Mapping[int, str], conflicts: set[int]) -> bool:
    """Whether an option could be meant: something besides the opposite pole where the prediction is in conflict."""
    of_axis = ((axis in conflicts, _poles(text, axis), {_OPPOSITE[pole]}) for axis, pole in asked.items())
    return all(bool(poles - opposite) if conflict else poles != opposite for conflict, poles, opposite in of_axis)


def _matches(text: str, asked: Mapping[int, str], conflicts: set[int]) -> bool:
    """Whether an option names the asked pole and no other, and nothing else on the axes without a conflict."""
    of_axis = ((axis in conflicts, _poles(text, axis), {pole}) for axis, pole in asked.items())
    return all(poles == pole if conflict else poles <= pole for conflict, poles, pole in of_axis)
