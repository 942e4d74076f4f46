"""How often the verdicts of an audit are right: simulated models of known truth, judged by rule 1 and by rule 2.

    python benchmarks/audit_zoo.py [--repetitions N] [--models NAME ...] [--sizes N ...] [--only {verdicts,checks}]

A model is a function of what a picture shows (`Picture`) and of the row. It answers under every condition of an audit:
its own image, another patient's, blind ones, harmless changes, edits of the place that is asked about and of another
one. No lm-eval, no images, no text. Each model has the verdicts that would be wrong for it (`WRONG`).

The first 200 repetitions judge by all rules. Where more than 1% of the verdicts of rule 2 are wrong, the rest of the
repetitions follow: a model that is wrong in 6.5% of audits passes the first step less than once in 1,000 times.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from medfaith.evaluate_metrics.confidence.image_use import Condition, ImageUse, measure_image_use
from medfaith.evaluate_metrics.confidence.image_verdict import MOST_UNANSWERED, judge_findings, judge_image_use
from medfaith.evaluate_metrics.confidence.paired import wilson
from medfaith.evaluate_metrics.confidence.place import Edited, PlaceEffect, judge_place, measure_place_effect
from medfaith.evaluate_metrics.confidence.reliance import reliance, verdicts
from medfaith.evaluate_metrics.confidence.score import permutation_test
from medfaith.loaders.progress import Progress

MARGIN = 0.05
SIZES = (100, 500, 2000)
FIRST = 200  # repetitions after which a model that is hardly ever wrong is done
BLIND = ("none", "blank", "noise")
HARMLESS = ("cropped", "recoded")
EDITS = ("occluded", "transplanted", "blurred")
DOSES = (25, 50, 75, 100)
N_FINDINGS = 8
N_WORDINGS = 3
WITHIN = 0.5  # share of what makes a row hard that the rows of a patient have in common
MISSING = -1  # an answer that is declined or unread
MOST_WRONG = 0.065  # upper bound of the share of wrong verdicts
IMAGE_NAMES = ("uses", "recalls", "no use", "reacts", "harmed", "open", "unanswered", "undefined")
PLACE_NAMES = ("depends", "no dependence", "elsewhere", "open", "undefined")


class Rows(NamedTuple):
    """Yes/no questions about a finding, each of shape (n,).

    Attributes:
        patient: Patients have 1 to 4 rows each, of one image each.
        gold: 1 where the finding is present, 0 where it is absent.
        finding: Which of 8 it is.
        view: View of the image, 0 or 1; the gold answer is more often "yes" in view 1.
        donor: Row whose image serves under `other`: another patient's, of the same finding and view and of the other
            gold answer if there is one.
        prior: Answer to the question by itself, right in about 70% of rows; the same in all rows of a finding.
        trait: Uniform numbers of each row, shape (4, n), for models that treat some rows otherwise.
        patient_trait: The same for each patient.
        image_trait: The same for each image; `other` shows that of the donor.
        sign: A sign elsewhere in the image, which tells the gold answer in 85% of images.
        extent: Part of the region that holds the finding: an edit of a larger dose removes it.
        is_covered: Whether the place elsewhere that is edited holds the sign.
    """

    patient: np.ndarray
    gold: np.ndarray
    finding: np.ndarray
    view: np.ndarray
    donor: np.ndarray
    prior: np.ndarray
    trait: np.ndarray
    patient_trait: np.ndarray
    image_trait: np.ndarray
    sign: np.ndarray
    extent: np.ndarray
    is_covered: np.ndarray


class Picture(NamedTuple):
    """What a model is shown in each row.

    Attributes:
        condition: Its name: "own", "other", a blind or harmless one, or a kind of edit.
        image: Shape (n,), row whose image it is; `MISSING` where nothing can be seen.
        finding: Shape (n,), 1 where the place shows the finding, else 0.
        sign: Shape (n,), the same of the sign elsewhere.
        trace: Where an edit leaves traces: "at" the place, "elsewhere" or "".
        rng: For answers that are drawn.
    """

    condition: str
    image: np.ndarray
    finding: np.ndarray
    sign: np.ndarray
    trace: str
    rng: np.random.Generator

    @property
    def is_blind(self) -> bool:
        return self.condition in BLIND


Model = Callable[[Rows, Picture], np.ndarray]  # answers 1, 0 or `MISSING`, shape (n,) or (wordings, n); or scores


class Audit(NamedTuple):
    """The answers of one model, in the shape that the rules take."""

    rows: Rows
    own: Condition
    other: Condition
    blind: Mapping[str, Condition]
    harmless: Mapping[str, Condition]
    edits: Mapping[str, Mapping[int, Edited]]

    def measure(self, is_used: np.ndarray | None = None, seed: int = 42) -> ImageUse:
        """Run the tests of rule 2, on all rows or on some."""
        used = np.ones(len(self.rows.gold), dtype=bool) if is_used is None else is_used
        own, other = _select(self.own, used), _select(self.other, used)
        blind, harmless = (
            {name: _select(of, used) for name, of in some.items()} for some in (self.blind, self.harmless)
        )
        return measure_image_use(
            own, other, blind, harmless, margin=MARGIN, groups=self.rows.patient[used], seed=seed
        )  # fmt: skip

    def measure_place(self, seed: int = 42) -> dict[str, PlaceEffect]:
        """Measure the effect of each kind of edit."""
        how = {"margin": MARGIN, "groups": self.rows.patient, "seed": seed}
        return {kind: measure_place_effect(doses, self.rows.gold == 1, **how) for kind, doses in self.edits.items()}


def draw_rows(
    rng: np.random.Generator, n: int, *, base: float = 0.7, n_donors: int | None = None, n_findings: int = N_FINDINGS
) -> Rows:
    """Draw the rows of a benchmark.

    Args:
        rng: Generator.
        n: Rows.
        base: Share of rows in which the answer to the question alone is right.
        n_donors: Images that serve as donors; by default any that fits.
        n_findings: Kinds of findings.
    """
    patient = np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]
    n_patients = int(patient.max()) + 1
    finding = rng.integers(n_findings, size=n)
    prior = (finding % 2).astype(int)
    view = rng.integers(2, size=n_patients)[patient]
    is_right = _uniform(rng, patient) < base
    gold = np.where(is_right, prior, 1 - prior)
    is_marked = rng.random(n) < 0.2
    gold = np.where(is_marked, view, gold)  # the view tells something about the gold answer
    trait, image_trait = rng.random((4, n)), rng.random((2, n))
    sign = np.where(rng.random(n) < 0.85, gold, 1 - gold)
    donor = _choose_donors(rng, patient, gold, finding, view, n_donors)
    return Rows(
        patient, gold, finding, view, donor, prior, trait, rng.random((2, n_patients))[:, patient], image_trait, sign,
        rng.random(n), rng.random(n) < 0.5,
    )  # fmt: skip


def _uniform(rng: np.random.Generator, patient: np.ndarray) -> np.ndarray:
    """Uniform numbers that go together within a patient."""
    from scipy.special import ndtr

    of_patient = rng.normal(size=int(patient.max()) + 1)[patient]
    return ndtr(math.sqrt(WITHIN) * of_patient + math.sqrt(1 - WITHIN) * rng.normal(size=len(patient)))


def _choose_donors(
    rng: np.random.Generator,
    patient: np.ndarray,
    gold: np.ndarray,
    finding: np.ndarray,
    view: np.ndarray,
    n_donors: int | None,
) -> np.ndarray:
    """Choose a row of another patient, of the same finding and view, of the other gold answer; `MISSING` if none."""
    n = len(gold)
    is_donor = np.ones(n, dtype=bool) if n_donors is None else np.isin(np.arange(n), rng.permutation(n)[:n_donors])
    donor = np.full(n, MISSING)
    for stratum in range(4 * N_FINDINGS):
        of_gold, of_view, of_finding = stratum & 1, stratum >> 1 & 1, stratum >> 2
        is_near = (view == of_view) & (finding == of_finding if n_donors is None else True)
        pool = np.flatnonzero(is_near & is_donor & (gold != of_gold))
        rows = np.flatnonzero((gold == of_gold) & (view == of_view) & (finding == of_finding))
        if len(pool) and len(rows):
            donor[rows] = pool[rng.integers(len(pool), size=len(rows))]
    return np.where(patient[donor] == patient, MISSING, donor)


def answer_audit(model: Model, rows: Rows, rng: np.random.Generator, has_place: bool = True) -> Audit:
    """Let a model answer all rows under all conditions."""
    n = len(rows.gold)
    own_image, everywhere = np.arange(n), np.ones(n, dtype=bool)

    def show(condition: str, image: np.ndarray, finding: np.ndarray, sign: np.ndarray, trace: str = "") -> np.ndarray:
        return model(rows, Picture(condition, image, finding, sign, trace, rng))

    def condition(answers: np.ndarray, is_asked: np.ndarray = everywhere) -> Condition:
        changed = np.where(_is_missing(answers) | _is_missing(own), np.nan, _first(answers) != _first(own))
        scores = np.where(is_asked, _score(answers, rows.gold), np.nan)
        return Condition(scores, is_asked, np.where(is_asked, changed, np.nan))

    own = show("own", own_image, rows.gold, rows.sign)
    nothing, absent = np.full(n, MISSING), np.zeros(n, dtype=int)
    has_donor = rows.donor != MISSING
    of_donor = show("other", rows.donor, rows.gold[rows.donor], rows.sign[rows.donor])
    edits: dict[str, dict[int, Edited]] = {}
    for kind in EDITS if has_place else ():
        edits[kind] = {}
        for dose in DOSES:
            is_removed = rows.extent <= dose / 100
            at = show(kind, own_image, np.where(is_removed, 0, rows.gold), rows.sign, "at")
            shown_sign = np.where(is_removed & rows.is_covered, 0, rows.sign)
            elsewhere = show(kind, own_image, rows.gold, shown_sign, "elsewhere")
            flips = np.where(_is_missing(at) | _is_missing(elsewhere), np.nan, _first(at) != _first(elsewhere))
            edits[kind][dose] = Edited(_score(at, rows.gold), _score(elsewhere, rows.gold), flips)
    return Audit(
        rows,
        condition(own),
        condition(of_donor, has_donor),
        {name: condition(show(name, nothing, absent, absent)) for name in BLIND},
        {name: condition(show(name, own_image, rows.gold, rows.sign)) for name in HARMLESS},
        edits,
    )


def _first(answers: np.ndarray) -> np.ndarray:
    """The answers to the first wording."""
    return answers if answers.ndim == 1 else answers[0]


def _is_missing(answers: np.ndarray) -> np.ndarray:
    first = _first(answers)
    return np.isnan(first) if first.dtype.kind == "f" else first == MISSING


def _score(answers: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Scores of answers, the mean over wordings; scores stay as they are."""
    if answers.dtype.kind == "f":
        return answers
    scores = np.where(answers == MISSING, np.nan, answers == gold)
    return scores if scores.ndim == 1 else scores.mean(axis=0)


def _select(condition: Condition, used: np.ndarray) -> Condition:
    return Condition(*(None if values is None else values[used] for values in condition))  # pyright: ignore


# The models. `trait[0]` decides which rows a model reads, `trait[1]` which it declines, the others guesses.


def guess(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the question alone."""
    return rows.prior


def say_yes(rows: Rows, picture: Picture) -> np.ndarray:
    return np.ones_like(rows.gold)


def know(rows: Rows, picture: Picture) -> np.ndarray:
    """The oracle: it knows the right answer without looking."""
    return rows.gold


def read(rows: Rows, picture: Picture, p: float = 1.0, by_patient: bool = False) -> np.ndarray:
    """Read the image in a share p of rows (or patients), and guess in the others and where there is none."""
    trait = rows.patient_trait[0] if by_patient else rows.trait[0]
    return np.where((trait < p) & (picture.image != MISSING), picture.finding, rows.prior)


def decline_blind(rows: Rows, picture: Picture, share: float = 1.0, model: Model = guess) -> np.ndarray:
    """Decline a share of rows that show nothing."""
    return np.where(picture.is_blind & (rows.trait[1] < share), MISSING, model(rows, picture))


def decline(rows: Rows, picture: Picture, share: float, model: Model) -> np.ndarray:
    """Decline a share of rows whatever they show."""
    return np.where(rows.trait[1] < share, MISSING, model(rows, picture))


def shift_prior(rows: Rows, picture: Picture) -> np.ndarray:
    """Guess well beside any image, and at random without one."""
    return (rows.trait[2] < 0.5).astype(int) if picture.is_blind else rows.prior


def oppose_blind(rows: Rows, picture: Picture) -> np.ndarray:
    """Say the opposite of the guess where there is no image."""
    return 1 - rows.prior if picture.is_blind else rows.prior


def detect_paint(rows: Rows, picture: Picture, kinds: Sequence[str], traces: Sequence[str], model: Model) -> np.ndarray:
    """Deny where an edit left traces; else answer as another model."""
    is_painted = picture.condition in kinds and picture.trace in traces
    return np.zeros_like(rows.gold) if is_painted else model(rows, picture)


def recall(rows: Rows, picture: Picture, share: float = 1.0) -> np.ndarray:
    """Recognise the image and recall the gold answer for it; guess where it does not know the very image."""
    is_original = picture.condition in ("own", "other") and not picture.trace
    is_known = is_original & (picture.image != MISSING) & (rows.image_trait[1][picture.image] < share)
    return np.where(is_known, rows.gold[picture.image], rows.prior)


def read_findings(rows: Rows, picture: Picture, n_findings: int = 3) -> np.ndarray:
    return np.where(rows.finding < n_findings, read(rows, picture), rows.prior)


def read_marker(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the marker of the view."""
    return rows.prior if picture.is_blind else rows.view


def read_sign(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the sign elsewhere."""
    return np.where(picture.image != MISSING, picture.sign, rows.prior)


def look_elsewhere(rows: Rows, picture: Picture) -> np.ndarray:
    """Know the right answer while the place elsewhere is untouched, as the reference model does."""
    is_touched = picture.is_blind or picture.trace == "elsewhere"
    return np.where(picture.image == MISSING, rows.prior, rows.prior if is_touched else rows.gold[picture.image])


def draw_answers(rows: Rows, picture: Picture, share_yes: float) -> np.ndarray:
    return (picture.rng.random(len(rows.gold)) < share_yes).astype(int)


def read_noisily(rows: Rows, picture: Picture, own: float, other: float, blind: float, anew: float) -> np.ndarray:
    """Answer right with these chances, drawn anew for each condition in a share of patients."""
    chance = blind if picture.is_blind else other if picture.condition == "other" else own
    drawn = _uniform(picture.rng, rows.patient)
    easy = np.where(rows.patient_trait[1] < anew, drawn, rows.patient_trait[0])
    return np.where(easy < chance, rows.gold, 1 - rows.gold)


def take_position(rows: Rows, picture: Picture, share: float = 1.0) -> np.ndarray:
    """Take the first option, whose order is drawn anew for each wording, in a share of rows; read the others."""
    first = np.stack([(rows.trait[2] * 2**k % 1 < 0.5).astype(int) for k in range(N_WORDINGS)])
    return np.where(rows.trait[0] < share, first, read(rows, picture))


def take_wording(rows: Rows, picture: Picture) -> np.ndarray:
    """Read under the first wording, guess under the second, and say no under the third."""
    return np.stack([read(rows, picture), rows.prior, np.zeros_like(rows.gold)])


def break_format(rows: Rows, picture: Picture, share: float) -> np.ndarray:
    return np.where(rows.trait[1] < share, MISSING, rows.prior)


def read_wrong_side(rows: Rows, picture: Picture) -> np.ndarray:
    """Read the other side, where the finding lies as often as not."""
    return np.where(picture.image != MISSING, (rows.image_trait[0][picture.image] < 0.5).astype(int), rows.prior)


def follow_brightness(rows: Rows, picture: Picture) -> np.ndarray:
    """Say yes where the image is bright, which tells nothing of the answer."""
    return read_wrong_side(rows, picture)


def lose_rarely(rows: Rows, picture: Picture) -> np.ndarray:
    """Scores: the own image adds exactly the margin: a little more for 97 patients of 100, a great loss for others."""
    is_lost = rows.patient_trait[0] < 0.03
    seen = np.where(is_lost, 0.0, 0.9 + (MARGIN + 0.9 * 0.03) / 0.97)
    return np.full(len(rows.gold), 0.9) if picture.condition == "other" or picture.is_blind else seen


def grade(rows: Rows, picture: Picture, own: float, other: float, blind: float) -> np.ndarray:
    """Scores between 0 and 1, as F1 gives, with these medians."""
    from scipy.special import ndtr, ndtri

    median = blind if picture.is_blind else other if picture.condition == "other" else own
    hardness = ndtri(np.clip(rows.patient_trait[0], 1e-9, 1 - 1e-9))
    return ndtr(ndtri(median) + 0.5 * hardness + 0.5 * picture.rng.normal(size=len(rows.gold)))


def mislead(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer as well without an image, but follow another patient's one in 3 of 10 rows."""
    is_misled = (picture.condition == "other") & (rows.trait[0] < 0.3)
    return np.where(is_misled, 1 - rows.gold, rows.prior)


class Known(NamedTuple):
    """A model with its truth.

    Attributes:
        model: What it answers.
        wrong: Verdicts on the image that are wrong for it.
        wrong_place: Verdicts on the place that are wrong for it.
        rows: How its rows are drawn, where that is not the default.
    """

    model: Model
    wrong: frozenset[str]
    wrong_place: frozenset[str] = frozenset({"depends"})
    rows: Mapping[str, float | int] = {}


USES, NO_USE, NEITHER = frozenset({"uses"}), frozenset({"no use"}), frozenset({"uses", "no use"})
DEPENDS, INDEPENDENT = frozenset({"depends"}), frozenset({"no dependence"})
PAINT = ("occluded", "blurred")
ANYWHERE = ("at", "elsewhere")
FEW_DONORS = {"n_donors": 10}

ZOO: dict[str, Known] = {
    "looks": Known(read, NO_USE, INDEPENDENT),
    "mirage": Known(partial(read, p=0.5), NO_USE, INDEPENDENT),
    "looks_elsewhere": Known(look_elsewhere, NO_USE),
    "question_prior": Known(guess, USES),
    "always_yes": Known(say_yes, USES),
    "oracle": Known(know, USES),
    "declines 98% of blind rows": Known(partial(decline_blind, share=0.98), USES),
    "declines 40% of blind rows": Known(partial(decline_blind, share=0.40), USES),
    "declines 25% of blind rows": Known(partial(decline_blind, share=0.25), USES),
    "declines 4% of blind rows": Known(partial(decline_blind, share=0.04), USES),
    "reads, declines blind rows": Known(partial(decline_blind, model=partial(read, p=0.8)), NO_USE, INDEPENDENT),
    "shifts its prior when blank": Known(shift_prior, USES),
    "says the opposite when blank": Known(oppose_blind, USES),
    "detects paint": Known(partial(detect_paint, kinds=EDITS, traces=ANYWHERE, model=guess), USES),
    "detects paint at the place": Known(partial(detect_paint, kinds=EDITS, traces=("at",), model=guess), USES),
    "detects paint, no tissue": Known(partial(detect_paint, kinds=PAINT, traces=("at",), model=guess), USES),
    "reads a sign, denies at paint": Known(
        partial(detect_paint, kinds=PAINT, traces=("at",), model=read_sign), NO_USE, DEPENDS
    ),
    # Beyond the rule: it tells every kind of edit, so that nothing shows that it reads elsewhere.
    "reads a sign, denies at every edit": Known(
        partial(detect_paint, kinds=EDITS, traces=("at",), model=read_sign), NO_USE, frozenset()
    ),
    "memorised": Known(recall, NEITHER),
    "memorised 60%": Known(partial(recall, share=0.6), NEITHER),
    "memorised 30%": Known(partial(recall, share=0.3), NEITHER),
    "memorised, declines blind rows": Known(partial(decline_blind, model=recall), NEITHER),
    "reads 20%": Known(partial(read, p=0.2), NO_USE, INDEPENDENT),
    "reads 3 of 8 findings": Known(read_findings, NO_USE, INDEPENDENT),
    "reads the marker of the view": Known(read_marker, USES),
    "reads a sign elsewhere": Known(read_sign, NO_USE),
    "random": Known(partial(draw_answers, share_yes=0.5), USES),
    "random, 70% yes": Known(partial(draw_answers, share_yes=0.7), USES),
    "refuses 45%, reads the rest": Known(partial(decline, share=0.45, model=read), NO_USE, INDEPENDENT),
    "refuses 60%, reads the rest": Known(partial(decline, share=0.6, model=read), NO_USE, INDEPENDENT),
    "takes the first option": Known(take_position, USES),
    "takes the first option in 70%": Known(partial(take_position, share=0.7), NO_USE, INDEPENDENT),
    "reads one wording of three": Known(take_wording, NO_USE, INDEPENDENT),
    "breaks the format": Known(partial(break_format, share=0.9), NEITHER),
    "breaks the format when blank": Known(decline_blind, USES),
    "reads the wrong side": Known(read_wrong_side, NEITHER),
    "follows brightness, few donors": Known(follow_brightness, NEITHER, rows=FEW_DONORS),
    "reads, few donors": Known(partial(read, p=0.5), NO_USE, INDEPENDENT, FEW_DONORS),
    "misled by others only": Known(mislead, NEITHER),
    "adds the margin": Known(partial(read, p=MARGIN), NEITHER, DEPENDS | INDEPENDENT),
    "adds the margin, by patient": Known(
        partial(read, p=MARGIN, by_patient=True), NEITHER, DEPENDS | INDEPENDENT
    ),
    "adds the margin, noisily": Known(partial(read_noisily, own=0.6, other=0.55, blind=0.4, anew=0.5), NEITHER),
    "adds nothing to blind, noisily": Known(partial(read_noisily, own=0.6, other=0.4, blind=0.6, anew=0.5), NEITHER),
    "adds the margin, rare loss": Known(lose_rarely, NEITHER),
    "graded, reads": Known(partial(grade, own=0.6, other=0.3, blind=0.3), NO_USE),
    "graded, guesses": Known(partial(grade, own=0.4, other=0.4, blind=0.4), USES),
}  # fmt: skip


class Verdicts(NamedTuple):
    """The verdicts of one audit."""

    rule_1: str
    rule_2: str
    place: str


def judge_rule_1(audit: Audit, seed: int) -> str:
    """Rule 1: unanswered is wrong; no verdict where most answers with the image are missing."""
    missing = np.isnan(audit.own.scores)
    if missing.mean() > MOST_UNANSWERED:
        return "unanswered"
    blind = {name: np.nan_to_num(condition.scores) for name, condition in audit.blind.items()}
    image = np.nan_to_num(audit.own.scores)
    return verdicts([reliance(image, blind, margin=MARGIN, groups=audit.rows.patient, seed=seed)])[0].name


def judge_once(name: str, n: int, repetition: int, parts: Sequence[str] = ("rule_1", "rule_2", "place")) -> Verdicts:
    """Simulate one audit of one model, and judge it."""
    known = ZOO[name]
    rng = np.random.default_rng([repetition, n, sorted(ZOO).index(name)])
    rows = draw_rows(rng, n, **known.rows)  # pyright: ignore
    audit = answer_audit(known.model, rows, rng, has_place="place" in parts)
    image = judge_image_use([audit.measure(seed=repetition)])[0].name
    uses_image = image in ("uses", "recalls")
    return Verdicts(
        judge_rule_1(audit, repetition) if "rule_1" in parts else "",
        image,
        judge_place([audit.measure_place(seed=repetition)], [uses_image], MARGIN)[0].name if "place" in parts else "",
    )


def judge_repetitions(name: str, n: int, repetitions: range, parts: Sequence[str]) -> list[Verdicts]:
    """Judge some repetitions: a part of the work of one process."""
    return [judge_once(name, n, repetition, parts) for repetition in repetitions]


def share_wrong(names: Sequence[str], wrong: frozenset[str]) -> tuple[str, float, float]:
    """The wrong verdict that falls most often, its share, and the upper bound of a one-sided 95% interval (Wilson)."""
    counts = Counter(name for name in names if name in wrong)
    worst, count = counts.most_common(1)[0] if counts else ("", 0)
    share = count / len(names)
    return worst, share, wilson(share, len(names), 0.9)[1]


def simulate_verdicts(
    names: Sequence[str], sizes: Sequence[int], repetitions: int, n_jobs: int
) -> dict[tuple[str, int], list[Verdicts]]:
    """Judge each model at each size: `FIRST` repetitions, and the rest where more than 1% of the verdicts are wrong."""
    first = min(FIRST, repetitions)
    cases = [(name, n) for name in names for n in sizes]
    found = _run(cases, [range(first)] * len(cases), [Verdicts._fields] * len(cases), n_jobs, "first repetitions")
    more = []
    for name, n in cases:
        parts = [
            part
            for part, wrong in (("rule_2", ZOO[name].wrong), ("place", ZOO[name].wrong_place))
            if share_wrong([getattr(of, part) for of in found[name, n]], wrong)[1] > 0.01
        ]
        if parts and repetitions > first:
            more.append((name, n, parts))
    rest = _run(
        [(name, n) for name, n, _ in more], [range(first, repetitions)] * len(more), [of[2] for of in more], n_jobs,
        "more repetitions",
    )  # fmt: skip
    return {case: found[case] + rest.get(case, []) for case in cases}


def _run(
    cases: Sequence[tuple[str, int]],
    repetitions: Sequence[range],
    parts: Sequence[Sequence[str]],
    n_jobs: int,
    title: str,
) -> dict[tuple[str, int], list[Verdicts]]:
    step = 50
    jobs = [
        (name, n, of[start : start + step], some)
        for (name, n), of, some in zip(cases, repetitions, parts, strict=True)
        for start in range(0, len(of), step)
    ]
    results: dict[tuple[str, int], list[Verdicts]] = {case: [] for case in cases}
    done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(judge_repetitions)(*job) for job in jobs)
    for job, verdicts_of_job in zip(jobs, Progress(done, title=title, total=len(jobs), unit="parts"), strict=True):
        results[job[:2]] += verdicts_of_job
    return results


def print_verdicts(found: Mapping[tuple[str, int], Sequence[Verdicts]]) -> bool:
    """Print the shares of the verdicts and whether few enough are wrong."""
    is_good = True
    tables = (("rule_1", IMAGE_NAMES), ("rule_2", IMAGE_NAMES), ("place", PLACE_NAMES))
    for part, names in tables:
        print(f"\n{part}: verdicts in %, margin {MARGIN:g}; wrong: share of the wrong verdict that falls most often")
        print(f"{'model':32}{'n':>6}{'audits':>8}" + "".join(f"{name:>15}" for name in names) + "   wrong [upper 95%]")
        for (model, n), of in found.items():
            verdict = [getattr(one, part) for one in of if getattr(one, part)]
            counts = Counter(verdict)
            wrong = ZOO[model].wrong_place if part == "place" else ZOO[model].wrong
            worst, share, high = share_wrong(verdict, wrong)
            is_wrong = high >= MOST_WRONG or share > 0.05
            is_good &= not is_wrong or part == "rule_1"
            shares = "".join(f"{100 * counts[name] / len(verdict):15.1f}" for name in names).replace("  0.0", "    -")
            mark = "  WRONG " + worst if is_wrong else ""
            print(f"{model:32}{n:6}{len(verdict):8}{shares}   {100 * share:5.1f} [{100 * high:.1f}]{mark}")
    return is_good


def check_power(seed: int) -> dict[str, bool]:
    """Judge a reader that is better by 10 points, of 500 rows: than another image, and than blind."""
    found = {}
    for title, p in (("over other", 0.10), ("over blind", 0.10 / 0.34)):  # the guess is wrong in 34% of rows
        rng = np.random.default_rng([seed, 1])
        audit = answer_audit(partial(read, p=p), draw_rows(rng, 500), rng, has_place=False)
        found[f"10 points {title}: uses"] = judge_image_use([audit.measure(seed=seed)])[0].name == "uses"
    return found


def draw_null_p(seed: int) -> float:
    """P-value of (a) for graded scores without effect, clustered, of 200 rows; ties of right or wrong make steps."""
    rng = np.random.default_rng([seed, 2])
    rows = draw_rows(rng, 200)
    model = partial(grade, own=0.4, other=0.4, blind=0.4)
    own, other = (model(rows, Picture(name, rows.donor, rows.gold, rows.sign, "", rng)) for name in ("own", "other"))
    return permutation_test(own, other, alternative="greater", groups=rows.patient, n_resamples=2000, seed=seed).p_value


def answer_doses(rows: Rows, picture: Picture, floor: float) -> np.ndarray:
    """Call all findings present; miss what an edit removes; deny at its traces in a share of patients."""
    is_removed = (picture.trace == "at") & (rows.gold == 1) & (picture.finding == 0) & (rows.trait[2] < 0.6)
    is_fooled = (picture.trace == "at") & (rows.patient_trait[1] < floor)
    return np.where(is_removed | is_fooled, 0, 1)


def check_doses(seed: int, floor: float = 0.2) -> dict[str, float]:
    """Measure the dose-response of a model whose net effect of the whole place is 0.6 (1 - floor).

    Traces show wholly at every dose, so that effect and floor cancel in rows that the traces change anyway.
    """
    rng = np.random.default_rng([seed, 3])
    rows = draw_rows(rng, 500)
    edits = answer_audit(partial(answer_doses, floor=floor), rows, rng)
    effect = edits.measure_place(seed)["occluded"]
    slope = 0.6 * (1 - floor)
    assert effect.floor is not None
    return {
        "slope / truth": effect.slope / slope,
        "slope covered": effect.slope_low <= slope <= effect.slope_high,
        "net covered": effect.low <= slope <= effect.high,
        "floor covered": effect.floor.low <= floor <= effect.floor.high,
    }


def check_findings(seed: int, n_each: int = 300) -> dict[str, float]:
    """Judge the selective reader by finding: 3 are to be found of 8."""
    rng = np.random.default_rng([seed, 4])
    rows = draw_rows(rng, n_each * N_FINDINGS)
    audit = answer_audit(read_findings, rows, rng, has_place=False)
    found = judge_findings([audit.measure(rows.finding == finding, seed) for finding in range(N_FINDINGS)])
    uses = np.array([of.name == "uses" for of in found])
    return {
        "selective: recovered exactly": bool(uses[:3].all() and not uses[3:].any()),
        "selective: false discoveries": uses[3:].sum() / max(1, uses.sum()),
    }


def run_checks(repetitions: int, n_jobs: int) -> bool:
    """Print the checks and whether all hold."""
    from scipy.stats import kstest

    def run(check: Callable, n: int) -> list:
        done = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(check)(seed) for seed in range(n))
        return list(Progress(done, title=check.__name__.replace("_", " "), total=n))

    n_findings = max(1, repetitions // 5)
    means: dict[str, float] = {}
    for check, n in ((check_power, repetitions), (check_doses, repetitions), (check_findings, n_findings)):
        found = run(check, n)
        means |= {name: float(np.mean([of[name] for of in found])) for name in found[0]}
    uniform = kstest(run(draw_null_p, repetitions), "uniform")
    limits = {
        "10 points over other: uses": (0.8, 1), "10 points over blind: uses": (0.8, 1),
        "slope / truth": (0.9, 1.1), "slope covered": (0.93, 1), "net covered": (0.93, 1),
        "floor covered": (0.93, 0.97),
        "selective: recovered exactly": (0.9, 1), "selective: false discoveries": (0, 0.05),
    }  # fmt: skip
    print(f"\nchecks, {repetitions} repetitions ({n_findings} by finding)")
    for name, (low, high) in limits.items():
        is_good = low <= means[name] <= high
        print(f"{name:36}{means[name]:8.3f}   wanted {low:g} to {high:g}" + ("" if is_good else "  WRONG"))
    print(f"p of (a) under no effect: Kolmogorov-Smirnov {uniform.statistic:.3f}, p = {uniform.pvalue:.3f}")
    return uniform.pvalue > 0.01 and all(low <= means[name] <= high for name, (low, high) in limits.items())


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000, help="audits of a model at each size (default: 1000)")
    parser.add_argument("--models", nargs="+", choices=list(ZOO), default=list(ZOO), help="models (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="rows (default: 100 500 2000)")
    parser.add_argument("--only", choices=("verdicts", "checks"), help="a part of the work (default: both)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    return parser.parse_args(arguments)


def main() -> None:
    arguments = parse_arguments()
    is_good = True
    if arguments.only != "checks":
        found = simulate_verdicts(arguments.models, arguments.sizes, arguments.repetitions, arguments.jobs)
        is_good &= print_verdicts(found)
    if arguments.only != "verdicts":
        is_good &= run_checks(arguments.repetitions, arguments.jobs)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
