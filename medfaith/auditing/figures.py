"""The figures of an audit: each row's score with the image paired with its scores under the other conditions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.image_use import Condition, ImageUse, measure_image_use
from medfaith.evaluate_metrics.confidence.place import Edited, PlaceEffect, measure_place_effect
from medfaith.evaluate_metrics.confidence.reliance import FEWEST, Reliance, Share, reliance, share
from medfaith.evaluate_metrics.reading.outcome import DECLINED
from medfaith.loaders.atomic import is_partial
from medfaith.loaders.progress import Progress
from medfaith.reporting.answers import Answers
from medfaith.reporting.results import read_results
from medfaith.reporting.tables import SEED
from medfaith.tasks.controls import BLIND, EDITS, HARMLESS, get_elsewhere_edit, split_dose

from . import OTHER, Rule
from .audited import UNRANKED, Audited, ConditionAnswers, Key
from .plan import Task
from .run import IMAGE, folder, is_wording

RIGHT = 0.5  # a graded score counts as right from here on
AT, AWAY = EDITS[0], get_elsewhere_edit(EDITS[0])
WHOLE = 100  # percent of a region that an edit covers
FEWEST_ROWS = 20  # of a finding that is judged by itself


def read_audit(out: Path, models: Sequence[str], tasks: Sequence[Task], margin: float, rule: Rule = 2) -> list[Audited]:
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
        InputError: See `reporting.results.read_results`.
    """
    benchmarks = list(dict.fromkeys(task.benchmark for task in tasks))
    logs = Progress([*product(tasks, models)], title="reading answers", unit="logs")
    answers_by_log, names = {}, {}
    for task, model in logs:
        answers_by_log[model, task.name], names[model] = _read_answers(out, model, task)
    if len({*names.values()}) < len(names):  # folders of two places with one last part
        names = {model: model for model in models}
    pairs = Progress([*product(models, benchmarks)], title="comparing answers", unit="benchmarks")
    return [
        _measure_benchmark(
            names[model],
            benchmark,
            {t: answers_by_log[model, t.name] for t in tasks if t.benchmark == benchmark},
            margin,
            rule,
        )
        for model, benchmark in pairs
    ]


def find_blind_guesses(audit: Audited) -> dict[Key, bool]:
    """Find the rows that are answered without evidence, and whether some such answer is right.

    Evidence is missing under the blind controls. If the model leaves a row unanswered under all of them, its answer
    with another patient's image counts, since the right answer differs there. A row without such an answer is left out.

    Args:
        audit: One model on one benchmark.

    Returns:
        Row -> whether a guess is right.
    """
    with_other = [audit.answers[OTHER]] if OTHER in audit.answers else []
    return _find_guesses(audit, with_other) | _find_guesses(
        audit, [audit.answers[name] for name in BLIND if name in audit.answers]
    )


def find_comparable_guesses(audit: Audited) -> dict[Key, bool]:
    """Find blind guesses in rows where declining makes no difference.

    A model that declines without an image shows its guess only with another patient's image. So in a task that was
    asked with other images, rows without a donor are left out for every model.

    Args:
        audit: One model on one benchmark.

    Returns:
        Row -> whether a guess is right, as `find_blind_guesses`.
    """
    guesses = find_blind_guesses(audit)
    if OTHER not in audit.answers:
        return guesses
    has_donor = ~np.isnan(audit.answers[OTHER].right)
    asked_rows = {row for row, has in zip(audit.rows, has_donor, strict=True) if has}
    tasks = {task for task, _ in asked_rows}
    return {row: is_right for row, is_right in guesses.items() if row in asked_rows or row[0] not in tasks}


def _find_guesses(audit: Audited, conditions: Sequence[ConditionAnswers]) -> dict[Key, bool]:
    guesses: dict[Key, bool] = {}
    for answers in conditions:
        for position in np.flatnonzero(~np.isnan(answers.right) & ~answers.is_unanswered).tolist():
            guesses[audit.rows[position]] = guesses.get(audit.rows[position], False) or bool(answers.right[position])
    return guesses


def _read_answers(out: Path, model: str, task: Task) -> tuple[dict[str, Answers], str]:
    """Read the model's answers by condition, and its name in tables."""
    paths = sorted(folder(out, task.name, None).parent.iterdir())
    folders_of_conditions = [
        path for path in paths if not is_partial(Path(path.name))
    ]  # an audit that was killed leaves others
    folders = {path.name: path / model for path in folders_of_conditions if (path / model).is_dir()}
    results = {name: read_results([path]) for name, path in folders.items()}
    answers = {name: result.collect_answers()[0][0] for name, result in results.items()}
    return answers, results[IMAGE].all[0].source.model


def _measure_benchmark(
    model: str, benchmark: str, answers: Mapping[Task, Mapping[str, Answers]], margin: float, rule: Rule
) -> Audited:
    rows = [(task.name, row_id) for task in answers for row_id in task.ids]
    positions = {row: number for number, row in enumerate(rows)}
    conditions = dict.fromkeys(condition for task_answers in answers.values() for condition in task_answers)
    by_condition = {condition: _collect_answers(condition, answers, positions) for condition in conditions}
    patients: list[Hashable] = [None] * len(rows)
    is_present = np.zeros(len(rows), dtype=bool)
    subjects: list[Collection[str]] = [()] * len(rows)
    for task, task_answers in answers.items():
        image_answers = task_answers[IMAGE]
        for row_id, patient, is_row_present, row_subjects in zip(
            image_answers.ids, image_answers.groups, image_answers.is_present, image_answers.subjects, strict=True
        ):
            position = positions[task.name, row_id]
            patients[position], is_present[position], subjects[position] = patient, is_row_present, row_subjects
    groups = np.unique([str(patient) for patient in patients], return_inverse=True)[1]
    with_image = by_condition[IMAGE]
    options = {"margin": margin, "groups": groups, "seed": SEED}
    blind_control = next((control for control in BLIND if control in by_condition), "")
    metrics = tuple(dict.fromkeys(task_answers[IMAGE].metric for task_answers in answers.values()))
    return Audited(
        model, benchmark, metrics, rule, rows, groups, by_condition, is_present,
        _measure_use(by_condition, options),
        _measure_edits(by_condition, is_present, options) if rule != 1 and not {*metrics} & {*UNRANKED} else {},
        *_measure_by_rule_1(by_condition, options),
        _measure_by_subject(by_condition, subjects, options) if rule != 1 else {},
        blind_control,
        _measure_mirage(with_image, by_condition.get(blind_control), groups, rule),
        _measure_unrelated(with_image, by_condition.get(OTHER), groups),
        _measure_grounding(with_image, by_condition.get(AT), by_condition.get(AWAY), groups),
    )  # fmt: skip


def _measure_use(
    by_condition: Mapping[str, ConditionAnswers], options: Mapping, rows: np.ndarray | slice = slice(None)
) -> ImageUse:
    """Run the tests of rule 2 on some of the rows (indices or mask)."""

    def select(condition: str) -> Condition:
        answers = by_condition[condition]
        is_changed = (
            None
            if condition == IMAGE or not any(answers.outcomes)
            else _compare_readings(by_condition[IMAGE], answers, is_declined_kept=True)[rows]
        )
        return Condition(answers.answered[rows], ~np.isnan(answers.values[rows]), is_changed)

    donors = by_condition[OTHER].other_images[rows] if OTHER in by_condition else np.array([])
    row_options: dict[str, Any] = {
        **options,
        "groups": options["groups"][rows],
        "donors": np.unique(donors.astype(str), return_inverse=True)[1]
        if donors.any()
        else None,  # older logs have none
    }
    blind, harmless = ({name: select(name) for name in names if name in by_condition} for names in (BLIND, HARMLESS))
    return measure_image_use(
        select(IMAGE), select(OTHER) if OTHER in by_condition else None, blind, harmless, **row_options
    )


def _measure_by_subject(
    by_condition: Mapping[str, ConditionAnswers], subjects: Sequence[Collection[str]], options: Mapping
) -> dict[str, ImageUse]:
    """Run the tests of rule 2 for each subject with enough rows and patients."""
    positions: dict[str, list[int]] = {}
    for position, names in enumerate(subjects):
        for name in names:
            positions.setdefault(name, []).append(position)
    judged = {
        name: np.array(row_positions)
        for name, row_positions in sorted(positions.items())
        if len(row_positions) >= FEWEST_ROWS
        and len({*options["groups"][row_positions]}) >= FEWEST
        and len(row_positions) < len(subjects)
    }
    return {name: _measure_use(by_condition, options, row_positions) for name, row_positions in judged.items()}


def _measure_edits(
    by_condition: Mapping[str, ConditionAnswers], is_present: np.ndarray, options: Mapping
) -> dict[str, PlaceEffect]:
    """Measure each kind of edit at all doses that were asked both in the region and elsewhere."""
    edits_by_kind: dict[str, dict[int, Edited]] = {}
    for control in by_condition:
        kind, dose = split_dose(control) if control != IMAGE and not is_wording(control) else ("", WHOLE)
        if kind in EDITS and (elsewhere_control := get_elsewhere_edit(control)) in by_condition:
            answers_at, answers_elsewhere = by_condition[control], by_condition[elsewhere_control]
            flips = _compare_readings(answers_elsewhere, answers_at, is_declined_kept=True)
            edited = Edited(
                _score_statements(answers_at, is_present), _score_statements(answers_elsewhere, is_present), flips
            )
            edits_by_kind.setdefault(kind, {})[dose] = edited
    return {
        kind: measure_place_effect(edits_by_kind[kind], is_present, **options)
        for kind in EDITS
        if WHOLE in edits_by_kind.get(kind, {})
    }


def _score_statements(answers: ConditionAnswers, is_present: np.ndarray) -> np.ndarray:
    """Score a declined answer as a denial: wrong if the finding is present, right if it is absent."""
    return np.where(answers.outcomes == DECLINED, np.where(is_present, 0.0, 1.0), answers.answered)


def _measure_by_rule_1(
    by_condition: Mapping[str, ConditionAnswers], options: Mapping
) -> tuple[Reliance | None, Reliance | None]:
    blind_scores = {control: by_condition[control].values for control in BLIND if control in by_condition}
    place_scores = {AT: by_condition[AT].values} if AT in by_condition and AWAY in by_condition else {}
    return (
        reliance(by_condition[IMAGE].values, blind_scores, **options) if blind_scores else None,
        reliance(by_condition[AWAY].values, place_scores, **options) if place_scores else None,
    )


def _collect_answers(
    condition: str, answers: Mapping[Task, Mapping[str, Answers]], positions: Mapping[Key, int]
) -> ConditionAnswers:
    values, right = np.full(len(positions), np.nan), np.full(len(positions), np.nan)
    readings: list[Hashable] = [None] * len(positions)
    outcomes, other_images = (np.full(len(positions), "", dtype=object) for _ in range(2))
    for task, task_answers in answers.items():
        if condition in task_answers:
            run_answers = task_answers[condition]
            row_positions = [positions[task.name, row_id] for row_id in run_answers.ids]
            values[row_positions], other_images[row_positions] = run_answers.values, run_answers.other_images
            if run_answers.metric not in UNRANKED:
                right[row_positions] = np.where(np.isnan(run_answers.values), np.nan, run_answers.values >= RIGHT)
            for position, answer, outcome in zip(row_positions, run_answers.said, run_answers.outcomes, strict=True):
                readings[position], outcomes[position] = answer, outcome
    return ConditionAnswers(values, right, readings, outcomes, other_images)


def _compare_readings(
    before: ConditionAnswers, after: ConditionAnswers, *, is_declined_kept: bool = False
) -> np.ndarray:
    """Compare the readings of the answers under two conditions, row by row.

    Args:
        before: Answers of n rows under the first condition.
        after: Answers to the same rows under the second condition.
        is_declined_kept: Whether a declined answer counts as an answer; otherwise it is missing.

    Returns:
        (n,), 1 if the two readings differ, 0 if they are the same, NaN if either is missing.
    """

    def select(shown: ConditionAnswers) -> Iterator[Hashable]:
        for answer, outcome in zip(shown.readings, shown.outcomes, strict=True):
            yield DECLINED if is_declined_kept and outcome == DECLINED else answer

    pairs = zip(select(before), select(after), strict=True)
    return np.array(
        [
            np.nan if reading_before is None or reading_after is None else float(reading_before != reading_after)
            for reading_before, reading_after in pairs
        ]
    )


def _measure_mirage(
    with_image: ConditionAnswers, without_image: ConditionAnswers | None, groups: np.ndarray, rule: Rule
) -> Share:
    if without_image is None:
        return share([])
    is_used = (with_image.right == 1) & ~np.isnan(without_image.right)
    if rule != 1:  # declining without an image does not use one
        is_used &= ~without_image.is_unanswered
    return share((without_image.right == 1)[is_used], groups[is_used])


def _measure_unrelated(with_image: ConditionAnswers, with_other: ConditionAnswers | None, groups: np.ndarray) -> Share:
    return share([]) if with_other is None else share(1 - _compare_readings(with_image, with_other), groups)


def _measure_grounding(
    with_image: ConditionAnswers,
    answers_at: ConditionAnswers | None,
    answers_elsewhere: ConditionAnswers | None,
    groups: np.ndarray,
) -> Share:
    if answers_at is None or answers_elsewhere is None:
        return share([])
    is_used = (with_image.right == 1) & ~np.isnan(answers_at.right) & ~np.isnan(answers_elsewhere.right)
    depends = (answers_at.right == 0) & (answers_elsewhere.right == 1)
    return share(depends[is_used], groups[is_used])
