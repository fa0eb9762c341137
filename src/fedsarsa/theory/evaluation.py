"""What a policy, or a learned parameter, is worth to each agent, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, checked
from fedsarsa.learning.policies import greedy_as, improvement
from fedsarsa.theory.optimality import optimal_values, state_values
from fedsarsa.theory.stationary import long_run_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet


@single_threaded
def evaluate(
    fleet: Fleet | Sequence[FiniteMDP], algo: FedSARSA, theta: ArrayLike, greedy: bool = False
) -> xr.Dataset:
    """Every agent's exact return under the policy Gamma(theta), beside its own optimum.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        Its features and its policy count.
    theta : (d,) or (N, d)
        One parameter for all agents, or one per agent.
    greedy : bool
        Take the best action, ties broken as ``algo.policy`` does; otherwise act by that policy, as in
        training.

    Returns
    -------
    xarray.Dataset over ``agent``
        ``discounted_return``: E[sum_t discount^t r_t] from the initial distribution;
        ``average_reward``: long-run mean reward per step;
        ``optimal_return``: the largest discounted return of any policy in that agent's world;
        ``gap``: optimal_return - discounted_return, not negative but for rounding.

    Raises
    ------
    ValueError
        ``theta`` does not fit the features and the agents.

    Notes
    -----
    With the chain P^pi and the mean reward r^pi of a policy in an agent's world, and its first states mu_0,

        return = mu_0'(I - discount P^pi)^-1 r^pi,  gap = mu_0' max_a Q*(., a) - return

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, algo = fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA()
    >>> theta = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    >>> fs.evaluate(fleet, algo, theta).gap.values.round(2)
    array([0.62, 0.79])
    >>> fs.evaluate(fleet, algo, theta, greedy=True).gap.values.round(2)
    array([0.21, 0.46])
    """
    fleet, algo = as_fleet(fleet), checked(algo)
    features = algo.feature_map(fleet)
    acting = greedy_as(algo.policy) if greedy else algo.policy
    parameters = _checks.labelled("theta", theta, [("d",), ("agent", "d")])
    if parameters.shape not in {(features.dim,), (len(fleet), features.dim)}:
        raise ValueError(
            f"theta must have shape ({features.dim},) or ({len(fleet)}, {features.dim}), "
            f"got {parameters.shape}"
        )
    each = [improvement(acting, features, own) for own in np.atleast_2d(parameters)]
    return returns_of(fleet, each[0] if parameters.ndim == 1 else np.array(each))


@single_threaded
def returns_of(fleet: Fleet | Sequence[FiniteMDP], policies: ArrayLike) -> xr.Dataset:
    """Every agent's exact return under given policies, beside its own optimum.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    policies : (S, A), (N, S, A), (R, 1, S, A) or (R, N, S, A)
        Probabilities of actions: one policy for all agents, or one per agent; of one run, or of R.

    Returns
    -------
    xarray.Dataset over ``agent``, or ``run`` and ``agent``
        ``discounted_return``: E[sum_t discount^t r_t] from the initial distribution;
        ``average_reward``: long-run mean reward per step;
        ``optimal_return``, over ``agent``: the largest discounted return of any policy in that agent's world;
        ``gap``: optimal_return - discounted_return, not negative but for rounding.

    Raises
    ------
    ValueError
        ``policies`` do not fit the worlds and the agents, or do not sum to one.

    Notes
    -----
    With the chain P^pi and the mean reward r^pi of a policy in an agent's world, and its first states mu_0,

        return = mu_0'(I - discount P^pi)^-1 r^pi,  gap = mu_0' max_a Q*(., a) - return

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10)
    >>> fs.theory.returns_of(fleet, np.full((10, 10), 0.1)).gap.values.round(2)
    array([0.62, 0.79])
    """
    fleet, tables = as_fleet(fleet), _checks.distribution("policies", policies)
    agents, pairs = len(fleet), (fleet.states, fleet.actions)
    leading = tables.shape[:-2]
    if tables.shape[-2:] != pairs or leading[-1:] not in {(), (1,), (agents,)} or len(leading) > 2:
        s, a = pairs
        raise ValueError(
            f"policies must have shape ({s}, {a}), ({agents}, {s}, {a}), (R, 1, {s}, {a}) or "
            f"(R, {agents}, {s}, {a}), got {tables.shape}"
        )
    runs = leading[:-1]
    # An agent's policy counts in its own world, a common one once in every distinct world.
    rows = tables.reshape(-1, leading[-1] if leading else 1, *pairs)
    each = np.empty((len(rows), agents, 2))
    for run, own in enumerate(rows):
        if len(own) == 1:
            each[run] = np.array([returns(world, own[0]) for world in fleet.worlds])[fleet.world_of]
        else:
            each[run] = [returns(*pair) for pair in zip(fleet, own, strict=True)]
    each = each.reshape(*runs, agents, 2)
    optimal = np.array([optimal_return(world) for world in fleet.worlds])[fleet.world_of]
    dims = ("run", "agent")[-each.ndim + 1 :]
    return xr.Dataset(
        {
            "discounted_return": (dims, each[..., 0]),
            "average_reward": (dims, each[..., 1]),
            "optimal_return": ("agent", optimal),
            "gap": (dims, optimal - each[..., 0]),
        },
        coords={"agent": np.arange(agents)} | ({"run": np.arange(len(rows))} if runs else {}),
    )


def returns(world: FiniteMDP, policy: Floats) -> tuple[float, float]:
    """Discounted return and long-run average reward of a policy (S, A)."""
    chain = world.kernel.under(policy)
    reward = (policy * world.expected_reward).sum(axis=1)
    discounted = world.initial @ state_values(chain, reward, world.discount)
    return float(discounted), float(long_run_distribution(chain, world.initial) @ reward)


def optimal_return(world: FiniteMDP) -> float:
    """The largest discounted return from the initial distribution."""
    return float(world.initial @ optimal_values(world).max(axis=1))
