"""Intervals and p-values that CXR-ContraBench prints, against ours."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from medfaith.evaluate_metrics.confidence.score import bootstrap_mean, permutation_test
from tests.support.evaluate_metrics.resampling_error import NOISE, RESAMPLES, SLACK, TAIL, make_ones

# Tables 3 (example-level), 4 and 5; "-" is not printed.
# run, n, B0 correct, improved, worsened, negated | intervals of B0, M1, contradictions, the delta; p
RUNS = """
MedGemma        507    122    351  0  351  20.51  27.81  91.12  95.47   331  370  65.28  73.18   -
MedGemma        359    253    59   0  79   65.74  75.21  83.57  90.25   64   95   -      -       -
MedGemma-CoT    507    165    282  0  282  28.60  36.69  85.40  90.93   261  303  51.28  60.16   -
MedGemma-CoT    359    164    118  0  177  40.39  50.70  74.09  82.73   160  195  -      -       -
LLaVA-1.5       507    139    348  0  348  23.47  31.36  94.28  97.64   327  368  64.50  72.98   -
LLaVA-1.5       359    145    115  0  212  35.38  45.40  67.97  76.88   194  230  -      -       -
LLaVA-Med       507    340    42   0  42   63.31  71.20  71.60  79.09   30   54   5.92   10.85   0.002
LLaVA-Med       359    176    2    0  4    43.73  54.04  44.57  54.87   1    8    -      -       0.417
LLaVA-Med-CoT   507    60     446  0  446  9.07   14.79  99.41  100.00  432  460  85.21  90.53   -
LLaVA-Med-CoT   359    139    150  0  218  33.70  43.73  76.32  84.40   200  236  -      -       -
CheXagent       507    33     186  0  186  4.54   8.68   39.05  47.53   164  207  32.35  40.83   -
CheXagent       359    9      99   0  189  1.11   4.18   25.35  34.83   170  208  -      -       -
Qwen2.5-VL      507    2      504  0  504  0.00   0.99   99.41  100.00  500  507  98.62  100.00  -
Qwen2.5-VL      359    45     186  0  311  9.19   15.88  59.33  69.08   298  323  -      -       -
Qwen2.5-VL-CoT  507    138    368  0  368  23.47  31.16  99.41  100.00  348  387  68.64  76.33   -
Qwen2.5-VL-CoT  359    53     137  0  288  11.42  18.38  47.91  57.94   273  302  -      -       -
5k              5000   4121   13   1  -    81.40  83.46  81.60  83.72   -    -    0.10   0.40    0.399
10k             10000  8128   16   2  -    80.55  82.07  80.68  82.21   -    -    0.06   0.23    0.387
s1              10000  8053   9    0  -    79.75  81.32  79.87  81.38   -    -    0.03   0.16    0.424
s2              10000  8034   6    0  -    79.55  81.12  79.62  81.13   -    -    0.02   0.11    0.446
s3              10000  8021   12   0  -    79.44  80.98  79.59  81.14   -    -    0.06   0.20    0.420
pooled          30000  24108  28   1  -    79.92  80.80  79.98  80.90   -    -    0.06   0.13    0.392
"""
PRINTED: list[Any] = [
    [run, *(float(number) if number != "-" else None for number in numbers)]
    for run, *numbers in map(str.split, RUNS.strip().splitlines())
]


def iter_printed_intervals():
    """Yield (n, successes, printed low and high in percent, rounding of the print in percent)."""
    for run, n, correct, improved, worsened, negated, *printed in PRINTED:
        for label, count, low, high, scale in (
            ("B0", correct, *printed[0:2], 1), ("M1", correct + improved - worsened, *printed[2:4], 1),
            ("contradictions", negated, *printed[4:6], 100 / n),
        ):  # fmt: skip
            if count is not None:
                rounding = 0.005 if scale == 1 else scale / 2
                yield pytest.param(int(n), int(count), scale * low, scale * high, rounding, id=f"{run} {n:.0f} {label}")


@pytest.mark.parametrize(("n", "count", "low", "high", "rounding"), list(iter_printed_intervals()))
def test_tables_4_and_5(n, count, low, high, rounding):
    """Our bounds and the printed bounds match the quantiles of Binomial(n, count / n) within 2,000 resamples' error."""
    ours = bootstrap_mean(make_ones(count, n), n_resamples=RESAMPLES, seed=42)
    exact = stats.binom(n, count / n)
    for level, printed, bound in ((TAIL, low, ours.low), (1 - TAIL, high, ours.high)):
        lowest, highest = (100 * exact.ppf(level + side * SLACK) / n for side in (-1, 1))
        assert lowest - 1e-9 <= 100 * bound <= highest + 1e-9
        assert lowest - rounding - 1e-9 <= printed <= highest + rounding + 1e-9


@pytest.mark.parametrize("run", [run for run in PRINTED if run[-3] is not None], ids=str)
def test_delta_intervals_of_tables_3_and_5(run):
    """Leave out the only worsened case of the seeded runs (Table 6 names it, not its run): it moves no bound here."""
    _, n, _, improved, worsened, *_, low, high, _ = run
    deltas = np.repeat([1.0, -1.0, 0.0], [int(improved), int(worsened), int(n - improved - worsened)])
    ours = bootstrap_mean(deltas, n_resamples=RESAMPLES, seed=42)
    tolerance = 100 * (NOISE * float(np.std(deltas)) / math.sqrt(n) + 1 / n) + 0.005
    assert (100 * ours.low, 100 * ours.high) == pytest.approx((low, high), abs=tolerance)


@pytest.mark.parametrize("printed_run", [run for run in PRINTED if run[-1] is not None], ids=str)
def test_printed_p_values_are_those_of_an_unpaired_one_sided_shuffle(printed_run):
    """The paper calls its test paired, but its figures match a one-sided shuffle of all answers over both systems.

    The exact p of that shuffle is hypergeometric, with ties or without; 1,000 shuffles add three standard errors of
    0.016 either way. A paired test would print less than 0.05 for every run but LLaVA-Med on OpenI.
    """
    run, printed = printed_run[0], printed_run[-1]
    n, correct, improved, worsened = map(int, printed_run[1:5])
    before = make_ones(correct, n)
    after = before.copy()
    after[:worsened], after[correct : correct + improved] = 0, 1
    shuffled = stats.hypergeom(2 * n, int(before.sum() + after.sum()), n)
    exact, without_ties = shuffled.sf(after.sum() - 1), shuffled.sf(after.sum())
    ours = permutation_test(after, before, permutation="independent", alternative="greater")
    assert ours.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000) + 1e-4)
    noise = 3 * math.sqrt(printed * (1 - printed) / 1000) + 0.0005
    assert without_ties - noise <= printed <= exact + noise
    paired = permutation_test(after, before)
    assert ours.difference == paired.difference == pytest.approx((improved - worsened) / n)
    assert paired.p_value < 0.05 or (run, n) == ("LLaVA-Med", 359)
