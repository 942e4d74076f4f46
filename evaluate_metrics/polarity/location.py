"""Location repair, the part of M2 after QCCV-Neg (CXR-ContraBench, section 4, Appendix D.3), as a pure function.

The paper describes M2 as a location-sensitive scaffold for left/right and upper/lower conflicts and prints no rules.
These rules are ours and conservative: a prediction is replaced only if the question clearly asks about one pole of an
axis, the predicted option names only the opposite pole, and one other option agrees. It uses words only, never an image
or the gold answer.

Side: left, right. Level: upper or superior, lower or inferior. "Both", "bilateral", "middle", "apical", "basal" and
similar words conflict with nothing, but an option with them may agree too, and then nothing is replaced. Names that
contain a pole for any location ("left ventricle", "superior vena cava", "upper limit") and other senses of the words
("what is left", "the right answer") are not locations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..arguments.kinds import INDEX, TEXT, TEXTS, optional
from ..arguments.schema import check_arguments
from ..reading.options import strip_option_letters
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
_NEITHER = "neither"  # among the poles of an axis: a location that may be, or is, outside both
_AXES = (  # for each axis the names of its two poles, and the words that block it
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
    # projections and positions
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
# A location by its relation to another one, a direction, or the side of the image instead of the patient.
_RELATIVE = re.compile(
    r"\b(?:(?:superior|inferior|lower|upper|higher|relative|opposite|due) (?:to|than)|towards?|away|across|cross\w*"
    r"|shift\w*|deviat\w*|displac\w*|rotat\w*|leftwards?|rightwards?|above|below|beneath|between|beyond|opposite|viewer"
    r"|(?:left|right|upper|lower)(?: hand)?(?: (?:side|half|part|edge|corner|margin))? of (?:the|this) "
    r"(?:image|radiograph|film|picture|screen|x ray|chest x ray|view)|(?:image|screen|picture) (?:left|right))\b"
)
# A question whose location need not be the location of the answer.
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


@check_arguments(question=TEXT, options=TEXTS, choice=optional(INDEX))
def verify_location(question: str, options: Sequence[str], choice: int | None) -> Verdict:
    """Replace a predicted option with the opposite side or level of the question's by the one option that fits.

    The axes are side (left or right) and level (upper or lower), and each has two poles. An axis is in conflict if the
    prediction names only the opposite pole. An option fits if it names the asked pole, and no other, on the axes in
    conflict, and contradicts the question on no other axis. The prediction stays if several options may fit, or if only
    one of the two denies something.

    Args:
        question: The question as asked. A question that denies, compares or excludes, asks for the side itself, or asks
            about a device, which may end elsewhere, has no clear location.
        options: The answer set in the displayed order.
        choice: The predicted index; None or an index outside the options passes through.

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
    texts = [words(text) for text in strip_option_letters(options)]
    asked_poles = _find_asked_poles(words(question))
    conflicts = {axis for axis, pole in asked_poles.items() if _find_poles(texts[choice], axis) == {_OPPOSITE[pole]}}
    matches = [index for index, text in enumerate(texts) if _can_match(text, asked_poles, conflicts)]
    match = matches[0] if matches else choice
    refusals = (
        ("no_location", not _has_pole(words(question))),
        ("location_unclear", not asked_poles),
        ("no_conflict", not conflicts),
        ("several_matching_options", len(matches) > 1),
        ("no_matching_option", not _is_match(texts[match], asked_poles, conflicts)),
        ("polarity_changes", bool(_DENIAL.search(texts[match])) != bool(_DENIAL.search(texts[choice]))),
    )
    reason = next((reason for reason, is_refused in refusals if is_refused), "fired")
    return Verdict(match, True, reason) if reason == "fired" else Verdict(choice, False, reason)


def _find_asked_poles(question: str) -> dict[int, str]:
    """Return axis -> the pole ("left", "upper") that the question clearly asks for; an unclear axis has no entry."""
    if _UNSAFE.search(question):
        return {}
    poles_by_axis = ((axis, _find_poles(question, axis)) for axis in range(len(_AXES)))
    return {axis: next(iter(poles)) for axis, poles in poles_by_axis if len(poles) == 1 and _NEITHER not in poles}


def _has_pole(question: str) -> bool:
    return any(_find_poles(question, axis) - {_NEITHER} for axis in range(len(_AXES)))


def _find_poles(text: str, axis: int) -> set[str]:
    """Return the poles of an axis that a text names, and `_NEITHER` if a word such as "both" or "middle" blocks it."""
    text = " ".join(_LOBES.get(word, word) for word in text.split())
    poles = {match.lastgroup or _NEITHER for match in _AXES[axis].finditer(_NOT_A_PLACE.sub(" ", text))}
    return poles | {_NEITHER} if _RELATIVE.search(text) else poles


def _can_match(text: str, asked_poles: Mapping[int, str], conflicts: set[int]) -> bool:
    """Whether an option could match: it names more than the opposite pole on the axes in conflict."""
    axis_poles = ((axis in conflicts, _find_poles(text, axis), {_OPPOSITE[pole]}) for axis, pole in asked_poles.items())
    return all(
        bool(poles - opposite) if is_conflict else poles != opposite for is_conflict, poles, opposite in axis_poles
    )


def _is_match(text: str, asked_poles: Mapping[int, str], conflicts: set[int]) -> bool:
    """Whether an option names the asked pole and no other, and nothing else on the axes without a conflict."""
    axis_poles = ((axis in conflicts, _find_poles(text, axis), {pole}) for axis, pole in asked_poles.items())
    return all(poles == pole if is_conflict else poles <= pole for is_conflict, poles, pole in axis_poles)
