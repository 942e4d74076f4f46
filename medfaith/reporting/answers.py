"""Answers to the rows of a task, one figure a row: the input of comparisons, audits and plots."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from medfaith.logs.lines import Logged

# In the paths of CheXpert and of MIMIC-CXR, and in the file names of NIH ChestX-ray14.
_PATIENT = re.compile(r"(?:^|/)(patient\d+(?=/|$)|p\d{8}(?=/|$)|\d{8}(?=_\d{3}\.png$))")
_ASKED = {"protocol", "split", "config", "ask", "source"}  # of a setting, what tells one task from another


class Answers(NamedTuple):
    """A model's answers to one task, one figure a row, in the order of the ids.

    Attributes:
        model: Name of the model.
        variant: The model's arguments that distinguish its runs.
        task: Title of the task; only equal tasks are compared.
        metric: Name of the figure; only equal metrics are compared.
        how: Prompt, layout and other settings; they have to be equal, too.
        ids: Shape (n,), ids of the rows.
        asked: Question of each row; it distinguishes rows of one id in two builds.
        values: Shape (n,), figures in [0, 1]; 1 is best, NaN is undefined.
        said: Reading of each answer; None if it is unread or declined.
        outcomes: "answered", "declined" or "unread" for each answer; "" for attention.
        groups: Patient of each row, or else the study, the image or the video.
        about: Findings, instruments or kinds of each row.
        views: Views of the images of each row, or "".
        other_images: Names of the images of another patient that each row shows, or "".
        is_present: Whether the image shows the finding or instrument of each row.
        subjects: Findings, anatomies and instruments in the question of each row.
        decoding: Decoder of the model's answers, or "".
    """

    model: str
    variant: str
    task: str
    metric: str
    how: dict[str, str]
    ids: Sequence[str]
    asked: Sequence[Hashable]
    values: np.ndarray
    said: Sequence[Hashable]
    outcomes: Sequence[str]
    groups: Sequence[Hashable]
    about: Sequence[Collection[str]]
    views: Sequence[str]
    other_images: Sequence[str]
    is_present: Sequence[bool]
    subjects: Sequence[Collection[str]]
    decoding: str = ""


def build_answers(run: Logged, *, values: Sequence[Any] | np.ndarray, ids: Sequence[str], **columns: Any) -> Answers:
    """Build the answers of a run; its log gives the model, the conditions and the views.

    Args:
        run: The run.
        values: Shape (n,), figures in [0, 1]; None and NaN are undefined.
        ids: Shape (n,), ids of the rows.
        columns: The other fields of `Answers`, by name.

    Returns:
        The answers.
    """
    setting = {name: str(value) for name, value in run.setting._asdict().items()}
    variant = setting.pop("variant", "")
    conditions = {name: value for name, value in setting.items() if name not in _ASKED} | dict(run.source.told)
    return Answers(
        model=run.model_name,
        variant=variant,
        how=conditions,
        ids=ids,
        values=np.array(values, dtype=float),  # None becomes NaN
        views=[run.source.views.get(row_id, "") for row_id in ids],
        other_images=[run.source.other_images.get(row_id, "") for row_id in ids],
        decoding=run.source.decoding,
        **columns,
    )


def find_patient(path: str) -> str:
    """Find the patient in the path of a study or an image of CheXpert, MIMIC-CXR or ChestX-ray14.

    Any other path is its own group.

    Args:
        path: Path of a study or an image.

    Returns:
        The patient, or the path.

    >>> find_patient("patient00001/study1"), find_patient("p10/p10000032/s50/a.jpg"), find_patient("CXR12")
    ('patient00001', 'p10000032', 'CXR12')
    >>> find_patient("00000013_004.png")
    '00000013'
    """
    match = _PATIENT.search(path)
    return match[1] if match else path


def compute_row_f1(named: Collection[str] | None, gold: Collection[str]) -> float:
    """Compute F1 of one row: 1 if nothing is present and nothing is named, 0 for an unread or declined answer.

    Args:
        named: The names in the answer; None if it is unread or declined.
        gold: The right names.

    Returns:
        The F1.
    """
    if named is None:
        return 0.0
    total = len({*named}) + len({*gold})
    return 2 * len({*named} & {*gold}) / total if total else 1.0
