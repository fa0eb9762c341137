"""The policy improvement operator where actions are numbers: a policy that chooses among candidates.

Among the M fixed actions of ``GridActions`` it is the policy itself. Among the M fresh draws of
``RandomActions`` the action taken is, *given the draws*, one of them by the policy; what training follows is
the mean of that over the draws, a distribution over all actions:

    Gamma_M(theta)(a | x) = M u(a) E[pi(a | a, a_2, ..., a_M)],    a_2, ..., a_M uniform, u uniform.

Both are as Lipschitz as the policy among M actions (Assumption 2, ``asmp:lip``): for every draw the policy
moves by at most L per unit of theta in total variation, and a mean of distributions moves by no more than
they do.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, checked
from fedsarsa.federation.spaces import EpisodicFleet, any_fleet
from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Greedy, Policy, Softmax
from fedsarsa.theory.smoothness import lipschitz

# Step and reach of the trapezoidal rule in log t; the integrand is analytic and dies out doubly
# exponentially to the right, so that steps of a quarter leave rounding alone.
STEP, BEFORE, BEHIND = 0.25, 45.0, 5.0
LARGEST = 700.0  # beyond, exp overflows; exp(-exp(700)) is zero


def improvement(
    fleet: EpisodicFleet, algo: FedSARSA, theta: ArrayLike, observation: ArrayLike, points: int = 500
) -> xr.DataArray:
    """Gamma(theta)(. | observation): how likely training takes each action there.

    Parameters
    ----------
    fleet : ControlFleet or GymFleet
        Worlds whose actions are numbers, or any other control worlds and environments.
    algo : FedSARSA
        Its features, policy and ``actions`` count.
    theta : (d,)
        The parameter.
    observation : (inputs,)
        What an agent of the fleet observes.
    points : int
        Where candidates are drawn afresh: into how many equal cells all actions are divided.

    Returns
    -------
    xarray.DataArray
        Probabilities (action,), with the actions as numbers: the candidates, or the middles of the cells.
        ``attrs["L"]`` is the operator's Lipschitz constant (Assumption 2, ``asmp:lip``).

    Raises
    ------
    TypeError
        The worlds are finite.
    ValueError
        ``theta`` or ``observation`` have another shape, or the policy is one of your own and candidates are
        drawn afresh.

    Notes
    -----
    On a grid it is the policy over the M candidates. With fresh draws it is the density, for a softmax,

        Gamma_M(a | x) = M u E[w(a) / (w(a) + w(a_2) + ... + w(a_M))],  w = exp(Q(x, .) / temperature),

    with the uniform density u, and a_2 .. a_M uniform.

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fleet, features = fs.control.fleet("Pendulum", 2), fs.TileCoding(2, [2, 2, 2])
    >>> algo = fs.FedSARSA(features, fs.Softmax(1.0), actions=fs.GridActions(3))
    >>> theta = np.zeros(algo.problem(fleet, steps=1, runs=1, seed=0).features.dim)
    >>> fs.theory.improvement(fleet, algo, theta, [1.0, 0.0, 0.0]).values.round(3)
    array([0.333, 0.333, 0.333])
    """
    problem = checked(algo).problem(any_fleet(fleet), steps=1, runs=1, seed=0)
    if problem.finite:
        raise TypeError(
            f"improvement is for control worlds and GymFleet, got {fleet!r}; use algo.policy.probabilities"
        )
    features, policy, numbers = problem.features, problem.policy, problem.candidates
    theta = _checks.vector("theta", theta, features.dim)
    seen = _checks.vector("observation", observation, features.inputs - features.joint)
    if features.joint:
        low, high = problem.action_bounds
        points = _checks.integer("points", points, least=1)
        numbers = low + (high - low) * (np.arange(points) + 0.5) / points
        seen = np.append(seen, 0.0)  # the action's place
    values = features.values_at(theta, seen, numbers)
    count = len(problem.candidates)
    chances = among_draws(policy, count, values) if features.joint else policy.probabilities(values)
    bound = lipschitz(policy, count)
    return xr.DataArray(chances, {"action": numbers}, "action", name="probability", attrs={"L": bound})


def among_draws(policy: Policy, count: int, values: Floats) -> Floats:
    """Chances (A,) of actions with ``values`` (A,) if a policy chooses among ``count`` uniform draws of them.

    A softmax, with weights w(a) = exp(values(a) / temperature), takes a with the chance
    M / A E[w(a) / (w(a) + w(a_2) + ... + w(a_M))]. Since 1 / x is the integral of exp(-x t) over t > 0, that
    is the integral of M / A w(a) exp(-w(a) t) F(t)^(M - 1), where F(t) is the mean of exp(-w t) over all
    actions. A greedy choice takes the best draw, which is an order statistic; draws are exchangeable, so it
    makes no difference whether ties share the mass or the first takes it.
    """
    if isinstance(policy, FixedPolicy):  # it knows candidates by their number, and all are drawn alike
        return np.full(len(values), 1 / len(values))
    if isinstance(policy, Softmax):
        return _softmax(values / policy.parameter, count)
    if not isinstance(policy, Greedy | EpsilonGreedy):
        raise ValueError(
            "policy must be Softmax, Greedy, EpsilonGreedy or FixedPolicy with RandomActions, got "
            f"{policy!r}; with GridActions it may be any"
        )
    explore = policy.parameter if isinstance(policy, EpsilonGreedy) else 0.0
    below = (values[:, None] > values).mean(axis=1)
    tied = (values[:, None] == values).mean(axis=1)
    best: Floats = ((below + tied) ** count - below**count) / (tied * len(values))
    return explore / len(values) + (1 - explore) * best


def _softmax(logits: Floats, count: int) -> Floats:
    logits = logits - logits.max()
    total = np.zeros(len(logits))
    end = BEHIND - float(logits.min())
    # t = e^y; weights stay logarithms, or small ones would vanish.
    for y in np.arange(-BEFORE, end, STEP):
        rate = np.exp(np.minimum(logits + y, LARGEST))
        survival = np.exp(-rate)
        total += rate * survival * survival.mean() ** (count - 1)
    return count / len(logits) * STEP * total
