"""The texts that rows consist of. Any other text in a published row would come from a source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..negation import CUES
from ..write import Words
from . import chexlocalize, chexpert, chexstruct, openi, rexvqa
from .variants import VARIANTS
from .wording import LAYOUTS, NEGATION_FORMS, QUESTION_FORMS, format_negated_option, format_positive_option, slug

FINDINGS = dict.fromkeys((*chexpert.FINDINGS, *openi.MESH, *openi.TARGETS, *chexstruct.FINDINGS))
PROTOCOLS = (*chexpert.PROTOCOLS, openi.PROTOCOL, *chexstruct.PROTOCOLS)
POLARITIES = (*QUESTION_FORMS, "other")
# Column that build.json counts -> its values. The findings of rexvqa are the source's own words.
COUNTED_FORMS: Mapping[str, Words] = {
    "protocol": frozenset((*PROTOCOLS, *rexvqa.SLICES, *chexlocalize.PROTOCOLS)),
    "polarity": frozenset(POLARITIES),
}
COUNTED: Mapping[str, Words] = {**COUNTED_FORMS, "finding": frozenset(FINDINGS)}
VIEWS = ("", "AP", "PA", "LL", "RL", "lateral", "frontal")
# The names of studies and images come from the source: CXR1000, CXR1000_IM-0003-1001-0002, patient64540/study1.
_OPENI = r"CXR\d{1,8}(?:_\d{1,2})?(?:_IM-\d{1,4}(?:-\d{1,8}){0,3})?"
_CHEXPERT = r"patient\d{1,8}/study\d{1,4}"
_VIEW = r"view\d{1,3}_(?:frontal|lateral)\.(?:jpg|png)"
_IMAGE = rf"(?:images/)?{_OPENI}\.(?:png|dcm)|(?:train|valid)/{_CHEXPERT}/{_VIEW}"


def vocabulary() -> Mapping[str, Words]:
    """List the allowed texts, for the repositories of chexpert, openi and chexstruct.

    The questions of rexvqa are the source's own.

    Returns:
        The texts, or a pattern that they match, by column or dotted path inside structs.
    """
    kinds = "|".join(
        re.escape(name.removeprefix("openi_").removeprefix("chexpert_")) for name in (*PROTOCOLS, *VARIANTS)
    )
    slugs = "|".join(map(re.escape, map(slug, FINDINGS)))
    denials = "|".join(phrase for effect, _, phrases in CUES if effect == "absent" for phrase in phrases)
    return {
        "id": re.compile(rf"(?:openi/{_OPENI}|chexpert/(?:train|validation)/{_CHEXPERT})/(?:{kinds})/(?:{slugs})"),
        "protocol": frozenset(PROTOCOLS),
        "polarity": frozenset(QUESTION_FORMS),
        "study_id": re.compile(f"{_OPENI}|{_CHEXPERT}"),
        "images.source": frozenset({"chexpert", "openi"}),
        "images.key": re.compile(_IMAGE),
        "images.view": frozenset(VIEWS),
        "question": frozenset(text for forms in QUESTION_FORMS.values() for text in forms.values()),
        "options": frozenset(
            [
                *map(format_positive_option, FINDINGS),
                *(format_negated_option(finding, form) for finding in FINDINGS for form in NEGATION_FORMS),
            ]
        ),
        "finding": frozenset(FINDINGS),
        "negation_form": frozenset(NEGATION_FORMS),
        "question_form": frozenset(QUESTION_FORMS["presence"]),
        "layout": frozenset(LAYOUTS),
        "cue": re.compile(rf"(?:{denials})?"),
    }
