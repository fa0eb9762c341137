"""Whether agents pay for their mixtures.

The criteria are ratios of means over runs with fixed seeds. A mean counts as larger than another beyond 4.5
standard errors of their difference, run by run. With equal means that happens by chance with a probability
below 1e-3 per comparison (t distribution, 15 degrees of freedom).
"""

import fedsarsa as fs

RUNS = 16
PUBLISHED = fs.FedSARSA(sync_every=100)


def assert_no_cost(own, mixed):
    """No agent is worse off by more than 3 % at any time, beyond 4.5 standard errors."""
    cost = mixed - 1.03 * own
    error = cost.std(axis=0, ddof=1) / len(cost) ** 0.5
    assert (cost.mean(axis=0) <= 4.5 * error).all()
    assert (mixed.mean(axis=(0, 2)) <= 1.03 * own.mean(axis=(0, 2))).all()
