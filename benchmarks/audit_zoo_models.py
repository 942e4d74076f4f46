"""Simulated models of known truth for `benchmarks/audit_zoo.py`: rows, displayed contents and models.

A model is a function of the rows and their displayed contents (`Picture`). It needs no lm-eval, no images and no text.
To add a model, write its function, and add a line to `ZOO` with the verdicts that are wrong for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

MARGIN = 0.05
BLIND = ("none", "blank", "noise")
HARMLESS = ("cropped", "recoded")
EDITS = ("occluded", "transplanted", "blurred")
DOSES = (25, 50, 75, 100)
N_FINDINGS = 8
N_WORDINGS = 3
WITHIN = 0.5  # share of what makes a row hard that the rows of a patient have in common
MISSING = -1  # an answer that is declined or unread


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
        image_trait: The same for each image; under `other`, the donor's.
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
    """Conditions and image contents that a model gets for each row.

    Attributes:
        condition: "own", "other", a blind or harmless condition, or a kind of edit.
        image: Shape (n,), row that the image belongs to; `MISSING` if nothing is visible.
        finding: Shape (n,), 1 if the place shows the finding, else 0.
        sign: Shape (n,), 1 if the sign elsewhere is visible, else 0.
        trace: Location of edit traces: "at" the place, "elsewhere" or "".
        rng: Generator for random answers.
    """

    condition: str
    image: np.ndarray
    finding: np.ndarray
    sign: np.ndarray
    trace: str
    rng: np.random.Generator

    @property
    def is_blind(self) -> bool:
        """Whether the condition is blind."""
        return self.condition in BLIND


Model = Callable[[Rows, Picture], np.ndarray]  # answers 1, 0 or `MISSING`, shape (n,) or (wordings, n); or scores


def draw_rows(
    rng: np.random.Generator, n: int, *, base: float = 0.7, n_donors: int | None = None, n_findings: int = N_FINDINGS
) -> Rows:
    """Draw the rows of a benchmark.

    Args:
        rng: Generator.
        n: Number of rows.
        base: Share of rows in which the question alone suggests the right answer.
        n_donors: Number of donor images; by default all that fit.
        n_findings: Number of kinds of findings.
    """
    patient = np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]
    n_patients = int(patient.max()) + 1
    finding = rng.integers(n_findings, size=n)
    prior = (finding % 2).astype(int)
    view = rng.integers(2, size=n_patients)[patient]
    is_right = _draw_uniform(rng, patient) < base
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


def _draw_uniform(rng: np.random.Generator, patient: np.ndarray) -> np.ndarray:
    """Draw uniform numbers that are correlated within a patient."""
    from scipy.special import ndtr

    patient_effects = rng.normal(size=int(patient.max()) + 1)[patient]
    return ndtr(math.sqrt(WITHIN) * patient_effects + math.sqrt(1 - WITHIN) * rng.normal(size=len(patient)))


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
        gold_of_stratum, view_of_stratum, finding_of_stratum = stratum & 1, stratum >> 1 & 1, stratum >> 2
        is_near = (view == view_of_stratum) & (finding == finding_of_stratum if n_donors is None else True)
        pool = np.flatnonzero(is_near & is_donor & (gold != gold_of_stratum))
        rows = np.flatnonzero((gold == gold_of_stratum) & (view == view_of_stratum) & (finding == finding_of_stratum))
        if len(pool) and len(rows):
            donor[rows] = pool[rng.integers(len(pool), size=len(rows))]
    return np.where(patient[donor] == patient, MISSING, donor)


# The models. `trait[0]` decides which rows a model reads, `trait[1]` which it declines, the others guesses.


def guess(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the question alone."""
    return rows.prior


def say_yes(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer yes to every question."""
    return np.ones_like(rows.gold)


def know(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer right without looking: the oracle."""
    return rows.gold


def read(rows: Rows, picture: Picture, p: float = 1.0, by_patient: bool = False) -> np.ndarray:
    """Read the image in a share p of rows (or patients); guess in the others and without an image."""
    trait = rows.patient_trait[0] if by_patient else rows.trait[0]
    return np.where((trait < p) & (picture.image != MISSING), picture.finding, rows.prior)


def decline_blind(rows: Rows, picture: Picture, share: float = 1.0, model: Model = guess) -> np.ndarray:
    """Decline a share of the rows without a visible image."""
    return np.where(picture.is_blind & (rows.trait[1] < share), MISSING, model(rows, picture))


def decline(rows: Rows, picture: Picture, share: float, model: Model) -> np.ndarray:
    """Decline a share of rows under every condition."""
    return np.where(rows.trait[1] < share, MISSING, model(rows, picture))


def shift_prior(rows: Rows, picture: Picture) -> np.ndarray:
    """Guess well with any image, and at random without one."""
    return (rows.trait[2] < 0.5).astype(int) if picture.is_blind else rows.prior


def oppose_blind(rows: Rows, picture: Picture) -> np.ndarray:
    """Say the opposite of the guess if there is no image."""
    return 1 - rows.prior if picture.is_blind else rows.prior


def detect_paint(rows: Rows, picture: Picture, kinds: Sequence[str], traces: Sequence[str], model: Model) -> np.ndarray:
    """Deny where an edit left traces; else answer as another model."""
    is_painted = picture.condition in kinds and picture.trace in traces
    return np.zeros_like(rows.gold) if is_painted else model(rows, picture)


def recall(rows: Rows, picture: Picture, share: float = 1.0) -> np.ndarray:
    """Recognise the image and recall its gold answer; guess for unknown images."""
    is_original = picture.condition in ("own", "other") and not picture.trace
    is_known = is_original & (picture.image != MISSING) & (rows.image_trait[1][picture.image] < share)
    return np.where(is_known, rows.gold[picture.image], rows.prior)


def recall_only(rows: Rows, picture: Picture) -> np.ndarray:
    """Recall the gold answer of original images, and decline everything else."""
    is_original = picture.condition in ("own", "other")
    return recall(rows, picture) if is_original else np.full_like(rows.gold, MISSING)


def decline_contradicted(rows: Rows, picture: Picture, p: float = 0.5) -> np.ndarray:
    """Guess, but decline in a share p of rows if the image contradicts the guess."""
    is_read = (rows.trait[0] < p) & (picture.image != MISSING)
    return np.where(is_read & (picture.finding != rows.prior), MISSING, rows.prior)


def read_findings(rows: Rows, picture: Picture, n_findings: int = 3) -> np.ndarray:
    """Read the first `n_findings` kinds of findings; guess the others."""
    return np.where(rows.finding < n_findings, read(rows, picture), rows.prior)


def read_marker(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the marker of the view."""
    return rows.prior if picture.is_blind else rows.view


def read_sign(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer from the sign elsewhere."""
    return np.where(picture.image != MISSING, picture.sign, rows.prior)


def look_elsewhere(rows: Rows, picture: Picture) -> np.ndarray:
    """Know the right answer while the place elsewhere is unchanged, like the reference model."""
    is_touched = picture.is_blind or picture.trace == "elsewhere"
    return np.where(picture.image == MISSING, rows.prior, rows.prior if is_touched else rows.gold[picture.image])


def draw_answers(rows: Rows, picture: Picture, share_yes: float) -> np.ndarray:
    """Draw random answers with this share of yes."""
    return (picture.rng.random(len(rows.gold)) < share_yes).astype(int)


def read_noisily(rows: Rows, picture: Picture, p_own: float, p_other: float, blind: float, anew: float) -> np.ndarray:
    """Answer right with these chances, drawn anew for each condition in a share of patients."""
    chance = blind if picture.is_blind else p_other if picture.condition == "other" else p_own
    uniform = _draw_uniform(picture.rng, rows.patient)
    easy = np.where(rows.patient_trait[1] < anew, uniform, rows.patient_trait[0])
    return np.where(easy < chance, rows.gold, 1 - rows.gold)


def take_position(rows: Rows, picture: Picture, share: float = 1.0) -> np.ndarray:
    """Take the first option, whose order is drawn anew for each wording, in a share of rows; read the others."""
    first_options = np.stack([(rows.trait[2] * 2**k % 1 < 0.5).astype(int) for k in range(N_WORDINGS)])
    return np.where(rows.trait[0] < share, first_options, read(rows, picture))


def take_wording(rows: Rows, picture: Picture) -> np.ndarray:
    """Read under the first wording, guess under the second, and say no under the third."""
    return np.stack([read(rows, picture), rows.prior, np.zeros_like(rows.gold)])


def break_format(rows: Rows, picture: Picture, share: float) -> np.ndarray:
    """Break the answer format in a share of rows."""
    return np.where(rows.trait[1] < share, MISSING, rows.prior)


def read_wrong_side(rows: Rows, picture: Picture) -> np.ndarray:
    """Read the other side, which shows the finding in half of the rows."""
    return np.where(picture.image != MISSING, (rows.image_trait[0][picture.image] < 0.5).astype(int), rows.prior)


def follow_brightness(rows: Rows, picture: Picture) -> np.ndarray:
    """Say yes for bright images; brightness is independent of the answer."""
    return read_wrong_side(rows, picture)


def lose_rarely(rows: Rows, picture: Picture) -> np.ndarray:
    """Return scores for which the image adds exactly the margin.

    It adds a little more than the margin for 97% of patients, and loses much for 3%.
    """
    is_lost = rows.patient_trait[0] < 0.03
    own_scores = np.where(is_lost, 0.0, 0.9 + (MARGIN + 0.9 * 0.03) / 0.97)
    return np.full(len(rows.gold), 0.9) if picture.condition == "other" or picture.is_blind else own_scores


def grade(rows: Rows, picture: Picture, p_own: float, p_other: float, blind: float) -> np.ndarray:
    """Draw scores between 0 and 1, such as F1, with these medians."""
    from scipy.special import ndtr, ndtri

    median = blind if picture.is_blind else p_other if picture.condition == "other" else p_own
    hardness = ndtri(np.clip(rows.patient_trait[0], 1e-9, 1 - 1e-9))
    return ndtr(ndtri(median) + 0.5 * hardness + 0.5 * picture.rng.normal(size=len(rows.gold)))


def mislead(rows: Rows, picture: Picture) -> np.ndarray:
    """Answer equally well without an image, but follow another patient's image in 3 of 10 rows."""
    is_misled = (picture.condition == "other") & (rows.trait[0] < 0.3)
    return np.where(is_misled, 1 - rows.gold, rows.prior)


class Known(NamedTuple):
    """Model with its truth.

    Attributes:
        model: The answering function.
        wrong: Verdicts on the image that are wrong for it.
        wrong_place: Verdicts on the place that are wrong for it.
        rows: Options of `draw_rows`, if not the default.
    """

    model: Model
    wrong: frozenset[str]
    wrong_place: frozenset[str] = frozenset({"depends"})
    rows: Mapping[str, Any] = {}


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
    # Beyond the rule: it detects every kind of edit, which hides that it reads elsewhere.
    "reads a sign, denies at every edit": Known(
        partial(detect_paint, kinds=EDITS, traces=("at",), model=read_sign), NO_USE, frozenset()
    ),
    "memorised": Known(recall, NEITHER),
    "memorised 60%": Known(partial(recall, share=0.6), NEITHER),
    "memorised 30%": Known(partial(recall, share=0.3), NEITHER),
    "memorised, declines blind rows": Known(partial(decline_blind, model=recall), NEITHER),
    "memorised 60%, declines blind, easy": Known(
        partial(decline_blind, model=partial(recall, share=0.6)), NEITHER, rows={"base": 0.85}
    ),
    "memorised, declines at any change": Known(recall_only, NEITHER),
    "declines where contradicted": Known(decline_contradicted, NO_USE, frozenset()),
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
    "adds the margin, noisily": Known(partial(read_noisily, p_own=0.6, p_other=0.55, blind=0.4, anew=0.5), NEITHER),
    "adds nothing to blind, noisily": Known(
        partial(read_noisily, p_own=0.6, p_other=0.4, blind=0.6, anew=0.5), NEITHER
    ),
    "adds the margin, rare loss": Known(lose_rarely, NEITHER),
    "graded, reads": Known(partial(grade, p_own=0.6, p_other=0.3, blind=0.3), NO_USE),
    "graded, guesses": Known(partial(grade, p_own=0.4, p_other=0.4, blind=0.4), USES),
}  # fmt: skip
