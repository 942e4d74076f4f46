"""The figures of an audit: each row's score with the image paired with its scores under the other conditions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medfaith.compare.answers import Answers, all_answers
from medfaith.evaluate_metrics.confidence.image_use import Condition, ImageUse, measure_image_use
from medfaith.evaluate_metrics.confidence.paired import Difference, compute_paired_difference
from medfaith.evaluate_metrics.confidence.place import Edited, PlaceEffect, measure_place_effect
from medfaith.evaluate_metrics.confidence.reliance import FEWEST, Reliance, Share, reliance, share
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.progress import Progress
from medfaith.report.results import read_results
from medfaith.report.tables import SEED
from medfaith.tasks.controls import BLIND, EDITS, HARMLESS, elsewhere_of, split_dose

from . import OTHER, Rule
from .plan import Task
from .run import IMAGE, folder, is_wording

RIGHT = 0.5  # a graded score counts as right from here on
UNRANKED = ("AUROC",)  # metrics of which no value can be called right
AT, AWAY = EDITS[0], elsewhere_of(EDITS[0])
WHOLE = 100  # percent of a region that an edit covers
FEWEST_ROWS = 20  # of a finding that is judged by itself
Key = tuple[str, str]  # task, id of the row


class Shown(NamedTuple):
    """One model's answers to a benchmark under one condition, in the order of the rows; arrays have shape (n,).

    Attributes:
        values: Scores in [0, 1]; unread and declined answers count as wrong, NaN is a row that was not asked.
        right: Whether the answer is right, 1 or 0; NaN likewise.
        said: What was read of each answer; None of an unread or declined one.
        outcomes: "answered", "declined" or "unread"; "" of a row that was not asked, or whose answer is not in words.
    """

    values: np.ndarray
    right: np.ndarray
    said: Sequence[Hashable]
    outcomes: np.ndarray

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
        rows: Task and id of each row.
        groups: Shape (n,), each row's patient.
        shown: Condition (a control, a wording, or IMAGE) -> answers.
        is_present: Shape (n,), whether what is asked about is in the image.
        use: The tests of rule 2 for the image.
        edits: Kind of edit -> what it changes (rule 2).
        reliance: Rule 1 for the image; None without a blind control.
        place: Rule 1 for the place; None without its controls.
        by_subject: Finding, anatomy or instrument -> the tests of rule 2 on its rows.
        without: The blind control of `mirage`; "" without any.
        mirage: Of the right answers that are answered under `without`, too, those that stay right there; under rule 1,
            unanswered rows count as not right.
        unrelated: Of the answers, those that stay although another image has another right answer.
        grounding: Of the right answers, those that are lost under `occluded` and kept under `occluded_elsewhere`.
    """

    model: str
    benchmark: str
    metrics: tuple[str, ...]
    rule: Rule
    rows: Sequence[Key]
    groups: np.ndarray
    shown: Mapping[str, Shown]
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
        """Whether the scores are those of attention, which is neither right nor wrong."""
        return bool({*self.metrics} & {*UNRANKED})

    def n_of(self, outcome: str, condition: str = IMAGE, task: str | None = None) -> int:
        """Count the answers with an outcome under a condition; of one task, or of all.

        Only rows that have a figure count: of the perturbation tests those whose original is answered Yes.
        """
        shown = self.shown[condition]
        return int(np.sum(self._of(task) & ~np.isnan(shown.right) & (shown.outcomes == outcome)))

    def n_ranked(self, condition: str = IMAGE, task: str | None = None) -> int:
        """Count the rows that have a figure that is right or wrong."""
        return int(np.sum(self._of(task) & ~np.isnan(self.shown[condition].right)))

    def share_of(self, outcome: str, condition: str = IMAGE, task: str | None = None) -> float:
        """Share of the answers with an outcome; NaN without any."""
        n = self.n_ranked(condition, task)
        return self.n_of(outcome, condition, task) / n if n else float("nan")

    def scores(self, condition: str) -> np.ndarray:
        """Scores of the rows, shape (n,), as the rule counts them: rule 1 counts unanswered rows as wrong."""
        shown = self.shown[condition]
        return shown.values if self.rule == 1 else shown.answered

    def under(self, condition: str, task: str | None = None) -> Difference:
        """Compare a condition with the image, on the rows that have both scores; of one task, or of all."""
        of = self._of(task)
        before, after = self.scores(IMAGE)[of], self.scores(condition)[of]
        return compute_paired_difference(after, before, groups=self.groups[of], seed=SEED)

    def _of(self, task: str | None) -> np.ndarray:
        return np.array([task is None or row[0] == task for row in self.rows])


def audited(out: Path, models: Sequence[str], tasks: Sequence[Task], margin: float, rule: Rule = 2) -> list[Audited]:
    """Read the logs of an audit.

    Args:
        out: Folder of the audit.
        models: Folders of the models' logs.
        tasks: Tasks and rows that were asked.
        margin: Equivalence margin, a fraction.
        rule: Version of the rule.

    Returns:
        Each model on each benchmark, in the order of models and tasks.

    Raises:
        InputError: See `report.results.read_results`.
    """
    benchmarks = list(dict.fromkeys(task.benchmark for task in tasks))
    logged = Progress([*product(tasks, models)], title="reading answers", unit="logs")
    read = {(model, task.name): _answers(out, model, task) for task, model in logged}
    pairs = Progress([*product(models, benchmarks)], title="comparing answers", unit="benchmarks")
    return [
        _audited(model, benchmark, {t: read[model, t.name] for t in tasks if t.benchmark == benchmark}, margin, rule)
        for model, benchmark in pairs
    ]


def blind_guesses(found: Audited) -> dict[Key, bool]:
    """Say of each row that is answered without evidence whether some such answer is right.

    Evidence is missing under the blind controls. A row that the model leaves unanswered under all of them counts as it
    is answered with another patient's image, whose right answer differs. Without that it is not in the result.
    """
    other = [found.shown[OTHER]] if OTHER in found.shown else []
    return _guesses(found, other) | _guesses(found, [found.shown[name] for name in BLIND if name in found.shown])


def comparable_guesses(found: Audited) -> dict[Key, bool]:
    """Leave out of `blind_guesses` the rows that another model could only answer without an image.

    A model that declines without an image shows its guess only with another patient's image. So in a task that was
    asked with other images, rows without a donor are left out for every model: declining then changes nothing.
    """
    guesses = blind_guesses(found)
    if OTHER not in found.shown:
        return guesses
    has_donor = ~np.isnan(found.shown[OTHER].right)
    asked = {row for row, has in zip(found.rows, has_donor, strict=True) if has}
    tasks = {task for task, _ in asked}
    return {row: is_right for row, is_right in guesses.items() if row in asked or row[0] not in tasks}


def _guesses(found: Audited, conditions: Sequence[Shown]) -> dict[Key, bool]:
    guesses: dict[Key, bool] = {}
    for shown in conditions:
        for at in np.flatnonzero(~np.isnan(shown.right) & ~shown.is_unanswered).tolist():
            guesses[found.rows[at]] = guesses.get(found.rows[at], False) or bool(shown.right[at])
    return guesses


def _answers(out: Path, model: str, task: Task) -> dict[str, Answers]:
    """Condition -> the model's answers."""
    places = sorted(folder(out, task.name, None).parent.iterdir())
    whole = [place for place in places if not is_partial(Path(place.name))]  # an audit that was killed leaves others
    found = {place.name: place / model for place in whole if (place / model).is_dir()}
    return {name: all_answers(read_results([place]))[0][0] for name, place in found.items()}


def _audited(
    model: str, benchmark: str, answers: Mapping[Task, Mapping[str, Answers]], margin: float, rule: Rule
) -> Audited:
    rows = [(task.name, row_id) for task in answers for row_id in task.ids]
    place = {row: number for number, row in enumerate(rows)}
    conditions = dict.fromkeys(condition for of_task in answers.values() for condition in of_task)
    shown = {condition: _shown(condition, answers, place) for condition in conditions}
    patients: list[Hashable] = [None] * len(rows)
    is_present = np.zeros(len(rows), dtype=bool)
    subjects: list[Collection[str]] = [()] * len(rows)
    for task, of_task in answers.items():
        own = of_task[IMAGE]
        for row_id, patient, present, about in zip(own.ids, own.groups, own.is_present, own.subjects, strict=True):
            at = place[task.name, row_id]
            patients[at], is_present[at], subjects[at] = patient, present, about
    groups = np.unique([str(patient) for patient in patients], return_inverse=True)[1]
    image = shown[IMAGE]
    how = {"margin": margin, "groups": groups, "seed": SEED}
    without = next((control for control in BLIND if control in shown), "")
    metrics = tuple(dict.fromkeys(of_task[IMAGE].metric for of_task in answers.values()))
    return Audited(
        model, benchmark, metrics, rule, rows, groups, shown, is_present,
        _image_use(shown, how),
        _edits(shown, is_present, how) if rule != 1 and not {*metrics} & {*UNRANKED} else {},
        *_rule_1(shown, how),
        _by_subject(shown, subjects, how) if rule != 1 else {},
        without,
        _mirage(image, shown.get(without), groups, rule),
        _unrelated(image, shown.get(OTHER), groups),
        _grounding(image, shown.get(AT), shown.get(AWAY), groups),
    )  # fmt: skip


def _image_use(shown: Mapping[str, Shown], how: Mapping, rows: np.ndarray | slice = slice(None)) -> ImageUse:
    """The tests of rule 2 on some of the rows (indices or mask)."""

    def of(control: str) -> Condition:
        one = shown[control]
        changed = None if control == IMAGE or not any(one.outcomes) else _changes(shown[IMAGE], one)[rows]
        return Condition(one.answered[rows], ~np.isnan(one.values[rows]), changed)

    given = {**how, "groups": how["groups"][rows]}
    blind, harmless = ({name: of(name) for name in names if name in shown} for names in (BLIND, HARMLESS))
    return measure_image_use(of(IMAGE), of(OTHER) if OTHER in shown else None, blind, harmless, **given)


def _by_subject(shown: Mapping[str, Shown], subjects: Sequence[Collection[str]], how: Mapping) -> dict[str, ImageUse]:
    """The tests of rule 2 for each subject that has rows and patients enough."""
    rows: dict[str, list[int]] = {}
    for number, names in enumerate(subjects):
        for name in names:
            rows.setdefault(name, []).append(number)
    enough = {
        name: np.array(numbers)
        for name, numbers in sorted(rows.items())
        if len(numbers) >= FEWEST_ROWS and len({*how["groups"][numbers]}) >= FEWEST and len(numbers) < len(subjects)
    }
    return {name: _image_use(shown, how, numbers) for name, numbers in enough.items()}


def _edits(shown: Mapping[str, Shown], is_present: np.ndarray, how: Mapping) -> dict[str, PlaceEffect]:
    """Kind of edit -> what it changes, at all doses that were asked here and elsewhere."""
    doses: dict[str, dict[int, Edited]] = {}
    for control in shown:
        kind, dose = split_dose(control) if control != IMAGE and not is_wording(control) else ("", WHOLE)
        if kind in EDITS and (away := elsewhere_of(control)) in shown:
            at, elsewhere = shown[control], shown[away]
            flips = _changes(elsewhere, at, is_declined_kept=True)
            edited = Edited(_stated(at, is_present), _stated(elsewhere, is_present), flips)
            doses.setdefault(kind, {})[dose] = edited
    return {
        kind: measure_place_effect(doses[kind], is_present, **how)
        for kind in EDITS
        if WHOLE in doses.get(kind, {}) and is_present.any()
    }


def _stated(shown: Shown, is_present: np.ndarray) -> np.ndarray:
    """Scores in which a declined answer does not say that anything is there: wrong if it is, right if it is not."""
    return np.where(shown.outcomes == DECLINED, np.where(is_present, 0.0, 1.0), shown.answered)


def _rule_1(shown: Mapping[str, Shown], how: Mapping) -> tuple[Reliance | None, Reliance | None]:
    blind = {control: shown[control].values for control in BLIND if control in shown}
    of_place = {AT: shown[AT].values} if AT in shown and AWAY in shown else {}
    return (
        reliance(shown[IMAGE].values, blind, **how) if blind else None,
        reliance(shown[AWAY].values, of_place, **how) if of_place else None,
    )


def _shown(condition: str, answers: Mapping[Task, Mapping[str, Answers]], place: Mapping[Key, int]) -> Shown:
    values, right = np.full(len(place), np.nan), np.full(len(place), np.nan)
    said: list[Hashable] = [None] * len(place)
    outcomes = np.full(len(place), "", dtype=object)
    for task, of_task in answers.items():
        if condition in of_task:
            found = of_task[condition]
            at = [place[task.name, row_id] for row_id in found.ids]
            values[at] = found.values
            if found.metric not in UNRANKED:
                right[at] = np.where(np.isnan(found.values), np.nan, found.values >= RIGHT)
            for number, answer, outcome in zip(at, found.said, found.outcomes, strict=True):
                said[number], outcomes[number] = answer, outcome
    return Shown(values, right, said, outcomes)


def _changes(before: Shown, after: Shown, *, is_declined_kept: bool = False) -> np.ndarray:
    """1 where two answers to a row differ, 0 where they are the same, NaN where either is missing; shape (n,).

    is_declined_kept: Whether to decline is an answer like any other.
    """

    def of(shown: Shown) -> Iterator[Hashable]:
        for answer, outcome in zip(shown.said, shown.outcomes, strict=True):
            yield DECLINED if is_declined_kept and outcome == DECLINED else answer

    pairs = zip(of(before), of(after), strict=True)
    return np.array([np.nan if one is None or other is None else float(one != other) for one, other in pairs])


def _mirage(image: Shown, without: Shown | None, groups: np.ndarray, rule: Rule) -> Share:
    if without is None:
        return share([])
    asked = (image.right == 1) & ~np.isnan(without.right)
    if rule != 1:  # declining without an image is no use of it
        asked &= ~without.is_unanswered
    return share((without.right == 1)[asked], groups[asked])


def _unrelated(image: Shown, other: Shown | None, groups: np.ndarray) -> Share:
    return share([]) if other is None else share(1 - _changes(image, other), groups)


def _grounding(image: Shown, at: Shown | None, elsewhere: Shown | None, groups: np.ndarray) -> Share:
    if at is None or elsewhere is None:
        return share([])
    asked = (image.right == 1) & ~np.isnan(at.right) & ~np.isnan(elsewhere.right)
    depends = (at.right == 0) & (elsewhere.right == 1)
    return share(depends[asked], groups[asked])
