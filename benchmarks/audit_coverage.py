"""How often the statistics of an audit are right: coverage of the 95% intervals, and verdicts of models that are known.

    python benchmarks/audit_coverage.py [REPETITIONS]

Simulated answers of a model with the image and under three blind controls, 1,000 repetitions of a case. Wanted: 93 to
97% coverage, and below 5% wrong verdicts. A row's answers share a part (how hard it is) of size `shared`, and those of
one patient another one of size `WITHIN`. Answers are right or wrong, or graded from 0 to 1. A patient has 1 to 4 rows,
a video 20.

Where nearly all answers are right, few rows differ, and Newcombe's interval covers it too often: up to 99.8%.
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


def patients(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.repeat(np.arange(n), rng.integers(1, 5, size=n))[:n]


def latent(rng: np.random.Generator, groups: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, shape + (n,), that go together within a group."""
    of_group = rng.normal(size=(*shape, int(groups.max()) + 1))[..., groups]
    return math.sqrt(WITHIN) * of_group + math.sqrt(1 - WITHIN) * rng.normal(size=(*shape, len(groups)))


def answers(rng: np.random.Generator, groups: np.ndarray, means: list[float], shared: float, graded: bool):
    """Scores of len(means) systems with these true means, shape (systems, n)."""
    together, own = latent(rng, groups, ()), latent(rng, groups, (len(means),))
    z = math.sqrt(shared) * together + math.sqrt(1 - shared) * own
    at = np.array([NormalDist().inv_cdf(mean) for mean in means])[:, None]
    if not graded:
        return (z < at).astype(float)
    from scipy.special import ndtr

    return ndtr(at * math.sqrt(1 + SPREAD**2) + SPREAD * z)


def coverage(n: int, means: list[float], shared: float, graded: bool, clustered: bool, repetitions: int):
    """How often the intervals of the difference and of the share hold the truth; and how long they are."""
    rng = np.random.default_rng(1)
    held, of_share, length = 0, 0, 0.0
    for repetition in range(repetitions):
        groups = patients(rng, n) if clustered else np.arange(n)
        after, before = answers(rng, groups, means, shared, graded)
        found = compute_paired_difference(after, before, groups=groups, seed=repetition)
        held += found.low <= means[0] - means[1] <= found.high
        length += found.high - found.low
        if not graded:
            alone = share(after, groups)
            of_share += alone.low <= means[0] <= alone.high
    return held / repetitions, math.nan if graded else of_share / repetitions, length / repetitions


def model(image: float, blind: list[float], shared: float, graded: bool) -> Callable[..., Scores]:
    def scores(rng: np.random.Generator, groups: np.ndarray) -> Scores:
        first, *others = answers(rng, groups, [image, *blind], shared, graded)
        return first, others

    return scores


def deterministic(accuracy: float, graded: bool) -> Callable[..., Scores]:
    """The same answer whatever the image."""

    def scores(rng: np.random.Generator, groups: np.ndarray) -> Scores:
        (first,) = answers(rng, groups, [accuracy], 0.0, graded)
        return first, [first] * len(CONTROLS)

    return scores


def rare_loss(rng: np.random.Generator, groups: np.ndarray) -> Scores:
    """The image adds exactly the margin: a little more on 97 patients of 100, and a loss of 0.9 on the others."""
    lost = (rng.random(int(groups.max()) + 1) < 0.03)[groups]
    blind = np.full(len(groups), 0.9)
    return np.where(lost, 0.0, 0.9 + (MARGIN + 0.9 * 0.03) / 0.97), [blind] * len(CONTROLS)


MODELS: dict[str, Callable[..., Scores]] = {
    "blind, the same answer": deterministic(0.5, False),
    "blind, guesses anew": model(0.5, [0.5] * 3, 0.0, False),
    "blind, guesses anew, mostly right": model(0.9, [0.9] * 3, 0.3, False),
    "blind, guesses anew, graded": model(0.4, [0.4] * 3, 0.3, True),
    "adds the margin only": model(0.55, [0.5, 0.5, 0.5], 0.8, False),
    "adds the margin only, one control": model(0.55, [0.5, 0.3, 0.3], 0.8, False),
    "adds the margin only, rare loss": rare_loss,
    "sees, 80% against 50%": model(0.8, [0.5] * 3, 0.3, False),
    "sees, 65% against 50%": model(0.65, [0.5] * 3, 0.3, False),
    "sees, graded 0.5 against 0.3": model(0.5, [0.3] * 3, 0.3, True),
    "harmed, 50% against 70%": model(0.5, [0.7] * 3, 0.3, False),
}


def judged(
    scores: Callable[..., Scores], groups_of: Callable[[np.random.Generator], np.ndarray], repetitions: int
) -> Counter[str]:
    """How often each verdict falls."""
    rng = np.random.default_rng(2)
    counts: Counter[str] = Counter()
    for repetition in range(repetitions):
        groups = groups_of(rng)
        image, blind = scores(rng, groups)
        controls = dict(zip(CONTROLS, blind, strict=True))
        counts[verdicts([reliance(image, controls, margin=MARGIN, groups=groups, seed=repetition)])[0].name] += 1
    return counts


def print_coverage(repetitions: int) -> None:
    print(f"coverage in % of the interval of a difference | of a share, at n = {SIZES}; {repetitions} repetitions")
    print(f"{'means':12}{'shared':>7}{'rows':>11}{'values':>8}   {'difference':>20}   {'share':>18}   {'length':>21}")
    for means in ([0.6, 0.5], [0.9, 0.8], [0.97, 0.95]):
        for shared in (0.2, 0.8):
            for clustered in (False, True):
                for graded in (False, True):
                    found = [coverage(n, means, shared, graded, clustered, repetitions) for n in SIZES]
                    held, of_share, length = zip(*found, strict=True)
                    print(
                        f"{means[0]:4} {means[1]:4}   {shared:7}{'clustered' if clustered else 'single':>11}"
                        f"{'graded' if graded else '0/1':>8}   {_percents(held):>20}   {_percents(of_share):>18}   "
                        + " ".join(f"{one:6.3f}" for one in length),
                        flush=True,
                    )


def print_verdicts(repetitions: int) -> None:
    kinds = ("uses", "no use", "harmed", "open")
    print(f"\nverdicts in %, margin {MARGIN}, three blind controls, one benchmark; {repetitions} repetitions")
    print(f"{'model':36}{'rows':>16}" + "".join(f"{kind:>9}" for kind in kinds))
    for name, scores in MODELS.items():
        of_patients = [(f"{n}", partial(patients, n=n)) for n in SIZES]
        of_videos = [(f"{n} videos x {FRAMES}", lambda _, n=n: np.repeat(np.arange(n), FRAMES)) for n in VIDEOS]
        for size, groups_of in of_patients + of_videos:
            counts = judged(scores, groups_of, repetitions)
            print(f"{name:36}{size:>16}" + "".join(f"{100 * counts[k] / repetitions:9.1f}" for k in kinds), flush=True)


def _percents(shares) -> str:
    return " ".join("     -" if math.isnan(one) else f"{100 * one:6.1f}" for one in shares)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print_coverage(repetitions)
    print_verdicts(repetitions)


if __name__ == "__main__":
    main()
