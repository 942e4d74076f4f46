"""How sure a mean is: bootstrap intervals, also by cluster and near 0 and 1, and permutation tests of a difference."""
