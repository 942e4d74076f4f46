"""What an audit prints and saves: a table of all, one a benchmark, and the verdicts in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from medfaith.evaluate_metrics.confidence.reliance import Reliance, Share, Verdict, verdicts
from medfaith.evaluate_metrics.reading.outcome import DECLINED, UNREAD
from medfaith.report.tables import (
    OUTCOMES,
    SEED,
    TITLES,
    Column,
    Table,
    count,
    paired_interval,
    percent,
    share_of,
    text,
)
from medfaith.tasks.controls import CONTROLS

from .figures import Audited
from .run import IMAGE

MOST = 0.5  # the share of unread and declined answers with the image above which there is no verdict
_OF_IMAGE = {"uses": "yes", "no use": "no", "harmed": "to its harm", "open": "cannot be told"}
_OF_PLACE = _OF_IMAGE | {"harmed": "on another place"}


class Judged(NamedTuple):
    """One model on one benchmark, with its verdicts: on the image, and on the place that is asked about."""

    found: Audited
    image: Verdict
    place: Verdict

    @property
    def title(self) -> str:
        return TITLES[self.found.benchmark]


def judge(found: Sequence[Audited]) -> list[Judged]:
    """The verdicts, corrected over the benchmarks of a model."""
    result = []
    for model in dict.fromkeys(one.model for one in found):
        own = [one for one in found if one.model == model]
        image, place = (
            [None if _unanswered(one) else getattr(one, name) for one in own] for name in ("reliance", "place")
        )
        both = zip(own, _verdicts(image), _verdicts(place), strict=True)
        result += [Judged(*three) for three in both]
    return result


def _unanswered(found: Audited) -> bool:
    """Whether there are too few answers for a verdict."""
    return found.n_of(UNREAD) + found.n_of(DECLINED) > MOST * len(found.rows)


def _verdicts(found: Sequence[Reliance | None]) -> list[Verdict]:
    """Of what could not be asked: undefined."""
    known = iter(verdicts([one for one in found if one is not None]))
    return [Verdict("undefined", float("nan")) if one is None else next(known) for one in found]


def overview(judged: Sequence[Judged], margin: float) -> Table:
    """One row a model and benchmark."""
    several = len({one.found.model for one in judged}) > 1
    columns = [
        Column("Model" if several else None, ("model",)), Column("Benchmark", ("benchmark",)),
        Column("Rows", ("n",), count), Column("Image", ("score",), percent), Column("Blind", ("blind",), percent),
        Column("Reliance [95%]", ("reliance", "low", "high", "n_differ"), paired_interval),
        *(Column(title, (name,), percent) for title, name in (
            ("Mirage", "mirage"), ("Unrelated", "unrelated"), ("Causal", "grounding"))),
        Column("Uses the image?", ("uses_image", "n", "n_enough"), partial(_answer, _OF_IMAGE)),
        Column("Depends on the place?", ("depends_on_place", "n_place", "n_enough_place"), partial(_answer, _OF_PLACE)),
        Column(None, ("p_holm",)), Column(None, ("p_holm_place",)), Column(None, ("best_blind",)),
    ]  # fmt: skip
    return Table("audit", "Does the model use the image?", columns, [_row(one) for one in judged], _notes(margin))


def _row(one: Judged) -> list[Any]:
    of_image, of_place = _of(one.found.reliance), _of(one.found.place)
    shares = [share.value for share in (one.found.mirage, one.found.unrelated, one.found.grounding)]
    *scores, n_enough = of_image
    return [
        one.found.model, one.title, *scores, *shares,
        one.image.name, of_image[0], n_enough, one.place.name, of_place[0], of_place[-1],
        one.image.p_holm, one.place.p_holm, one.found.reliance.best if one.found.reliance else None,
    ]  # fmt: skip


def _of(found: Reliance | None) -> list[Any]:
    """Rows, score, score of the control, difference, low, high, groups that differ, rows that would do."""
    if found is None:
        return [None] * 8
    one = found.found
    return [one.n, one.after, one.before, one.difference, one.low, one.high, one.n_differ, found.n_enough]


def _answer(words: Mapping[str, str], name: str, n: Any, n_enough: Any) -> str:
    return text(words.get(name)) + (_would_do(n, n_enough) if name == "open" else "")


def _would_do(n: Any, n_enough: Any) -> str:
    """How many rows there are; and how many would do, where that is known to be more."""
    more = f"; n = {count(n_enough)} would do" if n_enough and n_enough > n else ""
    return f" with n = {count(n)}{more}"


def details(one: Judged) -> Table:
    """The scores of a benchmark under each control, of all its tasks together and then of each."""
    found, tasks = one.found, list(dict.fromkeys(task for task, _ in one.found.rows))
    controls = [control for control in (IMAGE, *CONTROLS) if control in found.shown]
    rows = []
    for task in [None, *tasks] if len(tasks) > 1 else [None]:
        for control in controls:
            of = found.under(control, task)
            difference = [None] * 4 if control == IMAGE else [of.difference, of.low, of.high, of.n_differ]
            scores = [of.n, of.n_nan, of.after, of.before, *difference]
            counts = [found.n_of(outcome, control, task) for outcome in (UNREAD, DECLINED)]
            n = found.n_ranked(control, task)
            shares = [of_outcome / n if n else None for of_outcome in counts]
            rows.append([found.model, task or "all", control, *scores, *shares, *counts])
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
    name = f"audit_{found.benchmark.replace('-', '_')}"
    return Table(name, title, columns, rows, [], n_printed=len(controls))


def _shown(control: str) -> str:
    return "the image" if control == IMAGE else control


def in_words(one: Judged, margin: float) -> list[str]:
    """The shares with their counts, and the verdicts."""
    found = one.found
    lines = [
        *(
            f"{title}: {share_of(n, len(found.rows))} answers with the image; they count as wrong."
            for title, outcome in (("Unread", UNREAD), ("Declined", DECLINED))
            if (n := found.n_of(outcome))
        ),
        "There is no verdict: most answers are unread or declined. medfaith report shows some."
        if _unanswered(found)
        else "",
        _said("Mirage", f"right answers that stay right under {found.without}", found.mirage),
        _said("Unrelated image", "answers that stay although another image has another right answer", found.unrelated),
        _said(
            "Causal grounding",
            "right answers that are lost with the place that is asked about, and kept without another place",
            found.grounding,
        ),
    ]
    return [*filter(None, lines), *_sentences(one, margin)]


def _said(title: str, what: str, share: Share) -> str:
    if not share.n:
        return ""
    return f"{title}: {share_of(share.n_hits, share.n)} [{percent(share.low)}, {percent(share.high)}] {what}."


def _sentences(one: Judged, margin: float) -> Iterator[str]:
    """The verdicts in words."""
    within = f"within ±{100 * margin:g} points"
    for found, verdict, words in (
        (one.found.reliance, one.image, {
            "uses": "The model uses the image: it is better than under {best} by more than the margin",
            "no use": f"The model makes no use of the image: its score under {{best}} is the same, {within}",
            "harmed": "The image harms the model: it is better under every control without one",
            "open": "Whether the model uses the image cannot be told",
        }),
        (one.found.place, one.place, {
            "uses": "Its answers depend on the place that is asked about",
            "no use": f"Its answers do not depend on the place that is asked about, {within}",
            "harmed": "Its answers depend on another place: they are better without the one that is asked about",
            "open": "Whether its answers depend on the place that is asked about cannot be told",
        }),
    ):  # fmt: skip
        if found is not None and verdict.name in words:
            of = found.found
            enough = _would_do(of.n, found.n_enough) if verdict.name == "open" else ""
            difference = paired_interval(of.difference, of.low, of.high, of.n_differ)
            yield f"{words[verdict.name].format(best=found.best)}{enough} ({difference})."


def _notes(margin: float) -> list[str]:
    points = f"{100 * margin:g} points"
    return [
        "Image: the score with the image. Blind: the best score without one (none, blank or noise). Reliance: their "
        f"difference in percentage points; its interval draws whole patients, 2,000 resamples, seed {SEED}.",
        "Mirage: of the right answers, those that stay right without an image. Unrelated: of the answers, those that "
        "stay although another image has another right answer. Causal: of the right answers, those that are lost with "
        "the place that is asked about and kept without another place. All in per cent; – is undefined.",
        f"Yes: better than every blind control by more than {points}, p below 0.05 after Holm's correction over the "
        f"benchmarks. No: two one-sided tests find the difference to be within {points}, or not one of enough rows "
        "differs. Everything else cannot be told; the number of rows that would do finds a difference as large as the "
        "margin 4 times in 5.",
        f"Where more than {100 * MOST:g}% of the answers with the image are unread or declined, there is no verdict. "
        "A graded score counts as right from one half on. Attention (AUROC) is neither right nor wrong.",
    ]
