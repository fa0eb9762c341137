"""The largest values that any policy reaches in a world, by policy iteration."""

import numpy as np

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.worlds.finite import FiniteMDP

# Policy iteration ends when no action is better than the current one by more than this share of values.
IMPROVEMENT = 1e-12


@single_threaded
def optimal_values(world: FiniteMDP) -> Floats:
    """Q*(s, a), (S, A): the value of a pair when every later action is the best one.

    Parameters
    ----------
    world : FiniteMDP
        The world.

    Returns
    -------
    (S, A) array
        Q*(s, a) = r(s, a) + discount E[max_a' Q*(s', a')], exact but for rounding.

    Raises
    ------
    TypeError
        ``world`` is not a FiniteMDP.

    Notes
    -----
    Q*(s, a) = r(s, a) + discount sum_s' P(s' | s, a) max_b Q*(s', b)

    Examples
    --------
    Two states and two actions: stay or go, and state 1 pays.

    >>> import fedsarsa as fs
    >>> world = fs.FiniteMDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], reward=[0, 1], discount=0.9)
    >>> fs.theory.optimal_values(world).round(6)
    array([[ 8.1,  9. ],
           [10. ,  9.1]])
    """
    _checks.instance("world", world, FiniteMDP, "a FiniteMDP")
    states = np.arange(world.states)
    best = np.argmax(world.expected_reward, axis=1)
    while True:
        chain = world.kernel.under(np.eye(world.actions)[best])
        values = state_values(chain, world.expected_reward[states, best], world.discount)
        ahead: Floats = world.expected_reward + world.discount * world.kernel.expect(values)
        better = np.argmax(ahead, axis=1)
        gain = ahead[states, better] - ahead[states, best]
        if gain.max() <= IMPROVEMENT * np.abs(ahead).max():
            return ahead
        best = np.where(gain > 0, better, best)


def state_values(chain: Floats, reward: Floats, discount: float) -> Floats:
    """Discounted value of every state, (S,), in a chain (S, S) with a reward per state."""
    return np.asarray(np.linalg.solve(np.eye(len(chain)) - discount * chain, reward))
