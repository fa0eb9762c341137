"""Two states and agents that each try one action (Woo, Joshi and Chi, ICML 2023)."""

import numpy as np

from fedsarsa import _checks
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

STAY = (0.4, 0.6)  # the range of the chance to stay


def fleet(agents: int = 20, seed: int = 0, *, actions: int = 20, discount: float = 0.9) -> Fleet:
    """One world of two states for all agents: state 1 pays 1, state 0 nothing.

    A pair stays in its state with a chance uniform in [0.4, 0.6], and goes to the other one otherwise.

    Parameters
    ----------
    agents : int
        N.
    seed : int
        Of the chances.
    actions : int
        A.
    discount : float
        Discount factor.

    Returns
    -------
    Fleet
        With `behaviour` no agent visits more than two pairs, and together they visit all of them.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.two_state.fleet(agents=20)
    >>> policies = [fs.FixedPolicy(action) for action in fs.two_state.behaviour(20)]
    >>> float(fs.theory.visit_shares(fleet, policies).max())
    1.0
    """
    agents = _checks.integer("agents", agents, least=1)
    actions = _checks.integer("actions", actions, least=1)
    rng = np.random.default_rng(_checks.integer("seed", seed, least=0))
    stay = rng.uniform(*STAY, size=(actions, 2))
    transition = stay[..., None] * np.eye(2) + (1 - stay[..., None]) * np.eye(2)[::-1]
    return Fleet([FiniteMDP(transition, [0.0, 1.0], discount)] * agents)


def behaviour(agents: int, actions: int = 20) -> list[int]:
    """The one action that every agent takes: i mod A, so that agents cover a part of the pairs each.

    Parameters
    ----------
    agents : int
        N.
    actions : int
        A, as in the fleet.

    Returns
    -------
    list of int
        An action per agent.

    Raises
    ------
    ValueError, TypeError
        ``agents`` or ``actions`` is no integer of at least 1.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.two_state.behaviour(agents=5, actions=3)
    [0, 1, 2, 0, 1]
    """
    agents = _checks.integer("agents", agents, least=1)
    return [agent % _checks.integer("actions", actions, least=1) for agent in range(agents)]
