"""Variants of the protocols as configs: negation forms (Appendix I), paraphrases (E.4), and the order of the options.

Each variant is the plain config with one thing said or ordered differently: same ids, same targets, same distractors,
and `protocol` stays the plain config's name, so that rows pair by id. What a variant's name does not say is as in the
plain config of the same build.
"""

from __future__ import annotations

from dataclasses import replace

from . import chexpert, openi
from .questions import Wording
from .wording import NEGATION_FORMS, QUESTION_FORMS

SPLIT = "validation"  # of CheXpert's variants
_WORDED = ("chexpert_presence", "chexpert_absence")
_PLAIN = Wording()
_FORMS = [
    *(("negation_form", form) for form in NEGATION_FORMS if form != _PLAIN.negation_form),
    *(("question_form", form) for form in QUESTION_FORMS["presence"] if form != _PLAIN.question_form),
]
# Config -> (the plain config, the field of Wording that it sets, its value).
VARIANTS = {
    **{f"{plain}_{value}": (plain, name, value) for plain in _WORDED for name, value in _FORMS},
    **{f"{plain}_original": (plain, "layout", "original") for plain in (*chexpert.PROTOCOLS, openi.PROTOCOL)},
}


def plain_and_wording(config: str, wording: Wording) -> tuple[str, Wording]:
    """The plain config of a config, itself where it is no variant, and the wording of its rows in a build of `wording`.

    >>> plain, changed = plain_and_wording("chexpert_presence_p1", Wording(layout="original"))
    >>> plain, changed.question_form, changed.layout
    ('chexpert_presence', 'p1', 'original')
    """
    if config not in VARIANTS:
        return config, wording
    plain, name, value = VARIANTS[config]
    return plain, replace(wording, **{name: value})
