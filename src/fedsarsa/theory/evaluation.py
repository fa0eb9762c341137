"""What a learned parameter is worth to each agent, exactly."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, checked
from fedsarsa.learning.policies import greedy_as, improvement
from fedsarsa.theory.stationary import long_run_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet

# Policy iteration ends when no action is better than the current one by more than this share of values.
IMPROVEMENT = 1e-12


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
    optimal = np.array([optimal_return(world) for world in fleet.worlds])[fleet.world_of]
    if parameters.ndim == 1:
        policy = improvement(acting, features, parameters)
        each = np.array([returns(world, policy) for world in fleet.worlds])[fleet.world_of]
    else:
        policies = (improvement(acting, features, own) for own in parameters)
        each = np.array([returns(*pair) for pair in zip(fleet, policies, strict=True)])
    return xr.Dataset(
        {
            "discounted_return": ("agent", each[:, 0]),
            "average_reward": ("agent", each[:, 1]),
            "optimal_return": ("agent", optimal),
            "gap": ("agent", optimal - each[:, 0]),
        },
        coords={"agent": np.arange(len(fleet))},
    )


def returns(world: FiniteMDP, policy: Floats) -> tuple[float, float]:
    """Discounted return and long-run average reward of a policy (S, A)."""
    chain = world.kernel.under(policy)
    reward = (policy * world.expected_reward).sum(axis=1)
    discounted = world.initial @ _values(chain, reward, world.discount)
    return float(discounted), float(long_run_distribution(chain, world.initial) @ reward)


def optimal_return(world: FiniteMDP) -> float:
    """The largest discounted return from the initial distribution, by policy iteration."""
    states = np.arange(world.states)
    best = np.argmax(world.expected_reward, axis=1)
    while True:
        policy = np.eye(world.actions)[best]
        reward = world.expected_reward[states, best]
        values = _values(world.kernel.under(policy), reward, world.discount)
        ahead = world.expected_reward + world.discount * world.kernel.expect(values)
        better = np.argmax(ahead, axis=1)
        gain = ahead[states, better] - ahead[states, best]
        if gain.max() <= IMPROVEMENT * np.abs(ahead).max():
            return float(world.initial @ values)
        best = np.where(gain > 0, better, best)


def _values(chain: Floats, reward: Floats, discount: float) -> Floats:
    """Discounted value of every state, (S,)."""
    return np.asarray(np.linalg.solve(np.eye(len(chain)) - discount * chain, reward))
