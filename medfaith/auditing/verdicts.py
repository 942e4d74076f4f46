"""The verdicts of an audit: the figures of models and benchmarks, judged by one of the rules (docs/audit.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from medfaith.evaluate_metrics.confidence.image_verdict import (
    MOST_UNANSWERED,
    ImageVerdict,
    judge_findings,
    judge_image_use,
)
from medfaith.evaluate_metrics.confidence.place import Name as PlaceName
from medfaith.evaluate_metrics.confidence.place import PlaceVerdict, judge_place
from medfaith.evaluate_metrics.confidence.reliance import Reliance, Verdict, verdicts
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.reporting.registry import BENCHMARKS

from .audited import Audited

_PLACE_NAMES: dict[str, PlaceName] = {  # of rule 1 -> in rule 2's words
    "uses": "depends", "no use": "no dependence", "harmed": "elsewhere", "open": "open", "unanswered": "unanswered",
    "undefined": "undefined",
}  # fmt: skip
_USES = ("uses", "recalls")  # verdicts on the image that allow one on the place


class Judged(NamedTuple):
    """One model on one benchmark, with its verdicts.

    Attributes:
        audit: The figures.
        image: Whether it uses the image.
        place: Whether its answers depend on the place that is asked about.
        subjects: Finding, anatomy or instrument -> whether it uses the image for that; empty under rule 1.
    """

    audit: Audited
    image: ImageVerdict
    place: PlaceVerdict
    subjects: Mapping[str, ImageVerdict]

    @property
    def title(self) -> str:
        """Title of the benchmark."""
        return BENCHMARKS[self.audit.benchmark].title


def judge(audits: Sequence[Audited], margin: float) -> list[Judged]:
    """Judge models and benchmarks.

    The benchmarks of a model are one family of tests. The findings of all models are another.

    Rule 2 compares with another patient's image. Attention to a sentence is as right there, because chests are alike,
    so attention is judged by rule 1.

    Args:
        audits: Figures by the same rule.
        margin: Equivalence margin, a fraction.

    Returns:
        One result for each, in the same order.
    """
    by_rule_1 = [audit for audit in audits if audit.rule == 1 or audit.is_attention]
    by_rule_2 = [audit for audit in audits if not (audit.rule == 1 or audit.is_attention)]
    judged = {(result.audit.model, result.audit.benchmark): result for result in _judge_by_rule_1(by_rule_1)}
    judged |= {(result.audit.model, result.audit.benchmark): result for result in _judge_by_rule_2(by_rule_2, margin)}
    return [judged[audit.model, audit.benchmark] for audit in audits]


def _judge_by_rule_2(audits: Sequence[Audited], margin: float) -> Iterator[Judged]:
    """Yield the verdicts by rule 2, with p-values corrected within families of tests.

    The verdicts on the image, and those on the place, are a family over the benchmarks of each model. The findings are
    one family over all models.
    """
    subjects = [(audit, subject) for audit in audits for subject in audit.by_subject]
    finding_verdicts = zip(subjects, judge_findings([audit.by_subject[name] for audit, name in subjects]), strict=True)
    verdicts_by_audit: dict[int, dict[str, ImageVerdict]] = {id(audit): {} for audit in audits}
    for (audit, name), verdict in finding_verdicts:
        verdicts_by_audit[id(audit)][name] = verdict
    for model in dict.fromkeys(audit.model for audit in audits):
        model_audits = [audit for audit in audits if audit.model == model]
        images = judge_image_use([audit.use for audit in model_audits])
        is_judged = [image.name != "unanswered" for image in images]
        edits = [audit.edits if judged else {} for audit, judged in zip(model_audits, is_judged, strict=True)]
        places = judge_place(edits, [image.name in _USES for image in images], margin)
        for audit, image, place, judged in zip(model_audits, images, places, is_judged, strict=True):
            place_verdict = place if judged or not audit.edits else PlaceVerdict("unanswered", math.nan)
            yield Judged(audit, image, place_verdict, verdicts_by_audit[id(audit)])


def _judge_by_rule_1(audits: Sequence[Audited]) -> list[Judged]:
    """Build the verdicts by rule 1, with p-values corrected over the benchmarks of each model.

    The verdict on the image is "unanswered" where too many answers with the image are unread or declined.
    """
    result = []
    for model in dict.fromkeys(audit.model for audit in audits):
        model_audits = [audit for audit in audits if audit.model == model]
        images, places = (
            _judge_known(model_audits, lambda audit: audit.reliance),
            _judge_known(model_audits, lambda audit: audit.place),
        )
        for audit, image, place in zip(model_audits, images, places, strict=True):
            place_verdict = PlaceVerdict(_PLACE_NAMES[place.name], place.p_holm, place.n_enough)
            image_verdict = ImageVerdict("unanswered", math.nan) if _is_unanswered(audit) else image
            result.append(Judged(audit, image_verdict, place_verdict, {}))
    return result


def _is_unanswered(audit: Audited) -> bool:
    return audit.n_of(UNREAD) + audit.n_of(DECLINED) > MOST_UNANSWERED * len(audit.rows)


def _judge_known(audits: Sequence[Audited], get_reliance: Callable[[Audited], Reliance | None]) -> list[ImageVerdict]:
    """Judge the image or the place (`get_reliance`) by rule 1 for each benchmark of one model.

    The verdict is "undefined" where no control was asked, and "unanswered" where too many answers are missing.
    """
    reliances = {audit.benchmark: gain for audit in audits if (gain := get_reliance(audit)) is not None}
    judged = [audit.benchmark for audit in audits if audit.benchmark in reliances and not _is_unanswered(audit)]
    by_benchmark = dict(zip(judged, verdicts([reliances[benchmark] for benchmark in judged]), strict=True))
    missing = {benchmark: ImageVerdict("unanswered", math.nan) for benchmark in reliances}
    named = {name: _name_by_rule_1(verdict, reliances[name]) for name, verdict in by_benchmark.items()}
    return [(missing | named).get(audit.benchmark, ImageVerdict("undefined", math.nan)) for audit in audits]


def _name_by_rule_1(verdict: Verdict, reliance: Reliance) -> ImageVerdict:
    """Convert a verdict of rule 1; an open one gets the control that failed, and the rows that would settle it.

    An undefined verdict, which one patient gives, becomes open.
    """
    if verdict.name in ("open", "undefined"):
        return ImageVerdict("open", verdict.p_holm, reliance.best, reliance.n_enough)
    return ImageVerdict(verdict.name, verdict.p_holm)
