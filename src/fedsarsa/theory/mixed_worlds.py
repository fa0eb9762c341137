"""Worlds mixed pair by pair: where federated Q-learning rests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.learning.targets import Behaviour, behaviours
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet


def mixture(fleet: Fleet | Sequence[FiniteMDP], weights: ArrayLike) -> FiniteMDP:
    """The MDP whose pair (s, a) is agent i's with weight w_i(s, a).

    P_w(. | s, a) = sum_i w_i(s, a) P_i(. | s, a) and r_w(s, a) = sum_i w_i(s, a) r_i(s, a). Weights 1/N
    give `Fleet.central`. Agents that visit pairs mu_i(s, a) often and learn by Q-learning rest where
    sum_i mu_i(s, a) (T_i Q - Q)(s, a) = 0: at the optimal Q of the mixture by `visit_shares`.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    weights : (N, S, A) array
        Not negative, and one in sum over the agents of every pair.

    Returns
    -------
    FiniteMDP
        It starts as the agents do on average.

    Raises
    ------
    ValueError
        ``weights`` have another shape, are negative, or do not sum to one.

    Notes
    -----
    P_w(. | s, a) = sum_i w_i(s, a) P_i(. | s, a),  r_w(s, a) = sum_i w_i(s, a) r_i(s, a)

    Examples
    --------
    Action 0 is agent 0's, action 1 agent 1's.

    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=4, actions=2)
    >>> world = fs.theory.mixture(fleet, np.broadcast_to(np.eye(2)[:, None], (2, 4, 2)))
    >>> bool((world.transition[1] == fleet[1].transition[1]).all())
    True
    """
    fleet = as_fleet(fleet)
    shape = (len(fleet), fleet.states, fleet.actions)
    shares = _checks.real_array("weights", weights)
    if shares.shape != shape:
        raise ValueError(f"weights must have shape {shape}, got {shares.shape}")
    shares = np.moveaxis(_checks.distribution("weights", np.moveaxis(shares, 0, -1)), -1, 0)
    transition = np.zeros((fleet.actions, fleet.states, fleet.states))
    reward, initial = np.zeros(shape[1:]), np.zeros(fleet.states)
    for position, world in enumerate(fleet.worlds):
        own = fleet.world_of == position
        share = shares[own].sum(axis=0)
        for action in range(fleet.actions):
            transition[action] += share[:, action, None] * world.kernel.matrix(action)
        reward += share * world.expected_reward
        initial += own.mean() * world.initial
    return FiniteMDP(transition, reward, fleet.discount, initial)


@single_threaded
def visit_shares(fleet: Fleet | Sequence[FiniteMDP], behaviour: Behaviour) -> Floats:
    """Whose visits a pair has, w_i(s, a) = mu_i(s, a) / sum_j mu_j(s, a), (N, S, A).

    mu_i(s, a) = eta_i(s) pi_i(a | s) is how often agent i is at the pair in the long run.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    behaviour : FixedPolicy, or a list with one per agent
        How agents act.

    Returns
    -------
    (N, S, A) array
        One in sum over the agents of every pair: the weights that `mixture` takes.

    Raises
    ------
    ValueError
        A chain has several recurrent classes, or there is a pair that no agent visits.

    Notes
    -----
    w_i(s, a) = mu_i(s, a) / sum_j mu_j(s, a),  mu_i(s, a) = eta_i(s) pi_i(a | s)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, states=4, actions=2)
    >>> fs.theory.visit_shares(fleet, fs.FixedPolicy()).sum(axis=0).round(9)[0]
    array([1., 1.])
    """
    fleet = as_fleet(fleet)
    visits = pair_visits(fleet, behaviour)
    total = visits.sum(axis=0)
    never = np.argwhere(total == 0)
    if len(never):
        raise ValueError(
            "behaviour must let some agent visit every pair of state and action, got none at "
            f"{_checks.index(never[0])}, where nothing is learned; FixedPolicy() tries every action"
        )
    shares: Floats = visits / total
    return shares


class Coverage(NamedTuple):
    """How agents share the pairs, in the terms of Woo, Joshi and Chi (2023).

    Attributes
    ----------
    mu_min : float
        The smallest share of an agent's steps at a pair; 0 where some agent does not cover all.
    mu_avg : float
        The smallest share of all agents' steps at a pair.
    C_het : float
        The largest share of an agent's steps at a pair over that of all agents': 1 where agents visit alike,
        at most N.
    """

    mu_min: float
    mu_avg: float
    C_het: float


def coverage(fleet: Fleet | Sequence[FiniteMDP], behaviour: Behaviour) -> Coverage:
    """How often agents are where, on which the speed of federated Q-learning depends.

    Samples per agent to an error e are of the order of C_het / (N mu_min (1 - discount)^5 e^2) for equal
    averaging, and 1 / (N mu_avg (1 - discount)^5 e^2) for importance averaging, says the paper.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    behaviour : FixedPolicy, or a list with one per agent
        How agents act.

    Returns
    -------
    Coverage
        ``mu_min``, ``mu_avg`` and ``C_het``.

    Raises
    ------
    ValueError
        A chain has several recurrent classes, or there is a pair that no agent visits.

    Notes
    -----
    With the agents' long-run visits mu_i(s, a),

        mu_min = min_(i,s,a) mu_i,  mu_avg = min_(s,a) mean_i mu_i,  C_het = max_(i,s,a) mu_i / mean_j mu_j

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.two_state.fleet(agents=20)
    >>> each = [fs.FixedPolicy(a) for a in fs.two_state.behaviour(20)]
    >>> round(fs.theory.coverage(fleet, each).C_het)
    20
    """
    fleet = as_fleet(fleet)
    shares, visits = visit_shares(fleet, behaviour), pair_visits(fleet, behaviour)
    return Coverage(
        mu_min=float(visits.min()),
        mu_avg=float(visits.mean(axis=0).min()),
        C_het=float(shares.max() * len(fleet)),
    )


def pair_visits(fleet: Fleet, behaviour: Behaviour) -> Floats:
    """How often every agent is at a pair in the long run, mu_i(s, a), (N, S, A)."""
    given = behaviours(behaviour, len(fleet))
    if not given:
        raise TypeError(f"behaviour must be a FixedPolicy, or a list with one per agent, got {behaviour!r}")
    policies = given * len(fleet) if len(given) == 1 else given
    known: dict[tuple[int, int], Floats] = {}
    for place, policy in zip(fleet.world_of.tolist(), policies, strict=True):
        if (place, id(policy)) not in known:
            table = policy.table(fleet.states, fleet.actions)
            eta = stationary_distribution(fleet.worlds[place].kernel.under(table))
            known[place, id(policy)] = eta[:, None] * table
    places = zip(fleet.world_of.tolist(), policies, strict=True)
    return np.stack([known[place, id(policy)] for place, policy in places])
