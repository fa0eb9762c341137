"""A cliff walk in the wind, of a strength that differs (Jin, Peng, Yang, Wang and Zhang, AISTATS 2022).

A 4 x 4 grid; state 4 y + x is the place (x, y). The agent starts at (0, 0); the other places of that row are
two of cliff and the goal, and all three send it back to the start. The wind blows down to the cliff.
"""

import numpy as np

from fedsarsa import _checks
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

SIDE = 4
UP, DOWN, LEFT, RIGHT = MOVES = ((0, 1), (0, -1), (-1, 0), (1, 0))
CLIFF, GOAL = (1, 2), 3
CENTRE = 0.5  # the wind of agent 0, where kappa is given


def world(wind: float, discount: float = 0.95) -> FiniteMDP:
    """The cliff walk in a wind of strength theta.

    Parameters
    ----------
    wind : float in [0, 1]
        theta: actions go down with chance theta / 3, and where they are meant to go otherwise; down is sure.
    discount : float
        Discount factor.

    Returns
    -------
    FiniteMDP
        16 states and the actions up, down, left and right. The reward is the state's: -1, on the cliff
        -100, at the goal 100.

    Raises
    ------
    ValueError
        ``wind`` is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> round(float(fs.theory.optimal_values(fs.windy_cliffs.world(0.5))[0].max()), 10)
    133.9651345621
    """
    slip = _checks.fraction("wind", wind) / 3
    transition = np.zeros((len(MOVES), SIDE**2, SIDE**2))
    for action, move in enumerate(MOVES):
        for state in range(SIDE**2):
            if state in (*CLIFF, GOAL):
                transition[action, state, 0] = 1.0
                continue
            transition[action, state, _place(state, DOWN)] += slip
            transition[action, state, _place(state, move)] += 1 - slip
    reward = np.full(SIDE**2, -1.0)
    reward[list(CLIFF)], reward[GOAL] = -100.0, 100.0
    return FiniteMDP(transition, reward, discount, np.eye(SIDE**2)[0])


def fleet(agents: int = 5, kappa: float | None = None, seed: int = 0, *, discount: float = 0.95) -> Fleet:
    """Cliff walks in winds of strengths that are uniform in [0, 1].

    Parameters
    ----------
    agents : int
        N.
    kappa : float in [0, 1], optional
        How far winds are from 0.5, that of agent 0: the others have 0.5 + kappa (theta - 0.5). Unless given,
        every agent has its theta.
    seed : int
        An agent's theta depends on (seed, agent).
    discount : float
        Discount factor.

    Returns
    -------
    Fleet
        The mean of the worlds is the world of the mean wind, as kernels are affine in it.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.windy_cliffs.fleet(agents=3)
    Fleet(agents=3, distinct=3, states=16, actions=4, discount=0.95)
    """
    agents = _checks.integer("agents", agents, least=1)
    seed = _checks.integer("seed", seed, least=0)
    winds = np.array([np.random.default_rng([seed, agent]).random() for agent in range(agents)])
    if kappa is not None:
        winds = CENTRE + _checks.fraction("kappa", kappa) * (winds - CENTRE)
        winds[0] = CENTRE
    return Fleet(world(wind, discount) for wind in winds.tolist())


def _place(state: int, move: tuple[int, int]) -> int:
    """Where a move ends; walls stop it."""
    x, y = state % SIDE + move[0], state // SIDE + move[1]
    return state if not (0 <= x < SIDE and 0 <= y < SIDE) else SIDE * y + x
