"""Texts of questions and answers, from the templates in templates.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

# Class names in running text that need more than lower case.
_IN_TEXT = {
    "Enlarged PA": "an enlarged pulmonary artery",
    "ILD": "interstitial lung disease",
    "Nodule/Mass": "a nodule or mass",
    "Mass": "a mass",
    "Nodule": "a nodule",
    "Lung Opacity": "lung opacity",
    "Lung cavity": "a lung cavity",
    "Lung cyst": "a lung cyst",
    "Clavicle fracture": "a clavicle fracture",
    "Rib fracture": "a rib fracture",
}


@cache
def templates() -> Mapping[str, Mapping[str, str]]:
    """Read the template texts.

    Returns:
        The texts by kind (closed, open, answer) and by their readable id.
    """
    return tomllib.loads(Path(__file__).with_name("templates.toml").read_text(encoding="utf-8"))


def in_text(disease: str) -> str:
    """Format a class name for running text.

    Args:
        disease: The name of the class.

    Returns:
        The text.

    >>> in_text("Pleural effusion"), in_text("Nodule/Mass")
    ('pleural effusion', 'a nodule or mass')
    """
    return _IN_TEXT.get(disease, disease.lower())


def format_closed_question(template: str, anatomy: str, disease: str) -> str:
    """Format a yes/no question.

    Args:
        template: The id of the template.
        anatomy: The anatomy.
        disease: The name of the class.

    Returns:
        The question.

    >>> format_closed_question("does_have", "heart", "Cardiomegaly")
    'Does the heart have cardiomegaly?'
    """
    return templates()["closed"][template].format(anatomy=anatomy, disease=in_text(disease))


def format_open_question(template: str, anatomy: str) -> str:
    """Format a question for all abnormalities of one anatomy.

    Args:
        template: The id of the template.
        anatomy: The anatomy.

    Returns:
        The question.
    """
    return templates()["open"][template].format(anatomy=anatomy)


def format_open_answer(anatomy: str, diseases: Sequence[str]) -> str:
    """Format the answer to an open question: the diseases at an anatomy, or that the anatomy is normal.

    Args:
        anatomy: The anatomy.
        diseases: The names of the classes.

    Returns:
        The answer.

    >>> format_open_answer("aorta", ["Aortic enlargement", "Calcification"])
    'The aorta shows Aortic enlargement and Calcification.'
    """
    if not diseases:
        return templates()["answer"]["normal"].format(anatomy=anatomy)
    *earlier_diseases, last_disease = diseases
    disease_list = f"{', '.join(earlier_diseases)} and {last_disease}" if earlier_diseases else last_disease
    return templates()["answer"]["abnormal"].format(anatomy=anatomy, diseases=disease_list)
