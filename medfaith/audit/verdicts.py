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
from medfaith.report.tables import TITLES

from .figures import Audited

_PLACE_NAMES: dict[str, PlaceName] = {  # of rule 1 -> in rule 2's words
    "uses": "depends", "no use": "no dependence", "harmed": "elsewhere", "open": "open", "undefined": "undefined",
}  # fmt: skip
_USES = ("uses", "recalls")  # verdicts on the image that allow one on the place


class Judged(NamedTuple):
    """One model on one benchmark, with its verdicts.

    Attributes:
        found: The figures.
        image: Whether it uses the image.
        place: Whether its answers depend on the place that is asked about.
        subjects: Finding, anatomy or instrument -> whether it uses the image for that; empty under rule 1.
    """

    found: Audited
    image: ImageVerdict
    place: PlaceVerdict
    subjects: Mapping[str, ImageVerdict]

    @property
    def title(self) -> str:
        """Title of the benchmark."""
        return TITLES[self.found.benchmark]


def judge(found: Sequence[Audited], margin: float) -> list[Judged]:
    """Judge models and benchmarks.

    The benchmarks of a model are one family of tests. The findings of all models are another.

    Rule 2 compares with another patient's image. Attention to a sentence is as right there, because chests are alike,
    so attention is judged by rule 1.

    Args:
        found: Figures by the same rule.
        margin: Equivalence margin, a fraction.

    Returns:
        One result for each, in the same order.
    """
    by_rule_1 = [one for one in found if one.rule == 1 or one.is_attention]
    by_rule_2 = [one for one in found if not (one.rule == 1 or one.is_attention)]
    judged = {(of.found.model, of.found.benchmark): of for of in _judge_by_rule_1(by_rule_1)}
    judged |= {(of.found.model, of.found.benchmark): of for of in _judge_by_rule_2(by_rule_2, margin)}
    return [judged[one.model, one.benchmark] for one in found]


def _judge_by_rule_2(found: Sequence[Audited], margin: float) -> Iterator[Judged]:
    """Correct images and places over the benchmarks of each model, and findings over all models."""
    subjects = [(one, subject) for one in found for subject in one.by_subject]
    of_subjects = zip(subjects, judge_findings([one.by_subject[name] for one, name in subjects]), strict=True)
    of_each: dict[int, dict[str, ImageVerdict]] = {id(one): {} for one in found}
    for (one, name), verdict in of_subjects:
        of_each[id(one)][name] = verdict
    for model in dict.fromkeys(one.model for one in found):
        own = [one for one in found if one.model == model]
        images = judge_image_use([one.use for one in own])
        edits = [{} if image.name == "unanswered" else one.edits for one, image in zip(own, images, strict=True)]
        places = judge_place(edits, [image.name in _USES for image in images], margin)
        for one, image, place in zip(own, images, places, strict=True):
            yield Judged(one, image, place, of_each[id(one)])


def _judge_by_rule_1(found: Sequence[Audited]) -> list[Judged]:
    """Correct over the benchmarks of each model; no verdict where most answers with the image are unanswered."""
    result = []
    for model in dict.fromkeys(one.model for one in found):
        own = [one for one in found if one.model == model]
        images, places = _judge_known(own, lambda one: one.reliance), _judge_known(own, lambda one: one.place)
        for one, image, place in zip(own, images, places, strict=True):
            image_verdict = ImageVerdict("unanswered", math.nan) if _is_unanswered(one) else image
            place_verdict = PlaceVerdict(_PLACE_NAMES[place.name], place.p_holm, place.n_enough)
            result.append(Judged(one, image_verdict, place_verdict, {}))
    return result


def _is_unanswered(found: Audited) -> bool:
    return found.n_of(UNREAD) + found.n_of(DECLINED) > MOST_UNANSWERED * len(found.rows)


def _judge_known(found: Sequence[Audited], of: Callable[[Audited], Reliance | None]) -> list[ImageVerdict]:
    """Judge images or places in rule 1's words; "undefined" without figures or with too few answers."""
    known = [None if _is_unanswered(one) else of(one) for one in found]
    judged = iter(verdicts([one for one in known if one is not None]))
    return [ImageVerdict("undefined", math.nan) if one is None else _by_rule_1(next(judged), one) for one in known]


def _by_rule_1(verdict: Verdict, of: Reliance) -> ImageVerdict:
    """Add to an open verdict the control that failed and the rows that would settle it."""
    if verdict.name == "open":
        return ImageVerdict(verdict.name, verdict.p_holm, of.best, of.n_enough)
    return ImageVerdict(verdict.name, verdict.p_holm)
