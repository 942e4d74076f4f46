"""Failed answers of CXR-ContraBench that a person sorts: what went wrong, what could mend it (Figure 13, C and D)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from medfaith.report.page.cases import IMAGE, RIGHT, Case

from .answers import Answers, ErrorJudgement

if TYPE_CHECKING:
    from medfaith.report.results import Results


class Failure(NamedTuple):
    """One wrong, declined or unread answer with the image.

    case: its question; place: of the answer among the case's.
    """

    case: Case
    place: int

    @property
    def item(self) -> tuple[str, str, str]:
        """What is judged: the task, the row, and the model."""
        return self.case.task, self.case.id, self.case.answers[self.place].model


def failures(cases: Sequence[Case], n: int, seed: int) -> list[Failure]:
    """`n` of CXR-ContraBench's failed answers with the image, or all where there are fewer, in an order by chance."""
    found = sorted(
        (
            Failure(case, place)
            for case in cases
            for place, answer in enumerate(case.answers)
            if case.benchmark == "CXR-ContraBench" and answer.shown == IMAGE and answer.outcome != RIGHT
        ),
        key=lambda failure: failure.item,
    )
    return [found[place] for place in np.random.default_rng(seed).permutation(len(found))[:n]]


@dataclass
class ErrorSession:
    """One person's way through the failures."""

    failures: Sequence[Failure]
    answers: Answers
    annotator: str

    @property
    def n_done(self) -> int:
        return sum(self.judged(place) is not None for place in range(len(self.failures)))

    def next(self) -> int | None:
        """The first failure without an answer; None at the end."""
        return next((place for place in range(len(self.failures)) if self.judged(place) is None), None)

    def judged(self, place: int) -> ErrorJudgement | None:
        """What was said of a failure."""
        return self.answers.errors.get((self.annotator, *self.failures[place].item))

    def judge(self, place: int, category: str, fix: str, seconds: float) -> None:
        """Writes what is said of a failure. Raises OSError where the disk does not take it."""
        version = importlib.metadata.version("medfaith")
        judgement = ErrorJudgement(
            self.annotator, *self.failures[place].item, category, fix, round(seconds, 1), version
        )
        self.answers.judge_error(judgement)


def pictures_of(
    found: Sequence[Failure], results: Results, data: str | None, roots: Mapping[str, Path]
) -> tuple[dict[int, list[str]], list[str]]:
    """Place of a failure -> data URLs of its images; and why there are none.

    Raises: as `report.page.pictures.pictures`.
    """
    from medfaith.report.page.pictures import Pixels, pictures

    if data is None or not roots:
        return {}, ["the page shows no image: name --data, and --root SOURCE=PATH for each source"]
    shown, notes = pictures([failure.case for failure in found], results, Pixels(data, roots, None, len(found)))
    return {place: [one.url for one in of if one.shown == IMAGE] for place, of in shown.items()}, notes
