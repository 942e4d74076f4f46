"""The tables of an audit: one of all models and benchmarks, and of each benchmark conditions, edits and findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from medfaith.evaluate_metrics.confidence.image_use import Comparison, ImageUse
from medfaith.evaluate_metrics.confidence.image_verdict import MOST_UNANSWERED
from medfaith.evaluate_metrics.confidence.paired import Difference
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.reporting.tables import (
    OUTCOMES,
    SEED,
    Column,
    Table,
    count,
    fraction_interval,
    paired_interval,
    percent,
    points,
    points_interval,
    text,
)
from medfaith.tasks.controls import BLIND, ELSEWHERE

from .edit_detection import Detection
from .run import IMAGE, ordered
from .verdicts import Judged
from .wordings import Wordings

_IMAGE_WORDS = {
    "uses": "yes", "recalls": "only as stored (memory?)", "no use": "no", "reacts": "reacts, does not read",
    "harmed": "to its harm", "open": "cannot be told", "unanswered": "no verdict: too much is unread or declined",
    "undefined": "not asked",
}  # fmt: skip
_PLACE_WORDS = {
    "depends": "yes", "no dependence": "no", "elsewhere": "on another place",
    **{name: _IMAGE_WORDS[name] for name in ("open", "unanswered", "undefined")},
}  # fmt: skip

_DETECTED = (
    "Detected: area under the ROC curve of a small classifier that tells edited images from plain ones, at the place "
    "and elsewhere; 0.5: it sees no traces of the edit, 1: it sees them in all images."
)


def overview(judged: Sequence[Judged], margin: float) -> Table:
    """Make the table of all models and benchmarks, one row each.

    Args:
        judged: Verdicts by the same rule.
        margin: Equivalence margin, a fraction.

    Returns:
        The table "audit", with notes on the rule.
    """
    rule = judged[0].audit.rule if judged else 2
    several = len({audit.audit.model for audit in judged}) > 1
    is_2 = rule != 1
    columns = [
        Column("Model" if several else None, ("model",)), Column("Benchmark", ("benchmark",)), Column(None, ("rule",)),
        Column("Rows", ("n",), count), Column("Image", ("score",), percent),
        Column("Other" if is_2 else None, ("other",), percent),
        Column("Own - other [95%]" if is_2 else None, ("own_less_other", "own_low", "own_high", "own_n_differ"),
               paired_interval),
        Column("Blind", ("blind",), percent),
        Column("Own - blind [95%]" if is_2 else "Reliance [95%]", ("reliance", "low", "high", "n_differ"),
               paired_interval),
        Column("Declined" if is_2 else None, ("declined_rate",), percent),
        Column("Declined blind" if is_2 else None, ("declined_rate_blind",), percent),
        Column("Mirage", ("mirage",), percent), Column("Unrelated", ("unrelated",), percent),
        Column("Causal (floor)" if is_2 else "Causal", ("grounding", "grounding_floor"), _format_grounding),
        Column("Uses the image?", ("uses_image", "n_tested", "n_enough"), partial(_format_answer, _IMAGE_WORDS)),
        Column("Depends on the place?", ("depends_on_place", "n_place", "n_enough_place"),
               partial(_format_answer, _PLACE_WORDS)),
        *(Column(None, (name,)) for name in (
            "p_holm", "p_holm_place", "best_blind", "failed_test", "p_no_effect", "by_other_alone", "unread_rate")),
    ]  # fmt: skip
    return Table(
        "audit",
        "Does the model use the image?",
        columns,
        [_make_row(audit) for audit in judged],
        _write_notes(margin, rule),
    )


def conditions(judged: Judged) -> Table:
    """Make the table of a benchmark's scores under each condition, of all its tasks together and then of each.

    Args:
        judged: One model on one benchmark.

    Returns:
        The table.
    """
    audit, tasks = judged.audit, list(dict.fromkeys(task for task, _ in judged.audit.rows))
    names = ordered(audit.answers)
    rows = []
    for task in [None, *tasks] if len(tasks) > 1 else [None]:
        for name in names:
            comparison = audit.under(name, task)
            difference = (
                [None] * 4
                if name == IMAGE
                else [comparison.difference, comparison.low, comparison.high, comparison.n_differ]
            )
            scores = [comparison.n, comparison.n_nan, comparison.after, comparison.before, *difference]
            counts = [audit.n_of(outcome, name, task) for outcome in (UNREAD, DECLINED)]
            shares = [audit.share_of(outcome, name, task) for outcome in (UNREAD, DECLINED)]
            rows.append([audit.model, task or "all", name, *scores, *shares, *counts])
    columns = [
        Column(None, ("model",)), Column(None, ("task",)),
        Column("Shown", ("control",), _format_condition), Column("Rows", ("n",), count),
        Column(None, ("n_without",)), Column("Score", ("score",), percent),
        Column("With the image", ("score_with_image",), percent),
        Column("Difference [95%]", ("difference", "low", "high", "n_differ"), paired_interval), *OUTCOMES,
        Column(None, ("n_unread",)), Column(None, ("n_declined",)),
    ]  # fmt: skip
    n_patients = len({*audit.groups.tolist()})
    title = (
        f"{judged.title}: {count(len(audit.rows))} rows of {count(n_patients)} groups, {' and '.join(audit.metrics)}"
    )
    counted = "unread and declined answers count as wrong" if audit.rule == 1 else "of the rows that both answer"
    return Table(_get_table_name(judged, ""), title, columns, rows, [f"Scores {counted}."], n_printed=len(names))


def edits(judged: Judged, detections: Mapping[str, Detection] | None = None) -> Table | None:
    """Make the table of what each kind of edit changes; None where no edit was asked, or under rule 1.

    Args:
        judged: One model on one benchmark.
        detections: Control -> how well a classifier detects the edit; columns of the table if it was measured.

    Returns:
        The table of the benchmark, or None.
    """
    detections = detections or {}
    rows = [
        [
            judged.audit.model, kind, effect.effect.n, effect.floor.n if effect.floor else None,
            effect.effect.difference, effect.floor.difference if effect.floor else None,
            effect.floor.low if effect.floor else None, effect.floor.high if effect.floor else None,
            effect.net, effect.low, effect.high, effect.flips.value, effect.placebo_flips.value,
            effect.slope if len(effect.by_dose) > 1 else None, effect.slope_low, effect.slope_high,
            " ".join(f"{dose}%:{points(net)}" for dose, net in effect.by_dose.items()),
            *_list_detection(detections.get(kind)), *_list_detection(detections.get(kind + ELSEWHERE)),
        ]
        for kind, effect in judged.audit.edits.items()
    ]  # fmt: skip
    columns = [
        Column(None, ("model",)), Column("Edit", ("edit",)), Column("Rows", ("n",), count),
        Column("Placebo rows", ("n_placebo",), count), Column("Effect", ("effect",), points),
        Column("Artefact floor [95%]", ("floor", "floor_low", "floor_high"), points_interval),
        Column("Net effect [95%]", ("net", "net_low", "net_high"), points_interval),
        Column("Flips", ("flips",), percent), Column("Placebo flips", ("placebo_flips",), percent),
        Column("Slope [95%]", ("slope", "slope_low", "slope_high"), points_interval),
        Column("Net effect by dose", ("by_dose",)),
        *(
            column
            for title, name in (("Detected", "detected"), ("Detected elsewhere", "detected_elsewhere"))
            for column in (
                Column(f"{title} [95%]" if detections else None, (name, f"{name}_low", f"{name}_high"),
                       fraction_interval),
                Column(None, (f"n_{name}",)),
            )
        ),
    ]  # fmt: skip
    notes = [
        "Effect: the score after the edit elsewhere less that after the edit at the place, in rows where what is asked "
        "about is present. Floor: how much more often the edit at the place makes the model say that it is absent, in "
        "rows where it is absent. Net: effect less floor. Flips: answers that differ between the two places. Slope: "
        "net effect per 100% of the place. A declined answer says of nothing that it is present; unread answers are "
        "left out.",
        *([_DETECTED] if detections else []),
    ]
    return (
        Table(_get_table_name(judged, "_edits"), f"{judged.title}: the place", columns, rows, notes) if rows else None
    )


def _list_detection(detection: Detection | None) -> list[Any]:
    """List AUROC, low, high and the number of rows of a detection; None four times without one."""
    return [None] * 4 if detection is None else [detection.auroc, detection.low, detection.high, detection.n]


def subjects(judged: Judged) -> Table | None:
    """Make the table of verdicts by finding, anatomy or instrument; None without any.

    Args:
        judged: One model on one benchmark.

    Returns:
        The table, or None.
    """
    rows = []
    for name, verdict in judged.subjects.items():
        use = judged.audit.by_subject[name]
        blind, best = _get_best_blind(use)
        rows.append([
            judged.audit.model, name, *_list_comparison(use.other), best, *_list_comparison(blind)[1:],
            verdict.name, _count_tested(use), verdict.n_enough, verdict.p_holm,
        ])  # fmt: skip
    columns = [
        Column(None, ("model",)), Column("Finding", ("subject",)), Column("Rows", ("n",), count),
        Column("Image", ("score",), percent), Column("Other", ("other",), percent),
        Column("Own - other [95%]", ("own_less_other", "own_low", "own_high", "own_n_differ"), paired_interval),
        Column(None, ("best_blind",)), Column(None, ("score_blind_pairs",)), Column("Blind", ("blind",), percent),
        Column("Own - blind [95%]", ("reliance", "low", "high", "n_differ"), paired_interval),
        Column("Uses the image?", ("uses_image", "n_tested", "n_enough"), partial(_format_answer, _IMAGE_WORDS)),
        Column(None, ("p_adjusted",)),
    ]  # fmt: skip
    notes = [
        "Findings, anatomies and instruments of which 20 rows and 5 patients or more are asked; Rows are those that "
        "are answered with both images. Of all of them that are said to be used, or not used, at most 5% are wrong on "
        "average (Benjamini and Yekutieli).",
    ]
    if not rows:
        return None
    return Table(_get_table_name(judged, "_findings"), f"{judged.title}: by finding", columns, rows, notes)


def wordings(judged: Judged, compared: Wordings | None) -> Table | None:
    """Make the table of scores by wording; None where no paraphrase was asked.

    Args:
        judged: One model on one benchmark.
        compared: Its scores by wording, or None.

    Returns:
        The table, or None.
    """
    if compared is None:
        return None
    rows = [
        [
            judged.audit.model,
            name,
            score,
            *(_list_interval(compared.under[name]) if name in compared.under else [None] * 4),
            compared.verdict,
        ]
        for name, score in compared.scores.items()
    ]
    columns = [
        Column(None, ("model",)), Column("Wording", ("wording",), _format_wording),
        Column("Score", ("score",), percent),
        Column("Difference [95%]", ("difference", "low", "high", "n_differ"), paired_interval),
        Column(None, ("depends_on_wording",)),
    ]  # fmt: skip
    title = f"{judged.title}: wordings, spread {points(compared.spread).lstrip('+')} points"
    return Table(_get_table_name(judged, "_wordings"), title, columns, rows, ["Scores of answered rows."])


def _make_row(judged: Judged) -> list[Any]:
    audit, use = judged.audit, judged.audit.use
    blind, best = _get_best_blind(use)
    place = audit.place
    other_cells, blind_cells = _list_comparison(use.other), _list_comparison(blind)
    score = _compute_mean(audit.scores(IMAGE))
    if audit.rule == 1:
        rule_1 = audit.reliance
        best = rule_1.best if rule_1 else ""
        blind_cells = _list_difference(rule_1.found) if rule_1 else [None] * 7
        score = blind_cells[1]
    n_place = max((effect.effect.n for effect in audit.edits.values()), default=place.found.n if place else None)
    grounding_floor = audit.edits["occluded"].placebo_flips.value if "occluded" in audit.edits else None
    blind_names = [name for name in BLIND if name in audit.answers]
    n = int(np.sum(~np.isnan(audit.scores(IMAGE))))
    if audit.rule != 1 and use.other is not None and not audit.is_attention:
        n, score = other_cells[:2]  # the two scores then differ by exactly the printed difference
    return [
        audit.model, judged.title, audit.rule, n, score, *other_cells[2:],
        *blind_cells[2:], audit.share_of(DECLINED),
        _compute_mean([audit.share_of(DECLINED, name) for name in blind_names]),
        audit.mirage.value, audit.unrelated.value, audit.grounding.value, grounding_floor,
        judged.image.name, blind_cells[0] if audit.rule == 1 else _count_tested(use), judged.image.n_enough,
        judged.place.name, n_place, judged.place.n_enough,
        judged.image.p_holm, judged.place.p_holm, best, judged.image.failed, use.p_no_effect if use.other else None,
        is_judged_by_other_alone(judged), audit.share_of(UNREAD),
    ]  # fmt: skip


def is_judged_by_other_alone(judged: Judged) -> bool:
    """Return whether unanswered rows hide the comparison with every blind control (rule 2).

    Args:
        judged: One model on one benchmark.

    Returns:
        False under rule 1, and if no blind control was asked.
    """
    return judged.audit.rule != 1 and bool(judged.audit.use.blind) and not judged.audit.use.n_open_blind


def _get_best_blind(use: ImageUse) -> tuple[Comparison | None, str]:
    return (use.blind[use.best].comparison if use.best else None), use.best


def _count_tested(use: ImageUse) -> int:
    """Count the rows of test (a), the comparison with another patient's image; 0 if it was not asked."""
    return use.other.difference.n if use.other else 0


def _list_comparison(comparison: Comparison | None) -> list[Any]:
    """List rows, score, score of the other condition, difference, low, high, groups that differ."""
    return [None] * 7 if comparison is None else _list_difference(comparison.difference)


def _list_difference(difference: Difference) -> list[Any]:
    return [difference.n, difference.after, difference.before, *_list_interval(difference)]


def _list_interval(difference: Difference) -> list[Any]:
    return [difference.difference, difference.low, difference.high, difference.n_differ]


def _compute_mean(values: Any) -> float:
    defined = np.asarray(values, dtype=float)
    defined = defined[~np.isnan(defined)]
    return float(defined.mean()) if len(defined) else math.nan


def _format_grounding(value: Any, floor: Any) -> str:
    return percent(value) + (f" ({percent(floor)})" if floor is not None and not math.isnan(floor) else "")


def _format_answer(phrases: Mapping[str, str], name: str, n: Any, n_enough: Any) -> str:
    return text(phrases.get(name)) + (format_enough_rows(n, n_enough) if name == "open" else "")


def format_enough_rows(n: Any, n_enough: Any) -> str:
    """Format how many rows there are, and how many would do where that is known to be more.

    Args:
        n: Number of rows.
        n_enough: Rows that would settle the test; NaN or None if unknown.

    Returns:
        The end of a sentence, such as " with n = 20; n = 100 would do".
    """
    is_known = n_enough and not math.isnan(n_enough) and n_enough > n
    return f" with n = {count(n)}" + (f"; n = {count(n_enough)} would do" if is_known else "")


def _format_condition(condition: str) -> str:
    return "the image" if condition == IMAGE else condition


def _format_wording(condition: str) -> str:
    return "the question's own words" if condition == IMAGE else condition.replace("_", " ")


def _get_table_name(judged: Judged, end: str) -> str:
    return f"audit_{judged.audit.benchmark.replace('-', '_')}{end}"


def _write_notes(margin: float, rule: int) -> list[str]:
    within = f"{100 * margin:g} points"
    resampling = f"Intervals draw whole patients, 2,000 resamples, seed {SEED}."
    donors = "That of Own - other draws whole other images where it is wider so; more rows then need more other images."
    shares = (
        "Mirage: of the right answers, those that stay right without an image (rule 2: of those that are answered so). "
        "Unrelated: of the answers, those that "
        "stay although another image has another right answer. Causal: of the right answers, those that are lost with "
        "the place that is asked about and kept without another place"
    )
    closing = (
        f"Where more than {100 * MOST_UNANSWERED:g}% of the answers with the image are unread or declined, there is no "
        "verdict. A graded score counts as right from one half on. Attention (AUROC) is neither right nor wrong."
    )
    if rule == 1:
        return [
            "Rule 1. Image: the score with the image. Blind: the best score without one (none, blank or noise). Unread "
            f"and declined answers count as wrong. Reliance: their difference in percentage points. {resampling}",
            f"{shares}. All in per cent; – is undefined.",
            f"Yes: better than every blind control by more than {within}, p below 0.05 after Holm's correction over "
            f"the benchmarks. No: two one-sided tests find the difference to be within {within}, or not one of enough "
            "rows differs. Everything else cannot be told; the number of rows that would do finds a difference as "
            "large as the margin 4 times in 5.",
            closing,
        ]
    return [
        "Rule 2. Image, Other, Blind: scores of answered rows with the own image, with another patient's image whose "
        "right answer differs, and under the best blind control (none, blank or noise). Differences are in percentage "
        "points, on the rows that both answer. Unread and declined answers are in no score; Declined is their share "
        f"with the image, Declined blind without one. {resampling} {donors}",
        f"{shares}; in brackets, the answers that the same edit changes where there is nothing to lose. All in per "
        "cent; – is undefined.",
        f"Yes: better with the own image than with another by more than {within}, and better than every blind control "
        "even if each declined answer there had been right (a control under which more answers are missing than the "
        "margin is left out); p below 0.05 after Holm's correction over the benchmarks of a model. "
        f"No: the own image is equal to another one, and to the best blind control, within {within} (two "
        "one-sided tests). Reacts: equal to another image, but better than blind, or answers change with the image. "
        "Only as stored: as yes, but a harmless change takes most of it away. Everything else cannot be told; the "
        "number of rows is that of the test that failed.",
        f"The place: two kinds of edit have to agree on a net effect above {within}. {closing}",
    ]
