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
from medfaith.report.tables import (
    OUTCOMES,
    SEED,
    Column,
    Table,
    count,
    paired_interval,
    percent,
    points,
    points_interval,
    text,
)
from medfaith.tasks.controls import BLIND

from .run import IMAGE, ordered
from .verdicts import Judged
from .wordings import Wordings

_IMAGE_WORDS = {
    "uses": "yes", "recalls": "only as stored (memory?)", "no use": "no", "reacts": "reacts, does not read",
    "harmed": "to its harm", "open": "cannot be told", "unanswered": "no verdict: too much is unread or declined",
    "undefined": "not asked",
}  # fmt: skip
_PLACE_WORDS = {
    "depends": "yes", "no dependence": "no", "elsewhere": "on another place", "open": "cannot be told",
    "undefined": "not asked",
}  # fmt: skip


def overview(judged: Sequence[Judged], margin: float) -> Table:
    """Make the table of all models and benchmarks, one row each.

    Args:
        judged: Verdicts by the same rule.
        margin: Equivalence margin, a fraction.
    """
    rule = judged[0].found.rule if judged else 2
    several = len({one.found.model for one in judged}) > 1
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
        Column("Causal (floor)" if is_2 else "Causal", ("grounding", "grounding_floor"), _grounding),
        Column("Uses the image?", ("uses_image", "n_tested", "n_enough"), partial(_answer, _IMAGE_WORDS)),
        Column("Depends on the place?", ("depends_on_place", "n_place", "n_enough_place"),
               partial(_answer, _PLACE_WORDS)),
        *(Column(None, (name,)) for name in (
            "p_holm", "p_holm_place", "best_blind", "failed_test", "p_no_effect", "by_other_alone", "unread_rate")),
    ]  # fmt: skip
    return Table("audit", "Does the model use the image?", columns, [_row(one) for one in judged], _notes(margin, rule))


def conditions(one: Judged) -> Table:
    """Make the table of a benchmark's scores under each condition, of all its tasks together and then of each."""
    found, tasks = one.found, list(dict.fromkeys(task for task, _ in one.found.rows))
    names = ordered(found.shown)
    rows = []
    for task in [None, *tasks] if len(tasks) > 1 else [None]:
        for name in names:
            of = found.under(name, task)
            difference = [None] * 4 if name == IMAGE else [of.difference, of.low, of.high, of.n_differ]
            scores = [of.n, of.n_nan, of.after, of.before, *difference]
            counts = [found.n_of(outcome, name, task) for outcome in (UNREAD, DECLINED)]
            shares = [found.share_of(outcome, name, task) for outcome in (UNREAD, DECLINED)]
            rows.append([found.model, task or "all", name, *scores, *shares, *counts])
    columns = [
        Column(None, ("model",)), Column(None, ("task",)),
        Column("Shown", ("control",), _shown), Column("Rows", ("n",), count),
        Column(None, ("n_without",)), Column("Score", ("score",), percent),
        Column("With the image", ("score_with_image",), percent),
        Column("Difference [95%]", ("difference", "low", "high", "n_differ"), paired_interval), *OUTCOMES,
        Column(None, ("n_unread",)), Column(None, ("n_declined",)),
    ]  # fmt: skip
    n_patients = len({*found.groups.tolist()})
    title = f"{one.title}: {count(len(found.rows))} rows of {count(n_patients)} groups, {' and '.join(found.metrics)}"
    counted = "unread and declined answers count as wrong" if found.rule == 1 else "of the rows that both answer"
    return Table(_name(one, ""), title, columns, rows, [f"Scores {counted}."], n_printed=len(names))


def edits(one: Judged) -> Table | None:
    """Make the table of what each kind of edit changes; None where no edit was asked, or under rule 1."""
    rows = [
        [
            one.found.model, kind, effect.effect.n, effect.floor.n if effect.floor else None,
            effect.effect.difference, effect.floor.difference if effect.floor else None,
            effect.floor.low if effect.floor else None, effect.floor.high if effect.floor else None,
            effect.net, effect.low, effect.high, effect.flips.value, effect.placebo_flips.value,
            effect.slope if len(effect.by_dose) > 1 else None, effect.slope_low, effect.slope_high,
            " ".join(f"{dose}%:{points(net)}" for dose, net in effect.by_dose.items()),
        ]
        for kind, effect in one.found.edits.items()
    ]  # fmt: skip
    columns = [
        Column(None, ("model",)), Column("Edit", ("edit",)), Column("Rows", ("n",), count),
        Column("Placebo rows", ("n_placebo",), count), Column("Effect", ("effect",), points),
        Column("Artefact floor [95%]", ("floor", "floor_low", "floor_high"), points_interval),
        Column("Net effect [95%]", ("net", "net_low", "net_high"), points_interval),
        Column("Flips", ("flips",), percent), Column("Placebo flips", ("placebo_flips",), percent),
        Column("Slope [95%]", ("slope", "slope_low", "slope_high"), points_interval),
        Column("Net effect by dose", ("by_dose",)),
    ]  # fmt: skip
    notes = [
        "Effect: the score after the edit elsewhere less that after the edit at the place, in rows where what is asked "
        "about is present. Floor: how much more often the edit at the place makes the model say that it is absent, in "
        "rows where it is absent. Net: effect less floor. Flips: answers that differ between the two places. Slope: "
        "net effect per 100% of the place. A declined answer says of nothing that it is present; unread answers are "
        "left out.",
    ]
    return Table(_name(one, "_edits"), f"{one.title}: the place", columns, rows, notes) if rows else None


def subjects(one: Judged) -> Table | None:
    """Make the table of verdicts by finding, anatomy or instrument; None without any."""
    rows = []
    for name, verdict in one.subjects.items():
        use = one.found.by_subject[name]
        rows.append([
            one.found.model, name, *_compared(use.other), _blind_of(use)[1], *_compared(_blind_of(use)[0])[1:],
            verdict.name, _n_tested(use), verdict.n_enough, verdict.p_holm,
        ])  # fmt: skip
    columns = [
        Column(None, ("model",)), Column("Finding", ("subject",)), Column("Rows", ("n",), count),
        Column("Image", ("score",), percent), Column("Other", ("other",), percent),
        Column("Own - other [95%]", ("own_less_other", "own_low", "own_high", "own_n_differ"), paired_interval),
        Column(None, ("best_blind",)), Column(None, ("score_blind_pairs",)), Column("Blind", ("blind",), percent),
        Column("Own - blind [95%]", ("reliance", "low", "high", "n_differ"), paired_interval),
        Column("Uses the image?", ("uses_image", "n_tested", "n_enough"), partial(_answer, _IMAGE_WORDS)),
        Column(None, ("p_adjusted",)),
    ]  # fmt: skip
    notes = [
        "Findings, anatomies and instruments of which 20 rows and 5 patients or more are asked; Rows are those that "
        "are answered with both images. Of all of them that are said to be used, or not used, at most 5% are wrong on "
        "average (Benjamini and Yekutieli).",
    ]
    return Table(_name(one, "_findings"), f"{one.title}: by finding", columns, rows, notes) if rows else None


def wordings(one: Judged, found: Wordings | None) -> Table | None:
    """Make the table of scores by wording; None where no paraphrase was asked."""
    if found is None:
        return None
    rows = [
        [
            one.found.model,
            name,
            score,
            *(_interval_of(found.under[name]) if name in found.under else [None] * 4),
            found.verdict,
        ]
        for name, score in found.scores.items()
    ]
    columns = [
        Column(None, ("model",)), Column("Wording", ("wording",), _shown_wording), Column("Score", ("score",), percent),
        Column("Difference [95%]", ("difference", "low", "high", "n_differ"), paired_interval),
        Column(None, ("depends_on_wording",)),
    ]  # fmt: skip
    title = f"{one.title}: wordings, spread {points(found.spread).lstrip('+')} points"
    return Table(_name(one, "_wordings"), title, columns, rows, ["Scores of answered rows."])


def _row(one: Judged) -> list[Any]:
    found, use = one.found, one.found.use
    blind, best = _blind_of(use)
    place = found.place
    of_other, of_blind = _compared(use.other), _compared(blind)
    score = _mean(found.scores(IMAGE))
    if found.rule == 1:
        rule_1 = found.reliance
        best = rule_1.best if rule_1 else ""
        of_blind = _of_difference(rule_1.found) if rule_1 else [None] * 7
        score = of_blind[1]
    n_place = max((effect.effect.n for effect in found.edits.values()), default=place.found.n if place else None)
    grounding_floor = found.edits["occluded"].placebo_flips.value if "occluded" in found.edits else None
    blind_names = [name for name in BLIND if name in found.shown]
    n = int(np.sum(~np.isnan(found.scores(IMAGE))))
    if found.rule != 1 and use.other is not None and not found.is_attention:
        n, score = of_other[:2]  # so that the columns of the image and of the other one differ by what is printed
    return [
        found.model, one.title, found.rule, n, score, *of_other[2:],
        *of_blind[2:], found.share_of(DECLINED), _mean([found.share_of(DECLINED, name) for name in blind_names]),
        found.mirage.value, found.unrelated.value, found.grounding.value, grounding_floor,
        one.image.name, of_blind[0] if found.rule == 1 else _n_tested(use), one.image.n_enough,
        one.place.name, n_place, one.place.n_enough,
        one.image.p_holm, one.place.p_holm, best, one.image.failed, use.p_no_effect if use.other else None,
        is_by_other_alone(one), found.share_of(UNREAD),
    ]  # fmt: skip


def is_by_other_alone(one: Judged) -> bool:
    """Whether declined or unread answers hide the comparison with every blind control (rule 2)."""
    return one.found.rule != 1 and bool(one.found.use.blind) and not one.found.use.n_open_blind


def _blind_of(use: ImageUse) -> tuple[Comparison | None, str]:
    return (use.blind[use.best].comparison if use.best else None), use.best


def _n_tested(use: ImageUse) -> int:
    """The rows of test (a)."""
    return use.other.difference.n if use.other else 0


def _compared(comparison: Comparison | None) -> list[Any]:
    """Rows, score, score of the other condition, difference, low, high, groups that differ."""
    return [None] * 7 if comparison is None else _of_difference(comparison.difference)


def _of_difference(of: Difference) -> list[Any]:
    return [of.n, of.after, of.before, *_interval_of(of)]


def _interval_of(of: Difference) -> list[Any]:
    return [of.difference, of.low, of.high, of.n_differ]


def _mean(values: Any) -> float:
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else math.nan


def _grounding(value: Any, floor: Any) -> str:
    return percent(value) + (f" ({percent(floor)})" if floor is not None and not math.isnan(floor) else "")


def _answer(words: Mapping[str, str], name: str, n: Any, n_enough: Any) -> str:
    return text(words.get(name)) + (would_do(n, n_enough) if name == "open" else "")


def would_do(n: Any, n_enough: Any) -> str:
    """Say how many rows there are, and how many would do where that is known to be more."""
    is_known = n_enough and not math.isnan(n_enough) and n_enough > n
    return f" with n = {count(n)}" + (f"; n = {count(n_enough)} would do" if is_known else "")


def _shown(condition: str) -> str:
    return "the image" if condition == IMAGE else condition


def _shown_wording(condition: str) -> str:
    return "the question's own words" if condition == IMAGE else condition.replace("_", " ")


def _name(one: Judged, end: str) -> str:
    return f"audit_{one.found.benchmark.replace('-', '_')}{end}"


def _notes(margin: float, rule: int) -> list[str]:
    within = f"{100 * margin:g} points"
    drawn = f"Intervals draw whole patients, 2,000 resamples, seed {SEED}."
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
            f"and declined answers count as wrong. Reliance: their difference in percentage points. {drawn}",
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
        f"with the image, Declined blind without one. {drawn}",
        f"{shares}; in brackets, the answers that the same edit changes where there is nothing to lose. All in per "
        "cent; – is undefined.",
        f"Yes: better with the own image than with another by more than {within}, and better than every blind control "
        "even if each declined answer there had been right; p below 0.05 after Holm's correction over models and "
        f"benchmarks. No: the own image is equal to another one, and to the best blind control, within {within} (two "
        "one-sided tests). Reacts: equal to another image, but better than blind, or answers change with the image. "
        "Only as stored: as yes, but a harmless crop takes most of it away. Everything else cannot be told; the number "
        "of rows is that of the test that failed.",
        f"The place: two kinds of edit have to agree on a net effect above {within}. {closing}",
    ]
