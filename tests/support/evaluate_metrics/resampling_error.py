"""How far the bounds of two right bootstraps may differ, and values with a given share of ones."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

RESAMPLES = 2000
# The 2.5% point of 2,000 resamples is a true quantile of level 0.025 +- sqrt(0.025 * 0.975 / 2000) = 0.0035. Four of
# these either way bound a right implementation 9,999 times in 10,000.
TAIL, SLACK = 0.025, 4 * math.sqrt(0.025 * 0.975 / RESAMPLES)
# The same in standard errors of the mean: over the normal density at that quantile; two runs differ by sqrt(2) more.
NOISE = float(math.sqrt(2) * SLACK / stats.norm.pdf(stats.norm.ppf(TAIL)))


def make_ones(count, n):
    return np.repeat([1.0, 0.0], [count, n - count])
