"""How sure a mean is: percentile bootstrap intervals, also by cluster, and permutation tests of a difference."""
