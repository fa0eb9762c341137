"""Random worlds of five states and five actions (Jin, Peng, Yang, Wang and Zhang, AISTATS 2022).

Agents share their rewards and differ in their kernels. A world depends on (seed, agent) alone, so a smaller
fleet is the beginning of a larger one.
"""

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

SPARSE, HALF = 0.2, 0.5  # the share of successors that a pair has, without kappa and with it


def fleet(
    agents: int = 5,
    kappa: float | None = None,
    seed: int = 0,
    *,
    states: int = 5,
    actions: int = 5,
    discount: float = 0.9,
) -> Fleet:
    """Worlds with random kernels and one reward, uniform in [0, 1] for every pair.

    Parameters
    ----------
    agents : int
        N.
    kappa : float in [0, 1], optional
        How far kernels are from that of agent 0, the centre. The centre can reach a random half of the
        successors of a pair, and agent i's kernel is (1 - kappa) times the centre's and kappa times one that
        reaches the others. Unless given, every agent has a kernel of its own, in which a pair reaches each
        successor with chance 0.2, and at least one.
    seed : int
        Of the worlds.
    states, actions, discount : int, int, float
        S, A and the discount factor.

    Returns
    -------
    Fleet
        First states are uniform.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.random_mdps.fleet(agents=5, kappa=0.4).eps_p.__round__(9)
    0.8
    """
    agents = _checks.integer("agents", agents, least=1)
    states = _checks.integer("states", states, least=2)
    actions = _checks.integer("actions", actions, least=1)
    seed = _checks.integer("seed", seed, least=0)
    shared = np.random.default_rng([seed, 0])
    reward, shape = shared.random((states, actions)), (actions, states, states)
    own = [np.random.default_rng([seed, 1 + agent]) for agent in range(agents)]
    if kappa is None:
        kernels = [_on(_support(rng, shape, SPARSE), rng) for rng in own]
    else:
        share = _checks.fraction("kappa", kappa)
        reached = _support(shared, shape, HALF)
        centre = _on(reached, shared)
        others = [_on(~reached, rng) for rng in own[1:]]
        kernels = [centre, *((1 - share) * centre + share * other for other in others)]
    return Fleet(FiniteMDP(kernel, reward, discount) for kernel in kernels)


def _support(rng: np.random.Generator, shape: tuple[int, ...], chance: float) -> NDArray[np.bool]:
    """Which successors a pair has: each with a chance, at least one, and with ``HALF`` not all of them."""
    support = rng.random(shape) < chance
    one = np.arange(shape[-1]) == rng.integers(shape[-1], size=(*shape[:-1], 1))
    support |= one & ~support.any(axis=-1, keepdims=True)
    return support & ~(one & support.all(axis=-1, keepdims=True)) if chance == HALF else support


def _on(support: NDArray[np.bool], rng: np.random.Generator) -> Floats:
    """A kernel of uniform draws on a support, rows normalised."""
    draws = np.where(support, 1 - rng.random(support.shape), 0.0)  # in (0, 1]: no row may vanish
    kernel: Floats = draws / draws.sum(axis=-1, keepdims=True)
    return kernel
