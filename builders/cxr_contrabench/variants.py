"""Robustness variants of the CheXpert protocols as configs: negation forms (Appendix I), paraphrases and layout (E.4).

Each variant is the plain config's validation rows with one thing said or ordered differently: same ids, same targets,
same distractors, and `protocol` stays the plain config's name, so that rows pair by id. What a variant's name says is
fixed; the build's own form arguments do not change it.
"""

from __future__ import annotations

from .questions import Wording
from .wording import NEGATION_FORMS, QUESTION_FORMS

SPLIT = "validation"
VARIED = ("chexpert_presence", "chexpert_absence")
_PLAIN = Wording()
_FORMS = {
    **{form: Wording(negation_form=form) for form in NEGATION_FORMS if form != _PLAIN.negation_form},
    **{form: Wording(question_form=form) for form in QUESTION_FORMS["presence"] if form != _PLAIN.question_form},
    "shuffled": Wording(layout="shuffled"),
}
# Config -> (the plain config, its wording).
VARIANTS = {f"{plain}_{name}": (plain, wording) for plain in VARIED for name, wording in _FORMS.items()}
