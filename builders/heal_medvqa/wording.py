"""Questions and answers in words, from the templates of templates.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

# Class names in running text, where lower case alone is not enough.
_IN_TEXT = {
    "Enlarged PA": "an enlarged pulmonary artery",
    "ILD": "interstitial lung disease",
    "Nodule/Mass": "a nodule or mass",
    "Lung Opacity": "lung opacity",
    "Lung cavity": "a lung cavity",
    "Lung cyst": "a lung cyst",
    "Clavicle fracture": "a clavicle fracture",
    "Rib fracture": "a rib fracture",
}


@cache
def templates() -> Mapping[str, Mapping[str, str]]:
    """Template texts by kind (closed, open, answer) and by their readable id."""
    return tomllib.loads(Path(__file__).with_name("templates.toml").read_text(encoding="utf-8"))


def in_text(disease: str) -> str:
    """A class name as a question says it.

    >>> in_text("Pleural effusion"), in_text("Nodule/Mass")
    ('pleural effusion', 'a nodule or mass')
    """
    return _IN_TEXT.get(disease, disease.lower())


def closed_question(template: str, anatomy: str, disease: str) -> str:
    """A yes/no question.

    >>> closed_question("does_have", "heart", "Cardiomegaly")
    'Does the heart have cardiomegaly?'
    """
    return templates()["closed"][template].format(anatomy=anatomy, disease=in_text(disease))


def open_question(template: str, anatomy: str) -> str:
    """A question for all abnormalities of one anatomy."""
    return templates()["open"][template].format(anatomy=anatomy)


def open_answer(anatomy: str, diseases: Sequence[str]) -> str:
    """The diseases at an anatomy, or that there are none.

    >>> open_answer("aorta", ["Aortic enlargement", "Calcification"])
    'The aorta shows Aortic enlargement and Calcification.'
    """
    if not diseases:
        return templates()["answer"]["normal"].format(anatomy=anatomy)
    *first, last = diseases
    listed = f"{', '.join(first)} and {last}" if first else last
    return templates()["answer"]["abnormal"].format(anatomy=anatomy, diseases=listed)
