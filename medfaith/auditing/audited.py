"""The result of an audit: one model's answers to one benchmark under each condition, and their tests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medfaith.evaluate_metrics.confidence.image_use import ImageUse
from medfaith.evaluate_metrics.confidence.paired import Difference, compute_paired_difference
from medfaith.evaluate_metrics.confidence.place import PlaceEffect
from medfaith.evaluate_metrics.confidence.reliance import Reliance, Share
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.reporting.tables import SEED

from . import Rule
from .run import IMAGE

UNRANKED = ("AUROC",)  # metrics without right and wrong values
Key = tuple[str, str]  # task, id of the row


class ConditionAnswers(NamedTuple):
    """One model's answers to a benchmark under one condition, in the order of the rows; arrays have shape (n,).

    Attributes:
        values: Scores in [0, 1]; unread and declined answers count as wrong, NaN is a row that was not asked.
        right: Whether the answer is right, 1 or 0; NaN for a row that was not asked.
        readings: The reading of each answer; None if it is unread or declined.
        outcomes: "answered", "declined" or "unread"; "" for a row that was not asked, or for attention.
        other_images: Names of the images of another patient that were shown, or "".
    """

    values: np.ndarray
    right: np.ndarray
    readings: Sequence[Hashable]
    outcomes: np.ndarray
    other_images: np.ndarray

    @property
    def is_unanswered(self) -> np.ndarray:
        """Whether an answer is unread or declined, shape (n,)."""
        return np.isin(self.outcomes, (UNREAD, DECLINED))

    @property
    def answered(self) -> np.ndarray:
        """`values` of the answered rows, NaN elsewhere."""
        return np.where(self.is_unanswered, np.nan, self.values)


class Audited(NamedTuple):
    """One model on one benchmark.

    Attributes:
        model: Name of the model in tables, or its folder of logs if two models have one name.
        benchmark: Name of the benchmark.
        metrics: Metrics of its tasks.
        rule: Version of the rule.
        rows: Task and id of each row.
        groups: Shape (n,), each row's patient.
        answers: Condition (a control, a wording or IMAGE) -> answers.
        is_present: Shape (n,), whether the image shows the finding or instrument of the question.
        use: The tests of rule 2 for the image.
        edits: Kind of edit -> its effect (rule 2).
        reliance: Rule 1 for the image; None without a blind control.
        place: Rule 1 for the region of the question; None without its controls.
        by_subject: Finding, anatomy or instrument -> the tests of rule 2 on its rows.
        without: The blind control of `mirage`; "" without any.
        mirage: Share of the right answers that stay right under `without`, among those that it answers there. Rule 1
            counts unanswered rows as not right.
        unrelated: Share of the answers that stay although another image has another right answer.
        grounding: Share of the right answers that are lost under `occluded` and kept under `occluded_elsewhere`.
    """

    model: str
    benchmark: str
    metrics: tuple[str, ...]
    rule: Rule
    rows: Sequence[Key]
    groups: np.ndarray
    answers: Mapping[str, ConditionAnswers]
    is_present: np.ndarray
    use: ImageUse
    edits: Mapping[str, PlaceEffect]
    reliance: Reliance | None
    place: Reliance | None
    by_subject: Mapping[str, ImageUse]
    without: str
    mirage: Share
    unrelated: Share
    grounding: Share

    @property
    def is_attention(self) -> bool:
        """Whether the scores are AUROC of attention, which has no right and wrong."""
        return bool({*self.metrics} & {*UNRANKED})

    def n_of(self, outcome: str, condition: str = IMAGE, task: str | None = None) -> int:
        """Count the answers with an outcome under a condition; of one task, or of all.

        Only rows that have a figure count: of the perturbation tests those whose original is answered Yes.

        Args:
            outcome: One of UNREAD, DECLINED.
            condition: A control, a wording or IMAGE.
            task: Name of a task; None for all.

        Returns:
            The number of answers.
        """
        answers = self.answers[condition]
        return int(np.sum(self._match_task(task) & ~np.isnan(answers.right) & (answers.outcomes == outcome)))

    def n_ranked(self, condition: str = IMAGE, task: str | None = None) -> int:
        """Count the rows that have a figure that is right or wrong.

        Args:
            condition: A control, a wording or IMAGE.
            task: Name of a task; None for all.

        Returns:
            The number of rows.
        """
        return int(np.sum(self._match_task(task) & ~np.isnan(self.answers[condition].right)))

    def share_of(self, outcome: str, condition: str = IMAGE, task: str | None = None) -> float:
        """Compute the share of the answers with an outcome; NaN without any.

        Args:
            outcome: One of UNREAD, DECLINED.
            condition: A control, a wording or IMAGE.
            task: Name of a task; None for all.

        Returns:
            The share, from 0 to 1.
        """
        n = self.n_ranked(condition, task)
        return self.n_of(outcome, condition, task) / n if n else float("nan")

    def scores(self, condition: str) -> np.ndarray:
        """Get the scores of the rows, shape (n,). Rule 1 counts unanswered rows as wrong, rule 2 as NaN.

        Args:
            condition: A control, a wording or IMAGE.

        Returns:
            The scores, in [0, 1]; NaN where missing.
        """
        answers = self.answers[condition]
        return answers.values if self.rule == 1 else answers.answered

    def under(self, condition: str, task: str | None = None) -> Difference:
        """Compare a condition with the image, on the rows that have both scores; of one task, or of all.

        Args:
            condition: A control or a wording.
            task: Name of a task; None for all.

        Returns:
            The difference, condition minus image, with its interval over patients.
        """
        is_used = self._match_task(task)
        before, after = self.scores(IMAGE)[is_used], self.scores(condition)[is_used]
        return compute_paired_difference(after, before, groups=self.groups[is_used], seed=SEED)

    def _match_task(self, task: str | None) -> np.ndarray:
        """Mark the rows of a task, shape (n,); all rows without a task."""
        return np.array([task is None or row[0] == task for row in self.rows])
