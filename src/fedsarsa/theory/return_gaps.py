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
        A policy that knows nothing is as close to the optimum as ``gap``, or even the smallest error that is
        looked at costs more.
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

    def gap_of(share: float) -> float:
        return mean_gap(reference + np.sqrt(share * first) * noise)

    least = mean_gap(reference[None])
    if least > gap:
        raise ValueError(
            f"gap must be at least {least:.4g}, the mean return gap of the greedy policy at the reference, "
            f"which no training makes smaller, got {gap:g}; other features or another temperature might"
        )
    untrained = min(mean_gap(np.zeros((1, len(reference)))), gap_of(SPAN[1]))
    if gap >= untrained:
        raise ValueError(
            f"gap must be below {untrained:.4g}, which an untrained policy already reaches, got {gap:g}"
        )
    least = gap_of(SPAN[0])
    if least > gap:
        raise ValueError(
            f"gap must be at least {least:.4g}, which greedy policies lose already at an error of "
            f"{SPAN[0] * first:.3g}, {SPAN[0]:g} of that before training, got {gap:g}"
        )
    low, high = np.log(SPAN)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if gap_of(float(np.exp(middle))) <= gap:
            low = middle
        else:
            high = middle
    return float(np.exp(low)) * first
