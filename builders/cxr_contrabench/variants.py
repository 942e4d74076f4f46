"""Variants of the protocols as configs: negation forms (Appendix I), paraphrases (E.4), and the order of the options.

Each variant is the plain config with a single change of wording or order. Ids, targets and distractors are the same,
and `protocol` is the plain config's name, so that rows pair by id. Everything that a variant's name does not mention
equals the plain config of the same build.
"""

from __future__ import annotations

from dataclasses import replace

from . import chexpert, openi
from .questions import Wording
from .wording import NEGATION_FORMS, QUESTION_FORMS

SPLIT = "validation"  # the split of CheXpert's variants
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


def resolve_variant(config: str, wording: Wording) -> tuple[str, Wording]:
    """Resolve a config to its plain config and the wording of its rows.

    Args:
        config: The name of the config.
        wording: The wording of the build.

    Returns:
        The plain config (the config itself if it is not a variant) and the wording.

    >>> plain, changed = resolve_variant("chexpert_presence_p1", Wording(layout="original"))
    >>> plain, changed.question_form, changed.layout
    ('chexpert_presence', 'p1', 'original')
    """
    if config not in VARIANTS:
        return config, wording
    plain, name, value = VARIANTS[config]
    return plain, replace(wording, **{name: value})
