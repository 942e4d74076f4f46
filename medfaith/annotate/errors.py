"""Failed answers for a person to sort: the fault, and a possible fix (CXR-ContraBench, Figure 13, C and D)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medfaith.loaders.errors import InputError
from medfaith.reporting.page.cases import IMAGE, RIGHT, Case, RunsByBenchmark
from medfaith.reporting.registry import BENCHMARKS

from .answers import Answers, ErrorJudgement
from .wording import CATEGORIES, FIXES

JUDGED = [benchmark.title for benchmark in BENCHMARKS.values() if benchmark.has_failures_judged]


class Failure(NamedTuple):
    """One wrong, declined or unread answer with the image.

    Attributes:
        case: The case of its question.
        place: The index of the answer in the case.
    """

    case: Case
    place: int

    @property
    def item(self) -> tuple[str, str, str]:
        """The judged item: the task, the row and the model."""
        return self.case.task, self.case.id, self.case.answers[self.place].model


def failures(cases: Sequence[Case], n: int, seed: int) -> list[Failure]:
    """Sample failed answers with the image, in random order.

    Args:
        cases: The cases of a report.
        n: The largest number of answers.
        seed: The seed of the order.

    Returns:
        At most n failed answers. Equal cases and seeds give the same order.
    """
    answers = sorted(
        (
            Failure(case, index)
            for case in cases
            for index, reply in enumerate(case.answers)
            if case.benchmark in JUDGED and reply.shown == IMAGE and reply.outcome != RIGHT
        ),
        key=lambda failure: failure.item,
    )
    return [answers[index] for index in np.random.default_rng(seed).permutation(len(answers))[:n]]


@dataclass
class ErrorSession:
    """One person's progress through the failures."""

    failures: Sequence[Failure]
    answers: Answers
    annotator: str

    @property
    def n_done(self) -> int:
        """The number of judged failures."""
        return sum(self.get_judgement(place) is not None for place in range(len(self.failures)))

    def find_next(self) -> int | None:
        """Return the index of the first failure without a judgement; None at the end."""
        return next((place for place in range(len(self.failures)) if self.get_judgement(place) is None), None)

    def get_judgement(self, place: int) -> ErrorJudgement | None:
        """Return the judgement of a failure, or None.

        Args:
            place: The index of the failure.

        Returns:
            The judgement, or None.
        """
        return self.answers.errors.get((self.annotator, *self.failures[place].item))

    def judge(self, place: int, category: str, fix: str, seconds: float) -> None:
        """Write the judgement of a failure.

        Args:
            place: The index of the failure.
            category: A name in `wording.CATEGORIES`.
            fix: A name in `wording.FIXES`.
            seconds: The time from the question to the judgement.

        Raises:
            InputError: There is no such failure, category or fix.
            OSError: The disk failed.
        """
        if type(place) is not int or not 0 <= place < len(self.failures):
            raise InputError("case", f"{place!r:.100} is unknown", expected=f"0 to {len(self.failures) - 1}")
        for name, value, known in (("category", category, CATEGORIES), ("fix", fix, FIXES)):
            if value not in tuple(known):  # a list has no hash
                raise InputError(name, f"{value!r:.100} is unknown", expected=f"one of {', '.join(known)}")
        version = importlib.metadata.version("medfaith")
        judgement = ErrorJudgement(
            self.annotator, *self.failures[place].item, category, fix, round(seconds, 1), version
        )
        self.answers.judge_error(judgement)


def render_pictures(
    sampled: Sequence[Failure], runs: RunsByBenchmark, data: str | None, roots: Mapping[str, Path]
) -> tuple[dict[int, list[str]], list[str]]:
    """Render the images of failures.

    Args:
        sampled: The failures.
        runs: The runs of each benchmark.
        data: The option --data, or None.
        roots: Source id -> folder of the images.

    Returns:
        Index of a failure -> data URLs of its images, and notes on missing images.

    Raises:
        InputError: As in `reporting.page.pictures.pictures`.
    """
    from medfaith.reporting.page.pictures import Pixels, pictures

    if data is None or not roots:
        return {}, ["the page shows no image: name --data, and --root SOURCE=PATH for each source"]
    pictures_by_case, notes = pictures(
        [failure.case for failure in sampled], runs, Pixels(data, roots, None, len(sampled))
    )
    return {
        index: [picture.url for picture in case_pictures if picture.shown == IMAGE]
        for index, case_pictures in pictures_by_case.items()
    }, notes
