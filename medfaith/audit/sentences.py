"""The verdicts of an audit in words, with the figures that they rest on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from medfaith.evaluate_metrics.confidence.image_use import ImageUse
from medfaith.evaluate_metrics.confidence.image_verdict import ImageVerdict
from medfaith.evaluate_metrics.confidence.paired import Difference
from medfaith.evaluate_metrics.confidence.place import N_KINDS, PlaceEffect, is_contradictory
from medfaith.evaluate_metrics.confidence.reliance import FEWEST, Reliance, Share
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.report.tables import paired_interval, percent, points, points_interval, share_of
from medfaith.tasks.controls import BLIND

from .run import IMAGE
from .tables import is_by_other_alone, would_do
from .verdicts import Judged
from .wordings import Wordings

_UNANSWERED = "There is no verdict: most answers are unread or declined. medfaith report shows some."
_STRICTER = (
    "The interval lies above the margin, but the test is stricter: it counts one more patient who speaks against it, "
    "and corrects for all benchmarks"
)
_SUBJECTS = {
    "uses": "it uses the image for", "recalls": "it is right on the images as stored only for",
    "no use": "it makes no use of it for", "open": "it cannot be told for",
}  # fmt: skip


def in_words(one: Judged, margin: float, wordings: Wordings | None = None) -> list[str]:
    """Write the figures and the verdicts as sentences.

    Args:
        one: One model on one benchmark.
        margin: Equivalence margin, a fraction.
        wordings: Its scores by wording; None where none was asked.
    """
    found = one.found
    lines = [
        *_unanswered(one, margin),
        _UNANSWERED if one.image.name == "unanswered" else "",
        _share("Mirage", f"right answers that stay right under {found.without}, if it answers there", found.mirage),
        _share("Unrelated image", "answers that stay although another image has another right answer", found.unrelated),
        _share(
            "Causal grounding",
            "right answers that are lost with the place that is asked about, and kept without another place",
            found.grounding,
        )
        + _floor(one),
    ]
    if found.rule == 1:
        verdicts = [*_image_by_rule_1(one, margin), *_place_by_rule_1(one, margin)]
    else:
        verdicts = [*_by_rule_2(one, margin, wordings)]
    return [*filter(None, lines), *verdicts]


def _unanswered(one: Judged, margin: float) -> Iterator[str]:
    found = one.found
    counted = "they count as wrong" if found.rule == 1 else "they are in no score"
    for title, outcome in (("Unread", UNREAD), ("Declined", DECLINED)):
        if n := found.n_of(outcome):
            yield f"{title}: {share_of(n, len(found.rows))} answers with the image; {counted}."
        blind = {name: found.share_of(outcome, name) for name in BLIND if name in found.shown}
        if blind and min(blind.values()) - found.share_of(outcome) > margin:
            told = ", ".join(f"{name} {percent(share)}%" for name, share in blind.items())
            verb = "It declines without an image" if outcome == DECLINED else "It cannot be read without an image"
            virtue = ", as a model should" if outcome == DECLINED else ""
            yield f"{verb}{virtue}: {told} of the answers (with the image {percent(found.share_of(outcome))}%)."


def _share(title: str, what: str, share: Share) -> str:
    if not share.n:
        return ""
    return f"{title}: {share_of(share.n_hits, share.n)} [{percent(share.low)}, {percent(share.high)}] {what}."


def _floor(one: Judged) -> str:
    effect = one.found.edits.get("occluded")
    if not one.found.grounding.n or effect is None or not effect.placebo_flips.n:
        return ""
    flips = effect.placebo_flips
    return f" The same paint changes {share_of(flips.n_hits, flips.n)} answers where nothing is there to be lost."


def _by_rule_2(one: Judged, margin: float, wordings: Wordings | None) -> Iterator[str]:
    use, within = one.found.use, f"{100 * margin:g} points"
    if one.found.is_attention:
        yield from _image_by_rule_1(one, margin)
    elif use.other is not None and use.blind:
        yield from _image_sentences(one, use, within)
    elif one.image.name == "undefined":
        yield "Whether the model uses the image was not asked: rule 2 needs the control other and a blind one."
    for name, fragility in use.fragility.items():
        if fragility.difference.n:
            yield f"Under the harmless change {name} its score changes by {_negated(fragility.difference)}."
    yield from _place_sentences(one, margin, within)
    if one.subjects:
        groups = {name: [s for s, verdict in one.subjects.items() if verdict.name == name] for name in _SUBJECTS}
        parts = [f"{words} {', '.join(groups[name])}" for name, words in _SUBJECTS.items() if groups[name]]
        if parts:
            yield f"By finding: {'; '.join(parts)}."
    if wordings is not None:
        yield from _wording_sentences(wordings)


def _image_sentences(one: Judged, use: ImageUse, within: str) -> Iterator[str]:
    alone = is_by_other_alone(one)
    sentence = {
        "uses": f"The model uses the image: it is better with its own image than with another by more than {within}"
        + ("" if alone else ", and better than under every blind control"),
        "recalls": "The model is right on the images as they are stored only: a harmless change takes most of that "
        "away. It may have memorised them, or a small change breaks its reading",
        "no use": f"The model makes no use of the image: another patient's image does as well, within {within}"
        + ("" if alone else f", and so does {use.best}"),
        "reacts": "The model reacts to images but does not read them: another patient's image does as well, within "
        f"{within}, although without an image, or with another one, its answers change",
        "harmed": f"The image harms the model, by more than {within}",
        "open": "Whether the model uses the image cannot be told",
    }.get(one.image.name)
    if sentence is None:
        return
    yield f"{sentence}."
    if one.image.name == "open":
        yield _why_open(one.image, use)
    compared = "; against ".join(f"{name}: {_interval(of)}" for name, of in _compared(use).items())
    yield f"Its own image against {compared}."
    if alone:
        yield (
            "It leaves so many blind rows unread or declined that the comparison with them cannot be settled; the "
            "comparison with other images alone counts."
        )


def _compared(use: ImageUse) -> dict[str, Difference]:
    """What the own image is compared with -> the difference."""
    compared = {"another patient's": use.other.difference} if use.other is not None else {}
    return compared | ({use.best: use.blind[use.best].comparison.difference} if use.best else {})


def _why_open(verdict: ImageVerdict, use: ImageUse) -> str:
    """The test that failed, its rows, and how many would do."""
    tests = {name: of.comparison for name, of in use.blind.items()} | dict(use.fragility)
    if use.other is not None:
        tests["other"] = use.other
    of, n_enough = tests[verdict.failed].difference, verdict.n_enough
    against = "another patient's" if verdict.failed == "other" else verdict.failed
    rows = f"on the {of.n:,} {'row' if of.n == 1 else 'rows'} that have both"
    if of.n_groups < FEWEST:
        more = f"they are of {of.n_groups} {'patient' if of.n_groups == 1 else 'patients'}, and {FEWEST} are the least"
    elif math.isnan(n_enough):
        more = "more rows would not change that"
    else:
        more = f"{n_enough:,.0f} would do" if n_enough > of.n else "a few more may do"
    if verdict.failed == "other" and of.low > use.margin:
        more += f". {_STRICTER}"
    return f"The test that failed is its own image against {against}, {rows}; {more}."


def _place_sentences(one: Judged, margin: float, within: str) -> Iterator[str]:
    if one.found.is_attention:
        yield from _place_by_rule_1(one, margin)
    effects = one.found.edits
    if not effects or one.place.name == "undefined":
        return
    n = max(effect.effect.n for effect in effects.values())
    reason = would_do(n, one.place.n_enough)
    if len(effects) < N_KINDS:
        reason = ": one kind of edit shows nothing alone"
    elif one.image.name not in ("uses", "recalls"):
        reason = ": nothing shows that it uses the image"
    elif is_contradictory(effects, margin):
        reason = ": the kinds of edit contradict each other"
    elif sum(effect.low > margin for effect in effects.values()) >= N_KINDS:
        reason += f". {_STRICTER}"
    sentence = {
        "depends": f"Its answers depend on the place that is asked about, by more than {within}",
        "no dependence": f"Its answers do not depend on the place that is asked about, within {within}",
        "elsewhere": "Its answers are better without the place that is asked about than without another one",
        "open": f"Whether its answers depend on the place that is asked about cannot be told{reason}",
    }[one.place.name]
    yield f"{sentence} (net of the artefact floor: {'; '.join(_effect(*of) for of in effects.items())})."


def _effect(kind: str, effect: PlaceEffect) -> str:
    floor = f", floor {points(effect.floor.difference)}" if effect.floor else ""
    slope = f", slope {points(effect.slope)}" if len(effect.by_dose) > 1 else ""
    return f"{kind} {points_interval(effect.net, effect.low, effect.high)}{floor}{slope}"


def _wording_sentences(of: Wordings) -> Iterator[str]:
    if not of.spread:
        yield f"Wordings: the score is {percent(of.scores[IMAGE])} in each of {len(of.scores)}."
        return
    yield (
        f"Wordings: worst {percent(of.scores[of.worst])} ({_wording(of.worst)}), best {percent(of.scores[of.best])} "
        f"({_wording(of.best)}), spread {percent(of.spread)} points."
    )
    if of.is_by_wording_only:
        wrong = share_of(of.by_wording.n_hits, of.by_wording.n)
        yield (
            f"It is right by the wording only: {wrong} right answers are wrong under most paraphrases. Answers that it "
            "guesses rightly without evidence do not count."
        )
    elif of.depends:
        yield "Its score depends on the wording: a paraphrase makes it worse by more than the margin."


def _wording(name: str) -> str:
    return "own words" if name == IMAGE else name.replace("_", " ")


def _image_by_rule_1(one: Judged, margin: float) -> Iterator[str]:
    return _sentence_of_rule_1(one.found.reliance, one.image.name, {
        "uses": "The model uses the image: it is better than under {best} by more than the margin",
        "no use": "The model makes no use of the image: its score under {best} is the same, " + _within(margin),
        "harmed": "The image harms the model: it is better under every control without one",
        "open": "Whether the model uses the image cannot be told",
    })  # fmt: skip


def _place_by_rule_1(one: Judged, margin: float) -> Iterator[str]:
    return _sentence_of_rule_1(one.found.place, one.place.name, {
        "depends": "Its answers depend on the place that is asked about",
        "no dependence": "Its answers do not depend on the place that is asked about, " + _within(margin),
        "elsewhere": "Its answers depend on another place: they are better without the one that is asked about",
        "open": "Whether its answers depend on the place that is asked about cannot be told",
    })  # fmt: skip


def _sentence_of_rule_1(found: Reliance | None, name: str, words: Mapping[str, str]) -> Iterator[str]:
    if found is not None and name in words:
        enough = would_do(found.found.n, found.n_enough) if name == "open" else ""
        yield f"{words[name].format(best=found.best)}{enough} ({_interval(found.found)})."


def _within(margin: float) -> str:
    return f"within ±{100 * margin:g} points"


def _interval(of: Difference) -> str:
    return paired_interval(of.difference, of.low, of.high, of.n_differ)


def _negated(of: Difference) -> str:
    return paired_interval(-of.difference, -of.high, -of.low, of.n_differ)
