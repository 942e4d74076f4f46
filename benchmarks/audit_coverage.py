"""Coverage of the 95% intervals of an audit, and its verdicts on models of known truth.

    python benchmarks/audit_coverage.py [REPETITIONS]

Simulates answers of a model with the image and under three blind controls, 1,000 repetitions for each case. Required:
93 to 97% coverage, and below 5% wrong verdicts. A random effect with the variance `shared` (difficulty) is common to
the answers to a row, and one with the variance `WITHIN` is common to the answers of a patient. Answers are right or
wrong, or graded from 0 to 1. A patient has 1 to 4 rows, a video has 20.

If nearly all answers are right, few rows differ, and the coverage of Newcombe's interval is too high: up to 99.8%.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from statistics import NormalDist

import numpy as np

from medfaith.evaluate_metrics.confidence.paired import compute_paired_difference
from medfaith.evaluate_metrics.confidence.reliance import reliance, share, verdicts

SIZES = (60, 200, 1000)
VIDEOS, FRAMES = (5, 8, 14), 20  # few groups of many rows, as benchmarks of surgery have
WITHIN = 0.5
SPREAD = 0.7  # of graded answers, on the scale of the normal distribution
MARGIN = 0.05
CONTROLS: tuple[str, ...] = ("none", "blank", "other")

Scores = tuple[np.ndarray, list[np.ndarray]]  # with the image, and under each control


def draw_patients(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the patient of each of `n` rows; a patient has 1 to 4 rows."""
    return np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]


def draw_latent(rng: np.random.Generator, groups: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Draw standard normal numbers, shape + (n,), that are correlated within a group."""
    group_effects = rng.normal(size=(*shape, int(groups.max()) + 1))[..., groups]
    return math.sqrt(WITHIN) * group_effects + math.sqrt(1 - WITHIN) * rng.normal(size=(*shape, len(groups)))


def draw_answers(rng: np.random.Generator, groups: np.ndarray, means: list[float], shared: float, graded: bool):
    """Draw scores of len(means) systems with these true means, shape (systems, n)."""
    together, individual = draw_latent(rng, groups, ()), draw_latent(rng, groups, (len(means),))
    z = math.sqrt(shared) * together + math.sqrt(1 - shared) * individual
    at = np.array([NormalDist().inv_cdf(mean) for mean in means])[:, None]
    if not graded:
        return (z < at).astype(float)
    from scipy.special import ndtr

    return ndtr(at * math.sqrt(1 + SPREAD**2) + SPREAD * z)


def compute_coverage(n: int, means: list[float], shared: float, graded: bool, clustered: bool, repetitions: int):
    """Compute the coverage of the intervals of difference and share, and their mean length."""
    rng = np.random.default_rng(1)
    held, n_share_covered, length = 0, 0, 0.0
    for repetition in range(repetitions):
        groups = draw_patients(rng, n) if clustered else np.arange(n)
        after, before = draw_answers(rng, groups, means, shared, graded)
        difference = compute_paired_difference(after, before, groups=groups, seed=repetition)
        held += difference.low <= means[0] - means[1] <= difference.high
        length += difference.high - difference.low
        if not graded:
            interval = share(after, groups)
            n_share_covered += interval.low <= means[0] <= interval.high
    return held / repetitions, math.nan if graded else n_share_covered / repetitions, length / repetitions


def make_model(image: float, blind: list[float], shared: float, graded: bool) -> Callable[..., Scores]:
    """Make a model with these true means with the image and under each control."""

    def draw_scores(rng: np.random.Generator, groups: np.ndarray) -> Scores:
        with_image, *under_controls = draw_answers(rng, groups, [image, *blind], shared, graded)
        return with_image, under_controls

    return draw_scores


def make_deterministic(accuracy: float, graded: bool) -> Callable[..., Scores]:
    """Make a model that gives the same answer whatever the image."""

    def draw_scores(rng: np.random.Generator, groups: np.ndarray) -> Scores:
        (with_image,) = draw_answers(rng, groups, [accuracy], 0.0, graded)
        return with_image, [with_image] * len(CONTROLS)

    return draw_scores


def draw_rare_loss(rng: np.random.Generator, groups: np.ndarray) -> Scores:
    """Draw scores for which the image adds exactly the margin.

    The image adds a little more than the margin for 97% of patients, and loses 0.9 for 3%.
    """
    lost = (rng.random(int(groups.max()) + 1) < 0.03)[groups]
    blind = np.full(len(groups), 0.9)
    return np.where(lost, 0.0, 0.9 + (MARGIN + 0.9 * 0.03) / 0.97), [blind] * len(CONTROLS)


MODELS: dict[str, Callable[..., Scores]] = {
    "blind, the same answer": make_deterministic(0.5, False),
    "blind, guesses anew": make_model(0.5, [0.5] * 3, 0.0, False),
    "blind, guesses anew, mostly right": make_model(0.9, [0.9] * 3, 0.3, False),
    "blind, guesses anew, graded": make_model(0.4, [0.4] * 3, 0.3, True),
    "adds the margin only": make_model(0.55, [0.5, 0.5, 0.5], 0.8, False),
    "adds the margin only, one control": make_model(0.55, [0.5, 0.3, 0.3], 0.8, False),
    "adds the margin only, rare loss": draw_rare_loss,
    "sees, 80% against 50%": make_model(0.8, [0.5] * 3, 0.3, False),
    "sees, 65% against 50%": make_model(0.65, [0.5] * 3, 0.3, False),
    "sees, graded 0.5 against 0.3": make_model(0.5, [0.3] * 3, 0.3, True),
    "harmed, 50% against 70%": make_model(0.5, [0.7] * 3, 0.3, False),
}


def count_verdicts(
    scores: Callable[..., Scores], groups_of: Callable[[np.random.Generator], np.ndarray], repetitions: int
) -> Counter[str]:
    """Count how often each verdict occurs."""
    rng = np.random.default_rng(2)
    counts: Counter[str] = Counter()
    for repetition in range(repetitions):
        groups = groups_of(rng)
        image, blind = scores(rng, groups)
        controls = dict(zip(CONTROLS, blind, strict=True))
        counts[verdicts([reliance(image, controls, margin=MARGIN, groups=groups, seed=repetition)])[0].name] += 1
    return counts


def print_coverage(repetitions: int) -> None:
    """Print the coverage table."""
    print(f"coverage in % of the interval of a difference | of a share, at n = {SIZES}; {repetitions} repetitions")
    print(f"{'means':12}{'shared':>7}{'rows':>11}{'values':>8}   {'difference':>20}   {'share':>18}   {'length':>21}")
    for means in ([0.6, 0.5], [0.9, 0.8], [0.97, 0.95]):
        for shared in (0.2, 0.8):
            for clustered in (False, True):
                for graded in (False, True):
                    results = [compute_coverage(n, means, shared, graded, clustered, repetitions) for n in SIZES]
                    held, share_held, length = zip(*results, strict=True)
                    print(
                        f"{means[0]:4} {means[1]:4}   {shared:7}{'clustered' if clustered else 'single':>11}"
                        f"{'graded' if graded else '0/1':>8}   {_format_percents(held):>20}   "
                        f"{_format_percents(share_held):>18}   " + " ".join(f"{mean:6.3f}" for mean in length),
                        flush=True,
                    )


def print_verdicts(repetitions: int) -> None:
    """Print the table of verdicts for each model and size."""
    kinds = ("uses", "no use", "harmed", "open")
    print(f"\nverdicts in %, margin {MARGIN}, three blind controls, one benchmark; {repetitions} repetitions")
    print(f"{'model':36}{'rows':>16}" + "".join(f"{kind:>9}" for kind in kinds))
    for name, scores in MODELS.items():
        patient_designs = [(f"{n}", partial(draw_patients, n=n)) for n in SIZES]
        video_designs = [(f"{n} videos x {FRAMES}", lambda _, n=n: np.repeat(np.arange(n), FRAMES)) for n in VIDEOS]
        for size, groups_of in patient_designs + video_designs:
            counts = count_verdicts(scores, groups_of, repetitions)
            print(f"{name:36}{size:>16}" + "".join(f"{100 * counts[k] / repetitions:9.1f}" for k in kinds), flush=True)


def _format_percents(shares) -> str:
    return " ".join("     -" if math.isnan(share) else f"{100 * share:6.1f}" for share in shares)


def main() -> None:
    """Print both tables."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print_coverage(repetitions)
    print_verdicts(repetitions)


if __name__ == "__main__":
    main()
