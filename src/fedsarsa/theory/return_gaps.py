"""How much return an error costs: the parameter error that a gap to the optimum allows."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.learning.policies import greedy_as, improvement
from fedsarsa.theory.evaluation import optimal_return, returns
from fedsarsa.worlds.fleet import Fleet

DRAWS = 32  # directions in which a parameter may be off
SEED = 0
SPAN = (1e-6, 1.0)  # shares of the first error between which the allowed one is looked for
HALVINGS = 20


def error_for_gap(fleet: Fleet, algo: FedSARSA, reference: Floats, gap: float, first: float) -> float:
    """The largest mean squared error at which the mean return gap of the agents is at most ``gap``.

    The gap is that of the greedy policy, as policies act when they have learned. Parameters off the reference
    by an error e are taken for reference + sqrt(e / d) z with z standard normal: as likely off in every
    direction. ``first`` is the error before training.

    Raises
    ------
    ValueError
        The policy at the reference itself is further from the optimum than ``gap``.
    """
    features, policy = algo.feature_map(fleet), greedy_as(algo.policy)
    best = np.array([optimal_return(world) for world in fleet.worlds])[fleet.world_of].mean()
    noise = np.random.default_rng(SEED).standard_normal((DRAWS, len(reference))) / np.sqrt(len(reference))

    def mean_gap(parameters: Floats) -> float:
        found = []
        for theta in parameters:
            acting = improvement(policy, features, theta)
            each = np.array([returns(world, acting)[0] for world in fleet.worlds])[fleet.world_of]
            found.append(best - each.mean())
        return float(np.mean(found))

    least = mean_gap(reference[None])
    if least > gap:
        raise ValueError(
            f"gap must be at least {least:.4g}, the mean return gap of the greedy policy at the reference, "
            f"which no training makes smaller, got {gap:g}; other features or another temperature might"
        )
    low, high = np.log(first) + np.log(SPAN)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if mean_gap(reference + np.sqrt(np.exp(middle)) * noise) <= gap:
            low = middle
        else:
            high = middle
    return float(np.exp(low))
