"""Two worlds of seven states in which good policies average to a bad one (Labbi et al., AISTATS 2026).

The worlds are those of the authors' program (``Challengin_MDP`` there). States 1 and 2 pay 1 for ever. From
state 0, actions 2 and 3 lead to state 1 in the one world, and actions 0 and 1 lead to state 2 in the other;
the other two actions stay. So a policy that is sure of its action in state 0 earns nothing there in one of
the worlds, while one that tosses a coin earns nearly everything in both. States 3 to 6 pay little and lead
to state 0 by action 3 in state 6; they are the same in both.
"""

import numpy as np

from fedsarsa import _checks
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

STATES, ACTIONS = 7, 4
INITIAL = np.array([0.05, 0.05, 0.05, 0.3, 0.3, 0.2, 0.05])
REWARD = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.1, 0.2, 0.0, 0.0],
        [0.05, 0.05, 0.1, 0.0],
        [0.1, 0.1, 0.0, 0.0],
        [0.1, 0.2, 0.05, 0.0],
    ]
)
# Rows of the states 3 to 6, one per action: what the two worlds share, beside the states that pay for ever.
SHARED = {
    3: (
        [0, 0, 0, 0.8, 0.2, 0, 0],
        [0, 0, 0, 0.7, 0.2, 0.1, 0],
        [0, 0, 0, 0.2, 0.8, 0, 0],
        [0, 0, 0, 0.9, 0.1, 0, 0],
    ),
    4: (
        [0, 0, 0, 0.6, 0.2, 0.2, 0],
        [0, 0, 0, 0.5, 0.2, 0.2, 0.1],
        [0, 0, 0, 0.6, 0.2, 0.1, 0.1],
        [0, 0, 0, 0.1, 0, 0.9, 0],
    ),
    5: (
        [0, 0, 0, 0.1, 0.4, 0.5, 0],
        [0, 0, 0, 0, 0.5, 0.4, 0.1],
        [0, 0, 0, 0.4, 0, 0.3, 0.3],
        [0, 0, 0, 0, 0.1, 0.1, 0.8],
    ),
    6: (
        [0, 0, 0, 0.5, 0.3, 0, 0.2],
        [0, 0, 0, 0, 0.1, 0.8, 0.1],
        [0, 0, 0, 0.2, 0.2, 0.2, 0.4],
        [0.9, 0, 0, 0, 0, 0, 0.1],
    ),
}
# Where the actions of state 0 lead, in the world of even and in that of odd agents.
FROM_START = ((0, 0, 1, 1), (2, 2, 0, 0))


def fleet(agents: int = 2, restart: float = 0.0, *, discount: float = 0.99) -> Fleet:
    """The two worlds, by turns.

    Parameters
    ----------
    agents : int
        N; even agents live in the first world, odd ones in the second.
    restart : float in [0, 1]
        Chance that a step leads to a first state instead, whatever the action. 0 is the published pair, in
        which an agent that has arrived in state 1 or 2 learns no more; the authors restart after 20 steps.
    discount : float
        Discount factor.

    Returns
    -------
    Fleet
        Two distinct worlds with equal rewards.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> pair = fs.seven_states.fleet()
    >>> [round(float(fs.theory.optimal_values(world)[0].max()), 6) for world in pair]
    [99.0, 99.0]
    """
    agents = _checks.integer("agents", agents, least=1)
    share = _checks.fraction("restart", restart)
    pair = []
    for successors in FROM_START:
        rows = np.zeros((STATES, ACTIONS, STATES))
        rows[0] = np.eye(STATES)[list(successors)]
        for absorbing in (1, 2):
            rows[absorbing, :, absorbing] = 1.0
        for state, own in SHARED.items():
            rows[state] = own
        rows = (1 - share) * rows + share * INITIAL
        pair.append(FiniteMDP(rows.transpose(1, 0, 2), REWARD, discount, INITIAL))
    return Fleet(pair[agent % 2] for agent in range(agents))
