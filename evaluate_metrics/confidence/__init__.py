"""Intervals of a mean: bootstrap, also by cluster and near 0 and 1, and permutation tests of a difference."""
