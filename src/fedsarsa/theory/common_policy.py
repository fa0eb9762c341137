"""The policy that is best for all agents at once, on average over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.theory.optimality import optimal_values, state_values
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet

# The ascent ends when a small change of policy cannot gain more than this share of the return ...
STATIONARY = 1e-9
# ... or after so many steps, or when no step along the gradient gains anything.
MOST_STEPS = 2000
ARMIJO = 1e-4  # of the gain that the gradient promises, a step must bring at least this share
LONGEST, SHORTEST = 1e12, 1e-12


@dataclass(frozen=True, eq=False)
class CommonPolicy:
    """The best common policy found.

    Attributes
    ----------
    policy : (S, A) array
        Probabilities of actions; in general several actions share a state.
    mean_return : float
        Mean over agents of its exact discounted return.
    gap : float
        Stationarity gap: the largest rate at which the mean return grows towards another policy. 0 where
        no small change helps.
    found : (starts,) array
        The mean return that the ascent reached from every start.
    """

    policy: Floats
    mean_return: float
    gap: float
    found: Floats


@single_threaded
def best_common_policy(
    fleet: Fleet | Sequence[FiniteMDP], starts: int = 8, seed: int = 0, most_steps: int = MOST_STEPS
) -> CommonPolicy:
    """The policy with the largest mean return over the agents, as far as ascent from several starts finds it.

    The mean return of several worlds has many stationary points, and its largest value is intractable in
    general, so this is a lower bound on the best, and a stationary point up to ``gap``. It is projected
    gradient ascent on pi: every state's row of the gradient, mean_i rho_i(s) Q_i(s, a) with the discounted
    occupancy rho_i, is divided by mean_i rho_i(s), so that states that are seldom visited move as fast, and
    long steps in one world are policy iteration.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    starts : int
        Where to begin: the optimum of the central MDP, the uniform policy, optima of the distinct worlds in
        turn, then random policies.
    seed : int
        Of the random ones.
    most_steps : int
        Steps of one ascent.

    Returns
    -------
    CommonPolicy
        ``policy`` (S, A), ``mean_return``, its stationarity ``gap`` and what was ``found`` from every start.

    Raises
    ------
    ValueError
        ``starts``, ``seed`` or ``most_steps`` is out of its range.

    Notes
    -----
    With J_i the discounted return in world i, rho_i the discounted visits and Q_i the values of pi,

        maximise (1/N) sum_i J_i(pi),  slope at (s, a) = (1/N) sum_i rho_i(s) Q_i(s, a)

    Examples
    --------
    Two worlds in which the two actions are swapped: the best common policy must mix them.

    >>> import fedsarsa as fs
    >>> go, stay = [[0, 1], [0, 1]], [[1, 0], [0, 1]]
    >>> pair = [fs.FiniteMDP(kernel, [0, 1], 0.9, [1, 0]) for kernel in ([go, stay], [stay, go])]
    >>> best = fs.theory.best_common_policy(pair)
    >>> best.policy[0].round(3), round(best.mean_return, 3)
    (array([0.5, 0.5]), 8.182)
    """
    fleet = as_fleet(fleet)
    starts = _checks.integer("starts", starts, least=1)
    rng = np.random.default_rng(_checks.integer("seed", seed, least=0))
    most_steps = _checks.integer("most_steps", most_steps, least=1)
    ascents = [_ascend(fleet, _start(fleet, number, rng), most_steps) for number in range(starts)]
    found = np.array([value for value, _ in ascents])
    policy = ascents[int(found.argmax())][1]
    return CommonPolicy(policy, float(found.max()), stationarity_gap(fleet, policy), found)


def stationarity_gap(fleet: Fleet, policy: Floats) -> float:
    """The rate at which the mean return grows towards the best other policy, sum_s max_a G - sum_a pi G."""
    _, slope, _ = mean_return(fleet, policy)
    return _rate(policy, slope)


def mean_return(fleet: Fleet, policy: Floats) -> tuple[float, Floats, Floats]:
    """mean_i J_i of a policy (S, A), its gradient G = mean_i rho_i(s) Q_i(s, a), and mean_i rho_i, (S,)."""
    total, slope, visited = 0.0, np.zeros_like(policy), np.zeros(len(policy))
    for world, count in zip(fleet.worlds, np.bincount(fleet.world_of), strict=True):
        values, visits = values_and_visits(world, policy)
        total += count * float(world.initial @ (policy * values).sum(axis=1))
        slope += count * visits[:, None] * values
        visited += count * visits
    return total / len(fleet), slope / len(fleet), visited / len(fleet)


def values_and_visits(world: FiniteMDP, policy: Floats) -> tuple[Floats, Floats]:
    """Q(s, a) of a policy (S, A), and its discounted visits rho(s) = sum_t discount^t P(s_t = s), (S,)."""
    chain = world.kernel.under(policy)
    reward = (policy * world.expected_reward).sum(axis=1)
    ahead = world.kernel.expect(state_values(chain, reward, world.discount))
    visits = state_values(chain.T, world.initial, world.discount)
    return world.expected_reward + world.discount * ahead, visits


def project_rows(rows: Floats) -> Floats:
    """The nearest distribution to every row (.., A), by sorting; actions that lose have exactly 0."""
    ordered = -np.sort(-rows, axis=-1)
    surplus = (np.cumsum(ordered, axis=-1) - 1) / np.arange(1, rows.shape[-1] + 1)
    last = (ordered > surplus).sum(axis=-1, keepdims=True) - 1
    nearest: Floats = np.maximum(rows - np.take_along_axis(surplus, last, axis=-1), 0.0)
    return nearest


def _start(fleet: Fleet, number: int, rng: np.random.Generator) -> Floats:
    """Where the ascent of this number begins."""
    states, actions = fleet.states, fleet.actions
    if number == 1:
        return np.full((states, actions), 1 / actions)
    if number == 0 or number - 2 < len(fleet.worlds):
        world = fleet.central() if number == 0 else fleet.worlds[number - 2]
        return np.eye(actions)[optimal_values(world).argmax(axis=1)]
    return rng.dirichlet(np.ones(actions), size=states)


def _ascend(fleet: Fleet, policy: Floats, most_steps: int) -> tuple[float, Floats]:
    """The mean return of a stationary policy, and that policy; steps grow while they gain, else shrink."""
    length = 1.0
    value, slope, visited = mean_return(fleet, policy)
    for _ in range(most_steps):
        if _rate(policy, slope) <= STATIONARY * max(abs(value), np.abs(slope).max()):
            break
        # A state that is never visited has no say in the return, and no direction.
        ahead = slope / np.where(visited > 0, visited, 1.0)[:, None]
        ahead /= np.ptp(ahead, axis=1).max()
        while length > SHORTEST:
            trial = project_rows(policy + length * ahead)
            after = mean_return(fleet, trial)
            if after[0] >= value + ARMIJO * ((trial - policy) * slope).sum():
                break
            length /= 4
        else:
            break
        policy, length, (value, slope, visited) = trial, min(4 * length, LONGEST), after
    return value, policy


def _rate(policy: Floats, slope: Floats) -> float:
    return float((slope.max(axis=1) - (policy * slope).sum(axis=1)).sum())
