"""What a model's answers under the controls say: each row's figures with the image beside those without it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medfaith.compare.answers import Answers, all_answers
from medfaith.evaluate_metrics.confidence.paired import Difference, paired_difference
from medfaith.evaluate_metrics.confidence.reliance import Reliance, Share, reliance, share
from medfaith.loaders.progress import Progress
from medfaith.loaders.whole import is_partial
from medfaith.report.results import read_results
from medfaith.report.tables import SEED
from medfaith.tasks.controls import BLIND

from .plan import Task
from .run import IMAGE, folder

RIGHT = 0.5  # of a graded figure: what at least half right counts as right
UNRANKED = ("AUROC",)  # metrics of which no value can be called right
ELSEWHERE, AT = "occluded_elsewhere", "occluded"
Key = tuple[str, str]  # task, id of the row


class Shown(NamedTuple):
    """One model's answers to a benchmark as shown in one way, all of shape (n,) in the order of the rows asked.

    values: NaN of a row that was not asked so, or has no figure; right: whether it is right, NaN likewise; said: None.
    outcomes: "answered", "declined" or "unread"; "" of a row that was not asked so, or whose answer is not in words.
    """

    values: np.ndarray
    right: np.ndarray
    said: Sequence[Hashable]
    outcomes: np.ndarray


class Audited(NamedTuple):
    """One model on one benchmark.

    rows: the task and id of each; groups: of each its patient. shown: by control, and IMAGE. reliance: on the image,
    place: on the place that is asked about; None without the controls for it. mirage: of the right answers those that
    stay right without an image, and `without` which control that is; unrelated: of the answers those that stay although
    another image has another right answer; grounding: of the right answers those that are lost with the place that is
    asked about and kept without another place.
    """

    model: str
    benchmark: str
    metrics: tuple[str, ...]
    rows: Sequence[Key]
    groups: np.ndarray
    shown: Mapping[str, Shown]
    reliance: Reliance | None
    place: Reliance | None
    without: str
    mirage: Share
    unrelated: Share
    grounding: Share

    def n_of(self, outcome: str, control: str = IMAGE, task: str | None = None) -> int:
        """How many answers have an outcome of reading, under a control or with the image; of one task, or of all.

        Only rows that have a figure count: of the perturbation tests those whose original is answered Yes.
        """
        shown = self.shown[control]
        return int(np.sum(self._of(task) & ~np.isnan(shown.right) & (shown.outcomes == outcome)))

    def n_ranked(self, control: str = IMAGE, task: str | None = None) -> int:
        """How many rows have a figure that is right or wrong."""
        return int(np.sum(self._of(task) & ~np.isnan(self.shown[control].right)))

    def _of(self, task: str | None) -> np.ndarray:
        return np.array([task is None or row[0] == task for row in self.rows])

    def under(self, control: str, task: str | None = None) -> Difference:
        """The score under a control beside that with the image, on the rows that have both; of one task, or of all."""
        of = self._of(task)
        before, after = self.shown[IMAGE].values[of], self.shown[control].values[of]
        return paired_difference(after, before, groups=self.groups[of], seed=SEED)


def audited(out: Path, models: Sequence[str], tasks: Sequence[Task], margin: float) -> list[Audited]:
    """What the logs in `out` say of each model on each benchmark, in the order of models and tasks.

    margin: what makes no difference, a fraction.

    Raises:
        InputError: see `report.results.read_results`.
    """
    benchmarks = list(dict.fromkeys(task.benchmark for task in tasks))
    logged = Progress([*product(tasks, models)], title="reading answers", unit="logs")
    read = {(model, task.name): _answers(out, model, task) for task, model in logged}
    pairs = Progress([*product(models, benchmarks)], title="comparing answers", unit="benchmarks")
    return [
        _audited(model, benchmark, {t: read[model, t.name] for t in tasks if t.benchmark == benchmark}, margin)
        for model, benchmark in pairs
    ]


def blind_right(found: Audited) -> set[Key]:
    """The rows that a blind control answers right."""
    blind = [found.shown[control].right for control in BLIND if control in found.shown]
    hits = np.any([right == 1 for right in blind], axis=0) if blind else np.zeros(len(found.rows), bool)
    return {row for row, hit in zip(found.rows, hits, strict=True) if hit}


def _answers(out: Path, model: str, task: Task) -> dict[str, Answers]:
    """Control, or IMAGE -> the model's answers."""
    places = sorted(folder(out, task.name, None).parent.iterdir())
    whole = [place for place in places if not is_partial(Path(place.name))]  # an audit that was killed leaves others
    found = {place.name: place / model for place in whole if (place / model).is_dir()}
    return {name: all_answers(read_results([place]))[0][0] for name, place in found.items()}


def _audited(model: str, benchmark: str, answers: Mapping[Task, Mapping[str, Answers]], margin: float) -> Audited:
    rows = [(task.name, row_id) for task in answers for row_id in task.ids]
    place = {row: number for number, row in enumerate(rows)}
    controls = dict.fromkeys(control for of_task in answers.values() for control in of_task)
    shown = {control: _shown(control, answers, place) for control in controls}
    patients: list[Hashable] = [None] * len(rows)
    for task, of_task in answers.items():
        for row_id, patient in zip(of_task[IMAGE].ids, of_task[IMAGE].groups, strict=True):
            patients[place[task.name, row_id]] = patient
    groups = np.unique([str(patient) for patient in patients], return_inverse=True)[1]
    image = shown[IMAGE]
    blind = {control: shown[control].values for control in BLIND if control in shown}
    of_place = {AT: shown[AT].values} if AT in shown and ELSEWHERE in shown else {}
    how = {"margin": margin, "groups": groups, "seed": SEED}
    without = next((control for control in BLIND if control in shown), "")
    metrics = tuple(dict.fromkeys(of_task[IMAGE].metric for of_task in answers.values()))
    return Audited(
        model, benchmark, metrics, rows, groups, shown,
        reliance(image.values, blind, **how) if blind else None,
        reliance(shown[ELSEWHERE].values, of_place, **how) if of_place else None,
        without,
        _mirage(image, shown.get(without), groups),
        _unrelated(image, shown.get("other"), groups),
        _grounding(image, shown.get(AT), shown.get(ELSEWHERE), groups),
    )  # fmt: skip


def _shown(control: str, answers: Mapping[Task, Mapping[str, Answers]], place: Mapping[Key, int]) -> Shown:
    values, right = np.full(len(place), np.nan), np.full(len(place), np.nan)
    said: list[Hashable] = [None] * len(place)
    outcomes = np.full(len(place), "", dtype=object)
    for task, of_task in answers.items():
        if control in of_task:
            found = of_task[control]
            at = [place[task.name, row_id] for row_id in found.ids]
            values[at] = found.values
            if found.metric not in UNRANKED:
                right[at] = np.where(np.isnan(found.values), np.nan, found.values >= RIGHT)
            for number, answer, outcome in zip(at, found.said, found.outcomes, strict=True):
                said[number], outcomes[number] = answer, outcome
    return Shown(values, right, said, outcomes)


def _mirage(image: Shown, without: Shown | None, groups: np.ndarray) -> Share:
    if without is None:
        return share([])
    asked = (image.right == 1) & ~np.isnan(without.right)
    return share((without.right == 1)[asked], groups[asked])


def _unrelated(image: Shown, other: Shown | None, groups: np.ndarray) -> Share:
    if other is None:
        return share([])
    pairs = list(zip(image.said, other.said, strict=True))
    asked = np.array([before is not None and after is not None for before, after in pairs])
    same = np.array([before == after for before, after in pairs])
    return share(same[asked], groups[asked])


def _grounding(image: Shown, at: Shown | None, elsewhere: Shown | None, groups: np.ndarray) -> Share:
    if at is None or elsewhere is None:
        return share([])
    asked = (image.right == 1) & ~np.isnan(at.right) & ~np.isnan(elsewhere.right)
    depends = (at.right == 0) & (elsewhere.right == 1)
    return share(depends[asked], groups[asked])
