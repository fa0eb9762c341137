"""The parameter to which a training's error is measured: where agent 0, the paper's agent 1, would settle."""

import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config, finite
from fedsarsa.experiments.fleet_sections import FleetSection, PaperFleet
from fedsarsa.experiments.method_sections import MethodSection
from fedsarsa.experiments.section import DerivedSection
from fedsarsa.learning.policies import EpsilonGreedy, Greedy, improvement
from fedsarsa.learning.step_sizes import LinearDecay
from fedsarsa.learning.targets import MAX
from fedsarsa.theory.operators import operators
from fedsarsa.worlds.fleet import Fleet

# The long run of one agent for policies that jump: its step sizes 4 / (w (1 + t + a)), its length, and a seed
# that no training is likely to share, since equal random numbers would lead to equal first choices.
DECAY = LinearDecay(0.05, 2000.0)
LONG_RUN = 1_000_000
SEED = 2**40

_alone = threading.Lock()


def reference(config: Config, folder: Path) -> Floats | None:
    """theta_ref (d,) of a configuration whose files are in ``folder``; None where agent 0 has none.

    The exact fixed point of agent 0, for SARSA and expected SARSA that act by their own policy. Greedy and
    epsilon-greedy policies may have none or many. Where the policy at 0 is also the policy at its own fixed
    point, it is that one: learners begin with that policy and keep it. (So it is with ties to the first
    class, if no reward is negative.) Elsewhere it is the average theta-tilde of a long run of agent 0 alone
    with decaying step sizes. Of a method it is the method's own target, or the mean of its targets.
    """
    fleet, algorithm = config.fleet, config.algorithm
    if isinstance(algorithm, MethodSection):
        return _target(fleet, algorithm, folder)
    if settles_elsewhere(algorithm):
        return None
    if isinstance(fleet, PaperFleet):  # agent 0 is the nominal world at every level
        fleet = fleet.model_copy(update={"agents": 1, "eps_p": 0.0, "eps_r": 0.0})
    with _alone:  # threads would compute the same one side by side
        return _reference(fleet, config.algorithm.features, config.algorithm.policy, folder)


def settles_elsewhere(algorithm: Any) -> bool:
    """Whether agents with these settings, or with their section, settle elsewhere than SARSA does."""
    apart = algorithm.behaviour is not None
    return bool(algorithm.target == MAX or apart or algorithm.trace_decay > 0)


@lru_cache(maxsize=64)
def _target(fleet: FleetSection, method: MethodSection, folder: Path) -> Floats | None:
    try:
        target = method.build(folder).target(finite(fleet.build(folder)))
    except ValueError:  # a chain with several recurrent classes, or a pair that nobody visits
        return None
    return target if target is None or target.ndim == 1 else np.asarray(target.mean(axis=0))


@lru_cache(maxsize=64)
def _reference(
    fleet: FleetSection, features: DerivedSection, policy: DerivedSection, folder: Path
) -> Floats | None:
    world, phi, gamma = finite(fleet.build(folder))[0], features.build(folder), policy.build(folder)
    if not isinstance(gamma, Greedy | EpsilonGreedy):
        try:
            return theory.fixed_point(world, phi, gamma)
        except ValueError:  # no solution, or a chain with several recurrent classes
            return None
    table = phi.on(world.states, world.actions)
    first = improvement(gamma, table, np.zeros(table.dim))
    kept: Floats = operators(world, table, first).solve()
    if (improvement(gamma, table, kept) == first).all():
        return kept
    algo = FedSARSA(phi, gamma, DECAY)
    history = algo.train(Fleet([world]), LONG_RUN, runs=1, seed=SEED, threads=1, record_every=LONG_RUN)
    return np.asarray(history.averaged.values[0])
