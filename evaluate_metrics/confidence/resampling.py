"""Draws of the bootstrap and of the permutation test.

They draw counts of equal contributions instead of single examples if that has the same distribution and needs less
work: a resample of 135,754 zeros and ones is two numbers. Simpler ways would change the bounds of each seed and are
slower: scipy.stats.bootstrap takes 3 to 180 times as long, a loop over numpy's draws up to 9 times.
"""

from __future__ import annotations

import numpy as np

from ..arguments.kinds import COUNT, SHARE, instance
from ..arguments.schema import check_arguments

_CHUNK = 50_000  # numbers in one draw: they fit into the cache, and memory stays at a few megabytes
_CELL = 2**10  # units in one cell of a draw: they fit into the innermost cache
_LEAST_MANY = 32  # units whose draws cost about as much as one binomial draw
_ARRAY = instance(np.ndarray)


@check_arguments(means=_ARRAY, confidence_level=SHARE)
def compute_percentiles(means: np.ndarray, confidence_level: float) -> tuple[float, float]:
    """Compute the percentiles that enclose the middle of the resampled means.

    Args:
        means: Shape (r,), means of the resamples.
        confidence_level: Share of the means between the two percentiles.

    Returns:
        low and high.
    """
    tail = (1 - confidence_level) / 2
    # The upper percentile is the lower one of the negated means, to the last bit. Adding 0 turns -0.0 into 0.0.
    low, high = np.quantile(means, tail), -np.quantile(-means, tail)
    return float(low) + 0.0, float(high) + 0.0


@check_arguments(sums=_ARRAY, sizes=_ARRAY, n_resamples=COUNT, rng=instance(np.random.Generator))
def resample_means(sums: np.ndarray, sizes: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw groups with replacement and compute the mean of each resample.

    The order of the groups has no effect. Means of the negated sums are the negated means: the draws are those of the
    sums whose sorted list is the greater one. Where the two lists are equal, each mean counts with both signs.

    Args:
        sums: Shape (g,), the total of each group, of values that `quantise` has rounded.
        sizes: Shape (g,), the number of values of each group.
        n_resamples: Number of resamples.
        rng: The generator.

    Returns:
        Shape (n_resamples,), the means; shape (2 * n_resamples,) if each counts with both signs.
    """
    sign = _choose_sign(sums, sizes)
    means = _draw_resample_means(sums * (sign or 1), sizes, n_resamples, rng)
    return means * sign if sign else np.concatenate([means, -means])


def _choose_sign(sums: np.ndarray, sizes: np.ndarray) -> int:
    """Return 1 or -1, the sign with which the sorted groups are the greater list; 0 if both signs give one list."""
    if not (sums < 0).any():
        return 1
    groups, negated_groups = (np.sort(signed_sums + 1j * sizes) for signed_sums in (sums, -sums))
    is_other = groups != negated_groups
    if not is_other.any():
        return 0
    first = np.argmax(is_other)
    return 1 if groups[first] > negated_groups[first] else -1


def _draw_resample_means(sums: np.ndarray, sizes: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    if np.all(sizes == sizes[0]):
        return _draw_resample_totals(sums, n_resamples, rng) / sizes.sum()
    pairs = sums + 1j * sizes  # one number per group, so that one addition gives both totals
    totals = _draw_resample_totals(pairs, n_resamples, rng)
    return np.real(totals) / np.imag(totals)


def _draw_resample_totals(units: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Compute totals of resamples of units, shape (g,), with replacement; the order of the units has no effect.

    Equal units that are many form one cell. The other units form cells of 2**k units. The number of units drawn from
    each cell is multinomial. k random bits choose each unit within a cell of the second kind.
    """
    distinct_units, frequency = np.unique(units, return_counts=True)
    is_many = frequency >= _LEAST_MANY
    rare_units = np.repeat(distinct_units[~is_many], frequency[~is_many])
    sizes = [_CELL] * (len(rare_units) // _CELL) + [2**k for k in range(16) if len(rare_units) % _CELL >> k & 1]
    cells = np.split(rare_units, np.cumsum(sizes)[:-1]) if sizes else []
    cell_share = np.concatenate([frequency[is_many], sizes]) / len(units)
    totals = np.empty(n_resamples, dtype=units.dtype)
    step = max(1, 4 * _CHUNK // len(cell_share))
    for start in range(0, n_resamples, step):
        counts = rng.multinomial(len(units), cell_share, size=min(step, n_resamples - start))
        step_totals = counts[:, : is_many.sum()] @ distinct_units[is_many]
        for cell, cell_counts in zip(cells, counts[:, is_many.sum() :].T, strict=True):
            step_totals += _draw_totals(cell, cell_counts, rng)
        totals[start : start + step] = step_totals
    return totals


def _draw_totals(cell: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute totals of counts[i] units that are drawn from the cell of 2**k units; counts, totals: shape (r,)."""
    totals = np.zeros(len(counts), dtype=cell.dtype)
    step = max(1, _CHUNK // len(cell))
    for start in range(0, len(counts), step):
        step_counts = counts[start : start + step]
        bits = rng.integers(2**16, size=step_counts.sum(), dtype=np.uint16) & np.uint16(len(cell) - 1)
        is_drawn = step_counts > 0
        starts = (np.cumsum(step_counts) - step_counts)[is_drawn]
        totals[start : start + step][is_drawn] = np.add.reduceat(cell.take(bits, mode="clip"), starts)
    return totals


@check_arguments(differences=_ARRAY, n_resamples=COUNT, rng=instance(np.random.Generator))
def compute_sign_flipped_sums(differences: np.ndarray, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sum the differences under random signs: m equal sizes keep their sign Binomial(m, 1/2) times.

    Args:
        differences: Shape (g,), the difference of each group.
        n_resamples: Number of resamples.
        rng: The generator.

    Returns:
        Shape (n_resamples,), the sums.
    """
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    is_single = counts == 1  # one random bit decides such a sign, which is much cheaper than a binomial draw
    sums = np.full(n_resamples, -(counts @ sizes))
    step = max(1, _CHUNK // max(1, len(sizes)))
    for start in range(0, n_resamples, step):
        step_sums = sums[start : start + step]
        n_kept = _draw_coin_flips(counts[~is_single], len(step_sums), rng)
        bits = rng.integers(256, size=(len(step_sums), -(-int(is_single.sum()) // 8)), dtype=np.uint8)
        step_sums += 2 * (
            n_kept @ sizes[~is_single] + np.unpackbits(bits, axis=1, count=int(is_single.sum())) @ sizes[is_single]
        )
    return sums


def _draw_coin_flips(counts: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw Binomial(counts, 1/2), shape (n_draws, k); small counts use counted bits, which is ten times as fast."""
    flips = np.empty((n_draws, len(counts)), dtype=np.int64)
    is_small = counts <= 64
    random_bits = rng.integers(2**64, size=(n_draws, int(is_small.sum())), dtype=np.uint64)
    flips[:, is_small] = np.bitwise_count(random_bits >> (64 - counts[is_small]).astype(np.uint64))
    flips[:, ~is_small] = rng.binomial(counts[~is_small], 0.5, size=(n_draws, int(np.sum(~is_small))))
    return flips


@check_arguments(after=_ARRAY, before=_ARRAY, n_resamples=COUNT, rng=instance(np.random.Generator))
def shuffle_differences(
    after: np.ndarray, before: np.ndarray, n_resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Compute sum(after) - sum(before) for shuffled pooled numbers, by draws without replacement.

    Args:
        after: Shape (n,), the numbers of the first sample.
        before: Shape (m,), the numbers of the second sample.
        n_resamples: Number of shuffles.
        rng: The generator.

    Returns:
        Shape (n_resamples,), the differences.
    """
    pooled = np.concatenate([after, before])
    distinct_values, counts = np.unique(pooled, return_counts=True)
    sums = np.empty(n_resamples)
    step = max(1, _CHUNK // len(distinct_values))
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        drawn_counts = rng.multivariate_hypergeometric(counts, len(after), size=stop - start, method="marginals")
        sums[start:stop] = 2 * (drawn_counts @ distinct_values) - pooled.sum()
    return sums
