"""Coverage of the 95% interval of a share near 1 and of few graded groups: percentiles alone, and with Wilson's.

    python -m benchmarks.share_coverage [REPETITIONS]

Simulates right and wrong answers as in audit_coverage.py: single rows, patients of 1 to 4 rows, videos of 20. Videos
also have graded scores, as F1 of a frame. Last come numbers without bounds, one for each group. `few` is an argument of
`bootstrap_mean`. The value 1 replaces percentiles only if all answers are right or all are wrong; the default is 15.
Required: 93 to 97%. A higher coverage means a wide interval, which is safe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.audit_coverage import FRAMES, SIZES, VIDEOS, draw_answers, draw_patients
from medfaith.evaluate_metrics.confidence.proportion import FEW
from medfaith.evaluate_metrics.confidence.score import bootstrap_mean

SHARES = (0.9, 0.97, 0.99, 0.995)
MEANS = (0.5, 0.8)  # of graded scores
GROUPS = (3, 5, 8, 14, 15, 20, 30)  # of numbers without bounds
WAYS: dict[str, dict[str, Any]] = {"percentiles": {"few": 1}} | {
    f"few = {few}": {"bounds": (0, 1), "few": few} for few in (1, 5, 10, 15)
}


def compute_coverage(
    groups_of: Callable[[np.random.Generator], np.ndarray], share: float, repetitions: int, graded: bool = False
) -> tuple[list[float], list[float]]:
    """Compute coverage and mean length of the interval of each of WAYS, both in percent."""
    rng = np.random.default_rng(1)
    held, length = np.zeros(len(WAYS)), np.zeros(len(WAYS))
    for repetition in range(repetitions):
        groups = groups_of(rng)
        (right,) = draw_answers(rng, groups, [share], 0.0, graded=graded)
        for number, options in enumerate(WAYS.values()):
            interval = bootstrap_mean(right, groups=groups, seed=repetition, **options)
            held[number] += interval.low <= share <= interval.high
            length[number] += interval.high - interval.low
    return (100 * held / repetitions).tolist(), (100 * length / repetitions).tolist()


def compute_number_coverage(name: str, n_groups: int, repetitions: int) -> list[float]:
    """Compute the coverage of plain percentiles and of the default interval of numbers without bounds, in percent."""
    rng, held = np.random.default_rng(1), np.zeros(2)
    for repetition in range(repetitions):
        values = rng.normal(size=n_groups) if name == "normal" else rng.exponential(size=n_groups) - 1
        for number, few in enumerate((1, FEW)):
            interval = bootstrap_mean(values, seed=repetition, few=few)
            held[number] += interval.low <= 0 <= interval.high
    return (100 * held / repetitions).tolist()


def _format_cells(numbers: Sequence[float]) -> str:
    return "".join(f"{number:13.1f}" for number in numbers)


def main() -> None:
    """Print the coverage of each way."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"coverage of a 95% interval in %, then its mean length in points; {repetitions} repetitions")
    print(f"{'rows':>16}{'share':>7}" + 2 * "".join(f"{way:>13}" for way in WAYS))
    cases = [(f"{n} single", lambda _, n=n: np.arange(n)) for n in SIZES]
    cases += [(f"{n} of patients", partial(draw_patients, n=n)) for n in SIZES]
    cases += [(f"{n} videos x {FRAMES}", lambda _, n=n: np.repeat(np.arange(n), FRAMES)) for n in VIDEOS]
    for name, groups_of in cases:
        for share in SHARES:
            held, length = compute_coverage(groups_of, share, repetitions)
            print(f"{name:>16}{share:7}{_format_cells(held)}{_format_cells(length)}", flush=True)
    for n in VIDEOS:
        for mean in MEANS:
            videos = np.repeat(np.arange(n), FRAMES)
            held, length = compute_coverage(lambda _, videos=videos: videos, mean, repetitions, graded=True)
            print(f"{f'{n} graded videos':>16}{mean:7}{_format_cells(held)}{_format_cells(length)}", flush=True)
    print(f"{'numbers':>16}{'groups':>7}{'percentiles':>13}{'default':>13}")
    for name in ("normal", "exponential"):
        for n in GROUPS:
            print(f"{name:>16}{n:7}{_format_cells(compute_number_coverage(name, n, repetitions))}", flush=True)


if __name__ == "__main__":
    main()
