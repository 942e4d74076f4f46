"""Sentences: the verdicts of an audit in words, with their figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from medfaith.evaluate_metrics.confidence.image_use import Comparison, ImageUse
from medfaith.evaluate_metrics.confidence.image_verdict import ImageVerdict
from medfaith.evaluate_metrics.confidence.paired import Difference
from medfaith.evaluate_metrics.confidence.place import N_KINDS, PlaceEffect, is_contradictory
from medfaith.evaluate_metrics.confidence.proportion import FEW
from medfaith.evaluate_metrics.confidence.reliance import FEWEST, Reliance, Share
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.reporting.tables import paired_interval, percent, points, points_interval, share_of
from medfaith.tasks.controls import BLIND

from .run import IMAGE
from .tables import format_enough_rows, is_judged_by_other_alone
from .verdicts import Judged
from .wordings import Wordings

_UNANSWERED = "There is no verdict: most answers are unread or declined. medfaith report shows some."
_STRICTER = "The interval lies above the margin, but the test is stricter: it "
_CORRECTED = "corrects for all benchmarks"
_UNITS = ("patient", "patients"), ("other image", "other images")  # over which an interval is
_SUBJECTS = {
    "uses": "it uses the image for", "recalls": "it is right on the images as stored only for",
    "no use": "it makes no use of it for", "open": "it cannot be told for",
}  # fmt: skip


def write_sentences(judged: Judged, margin: float, wordings: Wordings | None = None) -> list[str]:
    """Write the figures and the verdicts as sentences.

    Args:
        judged: One model on one benchmark.
        margin: Equivalence margin, a fraction.
        wordings: Its scores by wording; None where none was asked.

    Returns:
        The sentences, in the order of the report; figures that were not asked for have none.
    """
    audit = judged.audit
    lines = [
        *_describe_unanswered(judged, margin),
        _UNANSWERED if judged.image.name == "unanswered" else "",
        _format_share(
            "Mirage", f"right answers that stay right under {audit.without}, if it answers there", audit.mirage
        ),
        _format_share(
            "Unrelated image", "answers that stay although another image has another right answer", audit.unrelated
        ),
        _format_share(
            "Causal grounding",
            "right answers that are lost with the place that is asked about, and kept without another place",
            audit.grounding,
        )
        + _format_floor(judged),
    ]
    if audit.rule == 1:
        verdicts = [*_write_image_by_rule_1(judged, margin), *_write_place_by_rule_1(judged, margin)]
    else:
        verdicts = [*_write_by_rule_2(judged, margin, wordings)]
    return [*filter(None, lines), *verdicts]


def _describe_unanswered(judged: Judged, margin: float) -> Iterator[str]:
    audit = judged.audit
    counted = "they count as wrong" if audit.rule == 1 else "they are in no score"
    for title, outcome in (("Unread", UNREAD), ("Declined", DECLINED)):
        if n := audit.n_of(outcome):
            yield f"{title}: {share_of(n, len(audit.rows))} answers with the image; {counted}."
        blind = {name: audit.share_of(outcome, name) for name in BLIND if name in audit.answers}
        if blind and min(blind.values()) - audit.share_of(outcome) > margin:
            shares = ", ".join(f"{name} {percent(share)}%" for name, share in blind.items())
            verb = "It declines without an image" if outcome == DECLINED else "It cannot be read without an image"
            virtue = ", as a model should" if outcome == DECLINED else ""
            yield f"{verb}{virtue}: {shares} of the answers (with the image {percent(audit.share_of(outcome))}%)."


def _format_share(title: str, description: str, share: Share) -> str:
    if not share.n:
        return ""
    return f"{title}: {share_of(share.n_hits, share.n)} [{percent(share.low)}, {percent(share.high)}] {description}."


def _format_floor(judged: Judged) -> str:
    effect = judged.audit.edits.get("occluded")
    if not judged.audit.grounding.n or effect is None or not effect.placebo_flips.n:
        return ""
    flips = effect.placebo_flips
    return f" The same paint changes {share_of(flips.n_hits, flips.n)} answers where nothing is there to be lost."


def _write_by_rule_2(judged: Judged, margin: float, wordings: Wordings | None) -> Iterator[str]:
    image_use, within = judged.audit.use, f"{100 * margin:g} points"
    if judged.audit.is_attention:
        yield from _write_image_by_rule_1(judged, margin)
    elif image_use.other is not None and image_use.blind:
        yield from _write_image_sentences(judged, image_use, within)
    elif judged.image.name == "undefined":
        yield "Whether the model uses the image was not asked: rule 2 needs the control other and a blind one."
    for name, fragility in image_use.fragility.items():
        if fragility.difference.n:
            has_missing = fragility.difference.n > judged.audit.under(name).n
            counted = "; an answer that is missing under one of the two counts as wrong" if has_missing else ""
            change = _format_negated(fragility.difference)
            yield f"Under the harmless change {name} its score changes by {change}{counted}."
    yield from _write_place_sentences(judged, margin, within)
    if judged.subjects:
        groups = {
            name: [subject for subject, verdict in judged.subjects.items() if verdict.name == name]
            for name in _SUBJECTS
        }
        clauses = [f"{phrase} {', '.join(groups[name])}" for name, phrase in _SUBJECTS.items() if groups[name]]
        if clauses:
            yield f"By finding: {'; '.join(clauses)}."
    if wordings is not None:
        yield from _write_wording_sentences(wordings)


def _write_image_sentences(judged: Judged, image_use: ImageUse, within: str) -> Iterator[str]:
    is_alone = is_judged_by_other_alone(judged)
    hidden = [name for name, blind in image_use.blind.items() if blind.n and blind.is_hidden]
    unit_count = _count_units(image_use.other) if image_use.other is not None else ""
    is_few = image_use.other is not None and image_use.other.difference.n_groups < FEW
    sentence = {
        "uses": f"The model uses the image: it is better with its own image than with another by more than {within}"
        + ("" if is_alone else ", and better than under every blind control" + (" that it answers" if hidden else "")),
        "recalls": "The model is right on the images as they are stored only: a harmless change takes most of that "
        "away. It may have memorised them, or a small change breaks its reading",
        "no use": f"The model makes no use of the image: another patient's image does as well, within {within}"
        + ("" if is_alone else f", and so does {image_use.best}")
        + (f"; this holds for these {unit_count} alone" if is_few else ""),
        "reacts": "The model reacts to images but does not read them: another patient's image does as well, within "
        f"{within}, although without an image, or with another one, its answers change",
        "harmed": f"The image harms the model, by more than {within}",
        "open": "Whether the model uses the image cannot be told",
    }.get(judged.image.name)
    if sentence is None:
        return
    yield f"{sentence}."
    if judged.image.name == "open":
        yield _explain_open(judged.image, image_use)
    compared = "; against ".join(
        f"{name}: {_format_interval(comparison.difference)}"
        + (f" (over the {_count_units(comparison)} that the rows show)" if comparison.is_over_donors else "")
        for name, comparison in _get_comparisons(image_use).items()
    )
    yield f"Its own image against {compared}."
    if is_alone:
        yield (
            "It leaves so many blind rows unread or declined that the comparison with them cannot be settled; the "
            "comparison with other images alone counts."
        )
    elif hidden:
        yield (
            f"It leaves so many rows unread or declined under {' and '.join(hidden)} that this comparison cannot be "
            "settled; it does not count."
        )


def _get_comparisons(image_use: ImageUse) -> dict[str, Comparison]:
    """Get the comparisons of the own image with another one, and with the best blind control."""
    compared = {"another patient's": image_use.other} if image_use.other is not None else {}
    return compared | ({image_use.best: image_use.blind[image_use.best].comparison} if image_use.best else {})


def _count_units(comparison: Comparison) -> str:
    """Count the units over which a comparison has its interval: "12 patients" or "1 other image"."""
    one, several = _UNITS[comparison.is_over_donors]
    return f"{comparison.difference.n_groups:,} {one if comparison.difference.n_groups == 1 else several}"


def _explain_open(verdict: ImageVerdict, image_use: ImageUse) -> str:
    """Name the test that failed, its number of rows, and the number that would suffice."""
    tests = {name: difference.comparison for name, difference in image_use.blind.items()} | dict(image_use.fragility)
    if image_use.other is not None:
        tests["other"] = image_use.other
    failed, n_enough = tests[verdict.failed], verdict.n_enough
    difference = failed.difference
    against = "another patient's" if verdict.failed == "other" else verdict.failed
    rows = f"on the {difference.n:,} {'row that has' if difference.n == 1 else 'rows that have'} both"
    if difference.n_groups < FEWEST:
        verb = "show" if failed.is_over_donors else "are of"
        more = f"they {verb} {_count_units(failed)}, and {FEWEST} are the least"
    elif math.isnan(n_enough):
        more = "more rows would not change that"
    elif failed.is_over_donors:
        n_images = math.ceil(difference.n_groups * n_enough / difference.n)
        more = f"they show {_count_units(failed)}, and "
        more += f"{n_images:,} would do" if n_images > difference.n_groups else "a few more may do"
    else:
        more = f"{n_enough:,.0f} would do" if n_enough > difference.n else "a few more may do"
    if verdict.failed == "other" and difference.low > image_use.margin and difference.n_groups >= FEWEST:
        more += f". {_describe_stricter(difference.n_groups, failed.is_over_donors)}"
    return f"The test that failed is its own image against {against}, {rows}; {more}."


def _describe_stricter(n_groups: int, is_over_donors: bool = False) -> str:
    """Say why an interval above the margin does not suffice; intervals decide alone with few groups."""
    one_against = f"counts one more {_UNITS[is_over_donors][0]} that speaks against it, and "
    return _STRICTER + (one_against if n_groups >= FEW else "") + _CORRECTED


def _write_place_sentences(judged: Judged, margin: float, within: str) -> Iterator[str]:
    if judged.audit.is_attention:
        yield from _write_place_by_rule_1(judged, margin)
    effects = judged.audit.edits
    if not effects or judged.place.name == "unanswered":
        return
    n = max(effect.effect.n for effect in effects.values())
    reason = format_enough_rows(n, judged.place.n_enough)
    if not n:
        yield (
            "Whether its answers depend on the place that is asked about cannot be told: no row with what is asked "
            "about in the image has answers to an edit."
        )
        return
    if len(effects) < N_KINDS:
        reason = ": one kind of edit shows nothing alone"
    elif judged.image.name not in ("uses", "recalls"):
        reason = ": nothing shows that it uses the image"
    elif is_contradictory(effects, margin):
        reason = ": the kinds of edit contradict each other"
    elif sum(effect.low > margin for effect in effects.values()) >= N_KINDS:
        reason += f". {_describe_stricter(min(effect.effect.n_groups for effect in effects.values()))}"
    sentence = {
        "depends": f"Its answers depend on the place that is asked about, by more than {within}",
        "no dependence": f"Its answers do not depend on the place that is asked about, within {within}",
        "elsewhere": "Its answers are better without the place that is asked about than without another one",
        "open": f"Whether its answers depend on the place that is asked about cannot be told{reason}",
    }[judged.place.name]
    has_floor = any(effect.floor for effect in effects.values())
    net = "net of the artefact floor" if has_floor else "no artefact floor, for want of rows where it is absent"
    yield f"{sentence} ({net}: {'; '.join(_format_effect(*item) for item in effects.items())})."


def _format_effect(kind: str, effect: PlaceEffect) -> str:
    floor = f", floor {points(effect.floor.difference)}" if effect.floor else ""
    slope = f", slope {points(effect.slope)}" if len(effect.by_dose) > 1 else ""
    return f"{kind} {points_interval(effect.net, effect.low, effect.high)}{floor}{slope}"


def _write_wording_sentences(wordings: Wordings) -> Iterator[str]:
    if not wordings.spread:
        yield f"Wordings: the score is {percent(wordings.scores[IMAGE])} under each of the {len(wordings.scores)}."
        return
    worst, best = (
        f"{percent(wordings.scores[name])} ({_format_wording(name)})" for name in (wordings.worst, wordings.best)
    )
    yield f"Wordings: worst {worst}, best {best}, spread {percent(wordings.spread)} points."
    if wordings.is_by_wording_only:
        wrong = share_of(wordings.by_wording.n_hits, wordings.by_wording.n)
        yield (
            f"It is right by the wording only: {wrong} right answers are wrong under most paraphrases. Answers that it "
            "guesses rightly without evidence do not count."
        )
    elif wordings.depends:
        yield "Its score depends on the wording: a paraphrase makes it worse by more than the margin."


def _format_wording(name: str) -> str:
    return "own words" if name == IMAGE else name.replace("_", " ")


def _write_image_by_rule_1(judged: Judged, margin: float) -> Iterator[str]:
    return _write_sentence_of_rule_1(judged.audit.reliance, judged.image.name, {
        "uses": "The model uses the image: it is better than under {best} by more than the margin",
        "no use": "The model makes no use of the image: its score under {best} is the same, " + _format_margin(margin),
        "harmed": "The image harms the model: it is better under every control without one",
        "open": "Whether the model uses the image cannot be told",
    })  # fmt: skip


def _write_place_by_rule_1(judged: Judged, margin: float) -> Iterator[str]:
    return _write_sentence_of_rule_1(judged.audit.place, judged.place.name, {
        "depends": "Its answers depend on the place that is asked about",
        "no dependence": "Its answers do not depend on the place that is asked about, " + _format_margin(margin),
        "elsewhere": "Its answers depend on another place: they are better without the one that is asked about",
        "open": "Whether its answers depend on the place that is asked about cannot be told",
    })  # fmt: skip


def _write_sentence_of_rule_1(reliance: Reliance | None, name: str, sentences: Mapping[str, str]) -> Iterator[str]:
    if reliance is not None and name in sentences:
        enough = format_enough_rows(reliance.found.n, reliance.n_enough) if name == "open" else ""
        yield f"{sentences[name].format(best=reliance.best)}{enough} ({_format_interval(reliance.found)})."


def _format_margin(margin: float) -> str:
    return f"within ±{100 * margin:g} points"


def _format_interval(difference: Difference) -> str:
    return paired_interval(difference.difference, difference.low, difference.high, difference.n_differ)


def _format_negated(difference: Difference) -> str:
    return paired_interval(-difference.difference, -difference.high, -difference.low, difference.n_differ)
